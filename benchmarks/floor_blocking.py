"""The blocking floor: the least code for a call in Python that waits in the kernel.

Free of mcpwire and without a loop. Over stdio `Popen`, `os.write` and `os.read` of 64
KiB; over HTTP one socket, `sendall` and a `recv` of 64 KiB. It has no deadline, no HTTP
parser, no threads, no second answer in one read and no answer in two; a client's cost
above it is what the client adds. What many threads need stands apart from it: a lock
costs a call on one core a twelfth of its time.
"""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

import orjson
from floor import READ_SIZE, check
from floor_http import head, params
from harness.blocking import place
from leg import parse
from null.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.blocking import Call
    from leg import Leg


def connected(argument: str) -> Any:
    """Call the tool of the null server of a leg, over and over, by one thread."""
    leg = parse(argument)
    return on_pipes(leg) if leg.is_stdio else on_socket(leg)


@contextmanager
def on_pipes(leg: Leg) -> Iterator[Call]:
    """Write a request and read its answer."""
    wanted = params(modern=leg.is_modern)
    with subprocess.Popen(
        [leg.server, leg.era], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin.fileno(), process.stdout.fileno()
        last_id = 0
        place(process.pid, leg.placement)

        def call() -> Any:
            nonlocal last_id
            last_id += 1
            message = {
                "jsonrpc": "2.0",
                "id": last_id,
                "method": "tools/call",
                "params": wanted,
            }
            os.write(stdin, orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
            return orjson.loads(os.read(stdout, READ_SIZE))["result"]

        check(call())
        yield call
        process.kill()


@contextmanager
def on_socket(leg: Leg) -> Iterator[Call]:
    """Serve, and call on one connection."""
    with serving(leg.server, leg.era, f"--{leg.shape}") as null:
        place(null.pid, leg.placement)
        with connection(leg, null.port) as call:
            check(call())
            yield call


@contextmanager
def connection(leg: Leg, port: int) -> Iterator[Call]:
    """Connect; the answer stands between the first brace and the last, in one piece."""
    modern = leg.is_modern
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fields = head(port, modern=modern)
        last_id = 0

        def call() -> Any:
            nonlocal last_id
            last_id += 1
            message = {
                "jsonrpc": "2.0",
                "id": last_id,
                "method": "tools/call",
                "params": params(modern=modern),
            }
            data = orjson.dumps(message)
            connection.sendall(b"%b%d\r\n\r\n%b" % (fields, len(data), data))
            answer = connection.recv(READ_SIZE)
            body = answer[answer.index(b"{") : answer.rindex(b"}") + 1]
            return orjson.loads(body)["result"]

        yield call


# By many threads...


def shared(argument: str) -> Any:
    """Do the same by many threads, which costs what they need beside it."""
    leg = parse(argument)
    return locked(leg) if leg.is_stdio else pooled(leg)


@contextmanager
def locked(leg: Leg) -> Iterator[Call]:
    """Have one thread at a time use the pipes."""
    lock = Lock()
    with on_pipes(leg) as alone:

        def call() -> Any:
            with lock:
                return alone()

        yield call


@contextmanager
def pooled(leg: Leg) -> Iterator[Call]:
    """Take an idle connection or a new one for each call."""
    with (
        serving(leg.server, leg.era, f"--{leg.shape}") as null,
        ExitStack() as stack,
    ):
        place(null.pid, leg.placement)
        idle: list[Call] = []

        def call() -> Any:
            try:
                alone = idle.pop()
            except IndexError:
                alone = stack.enter_context(connection(leg, null.port))
            result = alone()
            idle.append(alone)
            return result

        check(call())
        yield call
