"""mcpwire's asyncio client, blocking client, and client with server in memory."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from null.server import run_null_server

import mcpwire
import mcpwire.sync
from large.points import KIB, PointCalls, parse_argument

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from large.points import Call, Point

NAME = "echo"
ARGUMENTS = {"text": "hi"}


async def prepare_call(client: Any, point: Point, arguments: dict[str, Any]) -> Call:
    """Return a function that requests a point's result, after one checked call."""

    async def list_all_tools() -> Any:
        return await client.list_tools()

    async def call_tool() -> Any:
        return await client.call_tool(NAME, arguments)

    call = list_all_tools if point.is_list else call_tool
    result = await call()
    point.check(len(result if point.is_list else result.text))
    return call


@asynccontextmanager
async def open_clients(argument: str, shape: str) -> AsyncIterator[PointCalls]:
    """Yield calls to null servers, one for each size of result."""
    server, points = parse_argument(argument)
    async with AsyncExitStack() as stack:
        calls = {}
        for point in points:
            target = target_of(server, shape, point, stack)
            client = await stack.enter_async_context(mcpwire.Client(target))
            calls[point.name] = await prepare_call(client, point, ARGUMENTS)
        yield PointCalls(calls)


def target_of(
    server: str, shape: str, point: Point, stack: ExitStack | AsyncExitStack
) -> Any:
    """Return the target of a null server that runs until the stack closes."""
    if shape == "stdio":
        return mcpwire.Stdio(server, ["--legacy", *point.options])
    options = ("--legacy", f"--{shape}", *point.options)
    return stack.enter_context(run_null_server(server, *options)).url


@asynccontextmanager
async def blocking(argument: str, shape: str) -> AsyncIterator[PointCalls]:
    """Yield calls by the blocking client; nothing else runs in its thread."""
    server, points = parse_argument(argument)
    with ExitStack() as stack:
        calls = {}
        for point in points:
            target = target_of(server, shape, point, stack)
            client = stack.enter_context(mcpwire.sync.Client(target))
            calls[point.name] = blocking_call(client, point)
        yield PointCalls(calls)


def blocking_call(client: mcpwire.sync.Client, point: Point) -> Call:
    async def list_all_tools() -> Any:
        return client.list_tools()

    async def call_tool() -> Any:
        return client.call_tool(NAME, ARGUMENTS)

    if point.is_list:
        point.check(len(client.list_tools()))
        return list_all_tools
    point.check(len(client.call_tool(NAME, ARGUMENTS).text))
    return call_tool


@asynccontextmanager
async def memory(argument: str) -> AsyncIterator[PointCalls]:
    """Yield calls to a server in the same process."""
    server = mcpwire.Server("large", "1")

    @server.tool(structured=False)
    async def echo(kib: int) -> str:
        """Return a text of this size."""
        return texts[kib]

    _, points = parse_argument(argument)
    texts = {point.kib: "x" * (point.kib * KIB) for point in points}
    async with mcpwire.Client(server) as client:
        yield PointCalls(
            {
                point.name: await prepare_call(client, point, {"kib": point.kib})
                for point in points
            }
        )


def stdio(argument: str) -> Any:
    return open_clients(argument, "stdio")


def json(argument: str) -> Any:
    return open_clients(argument, "json")


def sse(argument: str) -> Any:
    return open_clients(argument, "sse")


def blocking_stdio(argument: str) -> Any:
    return blocking(argument, "stdio")


def blocking_json(argument: str) -> Any:
    return blocking(argument, "json")
