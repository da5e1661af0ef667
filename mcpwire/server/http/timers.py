"""One timer for many things that all wait equally long.

A server sets a time limit for each request, and hardly any of them runs out. So what
waits stands in line, in the order in which it came, which is also the order in which
its time is up: one timer of the loop, set for the first in line, serves all of them.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

__all__ = ["Line", "Waiting"]


class Waiting(Protocol):
    """Something whose time may run out."""

    def on_time(self) -> None:
        """Its time is up; it is not in line any more. Neither awaits nor raises."""


class Line:
    """What waits `seconds` from when it was added; each thing at most once.

    It belongs to the loop of whoever added last: in another loop, those of the loop
    before are forgotten with it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._due: dict[Waiting, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._due)

    def add(self, waiting: Waiting) -> None:
        """Put something at the end of the line."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._move(loop)
        due = loop.time() + self.seconds
        self._due[waiting] = due
        if self._timer is None:
            self._timer = loop.call_at(due, self._ring)

    def discard(self, waiting: Waiting) -> None:
        """Let something wait no longer, if it still does."""
        self._due.pop(waiting, None)

    def close(self) -> None:
        """Forget all that waits."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        self._loop = loop

    def _ring(self) -> None:
        assert self._loop is not None
        self._timer = None
        now = self._loop.time()
        while self._due:
            first, due = next(iter(self._due.items()))
            if due > now:
                # Set anew only when it rings: those who leave the line leave it alone.
                self._timer = self._loop.call_at(due, self._ring)
                return
            del self._due[first]
            first.on_time()
