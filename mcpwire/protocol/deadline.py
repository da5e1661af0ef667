"""Deadline of a call: one absolute time for all its rounds and retries.

A `Deadline` has no clock; its methods take the time of one monotonic clock. ``at`` is
infinite if the call has no limit and while the deadline is paused, so a shell only
compares it. After the deadline `transports.base` ends the call with `RequestTimeout`,
and the channel sends `notifications/cancelled` to the server.
"""

from __future__ import annotations

from math import inf

from mcpwire.errors import RequestTimeout


class Deadline:
    """The deadline of one public call.

    `extend` never exceeds `maximum` seconds (2025-11-25 basic/lifecycle, "Timeouts": a
    maximum should apply regardless of progress). `timeout` is the limit that expires
    first.
    """

    # Set by the first pause.
    _held_at: float  # the value of `at` before the pause
    _paused_at: float
    _spare: float  # maximum length of the pause in seconds
    _most: float

    _pauses = 0
    _left = inf  # seconds that are left for limited pauses
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
        """Return whether the deadline has passed."""
        return now >= self.at

    def remaining(self, now: float) -> float | None:
        """Return the remaining seconds, at least zero; ``None``: no limit."""
        left = self._held_at - self._clock(now) if self._pauses else self.at - now
        return None if left == inf else max(left, 0.0)

    def _clock(self, now: float) -> float:
        """Return the time of the paused clock, stopped for at most `_spare` seconds."""
        return max(self._paused_at, now - self._spare)

    def elapsed(self, now: float) -> float:
        """Return the seconds since the start of the call, pauses included."""
        return now - self.started

    def extend(self, now: float) -> None:
        """Restart the timeout after progress, up to the maximum."""
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
        """Stop the clock while the call does not wait for the peer.

        All limited pauses stop it for `most` seconds in total; if a pause takes longer,
        the clock runs again.
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
        """End one `pause`; the clock runs again after the last one."""
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
        """Return the error for a call that exceeded this deadline."""
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
