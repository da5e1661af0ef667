"""Requests as bytes on a socket, for servers in this process and in others."""

import asyncio
import contextlib
import json
import socket
from pathlib import Path

import pytest
from hosted import echo, fields, tools

from mcpwire.server.http.app import AsgiApp
from mcpwire.server.http.uvicorn import serve_http
from mcpwire.versions import REVISIONS

TIMEOUT_S = 30.0

HERE = Path(__file__).parent
PATHS = [str(HERE), str(HERE.parent)]


class Small:
    """The part of a server that `serve_http` needs."""

    auth = None

    def __init__(self, call=echo, **options):
        self.dispatcher = tools(call, revisions=REVISIONS, **options)
        self.app = None

    def asgi(self, **options):
        self.app = AsgiApp(self.dispatcher, **options)
        return self.app


def raw(message, **more):
    """Return a request as bytes; a value of None leaves a field out."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    known = message if isinstance(message, dict) else None
    more = {"content_length": str(len(body)), "connection": "close", **more}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields(known, **more))
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


def port_of(url):
    return int(url.rpartition(":")[2].partition("/")[0])


@contextlib.asynccontextmanager
async def served(server, *, address="127.0.0.1:0", **options):
    pytest.importorskip("uvicorn")
    urls = asyncio.Queue()
    task = asyncio.get_running_loop().create_task(
        serve_http(server, address, announce=urls.put_nowait, **options)
    )
    getting = asyncio.get_running_loop().create_task(urls.get())
    try:
        await asyncio.wait([task, getting], return_when="FIRST_COMPLETED")
        if task.done():
            await task
        yield getting.result(), task
    finally:
        getting.cancel()
        task.cancel()
        await asyncio.wait([task], timeout=TIMEOUT_S)


@contextlib.asynccontextmanager
async def connected(port, source="127.0.0.1", *, buffer=None):
    """Connect, for a bounded time; yields the reader and the writer."""
    sock = socket.socket()
    if buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.bind((source, 0))
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=65_536)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def answer(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(head.split(b" ")[1]), await reader.readexactly(length)


async def rest(reader):
    """Return all bytes until the connection ends, also by a reset."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            received += data
    return received


async def socket_request(url, data, *, end=False):
    """Send bytes; return the status, the head and the body of the response."""
    async with connected(port_of(url)) as (reader, writer):
        writer.write(data)
        if end:
            writer.write_eof()
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]) if head else None, head.lower(), body


async def tells(params, request):
    request.progress(1)
    return {"content": []}
