"""When a call must have ended: one absolute time over all its rounds and retries.

A `Deadline` holds no clock; each method is given the time, of any one monotonic clock.
``at`` is infinite where nothing limits the call and while the deadline is paused, so a
shell only compares it. When it has passed, `transports.base` ends the call with
`RequestTimeout`, and the channel tells the server (`notifications/cancelled`).
"""

from __future__ import annotations

from math import inf

from mcpwire.errors import RequestTimeout

__all__ = ["Deadline"]


class Deadline:
    """The absolute end of one public call.

    No `extend` goes beyond `maximum` seconds (2025-11-25 basic/lifecycle, "Timeouts": a
    maximum should hold whatever progress is reported). `timeout` is the limit that runs
    out first.
    """

    # Set by the first pause.
    _held_at: float  # what `at` was
    _paused_at: float
    _spare: float  # seconds after which the clock runs again
    _most: float

    _pauses = 0
    _left = inf  # of what pauses with a bound may take
    _cap = inf

    def __init__(
        self, now: float, timeout: float | None, *, maximum: float | None = None
    ) -> None:
        self.started = now
        self.timeout = self._timeout = timeout
        self._maximum = maximum
        self.at = inf if timeout is None else now + timeout
        if maximum is not None:
            self._cap = now + maximum
            self._clamp()

    def _clamp(self) -> None:
        if self.at > self._cap:
            self.at = self._cap
            self.timeout = self._maximum

    def expired(self, now: float) -> bool:
        """Tell whether it has passed."""
        return now >= self.at

    def remaining(self, now: float) -> float | None:
        """Return the seconds left, never below zero; ``None`` for no limit."""
        left = self._held_at - self._clock(now) if self._pauses else self.at - now
        return None if left == inf else max(left, 0.0)

    def _clock(self, now: float) -> float:
        """Return what the paused clock shows; it runs again after `_spare` seconds."""
        return max(self._paused_at, now - self._spare)

    def elapsed(self, now: float) -> float:
        """Return the seconds since it was made, pauses included."""
        return now - self.started

    def extend(self, now: float) -> None:
        """Start the timeout again, up to the maximum, as progress was made."""
        if self._timeout is None:
            return
        if self._pauses:
            self.at, now = self._held_at, self._clock(now)
        self.at = max(self.at, now + self._timeout)
        self._clamp()
        if self._pauses:
            self._held_at = self.at
            self.at += self._spare

    def pause(self, now: float, most: float = inf) -> None:
        """Stop the clock: the time that follows is not the peer's.

        All pauses with a bound stop it for `most` seconds together; a longer pause lets
        it run again.
        """
        self._pauses += 1
        if self._pauses == 1:
            self._held_at, self._paused_at, self._spare = self.at, now, inf
            self.at = inf
        if most < inf:
            self._most = most
            self._spare = min(self._left, most)
            self.at = self._held_at + self._spare

    def resume(self, now: float) -> None:
        """Let the clock run again, once for each `pause`."""
        assert self._pauses, "resume without pause"
        self._pauses -= 1
        if not self._pauses:
            stood = min(now - self._paused_at, self._spare)
            if self._spare < inf:
                self._left = self._spare - stood
            self.at = self._held_at + stood
            self._cap += stood

    def error(
        self, method: str, now: float, detail: str | None = None
    ) -> RequestTimeout:
        """Return the error for a call that it has ended."""
        assert self.timeout is not None
        if self._pauses or not self._left:
            stood = (
                f"its clock stood still for {self._most:g} s while questions of the "
                "server were answered, and does for no longer (Limits.question_time)"
            )
            detail = f"{stood}; {detail}" if detail else stood
        return RequestTimeout(
            method=method,
            timeout=self.timeout,
            elapsed=self.elapsed(now),
            detail=detail,
        )

    def __repr__(self) -> str:
        limit = "no limit" if self.timeout is None else f"{self.timeout:g} s"
        return f"<Deadline {limit}{', paused' if self._pauses else ''}>"
