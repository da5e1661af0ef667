"""When something is tried again, and after how long a wait.

Four subjects, all pure; times are seconds of one monotonic clock, and `chance`, from 0
to below 1, is drawn by the caller:

- a request that failed (`may_repeat`, `after_failure`): side effects happen at most
  once. It goes out again where the server provably did not take it up (no connection,
  nothing of it sent, 429, 503 with a time to come back); otherwise only if repeating it
  does no more than sending it once;
- a lost connection (`Restarts`), a stream that ended (`StreamBackoff`), an answer's
  stream that broke off (`Resumption`): the first attempt comes soon, later ones ever
  more slowly;
- a redirect (`redirect_target`): none is followed unless asked for, and never off the
  origin, as it would send credentials and body to another server;
- `Retry-After` (`wire.headers`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mcpwire.errors import ConnectError, ConnectionClosed, HTTPError
from mcpwire.protocol.http_headers import can_resume_from
from mcpwire.protocol.methods import METHODS
from mcpwire.wire.headers import parse_retry_after
from mcpwire.wire.urls import Url, mask_url, resolve_url, same_origin

if TYPE_CHECKING:
    from mcpwire.errors import MCPError, RPCError
    from mcpwire.limits import Recovery
    from mcpwire.types.tools import Tool

__all__ = [
    "DECLINING_STATUSES",
    "MAX_REDIRECTS",
    "PASSING_STATUSES",
    "DeclinedError",
    "Restarts",
    "Resumption",
    "StreamBackoff",
    "after_failure",
    "declined",
    "full_jitter",
    "may_repeat",
    "redirect_refusal",
    "redirect_target",
    "retry_floor",
    "tool_allows_repeat",
]

RETRY_MIN_S: Final = 0.1
RETRY_MAX_S: Final = 60.0

STABLE_S: Final = 30.0
"""A stream that was open for so long has lived, even if it brought nothing."""

WINDOW_S: Final = 60.0
OPENINGS_PER_WINDOW: Final = 8

# 2.0 ** 1024 is an OverflowError; by then any first delay is over the longest one.
_MOST_DOUBLINGS: Final = 100


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


_REMEMBERED: Final = 1_024
_ID_LENGTH_MAX: Final = 128  # of longer ones a digest is remembered


class Resumption:
    """The place that one stream has got to, and when to ask for the rest of it.

    A resumed message that dies without a new id is asked for again by the same id. A
    message that brought an event counts for nothing, however often the server hangs up.
    One that brought none makes the next wait longer: without end if it was closed in
    good order (the deadline of the call ends that); if it did not come about, or broke
    off, `Recovery.attempts` of them in a row are the end. Times are seconds of one
    clock that does not go back.

    Attributes:
        cursor: The newest id that can travel in `Last-Event-ID`; ``""``: none so far.
        retry_ms: The reconnection time that the stream named last, if any.
    """

    __slots__ = (
        "_ended_at",
        "_failures",
        "_has_brought",
        "_in_vain",
        "_last",
        "_recovery",
        "_retry_after",
        "_taken",
        "cursor",
        "retry_ms",
    )

    def __init__(self, recovery: Recovery) -> None:
        self.cursor = ""
        self.retry_ms: int | None = None
        self._recovery = recovery
        self._taken: dict[str | bytes, None] = {}
        self._last = ""
        self._has_brought = False
        self._in_vain = 0
        self._failures = 0
        self._ended_at = 0.0
        self._retry_after = 0.0

    def take(self, event_id: str) -> bool:
        """Take note of an event's id; tell whether the event is new.

        An event that has no id of its own has that of the one before it, as the HTML
        standard counts: the same id twice in a row in one message is two events. An id
        that came before is a replay, as far back as the last 1,024 ids. An empty id
        says nothing: neither is its event a replay, nor is the place lost.
        """
        if not event_id:
            self._has_brought = True
            return True
        if event_id == self._last:
            return True
        self._last = event_id
        key = _key(event_id)
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

        `failed`: it did not come about, or broke off; `retry_after` is when the server
        wants to be asked again, where it said so.
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
        """Return the seconds to wait before the next GET, or ``None``: give up.

        The server's `retry:` (0.1 s to 60 s of it) and `Retry-After` are not gone
        below. `chance` is that of `full_jitter`. What has passed since the end counts.
        """
        recovery = self._recovery
        if not self.cursor or not recovery.resume:
            return None
        if self._failures >= recovery.attempts:
            return None
        wait = max(retry_floor(self.retry_ms), self._retry_after)
        if self._in_vain:
            wait += full_jitter(recovery, self._in_vain, chance)
        return max(0.0, self._ended_at + wait - now)


def _key(event_id: str) -> str | bytes:
    """Return what is remembered of an id: not more of it than is needed."""
    if len(event_id) <= _ID_LENGTH_MAX:
        return event_id
    from hashlib import blake2b

    return blake2b(event_id.encode("utf-8", "surrogatepass")).digest()


# A method is repeatable in each span of revisions or, to be safe, not at all.
_REPEATABLE: Final = frozenset(spec.name for spec in METHODS) - frozenset(
    spec.name for spec in METHODS if not spec.repeatable
)


class Restarts:
    """Counts openings in vain and says how long to wait before the next.

    Whether a connection of this kind is opened again at all (`Recovery.restart`,
    `Recovery.reinitialize`) is for the caller to ask. Times are seconds of one clock
    that does not go back.
    """

    __slots__ = ("_ended_at", "_in_vain", "_lived", "_opened_at", "_recovery")

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        self.reset()

    def reset(self) -> None:
        """Forget everything: somebody asked to connect."""
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
        if self._lived or now - self._opened_at >= self._recovery.backoff_max:
            self._in_vain = 0
        else:
            self._in_vain += 1
        self._close(now)

    def failed(self, now: float) -> None:
        """Note that none came about."""
        self._in_vain += 1
        self._close(now)

    def _close(self, now: float) -> None:
        self._opened_at = None
        self._ended_at = now

    def delay(self, now: float, chance: float) -> float | None:
        """Return the seconds to wait from now, or ``None``: out of attempts.

        `chance`, from 0 to below 1, picks the delay: anything up to a bound that
        doubles with each opening in vain (full jitter), so that many clients of one
        server do not come back together. What has passed since the end counts.
        """
        if self._in_vain >= self._recovery.attempts:
            return None
        if not self._in_vain:
            return 0.0
        doublings = min(self._in_vain - 1, _MOST_DOUBLINGS)
        bound = self._recovery.backoff_initial * 2.0**doublings
        due = self._ended_at + chance * min(bound, self._recovery.backoff_max)
        return max(0.0, due - now)


def may_repeat(
    method: str, error: ConnectionClosed, *, idempotent: bool | None = None
) -> bool:
    """Tell whether a request that its connection took along may be sent once more.

    `idempotent` is what the caller, or a tool's own hints, say of this very request;
    ``None`` leaves it to the method.
    """
    if not error.sent:
        return True
    if idempotent is not None:
        return idempotent
    return method in _REPEATABLE


def tool_allows_repeat(tool: Tool | None) -> bool:
    """Tell whether a tool promises that calling it again does no more.

    2026-07-28 schema, ToolAnnotations: a tool may change something, and anew with each
    call, unless it says otherwise; so only what it says counts.
    """
    hints = tool.annotations if tool is not None else None
    return hints is not None and (
        hints.read_only_hint is True or hints.idempotent_hint is True
    )


_HOPELESS: Final = frozenset({"tls"})
"""Reasons of a `ConnectError` that another attempt will meet again."""

_NOT_TAKEN_UP: Final = 429  # RFC 6585, 4: too many requests
_UNAVAILABLE: Final = 503
_GATEWAYS: Final = frozenset({502, _UNAVAILABLE, 504})

DECLINING_STATUSES: Final = _GATEWAYS | {_NOT_TAKEN_UP}
"""With what a gateway, or a server that is busy, turns a request away."""

PASSING_STATUSES: Final = DECLINING_STATUSES | {500}
"""What says nothing of the next attempt; any other error is the server's last word."""

