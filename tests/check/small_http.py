"""Small servers over HTTP, with one request for each connection."""

import asyncio
import contextlib
import json
import re

ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


def with_body(body, media="application/json", status="200 OK"):
    """Return a response."""
    fields = f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
    return f"HTTP/1.1 {status}\r\n{fields}".encode() + body


def respond(message, **outcome):
    """Return the response to a message, with a result or an error."""
    if "id" not in message:
        return ACCEPTED
    answer = {"jsonrpc": "2.0", "id": message["id"], **outcome}
    return with_body(json.dumps(answer).encode())


def opening(name, version="2025-11-25"):
    """Return the result of `initialize` of a server without features."""
    info = {"name": name, "version": "1"}
    return {"protocolVersion": version, "capabilities": {}, "serverInfo": info}


async def read_request(reader):
    """Return the head and the body of a request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    return head, await reader.readexactly(int(length[1]) if length else 0)


@contextlib.asynccontextmanager
async def serving(serve, port=0):
    """Yield the origin of a server, given as a function of a connection."""

    async def talk(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()
