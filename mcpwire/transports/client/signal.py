"""A flag that one consumer waits for while the connection is read."""

from __future__ import annotations

import asyncio

__all__ = ["Signal"]


class Signal:
    """Set by whoever stores something; waited for by `Connection.wait`."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def is_set(self) -> bool:
        """Whether there is something to look at."""
        return self._event.is_set()

    def set(self) -> None:
        """Say that there is."""
        self._event.set()

    def clear(self) -> None:
        """Say that all was looked at."""
        self._event.clear()

    async def wait(self, seconds: float | None) -> bool:
        """Wait until it is set, at most so long; return whether it is."""
        if seconds is None:
            await self._event.wait()
        else:
            try:
                async with asyncio.timeout(seconds):
                    await self._event.wait()
            except TimeoutError:
                return self._event.is_set()
        return True
