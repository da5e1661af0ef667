"""The official Python SDK 2.x: `Client.call_tool` and `Client.list_tools`.

Runs in its own environment: imports only the SDK and the standard library.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters
from null.serving import serving

from large.points import Measured, asked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from large.points import Call, Point

NAME = "echo"
ARGUMENTS = {"text": "hi"}


async def listed(client: Client) -> list[Any]:
    """Return the tools of all pages."""
    found = await client.list_tools()
    tools = list(found.tools)
    while found.next_cursor is not None:
        found = await client.list_tools(cursor=found.next_cursor)
        tools += found.tools
    return tools


async def opened(client: Client, point: Point) -> Call:
    """Return a function that requests a point's result, after one checked call."""

    async def call() -> Any:
        if point.is_list:
            return await listed(client)
        result = await client.call_tool(NAME, ARGUMENTS)
        return result.content[0].text

    point.check(len(await call()))
    return call


@asynccontextmanager
async def over(argument: str, shape: str) -> AsyncIterator[Measured]:
    """Yield calls to null servers, one for each size of result."""
    server, points = asked(argument)
    async with AsyncExitStack() as stack:
        calls = {}
        for point in points:
            if shape == "stdio":
                options = ["--legacy", *point.options]
                target: Any = StdioServerParameters(command=server, args=options)
            else:
                options = ["--legacy", f"--{shape}", *point.options]
                target = stack.enter_context(serving(server, *options)).url
            client = await stack.enter_async_context(Client(target, mode="legacy"))
            calls[point.name] = await opened(client, point)
        yield Measured(calls)


def stdio(argument: str) -> Any:
    return over(argument, "stdio")


def json(argument: str) -> Any:
    return over(argument, "json")


def sse(argument: str) -> Any:
    return over(argument, "sse")
