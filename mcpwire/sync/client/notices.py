# Made by `python tests/sync/generate.py --write`: change the source instead,
# mcpwire/client/notices.py
"""What a client hears of its server, and tells it beside requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.methods import LEVELS
from mcpwire.sync._shell.shared import Filter
from mcpwire.sync.client.base import ClientBase
from mcpwire.types import UNSET, decode
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from mcpwire.sync._made.streams import (
        EventStream,
        ResourceWatch,
        Subscription,
    )
    from mcpwire.sync.client.base import CallOptions
    from mcpwire.types import LoggingLevel, ReadResourceResult
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["NoticeVerbs"]


class NoticeVerbs(ClientBase):
    """Notifications, subscriptions, log level and roots, the same in both eras."""

    # Hearing...

    def events(self) -> EventStream:
        """Iterate over every notification that belongs to no call.

        Each stream has a buffer of its own, bounded by `Limits.notifications`: see
        `EventStream` for what may be dropped. It hears from now on, and ends with
        `close`, its own or the client's.
        """
        from mcpwire.sync._made.streams import EventStream

        return EventStream(self._connection, self._subscriptions)

    def listen(
        self,
        uris: Iterable[str] = (),
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        task_ids: Iterable[str] = (),
        **options: Unpack[CallOptions],
    ) -> Subscription:
        """Subscribe to chosen notifications for as long as they are iterated over.

        ::

            with client.listen(["file:///a"], tools=True) as changes:
                print(changes.acknowledged)
                for notification in changes: ...

        Args:
            uris: Resources whose updates to hear of.
            tools: Whether to hear that the list of tools changed.
            prompts: Whether to hear that the list of prompts changed.
            resources: Whether to hear that the list of resources changed.
            task_ids: Tasks to hear of (with the tasks extension).
            options: As every request takes; they are those of the subscribing.

        Entering it, or the first step of iterating, raises what any request raises.
        """
        from mcpwire.sync._made.streams import Subscription

        wanted = Filter(
            tools=tools,
            prompts=prompts,
            resources=resources,
            uris=frozenset(uris),
            task_ids=frozenset(task_ids),
        )
        return Subscription(self._connection, self._subscriptions, wanted, options)

    def watch(self, uri: str, **options: Unpack[CallOptions]) -> ResourceWatch:
        """Iterate over what a resource holds: now, and again after each change.

        ::

            with client.watch("file:///a") as contents:
                for content in contents: ...

        Changes that come while one is being read are one with the next. A connection
        that was lost is opened again, and the resource read again.
        """
        from mcpwire.sync._made.streams import ResourceWatch, Subscription

        changes = Subscription(
            self._connection,
            self._subscriptions,
            Filter(uris=frozenset((uri,))),
            options,
            renews=True,
        )

        def read() -> ReadResourceResult:
            from mcpwire.types import ReadResourceResult

            # What changes after this reading shall be heard, also in a new session.
            deadline = self._requests.deadline(options.get("timeout", UNSET))
            self._subscriptions.heard(deadline)
            raw = self._requests.request("resources/read", {"uri": uri}, options)
            return decode(ReadResourceResult, raw)

        return ResourceWatch(changes, read)

    def subscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """Have the server tell when a resource changes, until `unsubscribe`.

        The notifications come to `on_notification` and `events()`. Subscribing twice
        needs unsubscribing twice. A new connection after a loss is told of it again.

        Raises:
            LocalProtocolError: The server does not offer that, or not for this one.
        """
        wanted = Filter(uris=frozenset((uri,)))
        told = self._subscriptions.add(wanted, options)
        if not told:
            self._subscriptions.remove(wanted, options)
            offers = self._connection.profile.offers("resources.subscribe")
            raise LocalProtocolError(
                f"the server acknowledged no subscription to {uri!r}"
                if offers
                else "the server did not declare 'resources.subscribe', "
                "which subscribing needs"
            )

    @property
    def subscribed(self) -> frozenset[str]:
        """The resources of which somebody here wants to hear that they changed."""
        return self._subscriptions.interests.current.uris

    def unsubscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """Take one `subscribe` back.

        Raises:
            LocalProtocolError: There was none.
        """
        self._subscriptions.remove(Filter(uris=frozenset((uri,))), options)

    # Telling...

    def set_log_level(
        self, level: LoggingLevel, **options: Unpack[CallOptions]
    ) -> None:
        """Have the server send its log messages from a level on.

        In a session that is a request; at 2026-07-28 each later request carries the
        level. A new connection after a loss is told of it again.

        Args:
            level: ``debug``, ``info``, ``notice``, ``warning``, ``error``,
                ``critical``, ``alert`` or ``emergency``.
            options: As every request takes.

        Raises:
            LocalProtocolError: It is none of these, or the server does not log.
        """
        if level not in LEVELS:
            raise LocalProtocolError(
                f"a log level is one of {', '.join(LEVELS)}, got {level!r}"
            )
        connection = self._connection
        if connection.profile.era is not Era.STATELESS:
            self._requests.request("logging/setLevel", {"level": level}, options)
            connection.log_level = level
            return
        if not connection.profile.offers("logging"):
            raise LocalProtocolError("the server did not declare 'logging'")
        connection.set_log_level(level)

    def cancel(self, request_id: RequestId | None, reason: str | None = None) -> None:
        """End one of our calls by its id on the wire, and tell the server.

        Whoever waits for it gets `CallCancelled`. Nothing is waited for, and nothing is
        sent where no call of that id is under way, nor for ``None``: an id that is not
        known is not made up. (2025-11-25 basic/utilities/cancellation; at 2026-07-28
        over HTTP the call's stream is closed, which says the same.)

        Args:
            request_id: Such as `PendingCall.request_id`.
            reason: For the server's log.
        """
        channel = self._connection.channel
        if channel is not None and request_id is not None:
            channel.cancel_id(request_id, reason or "cancelled")

    def notify_roots_changed(self) -> None:
        """Tell the server that the roots changed; does nothing from 2026-07-28 on.

        A list given as `roots` is read anew whenever a server asks, so change that list
        and call this.

        Raises:
            LocalProtocolError: The client was made without roots.
            TransportError: The connection is gone.
        """
        if not self._has_roots:
            raise LocalProtocolError("this client was made without roots")
        channel = self._connection.channel
        if channel is None:
            raise self._connection.not_connected()
        # 2025-11-25 client/roots, "Root List Changes"; 2026-07-28 has no such message:
        # a server asks anew each time it needs to know.
        if self._connection.profile.era is not Era.STATELESS:
            channel.notify("notifications/roots/list_changed")
