"""Our application behind uvicorn, and raw socket connections to it."""

import asyncio
import contextlib
import json

import raw_sockets
from raw_client import modern

TIMEOUT_S = 30.0

HEAD = {
    "Host": "127.0.0.1:8000",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
}


@contextlib.asynccontextmanager
async def served(server, **options):
    """Serve on a free port; yield the port."""
    async with raw_sockets.served(server, **options) as (url, _):
        yield raw_sockets.port_of(url)


def call(id, text="hi", name="echo"):
    return modern(id, "tools/call", {"name": name, "arguments": {"text": text}})


def raw(message, verb="POST", **fields):
    """Return a request as bytes; a field that is ``None`` is left out."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    named = {**HEAD, "Content-Length": str(len(body))}
    if isinstance(message, dict):
        named |= {"Mcp-Method": message["method"], "Mcp-Name": "echo"}
    named |= {name.replace("_", "-"): value for name, value in fields.items()}
    lines = [f"{name}: {value}" for name, value in named.items() if value is not None]
    return (
        "\r\n".join([f"{verb} /mcp HTTP/1.1", *lines, "", ""]).encode("latin-1") + body
    )


class Line:
    """One connection."""

    def __init__(self, port):
        self._port = port

    async def __aenter__(self):
        self.reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._port
        )
        return self

    async def __aexit__(self, *_):
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def send(self, data):
        """Send bytes; return whether the server still accepts them."""
        self._writer.write(data)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._writer.drain()
        except OSError:
            return False
        return not self._writer.is_closing()

    def end(self):
        """Send no more."""
        self._writer.write_eof()

    async def answer(self):
        """Return the next response: its status, its head, its body."""
        async with asyncio.timeout(TIMEOUT_S):
            try:
                head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
            except (asyncio.IncompleteReadError, OSError):
                return None, b"", b""
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            body = await self.reader.readexactly(int(length or 0))
            return int(head.split(b" ")[1]), head, body

    async def rest(self):
        """Return everything until the server closes the connection."""
        data = b""
        async with asyncio.timeout(TIMEOUT_S):
            with contextlib.suppress(OSError):
                while piece := await self.reader.read(65_536):
                    data += piece
        return data
