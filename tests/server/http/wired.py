"""Requests as bytes on a socket, for servers in this process and in others."""

import asyncio
import contextlib
import json
from pathlib import Path

from hosted import echo, fields, tools

from mcpwire.server.http.app import AsgiApp
from mcpwire.versions import REVISIONS

PATIENCE = 30.0

HERE = Path(__file__).parent
PATHS = [str(HERE), str(HERE.parent)]


class Small:
    """What `serve_http` needs of a server."""

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


async def spoken(url, data, *, end=False):
    """Send bytes and return the status and the rest of what comes back."""
    port = int(url.rpartition(":")[2].partition("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        if end:
            writer.write_eof()
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]) if head else None, head.lower(), body


async def tells(params, request):
    request.progress(1)
    return {"content": []}
