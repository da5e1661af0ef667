"""A small server on the official Python SDK."""

import asyncio
import sys

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

m = MCPServer("pysdk")
R = ToolAnnotations(read_only_hint=True)


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
    m.run(sys.argv[1], port=int(sys.argv[2]))
else:
    m.run()