# What a gateway's error leaves open is what a lost connection leaves open.
_MAY_HAVE_RUN: Final = ConnectionClosed("a gateway answered in its place", sent=True)


class DeclinedError(HTTPError):
    """The HTTP error that a JSON-RPC error came with, which says how to go on."""

    said: RPCError


def declined(error: RPCError) -> DeclinedError | None:
    """Return how a request was turned away whose answer holds a JSON-RPC error.

    ``None``: the server has answered it, whatever it said.
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
    """Return the seconds to wait before the same request is sent again, or ``None``.

    `attempt` is the number of the one that failed, from 1; with `Recovery.attempts` of
    them it is enough. `idempotent` is what the caller, or a tool's own hints, say of
    this request. `chance` is that of `full_jitter`; the server's `Retry-After` comes
    before it, and is up to the deadline of the call. `now_wall` is a Unix time.
    """
    if attempt >= recovery.attempts:
        return None
    wait = _least_wait(error, method, idempotent=idempotent, now_wall=now_wall)
    if wait is None:
        return None
    if attempt == 1 and isinstance(error, ConnectionClosed) and not error.sent:
        # It was an idle connection that had ended: nothing says the server is busy.
        return wait
    return wait + full_jitter(recovery, attempt, chance)


def _least_wait(
    error: MCPError, method: str, *, idempotent: bool | None, now_wall: float
) -> float | None:
    """Return what the server asks to wait, or ``None``: the request is not repeated."""
    if isinstance(error, ConnectError):
        return None if error.reason in _HOPELESS else 0.0
    if isinstance(error, ConnectionClosed):
        return 0.0 if may_repeat(method, error, idempotent=idempotent) else None
    if not isinstance(error, HTTPError):
        return None
    asked = error.headers.get("retry-after", "")
    # A time to come back, even one that cannot be read, is a server that declines; a
    # bare 503 may be anybody's, after anything.
    declined = error.status == _NOT_TAKEN_UP or (
        error.status == _UNAVAILABLE and asked.strip() != ""
    )
    may_go_again = declined or (
        error.status in _GATEWAYS
        and may_repeat(method, _MAY_HAVE_RUN, idempotent=idempotent)
    )
    return (parse_retry_after(asked, now_wall) or 0.0) if may_go_again else None


MAX_REDIRECTS: Final = 5
"""How many redirects one request follows at most; who sends it counts them."""

_KEEP_THE_REQUEST: Final = frozenset({307, 308})  # RFC 9110, 15.4.8 and 15.4.9


def redirect_target(
    url: Url, status: int, location: str | None, *, allowed: bool
) -> Url | None:
    """Return where a redirect leads from a URL, or ``None``: it is not followed.

    `location` is the field as it came, ``None`` where there was none; `allowed` is
    whether the user asked to follow redirects.
    """
    judged = _judge(url, status, location, allowed=allowed)
    return judged if isinstance(judged, Url) else None


def redirect_refusal(
    url: Url, status: int, location: str | None, *, allowed: bool
) -> str | None:
    """Return why a redirect is not followed, as a clause, or ``None``: it is.

    It names the place without its secrets.
    """
    judged = _judge(url, status, location, allowed=allowed)
    if isinstance(judged, Url):
        return None
    if location is None:
        return f"the redirect is not followed: {judged}"
    return f"the redirect to '{mask_url(location)}' is not followed: {judged}"


def _judge(url: Url, status: int, location: str | None, *, allowed: bool) -> Url | str:
    if location is None:
        return "it has no Location"
    try:
        there = resolve_url(url, location)
    except ValueError:
        return "that is no URL to go to"
    rules = (
        (
            (url.scheme, there.scheme) != ("https", "http"),
            "it leads from https to http",
        ),
        (same_origin(url, there), "it leads to another origin"),
        (status in _KEEP_THE_REQUEST, f"HTTP {status} does not keep method and body"),
        (allowed, "follow_redirects is off"),
    )
    return next((reason for is_kept, reason in rules if not is_kept), there)
