"""Substitute for a blocking client: an asyncio client on an event loop in a thread.

Other threads call it by `asyncio.run_coroutine_threadsafe`. Runs in the environments of
the peers: imports only these and the standard library.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

from harness.blocking import settle
from leg import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.blocking import Call

OPEN_TIMEOUT_S = 60.0


class Portal:
    """A variant that runs on an event loop in its own thread."""

    def __init__(self, variant: Any) -> None:
        self.variant = variant
        self.loop = asyncio.new_event_loop()
        self.thread = Thread(target=self.loop.run_forever)

    async def hold(self) -> None:
        """Keep the variant open; anyio requires that one task opens and closes it."""
        async with self.variant as self.perform:
            self.opened.set()
            await self.closing.wait()

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
        return asyncio.run_coroutine_threadsafe(self.perform(), self.loop).result()

    def wait_for(self, wanted: Any) -> None:
        asyncio.run_coroutine_threadsafe(wanted, self.loop).result(OPEN_TIMEOUT_S)

    @contextmanager
    def running(self) -> Iterator[Call]:
        self.thread.start()
        try:
            self.wait_for(self.open())
            yield self.call
            self.wait_for(self.close())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.close()


def portal(connected: Any, argument: str) -> Any:
    """Return a context manager for calls to a variant of `clients` from threads."""
    settle(0, parse(argument).placement, 0)  # this thread and its new threads
    return Portal(connected(argument)).running()


def python_sdk(argument: str) -> Any:
    """Return the portal of the official SDK's client."""
    from clients.python_sdk import connected

    return portal(connected, argument)


def fastmcp(argument: str) -> Any:
    """Return the portal of FastMCP's client."""
    from clients.fastmcp_client import connected

    return portal(connected, argument)
