"""When something is tried again, and after how long a wait.

Pure. Times are seconds of one monotonic clock; `chance`, from 0 to below 1, is drawn by
the caller, so that many clients of one server do not come back together.

- A request that failed: `may_repeat`, `after_failure`. Side effects happen at most
  once. It goes out again where the server provably did not take it up (no connection,
  nothing of it sent, 429, 503 with `Retry-After`); otherwise only if repeating it
  does no more than sending it once.
- A lost connection: `Restarts`. A stream that ended: `StreamBackoff`. The stream of an
  answer that broke off: `Resumption`, by its `Last-Event-ID`. The first attempt comes
  soon, later ones ever more slowly.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final

from mcpwire.errors import ConnectError, ConnectionClosed, HTTPError
from mcpwire.protocol.methods import METHODS

if TYPE_CHECKING:
    from mcpwire.errors import MCPError, RPCError
    from mcpwire.limits import Recovery
    from mcpwire.types.tools import Tool

__all__ = [
    "DECLINING_STATUSES",
    "PASSING_STATUSES",
    "DeclinedError",
    "Restarts",
    "Resumption",
    "StreamBackoff",
    "after_failure",
    "can_resume_from",
    "declined",
    "full_jitter",
    "may_repeat",
    "retry_floor",
    "tool_allows_repeat",
]

# Waits...

RETRY_MIN_S: Final = 0.1
RETRY_MAX_S: Final = 60.0

# 2.0 ** 1024 is an OverflowError; by then any first delay is over the longest one.
_MOST_DOUBLINGS: Final = 100


def full_jitter(recovery: Recovery, in_vain: int, chance: float) -> float:
    """Return the seconds to wait after so many attempts in vain, the first being 1."""
    doublings = min(in_vain - 1, _MOST_DOUBLINGS)
    return chance * min(recovery.backoff_initial * 2.0**doublings, recovery.backoff_max)


def retry_floor(retry_ms: int | None) -> float:
    """Return the seconds that a stream's `retry:` asks to wait at least.

    2025-11-25 basic/transports, "Sending Messages to the Server": it must be respected.
    """
    return min(max((retry_ms or 0) / 1000, RETRY_MIN_S), RETRY_MAX_S)


# Requests...

_HOPELESS: Final = frozenset({"tls"})
"""Reasons of a `ConnectError` that another attempt will meet again."""

_NOT_TAKEN_UP: Final = 429  # RFC 6585, 4: too many requests
_UNAVAILABLE: Final = 503
_GATEWAYS: Final = frozenset({502, _UNAVAILABLE, 504})

DECLINING_STATUSES: Final = _GATEWAYS | {_NOT_TAKEN_UP}
"""With what a gateway, or a server that is busy, turns a request away."""

PASSING_STATUSES: Final = DECLINING_STATUSES | {500}
"""What says nothing of the next attempt; any other error is the server's last word."""

# A method is repeatable in each span of revisions or, to be safe, not at all.
_REPEATABLE: Final = frozenset(spec.name for spec in METHODS) - frozenset(
    spec.name for spec in METHODS if not spec.repeatable
)


class DeclinedError(HTTPError):
    """The HTTP error that a JSON-RPC error came with, which says how to go on."""

    said: RPCError


def declined(error: RPCError) -> DeclinedError | None:
    """Return the HTTP error of a request that was turned away with a JSON-RPC error.

    ``None``: the error is the server's answer.
    """
    came_with = error.__cause__
    if error.status not in DECLINING_STATUSES or not isinstance(came_with, HTTPError):
        return None
    turned_away = DeclinedError(
        str(came_with.args[0]),
        status=came_with.status,
        headers=came_with.headers,
        target=came_with.target,
    )
    turned_away.said = error
    return turned_away


def may_repeat(method: str, *, sent: bool, idempotent: bool | None = None) -> bool:
    """Tell whether a request that got no answer may be sent once more.

    `sent`: some of it may have reached the server. `idempotent` is the word of the
    caller, or of a tool's hints, on this request; ``None`` leaves it to the method.
    """
    if not sent:
        return True
    return method in _REPEATABLE if idempotent is None else idempotent


