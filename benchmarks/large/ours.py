"""mcpwire's asyncio client, blocking client, and client with server in memory."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from null.serving import serving

import mcpwire
import mcpwire.sync
from large.points import KIB, Measured, asked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from large.points import Call, Point

NAME = "echo"
ARGUMENTS = {"text": "hi"}


async def opened(client: Any, point: Point, arguments: dict[str, Any]) -> Call:
    """Return a function that requests a point's result, after one checked call."""

    async def listed() -> Any:
        return await client.list_tools()

    async def called() -> Any:
        return await client.call_tool(NAME, arguments)

    call = listed if point.is_list else called
    result = await call()
    point.check(len(result if point.is_list else result.text))
    return call


@asynccontextmanager
async def over(argument: str, shape: str) -> AsyncIterator[Measured]:
    """Yield calls to null servers, one for each size of result."""
    server, points = asked(argument)
    async with AsyncExitStack() as stack:
        calls = {}
        for point in points:
            target = target_of(server, shape, point, stack)
            client = await stack.enter_async_context(mcpwire.Client(target))
            calls[point.name] = await opened(client, point, ARGUMENTS)
        yield Measured(calls)


def target_of(
    server: str, shape: str, point: Point, stack: ExitStack | AsyncExitStack
) -> Any:
    """Return the target of a null server that runs until the stack closes."""
    if shape == "stdio":
        return mcpwire.Stdio(server, ["--legacy", *point.options])
    options = ("--legacy", f"--{shape}", *point.options)
    return stack.enter_context(serving(server, *options)).url


@asynccontextmanager
async def blocking(argument: str, shape: str) -> AsyncIterator[Measured]:
    """Yield calls by the blocking client; nothing else runs in its thread."""
    server, points = asked(argument)
    with ExitStack() as stack:
        calls = {}
        for point in points:
            target = target_of(server, shape, point, stack)
            client = stack.enter_context(mcpwire.sync.Client(target))
            calls[point.name] = blocking_call(client, point)
        yield Measured(calls)


def blocking_call(client: mcpwire.sync.Client, point: Point) -> Call:
    async def listed() -> Any:
        return client.list_tools()

    async def called() -> Any:
        return client.call_tool(NAME, ARGUMENTS)

    if point.is_list:
        point.check(len(client.list_tools()))
        return listed
    point.check(len(client.call_tool(NAME, ARGUMENTS).text))
    return called


@asynccontextmanager
async def memory(argument: str) -> AsyncIterator[Measured]:
    """Yield calls to a server in the same process."""
    server = mcpwire.Server("large", "1")

    @server.tool(structured=False)
    async def echo(kib: int) -> str:
        """Return a text of this size."""
        return texts[kib]

    _, points = asked(argument)
    texts = {point.kib: "x" * (point.kib * KIB) for point in points}
    async with mcpwire.Client(server) as client:
        yield Measured(
            {
                point.name: await opened(client, point, {"kib": point.kib})
                for point in points
            }
        )


def stdio(argument: str) -> Any:
    return over(argument, "stdio")


def json(argument: str) -> Any:
    return over(argument, "json")


def sse(argument: str) -> Any:
    return over(argument, "sse")


def blocking_stdio(argument: str) -> Any:
    return blocking(argument, "stdio")


def blocking_json(argument: str) -> Any:
    return blocking(argument, "json")
