"""What a failed connecting means for its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mcpwire.errors import (
    ConnectError,
    HTTPError,
    MCPError,
    RequestTimeout,
    SessionExpired,
    TransportError,
)
from mcpwire.protocol.lifecycle import DISCOVER
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.protocol.peer import PeerStats
    from mcpwire.versions import Revision

__all__ = ["connect_error", "connect_failure"]


class _Opened(Protocol):
    """What is asked of a channel that did not get to its first call."""

    @property
    def target(self) -> str | None: ...

    @property
    def lost(self) -> TransportError | None: ...

    @property
    def stats(self) -> PeerStats: ...


def connect_failure(
    error: BaseException,
    channel: _Opened | None,
    *,
    method: str,
    timeout: float | None,
    elapsed: float,
    allowed: Iterable[Revision],
) -> MCPError | None:
    """Say what an error means for the caller; ``None``: just what it says."""
    advice = ""
    if method == DISCOVER and any(each.era is Era.SESSION for each in allowed):
        advice = 'mode="session" connects without this probe'
    if isinstance(error, HTTPError) and error.status >= 500 and advice:
        error.args = (f"{error.args[0]}; {advice}",)
    if isinstance(error, (ConnectError, HTTPError, SessionExpired)):
        return None
    if isinstance(error, TransportError):
        return connect_error(error, channel, advice)
    if isinstance(error, MCPError) or not isinstance(error, TimeoutError):
        return None
    if timeout is None:
        return None
    silent = connect_error(None, channel)
    return RequestTimeout(
        method=method,
        timeout=timeout,
        elapsed=elapsed,
        detail=str(silent)
        if silent.noise or silent.stderr_tail.strip()
        else advice or None,
    )


def connect_error(
    error: TransportError | None, channel: _Opened | None, advice: str = ""
) -> ConnectError:
    """Say that no connection came about, with all that the channel knows."""
    lost = channel.lost if channel is not None else None
    if isinstance(lost, ConnectError):
        return lost  # it never began, and says so better
    target = channel.target if channel is not None else None
    why = str(error.args[0]) if error is not None else "no answer to the handshake"
    # Errors of HTTP begin with it themselves.
    where = f"{target}: " if target and not why.startswith(target) else ""
    text = f"{where}{why} before the handshake was done" if error else f"{where}{why}"
    return ConnectError(
        f"{text}; {advice}" if advice else text,
        target=target,
        exit_code=getattr(channel, "exit_code", None),
        stderr_tail=getattr(channel, "stderr_tail", ""),
        noise=tuple(channel.stats.noise_lines) if channel is not None else (),
    )
