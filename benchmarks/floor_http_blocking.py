"""The blocking floor: the least code for a call over HTTP in Python, without a loop.

Free of mcpwire: one socket, `sendall`, a `recv` of 64 KiB that
waits in the kernel, orjson. It has no deadline, no threads and no HTTP parser: the
message is what stands between the first brace and the last, in one piece.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson
from floor import READ_SIZE, check
from floor_blocking import place
from floor_http import head, params
from null.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from floor_blocking import Call


@contextmanager
def bare(server: str, era: str, shape: str, *, apart: bool = True) -> Iterator[Call]:
    """Call a tool of a server of that era, which answers in that shape."""
    modern = era == "--modern"
    with (
        serving(server, era, shape) as null,
        socket.create_connection(("127.0.0.1", null.port)) as connection,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        place(null.pid, apart=apart)
        fields = head(null.port, modern=modern)
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

        check(call())
        yield call


def json_session(server: str) -> Any:
    return bare(server, "--legacy", "--json")


def json_stateless(server: str) -> Any:
    return bare(server, "--modern", "--json")


def sse_session(server: str) -> Any:
    return bare(server, "--legacy", "--sse")


def json_one_core(server: str) -> Any:
    return bare(server, "--legacy", "--json", apart=False)
