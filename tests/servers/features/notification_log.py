"""Recording notifications, and waiting for them."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import anyio

TIMEOUT_S: Final = 30.0
"""The bound of each wait for a server; a busy machine is slow."""


class Recorder:
    """A callback that records its arguments; it may be called in any thread."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._loop = asyncio.get_running_loop()
        self._came = asyncio.Event()

    def __call__(self, *args: Any) -> None:
        self.all.append(args[0] if len(args) == 1 else args)
        self._loop.call_soon_threadsafe(self._came.set)

    def of(self, method: str) -> list[Any]:
        """Return the params of the notifications with this method."""
        return [one.params for one in self.all if one.method == method]

    async def until(self, is_enough: Callable[[], Any]) -> None:
        with anyio.fail_after(TIMEOUT_S):
            while not is_enough():
                self._came.clear()
                await self._came.wait()


async def next_of(stream: Any, method: str) -> Any:
    """Return the params of the next notification with this method; skip others."""
    with anyio.fail_after(TIMEOUT_S):
        async for notification in stream:
            if notification.method == method:
                return notification.params
    raise AssertionError(f"the stream ended before {method}")


MESSAGE: Final = "notifications/message"
UPDATED: Final = "notifications/resources/updated"
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
