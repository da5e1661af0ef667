"""Pause the deadlines of waiting calls while a user logs in."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpwire.protocol.deadline import Deadline

__all__ = ["DeadlinePauser", "Pausable", "PausableDeadline", "PausableScope"]


class Pausable(Protocol):
    """A time limit that can be paused."""

    def pause(self) -> None:
        """Do not count the time that follows."""

    def resume(self) -> None:
        """Count the time again."""


class DeadlinePauser:
    """Pauses the time limits of all calls that wait for one user."""

    def __init__(self) -> None:
        self._limits: list[Pausable] = []
        self._depth = 0
        self._generation = 0

    def begin(self) -> int:
        """Pause all limits; return what `end` takes."""
        self._depth += 1
        if self._depth == 1:
            for limit in self._limits:
                limit.pause()
        return self._generation

    def end(self, begun: int) -> None:
        """Resume all limits after the last `begin` has ended."""
        if begun != self._generation:
            return
        self._depth -= 1
        if not self._depth:
            for limit in self._limits:
                limit.resume()

    def reset(self) -> None:
        """Forget all limits and users: their event loop is closed."""
        self._generation += 1
        self._depth = 0
        self._limits.clear()

    @contextmanager
    def applied(self, limit: Pausable) -> Iterator[None]:
        """Pause this limit inside, whenever a user is asked."""
        self._limits.append(limit)
        if self._depth:
            limit.pause()
        try:
            yield
        finally:
            if limit in self._limits:  # not after `reset`
                self._limits.remove(limit)
                if self._depth:
                    limit.resume()


class PausableDeadline:
    """Lets a call's deadline be paused.

    Args:
        deadline: The call's; ``None``: it has none.
        now: Returns the time on the deadline's clock.
        rearm: Receives the new end of a resumed deadline.
    """

    __slots__ = ("_deadline", "_now", "_rearm")

    def __init__(
        self,
        deadline: Deadline | None,
        now: Callable[[], float],
        rearm: Callable[[float], object] | None = None,
    ) -> None:
        self._deadline = deadline
        self._now = now
        self._rearm = rearm

    def pause(self) -> None:
        """Do not count the time that follows."""
        if self._deadline is not None:
            self._deadline.pause(self._now())

    def resume(self) -> None:
        """Count the time again."""
        if self._deadline is not None:
            self._deadline.resume(self._now())
            if self._rearm is not None:
                self._rearm(self._deadline.at)


class PausableScope:
    """Lets the deadline of an `asyncio.timeout` be paused."""

    __slots__ = ("_left", "_scope", "_time")

    def __init__(self, scope: asyncio.Timeout) -> None:
        self._scope = scope
        self._time = asyncio.get_running_loop().time
        self._left: float | None = None

    def pause(self) -> None:
        """Do not count the time that follows."""
        when = self._scope.when()
        self._left = None if when is None else when - self._time()
        if self._left is not None and not self._scope.expired():
            self._scope.reschedule(None)

    def resume(self) -> None:
        """Count the time again."""
        if self._left is not None and not self._scope.expired():
            self._scope.reschedule(self._time() + self._left)