def tool_allows_repeat(tool: Tool | None) -> bool:
    """Tell whether a tool promises that calling it again does no more.

    2026-07-28 schema, ToolAnnotations: a tool may change something, and anew with each
    call, unless its annotations say otherwise.
    """
    hints = tool.annotations if tool is not None else None
    return hints is not None and (
        hints.read_only_hint is True or hints.idempotent_hint is True
    )


def after_failure(
    error: MCPError,
    method: str,
    *,
    idempotent: bool | None,
    attempt: int,
    recovery: Recovery,
    chance: float,
    now_wall: float,
) -> float | None:
    """Return the seconds to wait before a request is sent again, or ``None``: never.

    `attempt` is the number of the one that failed, from 1. The server's `Retry-After`
    is not cut: the deadline of the call decides. `now_wall` is a Unix time.
    """
    if attempt >= recovery.attempts:
        return None
    wait = 0.0
    if isinstance(error, ConnectError):
        may = error.reason not in _HOPELESS
    elif isinstance(error, ConnectionClosed):
        may = may_repeat(method, sent=error.sent, idempotent=idempotent)
        if attempt == 1 and not error.sent:
            # It was an idle connection that had ended: that is no sign of trouble.
            return wait
    elif isinstance(error, HTTPError):
        # Here, for no other transport needs that module.
        from mcpwire.wire.headers import parse_retry_after

        asked = error.headers.get("retry-after", "")
        wait = parse_retry_after(asked, now_wall) or 0.0
        # A time to come back, even one that cannot be read, is a server that declines;
        # a bare 503 may be anybody's, after anything.
        may = error.status == _NOT_TAKEN_UP or (
            error.status in _GATEWAYS
            and may_repeat(
                method,
                sent=error.status != _UNAVAILABLE or not asked.strip(),
                idempotent=idempotent,
            )
        )
    else:
        may = False
    return wait + full_jitter(recovery, attempt, chance) if may else None


# Connections...


class Restarts:
    """Decides when a lost connection is opened again.

    ::

                 opened                  lost: it had lived
        closed ──────────► open ───────────────────────────► closed, 0 in vain
           ▲ failed: one more in vain    │ lost: it had not
           └─────────────────────────────┴─────────────────► closed, one more in vain

    A connection has lived when a call was answered on it, or when it stood as long as
    the longest delay: a child that crashes at its first call does not get a fresh count
    by surviving the handshake.
    """

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        self.reset()

    def reset(self) -> None:
        """Forget everything: the user asked to connect."""
        self._in_vain = 0
        self._ended_at = 0.0
        self._opened_at: float | None = None
        self._lived = False

    def opened(self, now: float) -> None:
        """Note that a connection stands and can take calls."""
        self._opened_at = now
        self._lived = False

    def answered(self) -> None:
        """Note that a call was answered on it."""
        self._lived = True

    def lost(self, now: float) -> None:
        """Note that it is gone; when none stood, nothing happens."""
        if self._opened_at is None:
            return
        has_lived = self._lived or now - self._opened_at >= self._recovery.backoff_max
        self.failed(now)
        if has_lived:
            self._in_vain = 0

    def failed(self, now: float) -> None:
        """Note that an opening failed."""
        self._in_vain += 1
        self._opened_at = None
        self._ended_at = now

    def delay(self, now: float, chance: float) -> float | None:
        """Return the seconds to wait from now, or ``None``: out of attempts."""
        if self._in_vain >= self._recovery.attempts:
            return None
        if not self._in_vain:
            return 0.0
        due = self._ended_at + full_jitter(self._recovery, self._in_vain, chance)
        return max(0.0, due - now)


# Streams...

STABLE_S: Final = 30.0
"""A stream that was open for so long has lived, even if it brought nothing."""

WINDOW_S: Final = 60.0
OPENINGS_PER_WINDOW: Final = 8


