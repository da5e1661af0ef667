"""What a thread waits for that may be interrupted in the middle of it."""

from __future__ import annotations

import contextlib
import threading

__all__ = ["Bell"]


class Bell:
    """Rings once, for everybody who waits for it.

    No `threading.Event`, for two reasons. Whoever rings may be a signal handler in the
    middle of this very thread's wait, where an `Event` would wait for its own lock. And
    an interrupt in the last instructions of an `Event`'s wait gives back a lock that by
    then another thread holds, so that its `set` fails.
    """

    def __init__(self) -> None:
        self._has_rung = False
        self._seats: list[threading.Lock] = []

    def ring(self) -> None:
        """Wake all."""
        self._has_rung = True
        for seat in list(self._seats):
            if seat.locked():
                with contextlib.suppress(RuntimeError):  # another was quicker
                    seat.release()

    def wait(self, seconds: float = threading.TIMEOUT_MAX) -> bool:
        """Wait so long at most; return whether it has rung."""
        seat = threading.Lock()
        seat.acquire()
        self._seats.append(seat)
        try:
            if not self._has_rung:
                seat.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX))
        finally:
            self._seats.remove(seat)
        return self._has_rung
