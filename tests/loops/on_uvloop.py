"""A server on a uvloop loop: over stdio, or over HTTP, with its URL on stdout."""

import asyncio
import os
import sys

import uvloop

from mcpwire import Context, Server
from mcpwire.server.http.uvicorn import serve_http

server = Server("loops", "1")


@server.tool
async def echo(text: str) -> str:
    """Answer with the text."""
    assert type(asyncio.get_running_loop()) is uvloop.Loop
    return text


@server.tool
async def steps(ctx: Context, count: int) -> int:
    """Tell of each step."""
    for step in range(count):
        ctx.progress(step + 1, count)
        await asyncio.sleep(0)
    return count


@server.tool
async def wait() -> str:
    """Wait for what never comes."""
    return await asyncio.get_running_loop().create_future()


@server.tool
def process() -> int:
    """Tell who this is, from a thread."""
    return os.getpid()


def announce(url: str) -> None:
    sys.stdout.write(url + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        uvloop.run(server.serve_stdio())
    else:
        uvloop.run(serve_http(server, "127.0.0.1:0", announce=announce))
