"""What stands in for a blocking client elsewhere: an event loop in a thread.

Calls are handed to it from threads (`asyncio.run_coroutine_threadsafe`). Beside it the
official SDK's client on a loop alone, as it is meant to be used.

Runs in the environments of the peers: nothing beside them and the standard library is
imported here.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack, asynccontextmanager, contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

from harness.blocking import place, place_server, settle
from harness.servers import PEERS
from null.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from harness.blocking import Call

    Connect = Callable[[Any, str], Any]
    """Makes an async context manager that gives a client, of a target and a mode."""

ARGUMENTS = {"text": "hi"}
OPEN_TIMEOUT_S = 60.0
MODES = {"--legacy": "legacy", "--modern": "auto"}


def python_of(environment: str) -> Path:
    """Return the interpreter of a peer's environment."""
    return PEERS / environment / "bin" / "python"


def interpreter(environment: str) -> tuple[str, ...]:
    """Return the command that measures in there."""
    return (str(python_of(environment)), "-m", "harness.child")


class Portal:
    """A client that lives on a loop in a thread of its own."""

    def __init__(self, opening: Any, placement: str) -> None:
        self.opening = opening
        self.placement = placement
        self.loop = asyncio.new_event_loop()
        self.thread = Thread(target=self.loop.run_forever)
        self.client: Any = None

    async def hold(self) -> None:
        """Keep the client open; one task opens and closes it, as anyio wants it."""
        with place_server(self.placement):
            self.client = await self.opening.__aenter__()
        self.opened.set()
        await self.closing.wait()
        await self.opening.__aexit__(None, None, None)

    async def open(self) -> None:
        self.opened, self.closing = asyncio.Event(), asyncio.Event()
        self.holder = asyncio.create_task(self.hold())
        is_open = asyncio.create_task(self.opened.wait())
        await asyncio.wait((self.holder, is_open), return_when="FIRST_COMPLETED")
        if self.holder.done():
            is_open.cancel()
            await self.holder

    async def close(self) -> None:
        self.closing.set()
        await self.holder

    def call(self) -> Any:
        wanted = self.client.call_tool("echo", ARGUMENTS)
        return asyncio.run_coroutine_threadsafe(wanted, self.loop).result()

    def wait_for(self, wanted: Any) -> None:
        asyncio.run_coroutine_threadsafe(wanted, self.loop).result(OPEN_TIMEOUT_S)

    @contextmanager
    def running(self) -> Iterator[Call]:
        self.thread.start()
        try:
            self.wait_for(self.open())
            result = self.call()
            assert result.content[0].text == "hello", result
            yield self.call
            self.wait_for(self.close())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.close()


@contextmanager
def calls(
    argument: str, connect: Connect, stdio: Callable[[str, list[str]], Any]
) -> Iterator[Call]:
    """Give what calls the tool of a null server by way of a portal."""
    server, era, *shape, placement = json.loads(argument)
    if not shape:
        settle(0, placement, 0)
        opening = connect(stdio(server, [era]), MODES[era])
        with Portal(opening, placement).running() as call:
            yield call
        return
    with serving(server, era, *shape) as null:
        place(null.pid, placement)
        with Portal(connect(null.url, MODES[era]), placement).running() as call:
            yield call


def python_sdk(argument: str) -> Any:
    """Call by the official SDK's client."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    return calls(
        argument,
        lambda target, mode: Client(target, mode=mode),
        lambda command, args: StdioServerParameters(command=command, args=args),
    )


def fastmcp(argument: str) -> Any:
    """Call by FastMCP's client."""
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    return calls(
        argument,
        lambda target, mode: Client(target, mode=mode),
        lambda command, args: StdioTransport(command, args, keep_alive=False),
    )


@asynccontextmanager
async def python_sdk_on_loop(argument: str) -> AsyncIterator[Any]:
    """Call by the official SDK's client on the loop that it is made for: no threads."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    server, era, *shape, placement = json.loads(argument)
    with ExitStack() as stack:
        if shape:
            null = stack.enter_context(serving(server, era, *shape))
            place(null.pid, placement)
            opening = Client(null.url, mode=MODES[era])
        else:
            target = StdioServerParameters(command=server, args=[era])
            opening = Client(target, mode=MODES[era])
        with place_server(placement):
            client = await opening.__aenter__()

        async def call() -> Any:
            return await client.call_tool("echo", ARGUMENTS)

        result = await call()
        assert result.content[0].text == "hello", result
        yield call
        await opening.__aexit__(None, None, None)
