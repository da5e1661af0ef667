"""Clocks that stand still while a user is asked: that time is nobody's fault."""

from __future__ import annotations

from threading import RLock
from typing import Protocol

__all__ = ["Patience", "Pausing"]


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

    def add(self, clock: Pausing) -> None:
        """Have this clock stand still from now on, whenever it must."""
        with self._mutex:
            self._clocks.append(clock)
            if self._depth:
                clock.pause()

    def remove(self, clock: Pausing) -> None:
        """Let this clock run by itself again."""
        with self._mutex:
            self._clocks.remove(clock)
            if self._depth:
                clock.resume()

    def begin(self) -> None:
        """Take note that a user is asked."""
        with self._mutex:
            self._depth += 1
            if self._depth == 1:
                for clock in self._clocks:
                    clock.pause()

    def end(self) -> None:
        """Take note that the user has answered, or never will; once per `begin`."""
        with self._mutex:
            self._depth -= 1
            if not self._depth:
                for clock in self._clocks:
                    clock.resume()
