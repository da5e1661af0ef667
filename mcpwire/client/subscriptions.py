"""Synchronization of the subscriptions at a server with the client's consumers.

All consumers share one subscription. A session subscribes to each resource separately
and receives list changes without a subscription; at 2026-07-28 one
`subscriptions/listen` covers everything, and a change opens a new one before it closes
the old one. A reconnect restores all subscriptions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from mcpwire.errors import (
    ConnectionClosed,
    LocalProtocolError,
    MCPError,
    RequestTimeout,
    RPCError,
    TransportError,
)
from mcpwire.protocol.methods import ACKNOWLEDGED, LISTEN
from mcpwire.protocol.subscriptions import Filter, SubscriptionCounts
from mcpwire.transports.base import BackgroundHandle, CallHandle, UnattendedHandle
from mcpwire.types import UNSET
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from mcpwire.client.connection import Connection
    from mcpwire.client.requests import Options, Requests
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.negotiation import Profile
    from mcpwire.transports.targets import OpenChannel

logger = logging.getLogger("mcpwire")

ALL_LISTS = Filter(tools=True, prompts=True, resources=True)


class ListenRequest:
    """One `subscriptions/listen` request and its state."""

    def __init__(
        self, connection: Connection, channel: OpenChannel, requested: Filter
    ) -> None:
        self._connection = connection
        self._channel = channel
        self.handle = CallHandle()
        self._changed = asyncio.Event()
        self.requested = requested
        self.acknowledged: Filter | None = None
        self.outcome: dict[str, Any] | Exception | None = None

    @property
    def is_open(self) -> bool:
        """Whether the subscription is open."""
        return self.outcome is None and self._channel.lost is None

    def open(self, meta: Mapping[str, Any] | None) -> None:
        """Send the request, without waiting for its acknowledgement."""
        call = self._channel.call(
            LISTEN,
            {"notifications": self.requested.as_params(), "_meta": dict(meta or {})},
            deadline=None,
            handle=self.handle,
            on_notification=self._on_notification,
        )
        self._connection.spawn(call, LISTEN).add_done_callback(self._on_end)

    def _on_notification(self, method: str, params: dict[str, Any] | None) -> None:
        if method != ACKNOWLEDGED:
            self._connection.inbound.notification(method, params, None)
        elif self.acknowledged is None:
            self.acknowledged = Filter.of((params or {}).get("notifications"))
            refused = self.requested.minus(self.acknowledged)
            if refused:
                logger.info("the server does not send %s", refused.as_params())
            self._changed.set()

    def _on_end(self, task: asyncio.Task[dict[str, Any]]) -> None:
        if not task.cancelled():
            error = task.exception()  # headers' function may raise any
            self.outcome = error if isinstance(error, Exception) else task.result()
        elif self._channel.lost is not None:  # closed, perhaps before the call began
            self.outcome = ConnectionClosed("closed by this side", sent=True)
        else:
            return
        self._changed.set()
        if isinstance(self.outcome, RPCError):
            logger.info("the server refused the subscription: %s", self.outcome)
        self._connection.inbound.wake()
        self.report_end()

    def report_end(self) -> None:
        """Report that the server has ended it, unless the connection is lost."""
        if self._channel.lost is None:
            self._connection.subscriptions.on_listen_end(self)

    async def wait_acknowledged(self, deadline: Deadline | None) -> Filter:
        """Wait for the acknowledgement and return it."""
        connection = self._connection
        is_sent = False  # true after the first wait, which lets the call's task run
        while self.acknowledged is None:
            if isinstance(self.outcome, Exception):
                raise self.outcome
            if self.outcome is not None:
                return Filter()
            if self._channel.lost is not None:
                raise connection.not_connected_error()
            left = connection.remaining(deadline)
            if left == 0.0 and is_sent:
                assert deadline is not None
                detail = "it was not acknowledged"
                raise deadline.error(LISTEN, connection.time(), detail)
            await connection.wait(self._changed, left)
            is_sent = True
        return self.acknowledged

    def cancel(self) -> None:
        """Cancel the request, also at the server."""
        if self.is_open:
            self._channel.cancel(self.handle, "the subscription was closed")


class Subscriptions:
    """The subscriptions of one client."""

    def __init__(self, connection: Connection, requests: Requests) -> None:
        self._connection = connection
        self._requests = requests
        self._lock = asyncio.Lock()
        self._subscribed: set[str] = set()
        self._listen_request: ListenRequest | None = None
        # A notification callback and a cache both need list changes.
        callback, cache = connection.settings.on_notification, requests.cache
        self._always = Filter() if callback is None and cache is None else ALL_LISTS
        self.counts = SubscriptionCounts()
        self.on_end: Callable[[], None] | None = None  # the server ended it
        connection.subscriptions = self

    def listen_to_lists(self) -> None:
        """Subscribe to list changes on each connection."""
        self._always = ALL_LISTS

    def is_subscribed(self, uri: str) -> bool:
        """Return whether updates of that resource must not be dropped."""
        return uri in self.counts.current.uris

    def has_consumers(self) -> bool:
        """Return whether any consumer waits for notifications."""
        return bool(self.counts.current.uris or self._connection.inbound.listeners)

    def has_receivers(self) -> bool:
        """Return whether a consumer, a callback or a cache uses notifications."""
        return bool(self._always) or self.has_consumers()

    def _requested_filter(self, profile: Profile) -> Filter:
        """Return the filter to subscribe to, limited to the server's capabilities."""
        assert profile.agreement is not None
        requested = self.counts.current | self._always
        return requested.restricted(profile.agreement.capabilities)

    def discard(self, selected: Filter) -> None:
        """Remove a filter here; the next change removes it at the server."""
        with contextlib.suppress(ValueError):  # already removed by `clear`
            self.counts.remove(selected)

    def clear(self) -> None:
        """Remove all subscriptions after the client was closed."""
        self.counts = SubscriptionCounts()
        self._lock = asyncio.Lock()  # the old one may belong to a closed loop
        self._subscribed.clear()
        self._listen_request = None

    def is_ended(self) -> bool:
        """Return whether the server ended the subscription; raise its error if any."""
        outcome = (
            self._listen_request.outcome if self._listen_request is not None else None
        )
        # A lost connection is reopened with its subscription, so that is no end. Over
        # HTTP the subscription's stream alone may fail on an open connection.
        if isinstance(outcome, Exception) and (
            self._connection.is_open or not isinstance(outcome, TransportError)
        ):
            raise outcome.with_traceback(None)
        return isinstance(outcome, dict)

    @property
    def needs_renewal(self) -> bool:
        """Whether the server has ended the subscription, without an error."""
        request = self._listen_request
        is_refused = request is not None and isinstance(request.outcome, RPCError)
        return request is not None and not request.is_open and not is_refused

    def on_listen_end(self, request: ListenRequest) -> None:
        """Report the end of the subscription to `on_end`."""
        if (
            request is self._listen_request
            and self.needs_renewal
            and self.on_end is not None
        ):
            self.on_end()

    async def listen_again(self) -> bool:
        """Open a subscription that the server has ended again; return whether so."""
        options = self._requests.options({})
        async with self._lock_changes(options.deadline):
            if not self.needs_renewal:
                return False
            await self._listen(options.deadline, UnattendedHandle())
            return True

    # Changes

    async def add(self, selected: Filter, given: Mapping[str, Any]) -> Filter:
        """Add a filter to the subscription; return the part that the server accepts."""
        options, connection = self._requests.options(given), self._connection
        deadline = options.deadline
        await connection.reconnect(LISTEN, deadline)
        await self.wait_for_stream(deadline)
        self.counts.add(selected)
        try:
            connection.open_server_stream()
            async with self._lock_changes(deadline):
                await connection.reconnect(LISTEN, deadline)
                return await self._apply(selected, options)
        except BaseException:
            self.discard(selected)
            raise

    async def wait_for_stream(self, deadline: Deadline | None) -> None:
        """Wait until the GET stream of a session is open, or known to be unavailable.

        A server may discard notifications before that stream is open. The wait never
        fails: it is limited to a second per session and to half of the call's remaining
        time.
        """
        connection = self._connection
        channel = connection.channel
        if channel is None or channel.lost is not None:
            return
        channel.open_server_stream(needed=True)
        is_known = asyncio.Event()
        seconds = channel.watch_server_stream(is_known.set)
        left = connection.remaining(deadline)
        if left is not None:
            seconds = min(seconds, left / 2)
        if seconds > 0.0:
            await connection.wait(is_known, seconds)

    async def remove(self, selected: Filter, given: Mapping[str, Any]) -> None:
        """Remove a filter; unsubscribe if no other consumer needs it."""
        try:
            self.counts.remove(selected)
        except ValueError as error:
            raise LocalProtocolError(str(error)) from None
        if not self._connection.is_open:
            return
        options = self._requests.options(given)
        async with self._lock_changes(options.deadline):
            await self._apply(Filter(), options)

    @contextlib.asynccontextmanager
    async def _lock_changes(self, deadline: Deadline | None) -> AsyncIterator[None]:
        """Yield while holding the lock on changes, acquired within the deadline."""
        connection, lock = self._connection, self._lock
        try:
            async with asyncio.timeout(connection.remaining(deadline)):
                await lock.acquire()
        except TimeoutError:
            assert deadline is not None
            detail = "it waited for other subscriptions"
            raise deadline.error(LISTEN, connection.time(), detail) from None
        try:
            if not connection.is_entered:  # closed while waiting
                raise connection.not_connected_error()
            yield
        finally:
            lock.release()

    async def _apply(self, selected: Filter, options: Options) -> Filter:
        """Apply `counts` at the server; return the accepted part of `selected`.

        A connection lost during this is not handled here: `restore` restores everything
        on the next one.
        """
        profile = self._connection.profile
        assert profile.agreement is not None
        supported = selected.restricted(profile.agreement.capabilities)
        if profile.era is not Era.STATELESS:
            await self._apply_in_session(selected.uris, options)
            return supported
        accepted = await self._listen(options.deadline)
        return supported.minus(supported.minus(accepted))

    async def _apply_in_session(
        self, own_uris: frozenset[str], options: Options
    ) -> None:
        profile = self._connection.profile
        if "resources/subscribe" in profile.disabled:
            return
        uris = self.counts.current.uris
        for uri in sorted(uris - self._subscribed):
            try:
                await self._requests.perform(
                    "resources/subscribe", {"uri": uri}, options
                )
            except RPCError as error:
                if uri in own_uris:
                    raise
                # The error was, or will be, reported to that resource's subscriber.
                logger.debug("resources/subscribe %r failed: %s", uri, error)
            else:
                self._subscribed.add(uri)
        for uri in sorted(self._subscribed - uris):
            self._subscribed.discard(uri)
            await self._requests.perform("resources/unsubscribe", {"uri": uri}, options)

    async def _listen(self, deadline: Deadline | None, handle: Any = None) -> Filter:
        connection = self._connection
        profile, channel = connection.profile, connection.channel
        requested = self._requested_filter(profile)
        old = self._listen_request
        if (
            old is not None
            and old.is_open
            and old.requested == requested
            # One in the background may wait for a login that it must not start.
            and (old.acknowledged is not None or not old.handle.is_background)
        ):
            return await old.wait_acknowledged(deadline)
        new = None
        accepted = Filter()
        if requested and channel is not None:
            new = ListenRequest(connection, channel, requested)
            new.handle = handle or new.handle
            try:
                new.open(profile.meta)
                accepted = await new.wait_acknowledged(deadline)
            except BaseException:
                new.cancel()
                raise
        self._listen_request = new
        if old is not None:
            old.cancel()
        if new is not None and not new.is_open:  # it ended with its acknowledgement
            new.report_end()
        return accepted

    # Reconnect

    async def restore(self, channel: OpenChannel, profile: Profile) -> None:
        """Restore log level and subscriptions on a new connection.

        2026-07-28 basic/patterns/subscriptions: a server does not keep subscriptions
        over a reconnect. Refusals are logged and do not fail the connection.
        """
        self._subscribed.clear()
        self._listen_request = None
        requested = self._requested_filter(profile)
        if profile.era is Era.STATELESS:
            if requested:
                request = ListenRequest(self._connection, channel, requested)
                if not self.has_consumers():
                    request.handle = BackgroundHandle()
                self._listen_request = request
                request.open(profile.meta)
            return
        level = self._connection.log_level
        if level is not None and "logging/setLevel" not in profile.disabled:
            await self._restore_one(channel, "logging/setLevel", {"level": level})
        if requested.uris:  # opened concurrently, as a waiting call may need the stream
            channel.open_server_stream(needed=True)
        for uri in sorted(requested.uris):
            if await self._restore_one(channel, "resources/subscribe", {"uri": uri}):
                self._subscribed.add(uri)

    async def _restore_one(
        self, channel: OpenChannel, method: str, params: dict[str, Any]
    ) -> bool:
        deadline = self._requests.deadline(UNSET)
        try:
            await channel.call(method, params, deadline=deadline)
        except (TransportError, RequestTimeout):
            raise
        except MCPError as error:
            logger.warning("after a restart %s %r failed: %s", method, params, error)
            return False
        return True
