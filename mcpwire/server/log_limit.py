"""Bounds how often the log tells of what a stranger can cause any number of times."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LogLimit"]


class LogLimit:
    """Logs one line of each kind in a second; the next one says how many it left out.

    Safe to use from several threads.

    Attributes:
        INTERVAL_S: The least time between two lines of one kind.
    """

    INTERVAL_S = 1.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # When each kind was logged last, and how many lines were left out since.
        self._kinds: dict[str, tuple[float, int]] = {}

    def log(
        self, write: Callable[..., None], message: str, *args: Any, **options: Any
    ) -> None:
        """Log a line, unless one of its kind was logged within the last second.

        Args:
            write: The method of a logger: ``logger.warning`` and others.
            message: The format; it is also the kind, so it holds nothing of a peer.
            args: Values for the format.
            options: Passed on to `write`.
        """
        now = self._clock()
        with self._lock:
            last, left_out = self._kinds.get(message, (now - self.INTERVAL_S, 0))
            if now - last < self.INTERVAL_S:
                self._kinds[message] = last, left_out + 1
                return
            self._kinds[message] = now, 0
        if left_out:
            message = f"{message} ({left_out} more were not logged)"
        write(message, *args, **options)
