"""Servers that are asked for large results by the least code there is.

What a call costs is the kernel's account of the server's process.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from driven import INITIALIZED, session_head
from floor import READ_SIZE
from harness.servers import (
    INITIALIZE,
    PEERS,
    Program,
    cpu_ns,
    listening,
    on_the_servers_core,
)

from large.floors import NEWLINE, ended, line, message, started
from large.points import Measured, asked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from large.points import Call, Point

    Request = Callable[[dict[str, Any]], bytes]

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 60.0
SDK = PEERS / "python-sdk/bin/python"

PROGRAMS = {
    "floor": Program((sys.executable, str(HERE / "floor_server.py"))),
    "mcpwire": Program((sys.executable, str(HERE / "mcpwire_server.py"))),
    "Python SDK": Program((str(SDK), str(HERE / "sdk_server.py")), (SDK,)),
}


@contextmanager
def on_pipes(program: Program) -> Iterator[tuple[Request, int]]:
    """Give what asks a server over its pipes for the bytes of an answer, and its id."""
    with on_the_servers_core():
        process = started(list(program.command))
    with process:
        stdin, stdout = process.stdin.fileno(), process.stdout.fileno()

        def read() -> bytes:
            pieces = [b" "]
            while pieces[-1][-1] != NEWLINE:
                pieces.append(os.read(stdout, READ_SIZE) or ended())
            return b"".join(pieces)

        def request(params: dict[str, Any]) -> bytes:
            os.write(stdin, line("tools/call", params))
            return read()

        os.write(stdin, line("initialize", INITIALIZE))
        read()
        os.write(stdin, INITIALIZED)
        yield request, process.pid
        process.kill()


@contextmanager
def on_a_port(program: Program) -> Iterator[tuple[Request, int]]:
    """Do the same over HTTP; the answer has a length."""
    with (
        listening(program) as (port, pid),
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as sock,
    ):
        begin = session_head(port)

        def request(params: dict[str, Any]) -> bytes:
            data = orjson.dumps(message("tools/call", params))
            sock.sendall(b"%b%d\r\n\r\n%b" % (begin, len(data), data))
            told, _, body = (sock.recv(READ_SIZE) or ended()).partition(b"\r\n\r\n")
            length = told.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
            pieces, left = [body], int(length) - len(body)
            while left:
                pieces.append(sock.recv(READ_SIZE) or ended())
                left -= len(pieces[-1])
            return b"".join(pieces)

        yield request, pid


def opened(request: Request, point: Point) -> Call:
    """Return what asks for that result, once it has been seen to come."""
    params = {"name": "echo", "arguments": {"kib": point.kib}}

    async def call() -> Any:
        return request(params)

    result = orjson.loads(request(params))["result"]
    point.check(len(result["content"][0]["text"]))
    return call


@asynccontextmanager
async def asking(argument: str, way: Any) -> AsyncIterator[Measured]:
    """Ask one server for a result of each size."""
    name, points = asked(argument)
    async with AsyncExitStack() as stack:
        request, pid = stack.enter_context(way(PROGRAMS[name]))
        calls = {point.name: opened(request, point) for point in points}
        yield Measured(calls, clock=lambda: cpu_ns(pid))


def stdio(argument: str) -> Any:
    return asking(argument, on_pipes)


def http(argument: str) -> Any:
    return asking(argument, on_a_port)
