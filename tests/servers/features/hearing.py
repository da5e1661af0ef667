"""What remembers the notifications that came, and waits for those to come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S: Final = 30.0
"""How long something may take to come from a server; a busy machine is slow."""


class Heard:
    """Remembers what it is called with, in whatever thread; give it as a callback."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._loop = asyncio.get_running_loop()
        self._came = asyncio.Event()

    def __call__(self, *what: Any) -> None:
        self.all.append(what[0] if len(what) == 1 else what)
        self._loop.call_soon_threadsafe(self._came.set)

    def of(self, method: str) -> list[Any]:
        """Return the params of the notifications of one kind."""
        return [one.params for one in self.all if one.method == method]

    async def until(self, is_enough: Callable[[], Any]) -> None:
        """Wait until what was heard is enough."""
        with anyio.fail_after(PATIENCE_S):
            while not is_enough():
                self._came.clear()
                await self._came.wait()


async def next_of(stream: Any, method: str) -> Any:
    """Return the params of the next notification of a kind; pass over the others."""
    with anyio.fail_after(PATIENCE_S):
        async for notification in stream:
            if notification.method == method:
                return notification.params
    raise AssertionError(f"the stream ended before {method}")


MESSAGE: Final = "notifications/message"
UPDATED: Final = "notifications/resources/updated"
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
