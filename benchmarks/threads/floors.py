"""Plain code for threads that share one server in Python, without a loop.

Written by hand and free of mcpwire, as `floor_blocking` and `floor_http_blocking`, with
what their many callers add: over stdio a lock, so that one call is made at a time; over
HTTP a list of idle connections, of which each call takes one.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

import orjson
from floor import READ_SIZE, check
from floor_http import head, params
from harness.blocking import place
from null.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.blocking import Call


@contextmanager
def stdio(argument: str) -> Iterator[Call]:
    """Write a request and read its answer, one thread at a time."""
    server, era, placement = json.loads(argument)
    wanted = params(modern=era == "--modern")
    with subprocess.Popen(
        [server, era], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin.fileno(), process.stdout.fileno()
        place(process.pid, placement)
        lock = Lock()
        last_id = 0

        def call() -> Any:
            nonlocal last_id
            with lock:
                last_id += 1
                message = {
                    "jsonrpc": "2.0",
                    "id": last_id,
                    "method": "tools/call",
                    "params": wanted,
                }
                line = orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
                os.write(stdin, line)
                data = os.read(stdout, READ_SIZE)
            return orjson.loads(data)["result"]

        check(call())
        yield call
        process.kill()


@contextmanager
def http(argument: str) -> Iterator[Call]:
    """Take an idle connection or a new one for each call."""
    server, era, shape, placement = json.loads(argument)
    modern = era == "--modern"
    wanted = params(modern=modern)
    with serving(server, era, shape) as null:
        place(null.pid, placement)
        fields = head(null.port, modern=modern)
        idle: list[socket.socket] = []
        last_id = 0

        def connect() -> socket.socket:
            connection = socket.create_connection(("127.0.0.1", null.port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection

        def call() -> Any:
            nonlocal last_id
            last_id += 1
            message = {
                "jsonrpc": "2.0",
                "id": last_id,
                "method": "tools/call",
                "params": wanted,
            }
            data = orjson.dumps(message)
            try:
                connection = idle.pop()
            except IndexError:
                connection = connect()
            connection.sendall(b"%b%d\r\n\r\n%b" % (fields, len(data), data))
            answer = connection.recv(READ_SIZE)
            idle.append(connection)
            body = answer[answer.index(b"{") : answer.rindex(b"}") + 1]
            return orjson.loads(body)["result"]

        check(call())
        yield call
        for connection in idle:
            connection.close()
