"""Dispatch of the server's notifications and requests to handlers and streams.

Notifications go to the client's callback and to every open event stream; each has its
own bounded buffer and cannot block the reader or another consumer. Each request runs
its handler in a task of its own.
"""

from __future__ import annotations

import logging
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from mcpwire.errors import InvalidMessage, MethodNotFound, RPCError
from mcpwire.protocol.subscriptions import decode_notification
from mcpwire.transports.handlers import Delivery, InboundTasks, invoke

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from mcpwire.errors import TransportError
    from mcpwire.limits import Limits
    from mcpwire.protocol.client_features import ClientFeatures, ServerRequest
    from mcpwire.protocol.peer import PeerStats
    from mcpwire.protocol.subscriptions import Notification
    from mcpwire.transports.base import CallHandle, ReplyFn
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

logger = logging.getLogger("mcpwire")


class Observer(Protocol):
    """Receiver of all notifications; its methods must not block or raise."""

    def notification_received(
        self, method: str, params: dict[str, Any] | None, size: int
    ) -> None:
        """Receive a notification and its size on the wire in bytes."""

    def connection_changed(self) -> None:
        """Check the connection: it is lost, open again, or closed."""


async def run_handler(request: ServerRequest) -> dict[str, Any]:
    """Run the handler; return its validated result."""
    value = invoke(request.handler, request.params)
    if hasattr(value, "__await__"):
        value = await value
    return request.finish(value)


class ClientInbound:
    """Receiver of server-initiated messages (`transports.base.Inbound`).

    `notification_hooks` are called first with each notification, to invalidate cached
    data; `missed_hooks` when notifications may have been lost. A lost connection is
    reopened for `listeners`, but not for `observers`.
    """

    def __init__(
        self,
        features: ClientFeatures,
        on_notification: Callable[[Notification], Any] | None,
        on_lost: Callable[[TransportError], None],
        is_subscribed: Callable[[str], bool],
        limits: Limits,
    ) -> None:
        self.features = features
        self._on_notification = on_notification
        self._on_lost = on_lost
        self._tasks = InboundTasks(
            limit=limits.inbound, backlog=limits.notifications, room=limits.message
        )
        self._delivery: Delivery | None = None
        if on_notification is not None:
            from mcpwire.protocol.subscriptions import EventBuffer

            buffer = EventBuffer(
                limits.notifications, is_subscribed, max_bytes=limits.message
            )
            self._delivery = Delivery(self._call_callback, buffer)
        self.notification_hooks: list[
            Callable[[str, dict[str, Any] | None], object]
        ] = []
        self.missed_hooks: list[Callable[[], object]] = []
        self.listeners: weakref.WeakSet[Observer] = weakref.WeakSet()
        self.observers: list[Observer] = []
        self.revision: Revision | None = None
        self.stats: PeerStats | None = None

    @property
    def dropped(self) -> int:
        """The number of notifications dropped because the callback was too slow."""
        return self._delivery.dropped if self._delivery is not None else 0

    def _size(self) -> int:
        """Return the size on the wire, in bytes, of the message being dispatched."""
        return self.stats.line_bytes if self.stats is not None else 0

    # Notifications

    def notification(
        self, method: str, params: dict[str, Any] | None, call: CallHandle | None
    ) -> None:
        """Dispatch a notification to all listeners, observers and the callback."""
        # 2025-11-25 client/elicitation, "Completion Notifications": a client MUST
        # ignore a notification for an unknown or completed elicitation.
        is_completion = method == "notifications/elicitation/complete"
        if is_completion and not self.features.complete_elicitation(params):
            return
        for hook in self.notification_hooks:
            hook(method, params)
        size = self._size()
        for observer in (*self.listeners, *self.observers):
            observer.notification_received(method, params, size)
        if self._delivery is not None:
            self._delivery.put(method, params, size)

    def decode(self, method: str, params: dict[str, Any] | None) -> Notification | None:
        """Return the typed notification; ``None`` if it is invalid."""
        try:
            return decode_notification(method, params)
        except InvalidMessage as error:
            if self.stats is not None:
                self.stats.invalid += 1
            logger.warning("dropped a notification: %s", error)
            return None

    def _call_callback(
        self, method: str, params: dict[str, Any] | None, _: int = 0
    ) -> Any:
        assert self._on_notification is not None
        notification = self.decode(method, params)
        return None if notification is None else self._on_notification(notification)

    def missed(self) -> None:
        """Invalidate cached data, as notifications may have been lost."""
        for hook in self.missed_hooks:
            hook()

    # Requests

    def request(
        self,
        id: RequestId,
        method: str,
        params: dict[str, Any] | None,
        reply: ReplyFn,
        call: CallHandle | None,
    ) -> None:
        """Answer a server request, at once or with its handler's result."""
        # 2025-11-25 basic/utilities/ping: the receiver MUST respond promptly.
        if method == "ping":
            reply({})
            return
        # Before the agreement a server may send no other request (2025-11-25
        # basic/lifecycle, "Initialization").
        if self.revision is None:
            reply(MethodNotFound(f"{method!r} came before the handshake was done"))
            return
        try:
            request = self.features.prepare(method, params, self.revision)
        except RPCError as error:
            reply(error)
            return
        self._tasks.start(id, partial(run_handler, request), reply, self._size())

    def cancelled(self, id: RequestId) -> None:
        """Cancel the handler of a request that the server cancelled."""
        self._tasks.cancel(id)

    # Loss and closing

    def wake(self) -> None:
        """Notify all listeners and observers of a changed connection state."""
        for observer in (*self.listeners, *self.observers):
            observer.connection_changed()

    def lost(self, error: TransportError) -> None:
        """Cancel the handlers and report the loss of the connection."""
        self._tasks.close()
        self._on_lost(error)
        self.wake()

    def close(self) -> list[asyncio.Task[None]]:
        """Cancel callbacks and handlers; return the tasks that have yet to end."""
        tasks = self._tasks.close()
        delivery = self._delivery.close() if self._delivery is not None else None
        return tasks if delivery is None else [*tasks, delivery]
