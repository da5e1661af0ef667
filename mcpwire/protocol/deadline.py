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
    _unpaused_at: float  # the value of `at` before the pause
    _paused_at: float
    _pause_limit: float  # maximum length of the pause in seconds
    _limit: float

    _pauses = 0
    _pause_left = inf  # seconds that are left for limited pauses
    _max_at = inf

    def __init__(
        self, now: float, timeout: float | None, *, maximum: float | None = None
    ) -> None:
        self.started = now
        self.timeout = self._timeout = timeout
        self._maximum = maximum
        self.at = inf if timeout is None else now + timeout
        if maximum is not None:
            self._max_at = now + maximum
            self._clamp()

    def _clamp(self) -> None:
        if self.at > self._max_at:
            self.at = self._max_at
            self.timeout = self._maximum

    def expired(self, now: float) -> bool:
        """Return whether the deadline has passed."""
        return now >= self.at

    def remaining(self, now: float) -> float | None:
        """Return the remaining seconds, at least zero; ``None``: no limit."""
        left = (
            self._unpaused_at - self._paused_time(now)
            if self._pauses
            else self.at - now
        )
        return None if left == inf else max(left, 0.0)

    def _paused_time(self, now: float) -> float:
        """Return the time of the paused clock, stopped for `_pause_limit` at most."""
        return max(self._paused_at, now - self._pause_limit)

    def elapsed(self, now: float) -> float:
        """Return the seconds since the start of the call, pauses included."""
        return now - self.started

    def extend(self, now: float) -> None:
        """Restart the timeout after progress, up to the maximum."""
        if self._timeout is None:
            return
        if self._pauses:
            self.at, now = self._unpaused_at, self._paused_time(now)
        self.at = max(self.at, now + self._timeout)
        self._clamp()
        if self._pauses:
            self._unpaused_at = self.at
            self.at += self._pause_limit

    def pause(self, now: float, limit: float = inf) -> None:
        """Stop the clock while the call does not wait for the peer.

        All limited pauses stop it for `limit` seconds in total; if a pause takes
        longer, the clock runs again.
        """
        self._pauses += 1
        if self._pauses == 1:
            self._unpaused_at, self._paused_at, self._pause_limit = self.at, now, inf
            self.at = inf
        if limit < inf:
            self._limit = limit
            self._pause_limit = min(self._pause_left, limit)
            self.at = self._unpaused_at + self._pause_limit

    def resume(self, now: float) -> None:
        """End one `pause`; the clock runs again after the last one."""
        assert self._pauses, "resume without pause"
        self._pauses -= 1
        if not self._pauses:
            paused_s = min(now - self._paused_at, self._pause_limit)
            if self._pause_limit < inf:
                self._pause_left = self._pause_limit - paused_s
            self.at = self._unpaused_at + paused_s
            self._max_at += paused_s

    def error(
        self, method: str, now: float, detail: str | None = None
    ) -> RequestTimeout:
        """Return the error for a call that exceeded this deadline."""
        assert self.timeout is not None
        if self._pauses or not self._pause_left:
            reason = (
                f"its time limit was paused for {self._limit:g} s while server "
                "requests were answered, the longest pause allowed "
                "(Limits.question_time)"
            )
            detail = f"{reason}; {detail}" if detail else reason
        return RequestTimeout(
            method=method,
            timeout=self.timeout,
            elapsed=self.elapsed(now),
            detail=detail,
        )

    def __repr__(self) -> str:
        limit = "no limit" if self.timeout is None else f"{self.timeout:g} s"
        return f"<Deadline {limit}{', paused' if self._pauses else ''}>"
