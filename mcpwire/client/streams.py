"""Asynchronous iterators over the notifications of a server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcpwire.client.subscriptions import ALL_LISTS
from mcpwire.errors import LocalProtocolError, MCPError, RPCError
from mcpwire.limits import check_timeout
from mcpwire.protocol.subscriptions import RESOURCE_UPDATED, EventBuffer, Filter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Self

    from mcpwire.client.connection import Connection
    from mcpwire.client.subscriptions import Subscriptions
    from mcpwire.protocol.subscriptions import Notification
    from mcpwire.types import ReadResourceResult


class EventStream:
    """An iterator over the server notifications that belong to no call.

    Beyond `Limits.notifications`, unread progress and log messages are dropped, the
    oldest first, and counted in `dropped`. Changes of a list or a resource are never
    dropped: while one such notification is unread, further ones for the same list or
    resource are merged with it.

    The stream ends when the client is closed. A lost connection is opened again (as
    `Recovery` allows), and the stream continues.

    Notifications that need a subscription (list changes, since 2026-07-28) are received
    after the stream is entered, or after its first iteration.
    """

    def __init__(self, connection: Connection, subscriptions: Subscriptions) -> None:
        self._connection = connection
        self._subscriptions = subscriptions
        limits = connection.settings.limits
        self._buffer = EventBuffer(
            limits.notifications, subscriptions.is_subscribed, max_bytes=limits.message
        )
        self._signal = asyncio.Event()
        self._subscribing = asyncio.Lock()  # several tasks may iterate
        self._subscribed: Filter | None = None
        self._is_closed = False
        self._has_started = connection.is_entered
        connection.inbound.listeners.add(self)
        connection.open_server_stream()

    @property
    def dropped(self) -> int:
        """The number of notifications dropped because they were not read in time."""
        return self._buffer.dropped

    # Events of the connection (`client.inbound.Observer`)

    def notification_received(
        self, method: str, params: dict[str, Any] | None, size: int
    ) -> None:
        """Add a notification to the buffer."""
        if self._buffer.put(method, params, size):
            self._signal.set()

    def connection_changed(self) -> None:
        """Look at the connection: it is lost, open again, or closed."""
        if self._connection.is_entered:
            self._has_started = True
        elif self._has_started:
            self._is_closed = True
            self._subscribed = None  # the connection removed the subscription
        self._signal.set()

    # Iteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notification:
        notification = await self._next(None)
        if notification is None:
            raise StopAsyncIteration
        return notification

    async def next(self, timeout: float | None = None) -> Notification | None:
        """Return the next notification; wait for it at most `timeout` seconds.

        Returns ``None`` after the timeout or at the end of the stream; `is_closed`
        distinguishes them. The first call may also send a subscription request, which
        has a timeout of its own.

        Raises:
            ValueError: The timeout is zero, negative or NaN.
            MCPError: The connection is lost and cannot be opened again.
        """
        seconds = check_timeout(timeout)
        now = self._connection.time()
        return await self._next(None if seconds is None else now + seconds)

    @property
    def is_closed(self) -> bool:
        """Whether the stream has ended and its buffer is empty."""
        return self._is_closed and not self._buffer

    async def _next(self, until: float | None) -> Notification | None:
        connection = self._connection
        await self._subscribe_once()
        while not self._is_closed or self._buffer:
            # Clear before reading the buffer, so that a later `put` sets the event.
            self._signal.clear()
            while self._buffer:
                notification = connection.inbound.decode(*self._buffer.pop())
                if notification is not None:
                    if self._buffer:  # for other iterating tasks
                        self._signal.set()
                    return notification
            if self._has_ended():
                break
            if until is not None and connection.time() >= until:
                return None
            try:
                await connection.wait_or_reopen(self._signal, until)
            except MCPError:
                if not self._buffer:  # else return earlier notifications first
                    raise
        await self.aclose()
        return None

    def _has_ended(self) -> bool:
        return self._is_closed or not self._connection.is_entered

    async def _subscribe_once(self) -> None:
        """Subscribe to the notifications at the server, once."""
        async with self._subscribing:
            if self._subscribed is None and not self._is_closed:
                self._subscribed = await self._subscribe()
        if self._is_closed and self._subscribed is not None:  # closed while subscribing
            await self.aclose()

    async def _subscribe(self) -> Filter:
        try:
            await self._subscriptions.add(ALL_LISTS, {})
        except RPCError:
            # Other notifications are received without a subscription.
            self._subscriptions.counts.add(ALL_LISTS)
        return ALL_LISTS

    async def aclose(self) -> None:
        """End the stream; unsubscribe if it was the last consumer. Never raises."""
        self._is_closed = True
        self._connection.inbound.listeners.discard(self)
        subscribed, self._subscribed = self._subscribed, None
        self._buffer.clear()
        self._signal.set()
        if subscribed is not None:
            try:
                await self._subscriptions.remove(subscribed, {})
            except MCPError:
                return  # the server may continue; its notifications are ignored

    def __del__(self) -> None:
        # Not closed: the next change of subscriptions unsubscribes at the server.
        subscribed = getattr(self, "_subscribed", None)
        if subscribed is not None:
            self._subscriptions.discard(subscribed)

    async def __aenter__(self) -> Self:
        await self._subscribe_once()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Subscription(EventStream):
    """An iterator over selected notifications of changed lists and resources.

    Entering it subscribes; then `acknowledged` holds the part that the server accepted.
    It also ends when the server ends the subscription.
    """

    def __init__(
        self,
        connection: Connection,
        subscriptions: Subscriptions,
        selected: Filter,
        options: Mapping[str, Any],
        *,
        renews: bool = False,
    ) -> None:
        super().__init__(connection, subscriptions)
        self._filter = selected
        self._options = options
        self._renews = renews
        self._serial = 0
        self._acknowledged: Filter | None = None

    @property
    def acknowledged(self) -> Filter | None:
        """The accepted part of the subscription; ``None`` until acknowledged."""
        return self._acknowledged

    @property
    def refused(self) -> Filter:
        """The part of the subscription that the server did not accept."""
        return self._filter.minus(self._acknowledged or Filter())

    def notification_received(
        self, method: str, params: dict[str, Any] | None, size: int
    ) -> None:
        """Add a notification to the buffer if the filter matches."""
        if self._filter.matches(method, params):
            super().notification_received(method, params, size)

    def connection_changed(self) -> None:
        """Look at the connection: it is lost, open again, or closed."""
        serial = self._connection.serial
        if self._renews and self._subscribed is not None and serial != self._serial:
            self._serial = serial
            for uri in self._filter.uris:
                super().notification_received(RESOURCE_UPDATED, {"uri": uri}, 0)
        super().connection_changed()

    def _has_ended(self) -> bool:
        return super()._has_ended() or self._subscriptions.is_ended()

    async def _subscribe(self) -> Filter:
        self._acknowledged = await self._subscriptions.add(self._filter, self._options)
        self._serial = self._connection.serial
        return self._filter


class ResourceWatch:
    """An iterator over the contents of a resource: now, and after each change.

    The resource is also read again after a reconnect, as notifications of changes may
    have been lost.
    """

    def __init__(
        self, changes: Subscription, read: Callable[[], Awaitable[ReadResourceResult]]
    ) -> None:
        self._changes = changes
        self._read = read
        self._is_read = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReadResourceResult:
        changes = self._changes
        await changes.__aenter__()
        if changes.refused and not changes.is_closed:
            await changes.aclose()
            raise LocalProtocolError(
                "the server sends no notifications of changes of "
                f"{changes.refused.as_params()}"
            )
        if self._is_read or changes.is_closed:
            await changes.__anext__()
        self._is_read = True
        try:
            return await self._read()
        except RPCError:  # the answer to the read
            raise
        except BaseException:
            self._is_read = False  # the next call reads what this one has not
            raise

    async def aclose(self) -> None:
        """Stop watching. Never raises."""
        await self._changes.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
