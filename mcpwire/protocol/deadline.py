"""When a call must have ended: one absolute time over all its rounds and retries.

A `Deadline` holds no clock; who asks it passes the time, of any monotonic clock as long
as it is the same one each time. ``at`` is infinite where nothing limits the call and
while the clock stands still, so a shell compares it without looking at anything else.
"""

from __future__ import annotations

from math import inf
from typing import Final

__all__ = ["Deadline"]

_new: Final = object.__new__


class Deadline:
    """The absolute end of one public call.

    Args:
        now: The time it starts.
        timeout: Seconds until it ends, and again from each `extend`; ``None``: no
            limit.
        maximum: Seconds that no `extend` goes beyond (2025-11-25 basic/lifecycle,
            "Timeouts": a maximum should hold whatever progress is reported); ``None``:
            no maximum.
    """

    __slots__ = (
        "_cap",
        "_held_at",
        "_maximum",
        "_paused_at",
        "_pauses",
        "_timeout",
        "at",
        "started",
        "timeout",
    )

    started: float
    """The time it was made."""

    at: float
    """The time it ends; infinite for no limit and while it is paused."""

    timeout: float | None
    """The limit that runs out first, in seconds, for the error that tells of it."""

    # Set by the first pause.
    _held_at: float
    _paused_at: float

    def __init__(
        self, now: float, timeout: float | None, *, maximum: float | None = None
    ) -> None:
        self.started = now
        self.timeout = self._timeout = timeout
        self._maximum = maximum
        self._pauses = 0
        self.at = inf if timeout is None else now + timeout
        if maximum is None:
            self._cap = inf
        else:
            self._cap = now + maximum
            self._clamp()

    @staticmethod
    def of(now: float, timeout: float) -> Deadline:
        """Return ``Deadline(now, timeout)`` for two thirds of what that costs.

        Each call makes one, and none has a maximum but where progress extends it: here
        Python does not go by way of the type to enter `__init__`.
        """
        self = _new(Deadline)
        self.started = now
        self.timeout = self._timeout = timeout
        self._maximum = None
        self._pauses = 0
        self.at = now + timeout
        self._cap = inf
        return self

    def _clamp(self) -> None:
        if self.at > self._cap:
            self.at = self._cap
            self.timeout = self._maximum

    def expired(self, now: float) -> bool:
        """Tell whether it has passed."""
        return now >= self.at

    def remaining(self, now: float) -> float | None:
        """Return the seconds left, never below zero; ``None`` for no limit."""
        left = self._held_at - self._paused_at if self._pauses else self.at - now
        return None if left == inf else max(left, 0.0)

    def elapsed(self, now: float) -> float:
        """Return the seconds since it was made, pauses included."""
        return now - self.started

    def extend(self, now: float) -> None:
        """Start the timeout again, as far as the maximum allows: progress was made."""
        if self._timeout is None:
            return
        if self._pauses:
            self.at, now = self._held_at, self._paused_at
        self.at = max(self.at, now + self._timeout)
        self._clamp()
        if self._pauses:
            self._held_at, self.at = self.at, inf

    def pause(self, now: float) -> None:
        """Stop the clock: the time that follows is not the peer's."""
        self._pauses += 1
        if self._pauses == 1:
            self._held_at, self.at, self._paused_at = self.at, inf, now

    def resume(self, now: float) -> None:
        """Let the clock run again, once for each `pause`."""
        assert self._pauses, "resume without pause"
        self._pauses -= 1
        if not self._pauses:
            paused = now - self._paused_at
            self.at = self._held_at + paused
            self._cap += paused

    def __repr__(self) -> str:
        """Tell the limit and whether the clock stands still."""
        limit = "no limit" if self.timeout is None else f"{self.timeout:g} s"
        return f"<Deadline {limit}{', paused' if self._pauses else ''}>"
