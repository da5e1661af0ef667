"""A small server on FastMCP."""

import asyncio
import sys

from fastmcp import FastMCP

m = FastMCP("fast")
R = {"readOnlyHint": True}


@m.tool(annotations=R)
def echo(message: str) -> str:
    return message


@m.tool(annotations=R)
def add(a: int, b: int) -> int:
    return a + b


@m.tool(annotations=R)
async def slow(seconds: float = 0.05) -> str:
    await asyncio.sleep(seconds)  # the duration is an argument
    return "done"


@m.resource("subject://text")
def text() -> str:
    return "a text"


@m.prompt()
def greet(name: str) -> str:
    return "hi " + name


if len(sys.argv) > 2:
    m.run(sys.argv[1], port=int(sys.argv[2]), show_banner=False)
else:
    m.run(show_banner=False)
