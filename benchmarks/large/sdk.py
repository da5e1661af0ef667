"""The official Python SDK 2.x: `Client.call_tool` and `Client.list_tools`.

Runs in its own environment: imports only the SDK and the standard library.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters
from null.server import run_null_server

from large.points import PointCalls, parse_argument

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from large.points import Call, Point

NAME = "echo"
ARGUMENTS = {"text": "hi"}


async def list_all_tools(client: Client) -> list[Any]:
    """Return the tools of all pages."""
    page = await client.list_tools()
    tools = list(page.tools)
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


async def prepare_call(client: Client, point: Point) -> Call:
    """Return a function that requests a point's result, after one checked call."""

    async def call() -> Any:
        if point.is_list:
            return await list_all_tools(client)
        result = await client.call_tool(NAME, ARGUMENTS)
        return result.content[0].text

    point.check(len(await call()))
    return call


@asynccontextmanager
async def open_clients(argument: str, shape: str) -> AsyncIterator[PointCalls]:
    """Yield calls to null servers, one for each size of result."""
    server, points = parse_argument(argument)
    async with AsyncExitStack() as stack:
        calls = {}
        for point in points:
            if shape == "stdio":
                options = ["--legacy", *point.options]
                target: Any = StdioServerParameters(command=server, args=options)
            else:
                options = ["--legacy", f"--{shape}", *point.options]
                target = stack.enter_context(run_null_server(server, *options)).url
            client = await stack.enter_async_context(Client(target, mode="legacy"))
            calls[point.name] = await prepare_call(client, point)
        yield PointCalls(calls)


def stdio(argument: str) -> Any:
    return open_clients(argument, "stdio")


def json(argument: str) -> Any:
    return open_clients(argument, "json")


def sse(argument: str) -> Any:
    return open_clients(argument, "sse")
