"""Floors of large results in Python: reads of 64 KiB, one join, orjson.

Without mcpwire, validation and error recovery.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import httptools
import orjson
from floor import READ_SIZE
from floor_http import head
from leg import ARGUMENTS
from null.server import run_null_server

from large.points import KIB, PointCalls, parse_argument

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from large.points import Call, Point

    Request = Callable[[str, dict[str, Any]], Any]

NEWLINE = ord("\n")
BRACE = ord("{")


def message(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


class Pipe:
    """A child process with its output read on the event loop."""

    def __init__(self, command: list[str]) -> None:
        self.loop = asyncio.get_running_loop()
        self.process = start_process(command)
        self.stdin = self.process.stdin.fileno()
        self.stdout = self.process.stdout.fileno()
        self.pieces: list[bytes] = []
        self.loop.add_reader(self.stdout, self.readable)

    def readable(self) -> None:
        data = os.read(self.stdout, READ_SIZE) or raise_ended()
        self.pieces.append(data)
        if data[-1] == NEWLINE:
            body = b"".join(self.pieces)
            self.pieces.clear()
            self.future.set_result(orjson.loads(body)["result"])

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        self.future = self.loop.create_future()
        os.write(self.stdin, encode_line(method, params))
        return await self.future

    def close(self) -> None:
        self.loop.remove_reader(self.stdout)
        with self.process:
            self.process.kill()


def raise_ended() -> NoReturn:
    raise ConnectionError("the null server went away")


def start_process(command: list[str]) -> Any:
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )


def encode_line(method: str, params: dict[str, Any]) -> bytes:
    return orjson.dumps(message(method, params), option=orjson.OPT_APPEND_NEWLINE)


class Exchange(asyncio.BufferedProtocol):
    """A connection, and the response in progress."""

    def __init__(self) -> None:
        self.memory = memoryview(bytearray(READ_SIZE))
        self.parser = httptools.HttpResponseParser(self)
        self.pieces: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.memory

    def buffer_updated(self, nbytes: int) -> None:
        self.parser.feed_data(self.memory[:nbytes])

    def on_body(self, data: bytes) -> None:
        self.pieces.append(data)

    def on_message_complete(self) -> None:
        body = b"".join(self.pieces)
        self.pieces.clear()
        self.future.set_result(decode_result(body))


def decode_result(body: bytes) -> Any:
    """Return the result in a body of JSON, or of one SSE event with JSON data."""
    if body[0] != BRACE:
        body = body[body.index(BRACE) :]
    return orjson.loads(body)["result"]


def encode_post(port: int, method: str, params: dict[str, Any]) -> bytes:
    data = orjson.dumps(message(method, params))
    return b"%b%d\r\n\r\n%b" % (head(port, modern=False), len(data), data)


async def list_all_tools(request: Request) -> list[Any]:
    """Return the tools of all pages."""
    tools: list[Any] = []
    cursor: dict[str, Any] = {}
    while True:
        result = await request("tools/list", cursor)
        tools += result["tools"]
        if "nextCursor" not in result:
            return tools
        cursor = {"cursor": result["nextCursor"]}


async def prepare_call(request: Request, point: Point) -> Call:
    """Return a function that requests a point's result, after one checked call."""

    async def call() -> Any:
        if point.is_list:
            return await list_all_tools(request)
        params = {"name": "echo", "arguments": ARGUMENTS}
        result = await request("tools/call", params)
        return result["content"][0]["text"]

    point.check(len(await call()))
    return call


@asynccontextmanager
async def stdio(argument: str) -> AsyncIterator[PointCalls]:
    """Yield calls that read the pipes of child processes on the event loop."""
    server, points = parse_argument(argument)
    async with AsyncExitStack() as stack:
        calls = {}
        for point in points:
            pipe = Pipe([server, "--legacy", *point.options])
            stack.callback(pipe.close)
            calls[point.name] = await prepare_call(pipe.request, point)
        yield PointCalls(calls)


@asynccontextmanager
async def http(argument: str, shape: str) -> AsyncIterator[PointCalls]:
    """Yield calls that read sockets and parse the responses with httptools."""
    server, points = parse_argument(argument)
    async with AsyncExitStack() as stack:
        calls = {}
        for point in points:
            null = stack.enter_context(
                run_null_server(server, "--legacy", shape, *point.options)
            )
            calls[point.name] = await prepare_call(
                await connect(null.port, stack), point
            )
        yield PointCalls(calls)


async def connect(port: int, stack: AsyncExitStack) -> Request:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Exchange, "127.0.0.1", port)
    stack.callback(connection.transport.abort)

    async def request(method: str, params: dict[str, Any]) -> Any:
        connection.future = loop.create_future()
        connection.transport.write(encode_post(port, method, params))
        return await connection.future

    return request


@contextmanager
def bare_pipe(server: str, *options: str) -> Iterator[Request]:
    """Yield a request function that reads the pipe of a child with blocking reads."""
    with start_process([server, "--legacy", *options]) as process:
        stdin, stdout = process.stdin.fileno(), process.stdout.fileno()

        async def request(method: str, params: dict[str, Any]) -> Any:
            os.write(stdin, encode_line(method, params))
            pieces = [b" "]
            while pieces[-1][-1] != NEWLINE:
                pieces.append(os.read(stdout, READ_SIZE) or raise_ended())
            return orjson.loads(b"".join(pieces))["result"]

        yield request
        process.kill()


@contextmanager
def bare_socket(server: str, *options: str) -> Iterator[Request]:
    """Yield a request function with blocking reads of a socket up to Content-Length."""
    with (
        run_null_server(server, "--legacy", "--json", *options) as null,
        socket.create_connection(("127.0.0.1", null.port)) as sock,
    ):

        async def request(method: str, params: dict[str, Any]) -> Any:
            sock.sendall(encode_post(null.port, method, params))
            fields, _, body = (sock.recv(READ_SIZE) or raise_ended()).partition(
                b"\r\n\r\n"
            )
            missing = int(fields.rpartition(b"Content-Length: ")[2]) - len(body)
            pieces = [body]
            while missing:
                pieces.append(sock.recv(READ_SIZE) or raise_ended())
                missing -= len(pieces[-1])
            return orjson.loads(b"".join(pieces))["result"]

        yield request


@asynccontextmanager
async def blocking(argument: str, open_request: Any) -> AsyncIterator[PointCalls]:
    """Yield calls that block in the kernel instead of waiting on the event loop."""
    server, points = parse_argument(argument)
    async with AsyncExitStack() as stack:
        calls = {}
        for point in points:
            request = stack.enter_context(open_request(server, *point.options))
            calls[point.name] = await prepare_call(request, point)
        yield PointCalls(calls)


@asynccontextmanager
async def memory(argument: str) -> AsyncIterator[PointCalls]:
    """Yield calls that encode and decode a result, to share no object."""

    async def call(text: str) -> Any:
        result = {"content": [{"type": "text", "text": text}]}
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": result})
        return orjson.loads(body)["result"]["content"][0]["text"]

    def bind(text: str) -> Call:
        return lambda: call(text)

    points = parse_argument(argument).points
    yield PointCalls({point.name: bind("x" * (point.kib * KIB)) for point in points})


def json(argument: str) -> Any:
    return http(argument, "--json")


def sse(argument: str) -> Any:
    return http(argument, "--sse")


def blocking_stdio(argument: str) -> Any:
    return blocking(argument, bare_pipe)


def blocking_json(argument: str) -> Any:
    return blocking(argument, bare_socket)
