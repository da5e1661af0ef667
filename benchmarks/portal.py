"""Substitute for a blocking client: an asyncio client on an event loop in a thread.

Other threads call it by `asyncio.run_coroutine_threadsafe`. Runs in the environments of
the peers: imports only these and the standard library.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

from harness.placement import pin_process
from leg import parse_leg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


OPEN_TIMEOUT_S = 60.0


class Portal:
    """A variant that runs on an event loop in its own thread."""

    def __init__(self, variant: Any) -> None:
        self.variant = variant
        self.loop = asyncio.new_event_loop()
        self.thread = Thread(target=self.loop.run_forever)

    async def keep_open(self) -> None:
        """Keep the variant open; anyio requires that one task opens and closes it."""
        async with self.variant as self.call_variant:
            self.opened.set()
            await self.closing.wait()

    async def open(self) -> None:
        self.opened, self.closing = asyncio.Event(), asyncio.Event()
        self.keeper = asyncio.create_task(self.keep_open())
        is_open = asyncio.create_task(self.opened.wait())
        await asyncio.wait((self.keeper, is_open), return_when="FIRST_COMPLETED")
        if self.keeper.done():
            is_open.cancel()
            await self.keeper

    async def close(self) -> None:
        self.closing.set()
        await self.keeper

    def call(self) -> Any:
        return asyncio.run_coroutine_threadsafe(self.call_variant(), self.loop).result()

    def wait_for(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(OPEN_TIMEOUT_S)

    @contextmanager
    def run(self) -> Iterator[Callable[[], Any]]:
        self.thread.start()
        try:
            self.wait_for(self.open())
            yield self.call
            self.wait_for(self.close())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.close()


def portal(connect: Any, argument: str) -> Any:
    """Return a context manager for calls to a variant of `clients` from threads."""
    pin_process(0, parse_leg(argument).placement, 0)  # this thread and its new threads
    return Portal(connect(argument)).run()


def python_sdk(argument: str) -> Any:
    """Return the portal of the official SDK's client."""
    from clients.python_sdk import connect

    return portal(connect, argument)


def fastmcp(argument: str) -> Any:
    """Return the portal of FastMCP's client."""
    from clients.fastmcp_client import connect

    return portal(connect, argument)
