"""How long to wait before a stream is opened again, so that no storm comes of it.

A stream that lived, or brought a message, is opened again soon. One that was closed at
once, or never came about, is opened ever more slowly, and whatever chance and the
server say, not more than eight times within a minute::

              opened                ended: it lived, or brought a message
    closed ──────────► open ──────────────────────────────────► closed, 0 in vain
       │ ended: no stream             │ ended: neither
       └──────────────────────────────┴───────────────────────► closed, one more in vain
"""

from __future__ import annotations

import re
from collections import deque
from datetime import UTC
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcpwire.limits import Recovery

__all__ = ["StreamBackoff", "full_jitter", "parse_retry_after", "retry_floor"]

RETRY_MIN_S: Final = 0.1
RETRY_MAX_S: Final = 60.0

STABLE_S: Final = 30.0
"""A stream that was open for so long has lived, even if it brought nothing."""

WINDOW_S: Final = 60.0
OPENINGS_PER_WINDOW: Final = 8

RETRY_AFTER_MAX_S: Final = 1e9
"""Some thirty years: a harmless number in place of a larger one."""

# 2.0 ** 1024 is an OverflowError; by then any first delay is over the longest one.
_MOST_DOUBLINGS: Final = 100

_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?")
_MORE_SECONDS: Final = re.compile(r"[0-9]{10,}(?:\.[0-9]*)?")
# RFC 9110, 5.6.7, in its three forms: a date, and a time in hours, minutes, seconds.
_DATE: Final = re.compile(r"[A-Z][a-z]{2}[A-Za-z0-9,: -]*:[0-9]{2}:[A-Za-z0-9 ]*")
_DATE_LENGTH: Final = 40


def full_jitter(recovery: Recovery, in_vain: int, chance: float) -> float:
    """Return the seconds to wait after so many attempts in vain, the first being 1.

    `chance`, from 0 to below 1, picks anything below a bound that doubles with each of
    them, so that many clients of one server do not come back together.
    """
    doublings = min(in_vain - 1, _MOST_DOUBLINGS)
    return chance * min(recovery.backoff_initial * 2.0**doublings, recovery.backoff_max)


def retry_floor(retry_ms: int | None) -> float:
    """Return the seconds that a stream's `retry:` asks to wait at least.

    2025-11-25 basic/transports, "Sending Messages to the Server": it must be respected;
    0.1 s to 60 s of it are, and 0.1 s where there is none.
    """
    if retry_ms is None:
        return RETRY_MIN_S
    return min(max(retry_ms / 1000, RETRY_MIN_S), RETRY_MAX_S)


def parse_retry_after(value: str | None, now_wall: float) -> float | None:
    """Return the seconds that a `Retry-After` asks to wait, or ``None``: it says none.

    It holds seconds or a date (RFC 9110, 10.2.3), which `now_wall`, a Unix time, makes
    seconds of; a date in the past is no wait. A fraction of a second is forgiven.
    """
    text = (value or "").strip(" \t")
    if _SECONDS.fullmatch(text):
        return min(float(text), RETRY_AFTER_MAX_S)
    if _MORE_SECONDS.fullmatch(text):
        return RETRY_AFTER_MAX_S
    if len(text) > _DATE_LENGTH or not _DATE.fullmatch(text):
        return None
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
    except (IndexError, TypeError, ValueError):  # its parser is not sure how to fail
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return min(max(date.timestamp() - now_wall, 0.0), RETRY_AFTER_MAX_S)


class StreamBackoff:
    """Says when one stream is opened again: a standalone GET stream, or a listen.

    One that never opened is given up after `Recovery.attempts` of them; one that has
    been open before is waited for as long as it takes. Times are seconds of one clock
    that does not go back.

    Attributes:
        in_vain: How many openings in a row came to nothing.
    """

    __slots__ = (
        "_delivered",
        "_ended_at",
        "_has_opened",
        "_is_refused",
        "_opened_at",
        "_recent",
        "_recovery",
        "in_vain",
    )

    def __init__(self, recovery: Recovery) -> None:
        self.in_vain = 0
        self._recovery = recovery
        self._has_opened = False
        self._is_refused = False
        self._opened_at: float | None = None
        self._ended_at: float | None = None
        self._delivered = False
        # When the last openings in vain were.
        self._recent: deque[float] = deque(maxlen=OPENINGS_PER_WINDOW)

    def opened(self, now: float) -> None:
        """Note that the stream is open."""
        self._opened_at = now
        self._has_opened = True
        self._delivered = False

    def delivered(self) -> None:
        """Note that a message came on it."""
        self._delivered = True

    def ended(self, now: float) -> None:
        """Note that it is gone, or that none came about."""
        opened_at, self._opened_at = self._opened_at, None
        self._ended_at = now
        if opened_at is not None and (self._delivered or now - opened_at >= STABLE_S):
            self.in_vain = 0
            self._recent.clear()
        else:
            self.in_vain += 1
            self._recent.append(now if opened_at is None else opened_at)

    def refused(self) -> None:
        """Note that the server has no such stream: it is never asked again.

        2025-11-25 basic/transports, "Listening for Messages from the Server": 405 says
        so; any other 4xx will not change by asking again either.
        """
        self._is_refused = True

    def delay(
        self,
        now: float,
        chance: float,
        retry_ms: int | None = None,
        retry_after: float | None = None,
    ) -> float | None:
        """Return the seconds to wait from now, or ``None``: never again.

        `retry_ms` is what the stream said last, `retry_after` what an HTTP error said;
        neither is gone below. `chance` is that of `full_jitter`. What has passed since
        the end counts.
        """
        if self._is_refused or (
            not self._has_opened and self.in_vain >= self._recovery.attempts
        ):
            return None
        if self._ended_at is None:
            return 0.0
        floor = max(retry_floor(retry_ms), retry_after or 0.0)
        jitter = full_jitter(self._recovery, max(self.in_vain, 1), chance)
        longest = max(floor, self._recovery.backoff_max)
        due = self._ended_at + min(floor + jitter, longest)
        if len(self._recent) == OPENINGS_PER_WINDOW:
            due = max(due, self._recent[0] + WINDOW_S)
        return max(0.0, due - now)
