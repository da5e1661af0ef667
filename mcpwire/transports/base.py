"""The interface of transports: a `Channel`, which reports what comes to an `Inbound`.

A channel is one connection (stdio), or one session or origin (HTTP). Once lost it is
never revived; its owner opens another.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.errors import RPCError, TransportError
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

    NotifyFn = Callable[[str, dict[str, Any] | None], None]
    """Takes a call's own notifications: method and params. Must not block or raise."""

    ReplyFn = Callable[[dict[str, Any] | RPCError], None]
    """Takes the answer to a request of the peer's; after the first it does nothing."""

__all__ = [
    "CallHandle",
    "Channel",
    "Inbound",
    "let_go_after_fork",
    "misuse",
    "runs_here",
]


class CallHandle:
    """Follows one call from outside it.

    Attributes:
        request_id: The id on the wire, set before the first byte leaves. It changes
            when a call takes more than one request (input-required rounds, re-issue).
        on_cancel: What is to be done where the call is cancelled between two requests,
            beside waiting no longer.
    """

    __slots__ = ("on_cancel", "request_id")

    def __init__(self) -> None:
        self.request_id: RequestId | None = None
        self.on_cancel: Callable[[], None] | None = None


class Channel(Protocol):
    """One connection that performs calls."""

    revision: Revision | None
    """The agreed revision; ``None`` until the handshake has decided."""

    async def call(
        self,
        method: str,
        params: dict[str, Any] | None,
        *,
        deadline: Deadline | None,
        handle: CallHandle | None = None,
        on_notification: NotifyFn | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Perform a request and return the raw result object.

        With `on_notification` the request asks for progress. Cancelling the task tells
        the peer and returns at once.

        Raises:
            RPCError: The peer answered with an error.
            RequestTimeout: The deadline passed; the peer was told.
            TransportError: The connection is gone, or went while the call ran.
            RemoteProtocolError: The answer breaks the rules.
            LocalProtocolError: The request may not be sent; nothing was.
        """

    async def notify(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification.

        Raises:
            TransportError: The connection is gone.
            LocalProtocolError: The notification may not be sent; nothing was.
        """

    async def aclose(self) -> None:
        """Close the connection and everything it holds; bounded in time."""


class Inbound(Protocol):
    """Takes what the peer starts. Nothing here awaits or raises."""

    def notification(
        self, method: str, params: dict[str, Any] | None, call: CallHandle | None
    ) -> None:
        """A notification came; `call` where it belongs to one."""

    def request(
        self,
        id: RequestId,
        method: str,
        params: dict[str, Any] | None,
        reply: ReplyFn,
        call: CallHandle | None,
    ) -> None:
        """A request came; `reply` takes its answer, now or later."""

    def cancelled(self, id: RequestId) -> None:
        """The peer gave up that request; its answer will not be sent."""

    def lost(self, error: TransportError) -> None:
        """The connection is gone without our closing it."""

    def missed(self) -> None:
        """Notifications may have been lost while a stream was interrupted."""


# A forked process holds the same pipe ends and the same epoll instance. Writing to the
# one would corrupt the parent's session, changing the other would make the parent deaf,
# and what runs at its exit would kill the parent's servers. So in the forked process
# every connection lets go of its descriptors at once, and refuses calls.


class Forkable(Protocol):
    """Something that must not be used, or ended, by a forked process."""

    def forked(self) -> None:
        """Let go, in the forked process, without touching what is still shared."""


def runs_here(loop: asyncio.AbstractEventLoop | None = None) -> bool:
    """Tell whether this thread runs that loop; ``None``: any loop."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return loop is None or running is loop


def misuse(
    loop: asyncio.AbstractEventLoop, *, is_forked: bool
) -> LocalProtocolError | None:
    """Return the error for using a connection of another process or loop, if it is."""
    if is_forked:
        return LocalProtocolError(
            "this connection belongs to the process that this one was forked from; "
            "connect a client of your own"
        )
    if asyncio.get_running_loop() is not loop:
        return LocalProtocolError(
            "this connection belongs to another event loop; use it where it was opened"
        )
    return None


_held: WeakSet[Forkable] = WeakSet()


def let_go_after_fork(held: Forkable) -> None:
    """Have `held.forked()` called in every process forked off this one."""
    _held.add(held)


def _let_go() -> None:
    for held in list(_held):
        held.forked()
    _held.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_let_go)
