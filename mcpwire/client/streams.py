"""Asynchronous iterators over the notifications of a server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcpwire.client.subscriptions import EVERY_LIST
from mcpwire.errors import LocalProtocolError, MCPError, RPCError
from mcpwire.limits import check_timeout
from mcpwire.protocol.subscriptions import UPDATED, EventBuffer, Filter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType
    from typing import Self

    from mcpwire.client.connection import Connection
    from mcpwire.client.subscriptions import Subscriptions
    from mcpwire.protocol.subscriptions import Notification
    from mcpwire.types import ReadResourceResult

__all__ = ["EventStream", "ResourceWatch", "Subscription"]


class EventStream:
    """Every notification of the server that belongs to no call, as it comes.

    Beyond `Limits.notifications` progress and log messages that were not taken yet are
    dropped, the oldest first, and counted in `dropped`. That a list or a resource
    changed is never dropped: while one such notification waits, further ones about the
    same are one with it.

    It ends when the client is closed. A connection that was lost is opened again (as
    `Recovery` allows), and the stream goes on.

    What has to be asked for (from 2026-07-28 on: that a list changed) it hears from
    being entered, or from the first step of iterating.
    """

    def __init__(self, connection: Connection, subscriptions: Subscriptions) -> None:
        self._connection = connection
        self._subscriptions = subscriptions
        limits = connection.settings.limits
        self._buffer = EventBuffer(
            limits.notifications,
            subscriptions.is_kept,
            room=limits.message,
            size=connection.inbound.size,
        )
        self._signal = asyncio.Event()
        self._wanted: Filter | None = None
        self._is_closed = False
        self._has_begun = connection.is_wanted
        connection.inbound.listeners.add(self)
        connection.open_server_stream()

    @property
    def dropped(self) -> int:
        """Notifications lost because they were not taken in time."""
        return self._buffer.dropped

    # What the connection tells (`client.inbound.Observer`)...

    def heard(self, method: str, params: dict[str, Any] | None, size: int) -> None:
        """Hear a notification."""
        if self._buffer.put(method, params):
            self._signal.set()

    def changed(self) -> None:
        """Look at the connection: it is lost, open again, or closed."""
        if self._connection.is_wanted:
            self._has_begun = True
        elif self._has_begun:
            self._is_closed = True
            self._wanted = None  # forgotten with the connection, with all else
        self._signal.set()

    # What the consumer asks...

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notification:
        notification = await self._next(None)
        if notification is None:
            raise StopAsyncIteration
        return notification

    async def next(self, timeout: float | None = None) -> Notification | None:
        """Return the next notification, waiting so many seconds for it.

        Returns ``None`` when the time is over, or the stream: `is_closed` tells. What
        has to be asked for is asked for by the first step, which takes the time of a
        request for that.

        Raises:
            ValueError: The timeout is zero, negative or NaN.
            MCPError: The connection is lost and stays so.
        """
        seconds = check_timeout(timeout)
        now = self._connection.time()
        return await self._next(None if seconds is None else now + seconds)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more will come."""
        return self._is_closed and not self._buffer

    async def _next(self, until: float | None) -> Notification | None:
        connection = self._connection
        await self._begin()
        while not self._is_closed or self._buffer:
            # Before the look at the buffer: what is put in after it shall wake us.
            self._signal.clear()
            while self._buffer:
                notification = connection.inbound.typed(*self._buffer.pop())
                if notification is not None:
                    if self._buffer:  # for other iterating tasks
                        self._signal.set()
                    return notification
            if self._has_ended():
                break
            if until is not None and connection.time() >= until:
                return None
            try:
                await connection.attend(self._signal, until)
            except MCPError:
                if not self._buffer:  # else what came before is told before
                    raise
        await self.aclose()
        return None

    def _has_ended(self) -> bool:
        return self._is_closed or not self._connection.is_wanted

    async def _begin(self) -> None:
        """Ask the server for the notifications, once."""
        if self._wanted is None and not self._is_closed:
            self._wanted = await self._ask()
        if self._is_closed and self._wanted is not None:  # closed while it asked
            await self.aclose()

    async def _ask(self) -> Filter:
        try:
            await self._subscriptions.add(EVERY_LIST, {})
        except RPCError:
            # What comes without asking is worth hearing all the same.
            self._subscriptions.counts.add(EVERY_LIST)
        return EVERY_LIST

    async def aclose(self) -> None:
        """Hear no more; the server is told where nobody else listens. Never raises."""
        self._is_closed = True
        self._connection.inbound.listeners.discard(self)
        wanted, self._wanted = self._wanted, None
        self._buffer.clear()
        self._signal.set()
        if wanted is not None:
            try:
                await self._subscriptions.remove(wanted, {})
            except MCPError:
                return  # the server does not hear it, and tells what nobody hears

    def __del__(self) -> None:
        # Forgotten: the server learns of it with the next change of what is wanted.
        wanted = getattr(self, "_wanted", None)
        if wanted is not None:
            self._subscriptions.discard(wanted)

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class Subscription(EventStream):
    """Chosen notifications: that lists or certain resources changed.

    Entering it subscribes; from then on `acknowledged` says what of it the server will
    tell. It also ends where the server ends the subscription.
    """

    def __init__(
        self,
        connection: Connection,
        subscriptions: Subscriptions,
        wanted: Filter,
        options: Mapping[str, Any],
        *,
        renews: bool = False,
    ) -> None:
        super().__init__(connection, subscriptions)
        self._filter = wanted
        self._options = options
        self._renews = renews
        self._serial = 0
        self._acknowledged: Filter | None = None

    @property
    def acknowledged(self) -> Filter | None:
        """What the server will tell; ``None`` before it said so."""
        return self._acknowledged

    @property
    def refused(self) -> Filter:
        """What was asked for and the server will not tell."""
        return self._filter.minus(self._acknowledged or Filter())

    def heard(self, method: str, params: dict[str, Any] | None, size: int) -> None:
        """Hear a notification, if it is one of those."""
        if self._filter.matches(method, params):
            super().heard(method, params, size)

    def changed(self) -> None:
        """Look at the connection: it is lost, open again, or closed."""
        serial = self._connection.serial
        if self._renews and self._wanted is not None and serial != self._serial:
            self._serial = serial
            for uri in self._filter.uris:
                super().heard(UPDATED, {"uri": uri}, 0)
        super().changed()

    def _has_ended(self) -> bool:
        return super()._has_ended() or self._subscriptions.is_ended()

    async def _ask(self) -> Filter:
        self._acknowledged = await self._subscriptions.add(self._filter, self._options)
        self._serial = self._connection.serial
        return self._filter


class ResourceWatch:
    """What a resource holds: now, and again each time the server says it changed.

    After a connection was lost and opened again the resource is read again too, for
    what happened meanwhile was not told.
    """

    def __init__(
        self,
        changes: Subscription,
        read: Callable[[], Awaitable[ReadResourceResult]],
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
                f"the server tells of no change of {changes.refused.as_params()}"
            )
        if self._is_read or changes.is_closed:
            await changes.__anext__()
        self._is_read = True
        return await self._read()

    async def aclose(self) -> None:
        """Stop watching. Never raises."""
        await self._changes.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
