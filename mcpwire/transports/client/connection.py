"""Owns a client's connection: opens it, agrees on a revision, closes it, reopens it.

No task group and no cancel scope spans user code. `connect` is one inner task that any
number of callers await, cancelled when the last of them is; `aclose` is one inner task
that survives its callers. Both work from any task, in any order, twice::

    idle ──connect──► opening ──agreed──► open ──aclose──► closing ──► idle
      ▲                  └─failed / cancelled─┐   └─lost─┐
      └──────────────────────────────────────◄┴─────────◄┘   connect() works again
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import (
    ConnectError,
    ConnectionClosed,
    InvalidMessage,
    LocalProtocolError,
    MCPError,
    MethodNotFound,
    RequestTimeout,
    TransportError,
)
from mcpwire.protocol import lifecycle
from mcpwire.protocol.negotiation import Negotiation
from mcpwire.protocol.notifications import typed_notification
from mcpwire.protocol.profile import Profile
from mcpwire.transports.callbacks import Delivery
from mcpwire.transports.client.handshake import Handshake, connect_error
from mcpwire.transports.client.stats import ClientStats

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.limits import Limits
    from mcpwire.protocol.negotiation import Agreement
    from mcpwire.protocol.notifications import Notification
    from mcpwire.transports.base import CallHandle, ReplyFn
    from mcpwire.transports.targets import OpenChannel, Opener
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId


__all__ = ["Connection"]

logger = logging.getLogger("mcpwire")

TARGET_CHARACTERS: Final = 120
"""How much of a command line a repr shows."""

CALLBACK_END_S: Final = 2.0
"""How long a callback may take to end once it is cancelled."""


class Connection:
    """A client's one connection, over and over.

    Attributes:
        channel: Performs calls; ``None`` unless connected.
        profile: How requests are made, by the last agreement; empty before the first.
        negotiation: The record of the last handshake, also of one that failed.
        time: The clock that deadlines are made from: the loop's, in seconds.
        reset_on_progress: Whether progress starts a call's timeout again.
    """

    def __init__(
        self,
        opener: Opener,
        identity: lifecycle.Identity,
        *,
        allowed: tuple[Revision, ...],
        connect_timeout: float | None,
        probe_timeout: float,
        limits: Limits,
        reset_on_progress: bool = False,
        on_notification: Callable[[Notification], Any] | None = None,
        trace: Callable[[str, Any], Any] | None = None,
    ) -> None:
        self._trace = None
        if trace is not None:
            from mcpwire.transports.tracing import Trace

            self._trace = Trace(trace, limits)
            opener = self._trace.watching(opener)
        self._opener = opener
        self._identity = identity
        self._allowed = allowed
        self._connect_timeout = connect_timeout
        self._probe_timeout = probe_timeout
        self._limits = limits
        self.reset_on_progress = reset_on_progress
        self._closed_stats = ClientStats()
        self._notifications = (
            Delivery(on_notification, limit=limits.notifications)
            if on_notification is not None
            else None
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._waiters = 0
        self._taken = False  # whether anybody has been told of this connection
        self._current: OpenChannel | None = None
        self.channel: OpenChannel | None = None
        self.time: Callable[[], float] = monotonic
        self.negotiation: Negotiation | None = None
        self.profile = Profile()

    def __str__(self) -> str:
        """Return target, state and revision as one readable line."""
        if self._closing is not None:
            state = "closing"
        elif self._opening is not None:
            state = "connecting"
        elif self.channel is None:
            state = "not connected"
        elif self.channel.lost is not None:
            state = f"lost: {self.channel.lost.args[0]}"
        else:
            state = f"connected, {self.channel.revision}"
        target = self._opener.target
        if len(target) > TARGET_CHARACTERS:
            target = f"{target[:TARGET_CHARACTERS]}..."
        return f"{target!r} {state}"

    @property
    def stats(self) -> ClientStats:
        """What all connections have counted so far."""
        stats = attrs.evolve(self._closed_stats)
        if self._current is not None:
            stats.add(self._current)
        if self._notifications is not None:
            stats.dropped_notifications = self._notifications.dropped
        return stats

    def not_connected(self) -> MCPError:
        """Build the error for a call without a connection."""
        return LocalProtocolError(
            f"not connected to {self._opener.target}: "
            "use `async with client:` or `await client.connect()` first"
        )

    # Ownership...

    async def connect(self) -> None:
        """Open the connection, or wait for whoever is opening it.

        Raises:
            ConnectError: The server could not be reached or ended before it agreed.
            RequestTimeout: It did not agree in time.
            NegotiationError: There is no common revision.
            ConnectionClosed: It was closed while it was being opened.
        """
        loop = self._check_loop()
        # `wait` yields also where the task is done and only its callback is to come.
        while (ending := self._ending()) is not None:
            await asyncio.wait([ending])
        if self.channel is None or self.channel.lost is not None:
            if self._opening is None:
                self._loop = loop
                self.time = loop.time
                self._taken = False
                self._opening = loop.create_task(self._open(), name="mcpwire-connect")
                self._opening.add_done_callback(self._opened)
            await self._share(self._opening)
        self._taken = True

    def _ending(self) -> asyncio.Task[None] | None:
        """Return what must be over before anything can be opened."""
        if self._closing is not None:
            return self._closing
        opening = self._opening
        return opening if opening is not None and opening.cancelling() else None

    async def _share(self, opening: asyncio.Task[None]) -> None:
        self._waiters += 1
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if opening.cancelled() and task is not None and not task.cancelling():
                raise ConnectionClosed("closed while connecting", sent=False) from None
            if self._waiters == 1:
                await self._undo(opening)
            raise
        finally:
            self._waiters -= 1

    async def _undo(self, opening: asyncio.Task[None]) -> None:
        """End an opening for which nobody waits any more; done, it may be too late."""
        if not opening.done():
            opening.cancel()
            await asyncio.wait([opening])
        elif self.channel is not None and not self._taken:
            await self.aclose()

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # seen, even where every caller was cancelled

    async def aclose(self) -> None:
        """Close the connection; afterwards `connect` works again.

        Cancelling it leaves the closing under way; call it again to wait for its end.
        It may be called from a callback of this connection.
        """
        loop = self._check_loop()
        if self._closing is None:
            drain = self._notifications.close() if self._notifications else None
            if self._current is None and self._opening is None and drain is None:
                return
            self._closing = loop.create_task(self._close(drain), name="mcpwire-close")
            self._closing.add_done_callback(self._closed)
        await asyncio.shield(self._closing)

    def _closed(self, task: asyncio.Task[None]) -> None:
        self._closing = None
        if not task.cancelled():
            task.exception()

    async def _close(self, callback: asyncio.Task[None] | None) -> None:
        opening = self._opening
        if opening is not None:
            opening.cancel()
            await asyncio.wait([opening])
        channel, self._current, self.channel = self._current, None, None
        if channel is not None:
            await channel.aclose()
            self._closed_stats.add(channel)
            if self._trace is not None:
                self._trace("close", channel.target)
        if callback is not None:
            await asyncio.wait([callback], timeout=CALLBACK_END_S)
        self._loop = None

    def abandon(self) -> bool:
        """Let go at once, from anywhere; return whether there was something to let go.

        For finalisers: it kills what it must and waits for nothing.
        """
        channel, self._current, self.channel = self._current, None, None
        if channel is None:
            return False
        loop = self._loop
        if loop is not None and loop.is_running() and not _runs_here(loop):
            loop.call_soon_threadsafe(channel.abandon)
        else:
            channel.abandon()
        return True

    def _check_loop(self) -> asyncio.AbstractEventLoop:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise LocalProtocolError(
                "mcpwire.Client needs a running asyncio loop; "
                "under another library use mcpwire.sync"
            ) from None
        if self._loop is not None and self._loop is not loop:
            if not self._loop.is_closed():
                raise LocalProtocolError(
                    "this client belongs to another event loop; use it where it was "
                    "connected, or close it there first"
                )
            # The loop ended under it: what is left can only be let go.
            self.abandon()
            self._loop = self._opening = self._closing = None
        return loop

    # Opening...

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        old, self.channel = self._current, None
        if old is not None:
            await old.aclose()
            self._current = None
            self._closed_stats.add(old)
        started = loop.time()
        handshake = Handshake(self._opener, self, started)
        self.negotiation = Negotiation()
        steps = lifecycle.negotiate(
            self._identity,
            self._allowed,
            probe_timeout=self._probe_timeout,
            record=self.negotiation,
        )
        try:
            async with asyncio.timeout(self._connect_timeout):
                agreement = await handshake.drive(steps)
        except BaseException as error:
            failure = self._failure(error, handshake, loop.time() - started)
            await handshake.discard()
            if failure is None:
                raise
            raise failure from error
        channel = handshake.channel
        assert channel is not None
        self._settle(channel, agreement)

    def _failure(
        self, error: BaseException, handshake: Handshake, elapsed: float
    ) -> MCPError | None:
        """Say what an error means for who connects; ``None``: just what it says."""
        if isinstance(error, TransportError):
            if isinstance(error, ConnectError):
                return None
            return connect_error(error, handshake.channel)
        if isinstance(error, MCPError) or not isinstance(error, TimeoutError):
            return None
        if self._connect_timeout is None:
            return None
        silent = connect_error(None, handshake.channel)
        return RequestTimeout(
            method=handshake.last_method,
            timeout=self._connect_timeout,
            elapsed=elapsed,
            detail=str(silent) if silent.noise or silent.stderr_tail.strip() else None,
        )

    def _settle(self, channel: OpenChannel, agreement: Agreement) -> None:
        """Take over a connection that has agreed."""
        self._current = channel
        channel.reset_on_progress = self.reset_on_progress
        self.profile = Profile.of(agreement, self._identity)
        self.channel = channel
        noise = channel.stats.noise_lines
        if noise:
            logger.warning(
                "%s wrote %d line(s) to stdout that are no messages, first: %r",
                channel.target,
                channel.stats.noise,
                noise[0],
            )
        if self._trace is not None:
            self._trace("agree", self.negotiation)

    # What the server starts (`Inbound`)...

    def notification(
        self, method: str, params: dict[str, Any] | None, call: CallHandle | None
    ) -> None:
        """Hand a notification to the user's callback."""
        if self._notifications is None:
            return
        try:
            notification = typed_notification(method, params)
        except InvalidMessage as error:
            channel = self._current
            if channel is not None:
                channel.stats.invalid += 1
            logger.warning("dropped a notification: %s", error)
            return
        self._notifications.put(notification)

    def request(
        self,
        id: RequestId,
        method: str,
        params: dict[str, Any] | None,
        reply: ReplyFn,
        call: CallHandle | None,
    ) -> None:
        """Answer what the server asks."""
        # 2025-11-25 basic/utilities/ping: the receiver MUST respond promptly.
        if method == "ping":
            reply({})
        else:
            reply(MethodNotFound(f"this client does not answer {method!r}"))

    def cancelled(self, id: RequestId) -> None:
        """Nothing is under way: what this client answers, it answers at once."""

    def lost(self, error: TransportError) -> None:
        """The connection is gone; calls say so, and `connect` opens another."""
        logger.debug("connection lost: %s", error)
        if self._trace is not None:
            self._trace("lost", error)


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
