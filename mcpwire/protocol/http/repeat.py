"""Whether a request that failed is sent again, and after how long a wait.

Side effects happen at most once. A request goes out again where the server provably did
not take it up (no connection came about, none of it was sent, 429, 503 with a time to
come back); otherwise only if to repeat it does no more than to send it once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.errors import ConnectError, ConnectionClosed, HTTPError
from mcpwire.protocol.http.backoff import full_jitter, parse_retry_after
from mcpwire.protocol.recovery.restarts import may_repeat

if TYPE_CHECKING:
    from mcpwire.errors import MCPError, RPCError
    from mcpwire.limits import Recovery

__all__ = [
    "DECLINING_STATUSES",
    "PASSING_STATUSES",
    "DeclinedError",
    "after_failure",
    "declined",
]

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