class StreamBackoff:
    """Decides when one stream is opened again: a standalone GET stream, or a listen.

    A stream that lived, or brought a message, is opened again soon. One that was closed
    at once, or never came about, is opened ever more slowly, and not more than eight
    times within a minute. One that never opened is given up after `Recovery.attempts`.
    """

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        self._in_vain = 0
        self._has_opened = self._is_refused = self._delivered = False
        self._opened_at: float | None = None
        self._ended_at: float | None = None
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
            self._in_vain = 0
            self._recent.clear()
        else:
            self._in_vain += 1
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

        `retry_ms` is what the stream said last, `retry_after` what an HTTP error said:
        the wait is never shorter.
        """
        if self._is_refused or (
            not self._has_opened and self._in_vain >= self._recovery.attempts
        ):
            return None
        if self._ended_at is None:
            return 0.0
        floor = max(retry_floor(retry_ms), retry_after or 0.0)
        jitter = full_jitter(self._recovery, max(self._in_vain, 1), chance)
        longest = max(floor, self._recovery.backoff_max)
        due = self._ended_at + min(floor + jitter, longest)
        if len(self._recent) == OPENINGS_PER_WINDOW:
            due = max(due, self._recent[0] + WINDOW_S)
        return max(0.0, due - now)


_REMEMBERED: Final = 1_024
_EVENT_ID: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]+")
_EVENT_ID_BYTES: Final = 4 * 1024  # many servers refuse heads of more than 8 KiB


def can_resume_from(event_id: str) -> bool:
    """Tell whether an event id can travel in `Last-Event-ID`.

    Beyond ASCII it travels as UTF-8 (HTML standard, 9.2.3). Spaces around it are no
    part of a field.
    """
    return (
        _EVENT_ID.fullmatch(event_id) is not None
        and event_id.strip(" ") != ""
        and len(event_id.encode()) <= _EVENT_ID_BYTES
    )


class Resumption:
    """The place that one stream has got to, and when to ask for the rest of it.

    In the session era a stream outlives its HTTP message: the server may end that after
    each event that has an id, and the client comes back with a GET that names the
    newest one. A message that brought an event counts for nothing. One that brought
    none makes the next wait longer: without end if it was closed in good order (the
    deadline of the call ends that); if it did not come about, or broke off,
    `Recovery.attempts` of them in a row are the end.

    Attributes:
        cursor: The newest id that can travel in `Last-Event-ID`; ``""``: none so far.
        retry_ms: The reconnection time that the stream named last, if any.
    """

    def __init__(self, recovery: Recovery) -> None:
        self.cursor = ""
        self.retry_ms: int | None = None
        self._recovery = recovery
        self._taken: dict[int, None] = {}
        self._last = ""
        self._has_brought = False
        self._in_vain = self._failures = 0
        self._ended_at = self._retry_after = 0.0

    def add_event(self, event_id: str) -> bool:
        """Take note of an event's id; tell whether the event is new.

        An event without an id of its own has that of the one before it (HTML standard):
        the same id twice in a row in one message is two events. An id that came before,
        among the last 1,024, is a replay. An empty id says nothing.
        """
        if not event_id:
            self._has_brought = True
            return True
        if event_id == self._last:
            return True
        self._last = event_id
        key = hash(event_id)  # an id may be long
        if key in self._taken:
            return False
        if len(self._taken) == _REMEMBERED:
            del self._taken[next(iter(self._taken))]
        self._taken[key] = None
        self._has_brought = True
        if can_resume_from(event_id):
            self.cursor = event_id
        return True

    def ended(
        self, now: float, *, failed: bool = False, retry_after: float | None = None
    ) -> None:
        """Note that a message of the stream is over.

        `failed`: it did not come about, or broke off; `retry_after` is the time that
        the server named for the next one, if any.
        """
        if self._has_brought:
            self._in_vain = self._failures = 0
        else:
            self._in_vain += 1
            self._failures = self._failures + 1 if failed else 0
        self._ended_at = now
        self._retry_after = retry_after or 0.0
        self._has_brought = False
        self._last = ""  # an id is handed down within one message only

    def delay(self, now: float, chance: float) -> float | None:
        """Return the seconds to wait before the next GET, or ``None``: give up."""
        recovery = self._recovery
        if (
            not self.cursor
            or not recovery.resume
            or self._failures >= recovery.attempts
        ):
            return None
        wait = max(retry_floor(self.retry_ms), self._retry_after)
        if self._in_vain:
            wait += full_jitter(recovery, self._in_vain, chance)
        return max(0.0, self._ended_at + wait - now)
