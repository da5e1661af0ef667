"""Variants of mcpwire's clients that call a null server's tool."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from leg import ARGUMENTS, NAME, parse_leg

import mcpwire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from leg import Leg

    Call = Callable[[], Any]
    AsyncCall = Callable[[], Awaitable[Any]]

PARAMS = {"name": NAME, "arguments": ARGUMENTS}


def target_of(
    leg: Leg, stack: ExitStack | AsyncExitStack, engine: str
) -> mcpwire.Stdio | mcpwire.Http:
    """Return the target of a leg's null server, which runs until the stack closes."""
    if leg.is_stdio:
        return mcpwire.Stdio(leg.server, [leg.era])
    return mcpwire.Http(stack.enter_context(leg.url()), engine=engine)


# The asyncio client...


@asynccontextmanager
async def open_client(leg: Leg, engine: str = "direct") -> AsyncIterator[Any]:
    """Yield an asyncio client, client and server on their cores."""
    async with AsyncExitStack() as stack:
        server_target = target_of(leg, stack, engine)
        with leg.start_on_server_core():
            client = await stack.enter_async_context(mcpwire.Client(server_target))
        yield client


@asynccontextmanager
async def typed(argument: str, engine: str = "direct") -> AsyncIterator[AsyncCall]:
    """Yield a function that calls the tool by `call_tool`."""
    leg = parse_leg(argument)
    async with open_client(leg, engine) as client:

        async def call() -> Any:
            return await client.call_tool(NAME, ARGUMENTS)

        leg.check((await call()).text, str(client.protocol_version))
        yield call


def httpx(argument: str) -> Any:
    """Return the variant with `call_tool` over httpx."""
    return typed(argument, "httpx")


@asynccontextmanager
async def raw(argument: str) -> AsyncIterator[AsyncCall]:
    """Yield a function that calls the tool by `request` with plain dicts."""
    leg = parse_leg(argument)
    async with open_client(leg) as client:

        async def call() -> Any:
            return await client.request("tools/call", PARAMS)

        result = await call()
        leg.check(result["content"][0]["text"], str(client.protocol_version))
        yield call


# The blocking client...


@contextmanager
def open_blocking_client(leg: Leg, engine: str = "direct") -> Iterator[Any]:
    """Yield a blocking client, client and server on their cores."""
    import mcpwire.sync

    with ExitStack() as stack:
        server_target = target_of(leg, stack, engine)
        with leg.start_on_server_core():
            client = stack.enter_context(mcpwire.sync.Client(server_target))
        yield client


@contextmanager
def blocking(argument: str, engine: str = "direct") -> Iterator[Call]:
    """Yield a function that calls the tool by the blocking `call_tool`."""
    leg = parse_leg(argument)
    with open_blocking_client(leg, engine) as client:

        def call() -> Any:
            return client.call_tool(NAME, ARGUMENTS)

        leg.check(call().text, str(client.protocol_version))
        yield call


def blocking_httpx(argument: str) -> Any:
    """Return the variant with `call_tool` over httpx."""
    return blocking(argument, "httpx")


@contextmanager
def raw_blocking(argument: str) -> Iterator[Call]:
    """Yield a function that calls the tool by `request` with plain dicts."""
    leg = parse_leg(argument)
    with open_blocking_client(leg) as client:

        def call() -> Any:
            return client.request("tools/call", PARAMS)

        leg.check(call()["content"][0]["text"], str(client.protocol_version))
        yield call
