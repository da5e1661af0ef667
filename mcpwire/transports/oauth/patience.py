"""Clocks that stand still while a user is asked: that time is nobody's fault."""

from __future__ import annotations

from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpwire.protocol.deadline import Deadline

__all__ = ["DeadlineClock", "Patience", "Pausing"]


class Pausing(Protocol):
    """Something that would run out of time."""

    def pause(self) -> None:
        """Let the time that follows not count."""

    def resume(self) -> None:
        """Let it count again."""


class Patience:
    """Stops the clocks of all who wait for one user; from any thread."""

    def __init__(self) -> None:
        self._mutex = RLock()
        self._clocks: list[Pausing] = []
        self._depth = 0
        self._generation = 0

    def add(self, clock: Pausing) -> None:
        """Have this clock stand still from now on, whenever it must."""
        with self._mutex:
            self._clocks.append(clock)
            if self._depth:
                clock.pause()

    def remove(self, clock: Pausing) -> None:
        """Let this clock run by itself again."""
        with self._mutex:
            if clock not in self._clocks:  # see `reset`
                return
            self._clocks.remove(clock)
            if self._depth:
                clock.resume()

    def begin(self) -> int:
        """Take note that a user is asked; return what `end` takes."""
        with self._mutex:
            self._depth += 1
            if self._depth == 1:
                for clock in self._clocks:
                    clock.pause()
            return self._generation

    def end(self, begun: int) -> None:
        """Take note that the user has answered, or never will; once per `begin`."""
        with self._mutex:
            if begun != self._generation:
                return
            self._depth -= 1
            if not self._depth:
                for clock in self._clocks:
                    clock.resume()

    def reset(self) -> None:
        """Forget who waits and who is asked: the loop that they were on is closed."""
        with self._mutex:
            self._generation += 1
            self._depth = 0
            self._clocks.clear()

    @contextmanager
    def applied(self, clock: Pausing) -> Iterator[None]:
        """Have this clock stand still in there, whenever it must."""
        self.add(clock)
        try:
            yield
        finally:
            self.remove(clock)


class DeadlineClock:
    """Lets a call's deadline stand still.

    Args:
        deadline: Of the call; ``None``: it has none.
        now: Tells the time that it is measured by.
        rearm: Told when it ends, once it runs again.
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
        """Let the time that follows not count."""
        if self._deadline is not None:
            self._deadline.pause(self._now())

    def resume(self) -> None:
        """Let it count again."""
        if self._deadline is not None:
            self._deadline.resume(self._now())
            if self._rearm is not None:
                self._rearm(self._deadline.at)
