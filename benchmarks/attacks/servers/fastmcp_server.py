"""FastMCP server to attack; OPTIONS in the environment is JSON."""

import asyncio
import json
import os
import time

import uvicorn
from fastmcp import Context, FastMCP

options = json.loads(os.environ.get("OPTIONS", "{}"))
server = FastMCP("attacked", version="1")


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
def plain(text: str) -> str:
    """Return the text, from a thread."""
    return text


@server.tool
def block(seconds: float) -> str:
    """Block a thread for a time."""
    time.sleep(seconds)
    return "done"


@server.tool
async def big(size: int) -> str:
    """Return a text of this size."""
    return "x" * size


@server.tool
async def flow(number: int, size: int, ctx: Context) -> str:
    """Send many messages before the result."""
    for _ in range(number):
        await ctx.info("x" * size)
    return "done"


@server.tool
async def ask(ctx: Context) -> str:
    """Elicit a name from the client, and wait for it."""
    return str(await ctx.elicit("Your name?", str))


@server.tool
async def work(seconds: float) -> str:
    """Wait for a time."""
    await asyncio.sleep(seconds)
    return "done"


if __name__ == "__main__":
    uvicorn.run(
        server.http_app(
            json_response=options.get("json", True),
            session_idle_timeout=options["idle"],
        ),
        port=int(os.environ["PORT"]),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=options["drain"],
    )
