"""Rules for retries: the conditions, and the delays.

Times are seconds of one monotonic clock; `chance`, from 0 to below 1, is random, so
that many clients of one server do not retry at the same time.

- A failed request: `may_repeat`, `retry_delay`. Side effects happen at most once: a
  request is repeated if the server certainly did not process it (no connection, nothing
  of it sent, 429, 503 with `Retry-After`), otherwise only if it is idempotent.
  `Retry-After` is the minimum delay; an earlier deadline fails the call.
- A lost connection: `RestartBackoff`. A stream that ended: `StreamBackoff`. The stream
  of a response that broke off: `Resumption`, by its `Last-Event-ID`.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final

from mcpwire.errors import AuthError, ConnectError, ConnectionClosed, HTTPError
from mcpwire.protocol.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from mcpwire.errors import MCPError, RPCError
    from mcpwire.limits import Recovery
    from mcpwire.types.tools import Tool

# Delays

RETRY_MIN_S: Final = 0.1
RETRY_MAX_S: Final = 60.0

# 2.0 ** 1024 is an OverflowError; 100 doublings of any delay exceed the maximum.
_MAX_DOUBLINGS: Final = 100


def full_jitter(recovery: Recovery, failures: int, chance: float) -> float:
    """Return the delay in seconds after consecutive failures (1 or more)."""
    doublings = min(failures - 1, _MAX_DOUBLINGS)
    return chance * min(recovery.backoff_initial * 2.0**doublings, recovery.backoff_max)


def min_retry_delay(retry_ms: int | None) -> float:
    """Return the minimum delay in seconds for the `retry:` of a stream.

    2025-11-25 basic/transports, "Sending Messages to the Server": it must be respected.
    """
    return min(max((retry_ms or 0) / 1000, RETRY_MIN_S), RETRY_MAX_S)


# Requests

_TOO_MANY_REQUESTS: Final = 429  # RFC 6585, 4
_UNAVAILABLE: Final = 503
_GATEWAY_STATUSES: Final = frozenset({502, _UNAVAILABLE, 504})

DECLINING_STATUSES: Final = _GATEWAY_STATUSES | {_TOO_MANY_REQUESTS}
"""Statuses of a gateway or a busy server that declines a request."""

TEMPORARY_STATUSES: Final = DECLINING_STATUSES | {500}
"""Statuses after which another attempt may succeed."""

# To be safe, a method must be repeatable in all its spans of revisions.
_REPEATABLE: Final = frozenset(spec.name for spec in METHODS) - frozenset(
    spec.name for spec in METHODS if not spec.repeatable
)


class DeclinedError(HTTPError):
    """The HTTP error of a response with a JSON-RPC error."""

    rpc_error: RPCError


def declined_error(error: RPCError) -> DeclinedError | None:
    """Return the HTTP error of a declined request; ``None``: the error is final."""
    cause = error.__cause__
    if error.status not in DECLINING_STATUSES or not isinstance(cause, HTTPError):
        return None
    http_error = DeclinedError(
        str(cause.args[0]),
        status=cause.status,
        headers=cause.headers,
        target=cause.target,
    )
    http_error.rpc_error = error
    return http_error


def may_repeat(method: str, *, sent: bool, idempotent: bool | None = None) -> bool:
    """Return whether a request without a response may be sent again.

    `sent`: part of the request may have reached the server. `idempotent`: the statement
    of the caller or of a tool's hints about the request; ``None``: the method decides.
    """
    is_idempotent = method in _REPEATABLE if idempotent is None else idempotent
    return is_idempotent or not sent


def tool_allows_repeat(tool: Tool | None) -> bool:
    """Return whether a tool's hints declare that a repeated call has no further effect.

    2026-07-28 schema, ToolAnnotations: without such hints each call may have an effect.
    """
    hints = tool.annotations if tool is not None else None
    return hints is not None and (
        hints.read_only_hint is True or hints.idempotent_hint is True
    )


def retry_delay(
    error: MCPError,
    method: str,
    *,
    idempotent: bool | None,
    attempt: int,
    recovery: Recovery,
    chance: float,
    now_wall: float,
) -> float | None:
    """Return the delay in seconds before a request is sent again; ``None``: never.

    `attempt` is the number of the failed attempt, from 1. The `Retry-After` of the
    server is not limited: the deadline of the call decides. `now_wall` is a Unix time.
    """
    if attempt >= recovery.attempts:
        return None
    delay = 0.0
    if isinstance(error, ConnectError):
        may_retry = error.reason != "tls"  # a TLS error would occur again
    elif isinstance(error, ConnectionClosed):
        may_retry = may_repeat(method, sent=error.sent, idempotent=idempotent)
        if attempt == 1 and not error.sent:
            # An idle connection had ended, which is normal.
            return delay
    elif isinstance(error, HTTPError):
        # Imported here, as only HTTP needs the module.
        from mcpwire.wire.headers import parse_retry_after

        retry_after = error.headers.get("retry-after", "")
        delay = parse_retry_after(retry_after, now_wall) or 0.0
        # Any `Retry-After`, even a malformed one, means that the server declined the
        # request; a 503 without it may also be an error after its processing.
        may_retry = error.status == _TOO_MANY_REQUESTS or (
            error.status in _GATEWAY_STATUSES
            and may_repeat(
                method,
                sent=error.status != _UNAVAILABLE or not retry_after.strip(),
                idempotent=idempotent,
            )
        )
    elif isinstance(error, AuthError) and error.retry_after is not None:
        delay, may_retry = error.retry_after, True
    else:
        may_retry = False
    return delay + full_jitter(recovery, attempt, chance) if may_retry else None


# Connections


class RestartBackoff:
    """Decides when a lost connection is opened again.

    A connection counts as stable after a response to a call, or if it was open for
    `stable_s`: the handshake alone does not reset the failures of a child process that
    crashes at its first call. `backoff` takes the consecutive failures and a chance.
    """

    def __init__(
        self,
        attempts: int | None,
        stable_s: float,
        backoff: Callable[[int, float], float],
    ) -> None:
        self._attempts = attempts
        self._stable_s = stable_s
        self._backoff = backoff
        self.reset()

    @classmethod
    def of(cls, recovery: Recovery) -> Self:
        """Return the restarts of a client; its first attempt has no delay."""

        def backoff(failures: int, chance: float) -> float:
            return full_jitter(recovery, failures, chance) if failures else 0.0

        return cls(recovery.attempts, recovery.backoff_max, backoff)

    def reset(self) -> None:
        """Reset the failures, because the user requested a connection."""
        self._failures = 0
        self._ended_at = 0.0
        self._opened_at: float | None = None

    def record_open(self, now: float) -> None:
        """Record that a connection is open."""
        self._opened_at = now

    def record_loss(self, now: float, *, answered: bool = False) -> None:
        """Record a lost connection; `answered`: whether it had a response to a call."""
        opened_at = self._opened_at
        if opened_at is not None:
            self.record_failure(now)
            if answered or now - opened_at >= self._stable_s:
                self._failures = 0

    def record_failure(self, now: float) -> None:
        """Record a failed attempt."""
        self._failures += 1
        self._opened_at = None
        self._ended_at = now

    def delay(self, now: float, chance: float) -> float | None:
        """Return the seconds until the next attempt; ``None``: no more attempts."""
        if self._attempts is not None and self._failures >= self._attempts:
            return None
        due = self._ended_at + self._backoff(self._failures, chance)
        return max(0.0, due - now)


# Streams

STABLE_S: Final = 30.0
"""Seconds after which an open stream counts as stable, even without messages."""

WINDOW_S: Final = 60.0
OPENINGS_PER_WINDOW: Final = 8


class StreamBackoff:
    """Decides when a stream is opened again: a GET stream or a `subscriptions/listen`.

    After a stable stream, or a stream with a message, the delay is short; otherwise it
    grows, with at most eight attempts per minute. A stream that never opened is given
    up after `Recovery.attempts`.
    """

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        self._failures = 0
        self._has_opened = self._is_refused = self._has_message = False
        self._opened_at: float | None = None
        self._ended_at: float | None = None
        # The times of the last failed openings.
        self._recent_failures: deque[float] = deque(maxlen=OPENINGS_PER_WINDOW)

    def record_open(self, now: float) -> None:
        """Record that the stream is open."""
        self._opened_at = now
        self._has_opened = True
        self._has_message = False

    def record_message(self) -> None:
        """Record a message on the stream."""
        self._has_message = True

    def record_end(self, now: float) -> None:
        """Record that the stream ended or could not be opened."""
        opened_at, self._opened_at = self._opened_at, None
        self._ended_at = now
        if opened_at is not None and (self._has_message or now - opened_at >= STABLE_S):
            self._failures = 0
            self._recent_failures.clear()
        else:
            self._failures += 1
            self._recent_failures.append(now if opened_at is None else opened_at)

    def record_refusal(self) -> None:
        """Record that the server has no such stream: do not open it again.

        2025-11-25 basic/transports, "Listening for Messages from the Server": 405 means
        that; a retry does not change any other 4xx either.
        """
        self._is_refused = True

    def delay(
        self,
        now: float,
        chance: float,
        retry_ms: int | None = None,
        retry_after: float | None = None,
    ) -> float | None:
        """Return the seconds until the next opening; ``None``: never."""
        is_given_up = not self._has_opened and self._failures >= self._recovery.attempts
        if self._is_refused or is_given_up:
            return None
        if self._ended_at is None:
            return 0.0
        minimum = max(min_retry_delay(retry_ms), retry_after or 0.0)
        jitter = full_jitter(self._recovery, max(self._failures, 1), chance)
        maximum = max(minimum, self._recovery.backoff_max)
        due = self._ended_at + min(minimum + jitter, maximum)
        if len(self._recent_failures) == OPENINGS_PER_WINDOW:
            due = max(due, self._recent_failures[0] + WINDOW_S)
        return max(0.0, due - now)


_MAX_SEEN_IDS: Final = 1_024
_EVENT_ID: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]+")
_MAX_EVENT_ID_BYTES: Final = 4 * 1024  # many servers refuse heads above 8 KiB


def can_resume_from(event_id: str) -> bool:
    """Return whether an event id can be sent in `Last-Event-ID`.

    Non-ASCII characters are sent as UTF-8 (HTML standard, 9.2.3). Surrounding spaces
    are not part of a header value.
    """
    return (
        _EVENT_ID.fullmatch(event_id) is not None
        and event_id.strip(" ") != ""
        and len(event_id.encode()) <= _MAX_EVENT_ID_BYTES
    )


class Resumption:
    """The position in one stream, and the delays of its resumption.

    In the session era a stream may span several HTTP responses: the server may end a
    response after each event with an id, and the client resumes with a GET that has the
    last id. The delay grows after each GET without an event; `Recovery.attempts`
    consecutive failures end the stream.
    """

    def __init__(self, recovery: Recovery) -> None:
        self.cursor = ""
        self.retry_ms: int | None = None
        self._recovery = recovery
        self._seen: dict[int, None] = {}
        self._last_id = ""
        self._has_events = False
        self._empty_responses = self._failures = 0
        self._ended_at = self._retry_after = 0.0

    def add_event(self, event_id: str) -> bool:
        """Record the id of an event; return whether the event is new.

        An event without its own id has the id of the event before it (HTML standard):
        the same id twice in a row in one HTTP response means two events. An id among
        the last 1,024 before it is a replay. An event with an empty id is new.
        """
        if not event_id:
            self._has_events = True
            return True
        if event_id == self._last_id:
            return True
        self._last_id = event_id
        key = hash(event_id)  # an id may be long
        if key in self._seen:
            return False
        if len(self._seen) == _MAX_SEEN_IDS:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = None
        self._has_events = True
        if can_resume_from(event_id):
            self.cursor = event_id
        return True

    def record_end(
        self, now: float, *, failed: bool = False, retry_after: float | None = None
    ) -> None:
        """Record the end of an HTTP response with a part of the stream."""
        if self._has_events:
            self._empty_responses = self._failures = 0
        else:
            self._empty_responses += 1
            self._failures = self._failures + 1 if failed else 0
        self._ended_at = now
        self._retry_after = retry_after or 0.0
        self._has_events = False
        self._last_id = ""  # ids are inherited within one response only

    def delay(self, now: float, chance: float) -> float | None:
        """Return the seconds until the next GET; ``None``: give up."""
        recovery = self._recovery
        is_given_up = self._failures >= recovery.attempts
        if is_given_up or not self.cursor or not recovery.resume:
            return None
        delay = max(min_retry_delay(self.retry_ms), self._retry_after)
        if self._empty_responses:
            delay += full_jitter(recovery, self._empty_responses, chance)
        return max(0.0, self._ended_at + delay - now)
