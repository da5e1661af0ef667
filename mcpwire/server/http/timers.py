"""One timer for many things that all wait equally long.

A server sets a time limit for each request, and hardly any of them runs out. So what
waits stands in line, in the order in which it came, which is also the order in which
its time is up: one timer of the loop, set for the first in line, serves all of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.server.http.unread import Unread

if TYPE_CHECKING:
    from collections.abc import Callable

    Action = Callable[[], object]
    """What is done when its time is up. Neither awaits nor raises."""

__all__ = ["Clocks", "Line"]


class Line:
    """Actions that wait `seconds` from when they were added; each at most once.

    It belongs to the loop of whoever added last: in another loop, those of the loop
    before are forgotten with it.
    """

    __slots__ = ("_due", "_loop", "_timer", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._due: dict[Action, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._due)

    def add(self, action: Action) -> None:
        """Put an action at the end of the line; it must not stand there already."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self.close()
            self._loop = loop
        due = loop.time() + self.seconds
        self._due[action] = due
        if self._timer is None:
            self._timer = loop.call_at(due, self._ring)

    def discard(self, action: Action) -> None:
        """Let an action wait no longer, if it still does."""
        self._due.pop(action, None)

    def close(self) -> None:
        """Forget all that waits."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        assert self._loop is not None
        self._timer = None
        now = self._loop.time()
        while self._due:
            action, due = next(iter(self._due.items()))
            if due > now:
                # Set anew only when it rings: those who leave the line leave it alone.
                self._timer = self._loop.call_at(due, self._ring)
                return
            del self._due[action]
            action()


class Clocks:
    """The lines of one application, and its account of what clients have not read.

    Attributes:
        reading: For bodies to come.
        upgrade: For calls that an event stream is to answer when they take that long.
        beat: For streams that are to say something when they were silent that long.
        stall: For writes that wait for the client to read; then it counts as gone.
        unread: The account, where the web server has none.
    """

    def __init__(
        self,
        *,
        reading: float,
        upgrade: float = 0.1,
        beat: float = 15.0,
        stall: float = 60.0,
        unread: int = DEFAULT_LIMITS.unwritten_total,
    ) -> None:
        self.reading = Line(reading)
        self.upgrade = Line(upgrade)
        self.beat = Line(beat)
        self.stall = Line(stall)
        self.unread = Unread(unread)

    def close(self) -> None:
        """Forget all that waits."""
        for line in (self.reading, self.upgrade, self.beat, self.stall):
            line.close()
