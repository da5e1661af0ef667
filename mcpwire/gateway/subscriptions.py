"""Subscriptions and log levels of clients, relayed to the servers.

All subscribers of a resource share one subscription at its server, which is renewed
after each loss of the connection (`client.subscriptions`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from mcpwire.errors import MCPError, RPCError
from mcpwire.gateway.tasks import WatchedTasks
from mcpwire.gateway.translation import convert_error
from mcpwire.protocol.methods import TASKS, declared_extensions
from mcpwire.server.notifications import Subscriptions
from mcpwire.server.request import check_level, member_of
from mcpwire.server.resources import check_subscription
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mcpwire.gateway.upstream import Upstream
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.request import RequestContext, Session

logger = logging.getLogger("mcpwire")


class ResourceSubscription:
    """A client's subscription to a resource, at the server that has the resource.

    The set holds it from the request to the server on until it ends.
    """

    is_pending = False
    """Whether a session waits for the server's response to its first request."""

    def __init__(
        self, upstreams: Upstreams, uri: str, session: Session | None = None
    ) -> None:
        self._upstreams = upstreams
        self.uri = uri  # for the client
        self.session = session  # None: of a `subscriptions/listen`
        # A session has one subscription to a resource.
        self._key: object = self if session is None else (session, uri)
        self._is_closed = False

    @property
    def is_recorded(self) -> bool:
        """Whether the set holds it."""
        return self._upstreams.subscriptions.get(self._key) is self

    def _discard(self) -> None:
        if self.is_recorded:
            del self._upstreams.subscriptions[self._key]

    async def open(self, upstream: Upstream, raw: str) -> None:
        """Subscribe at a server, where the resource has the URI `raw`."""
        self.upstream, self.raw = upstream, raw
        # Recorded first: an update may arrive before the response.
        self._upstreams.subscriptions[self._key] = self
        try:
            await upstream.client.subscribe(raw)
        except BaseException as error:
            self._discard()
            if not isinstance(error, MCPError):
                raise
            method = "resources/subscribe"
            raise convert_error(upstream.name, method, error) from error

    async def open_at_owner(self) -> bool:
        """Subscribe at the first server that accepts it; return whether one does."""
        for upstream, raw in await self._upstreams.catalog.owners_of_uri(self.uri):
            if self._is_closed:
                break
            try:
                await self.open(upstream, raw)
            except MCPError as error:
                logger.debug("%r refused a subscription: %s", upstream.name, error)
            else:
                return True
        return False

    async def move(self) -> None:
        """Subscribe anew after the server was removed; without success, end."""
        if not (await self.open_at_owner() or self._is_closed):
            self._discard()
            if self.session is not None:
                self.session.subscribed -= {self.uri}

    async def close(self) -> None:
        """End the subscription, also at its server; a repeated call has no effect."""
        self._is_closed = True
        if not self.is_recorded:
            return
        self._discard()
        try:
            await self.upstream.client.unsubscribe(self.raw)
        except MCPError as error:
            # Updates that the server still sends are ignored.
            logger.debug("%r: %s", self.upstream.name, error)


async def subscribe(
    upstream: Upstream, raw: str, public: str, request: RequestContext
) -> None:
    """Handle ``resources/subscribe`` of a session; a repeated call has no effect.

    `raw` is the URI at the server, `public` the URI for the client.
    """
    session = request.session
    assert session is not None  # a method of sessions only
    if public in session.subscribed:
        return
    check_subscription(len(session.subscribed) + 1, public)
    session.subscribed |= {public}
    subscription = ResourceSubscription(upstream.upstreams, public, session)
    subscription.is_pending = True
    try:
        await subscription.open(upstream, raw)
    except BaseException as error:
        if isinstance(error, RPCError) and public not in session.subscribed:
            return  # unsubscribed meanwhile
        session.subscribed -= {public}
        raise
    finally:
        subscription.is_pending = False


async def unsubscribe(
    params: dict[str, Any], request: RequestContext, upstreams: Upstreams
) -> dict[str, Any]:
    """Handle ``resources/unsubscribe`` of a session; a repeated call has no effect."""
    session, public = request.session, member_of(params, "uri", str)
    assert session is not None  # as above
    session.subscribed -= {public}
    if subscription := upstreams.subscriptions.get((session, public)):
        await subscription.close()
    return {}


async def listen(
    params: dict[str, Any], request: RequestContext, upstreams: Upstreams
) -> dict[str, Any]:
    """Handle ``subscriptions/listen``; return when the limit of subscriptions ends it.

    The acknowledgement omits what a server refuses (2026-07-28
    basic/patterns/subscriptions).
    """
    raw_filter = params.get("notifications")
    fields = raw_filter if type(raw_filter) is dict else {}
    resources: list[ResourceSubscription] = []
    tasks = WatchedTasks()
    # The limit is for all sets, and is checked before any request to a server.
    with upstreams.gateway.listens.open_subscription(request.info.owner) as ended:
        try:
            uris = _parse_texts(fields.get("resourceSubscriptions"))
            resources = [ResourceSubscription(upstreams, uri) for uri in uris]
            found = await asyncio.gather(*(each.open_at_owner() for each in resources))
            accepted = {
                uri for uri, is_open in zip(uris, found, strict=True) if is_open
            }
            subscriptions = Subscriptions(
                upstreams.hub,
                subscriptions=upstreams.gateway.listens,
                capabilities=lambda: upstreams.capabilities(request.revision),
                watchable_uris=lambda requested, _: [
                    uri for uri in requested if uri in accepted
                ],
            )
            ids = fields.get("taskIds")
            if ids and TASKS in declared_extensions(request.client_capabilities):
                subscriptions.tasks = tasks  # type: ignore[assignment] # has the methods
                await tasks.add(_parse_texts(ids), request, upstreams)
            return await subscriptions.listen_until(ended, params, request)
        finally:
            # In tasks of their own: a cancelled caller cannot await them.
            for resource in resources:
                if resource.is_recorded:
                    resource.upstream.spawn(resource.close())
            for upstream, name in tasks.names:
                upstream.spawn(tasks.remove(name))


def _parse_texts(value: Any) -> list[str]:
    """Return the texts of a filter, each once; an empty list if it is malformed."""
    if type(value) is not list or not all(type(text) is str for text in value):
        return []  # `Subscriptions` refuses the filter
    texts = list(dict.fromkeys(value))
    for text in texts:
        check_subscription(len(texts), text)
    return texts


async def move_subscriptions(
    upstreams: Upstreams,
    removed: Collection[Upstream],
    added: Collection[Upstream],
    levels: Iterable[str],
) -> None:
    """Set log levels at new servers, and renew the subscriptions at removed ones."""
    for level in levels:
        await asyncio.gather(*(upstream.set_level(level) for upstream in added))
    subscriptions = upstreams.subscriptions.values()
    moved = [each for each in subscriptions if each.upstream in removed]
    await asyncio.gather(*(each.move() for each in moved))


def forget_session(upstreams: Upstreams, session: Session) -> None:
    """Cancel the subscriptions of an ended session at the servers of a shared set."""
    for uri in session.subscribed:
        subscription = upstreams.subscriptions.get((session, uri))
        # The request of a pending one is cancelled.
        if subscription is not None and not subscription.is_pending:
            subscription.upstream.spawn(subscription.close())


async def set_level(
    params: dict[str, Any], request: RequestContext, upstreams: Upstreams
) -> dict[str, Any]:
    """Handle ``logging/setLevel`` of a session, for all its servers.

    A server's refusal is ignored: messages are filtered by level before they are
    relayed.
    """
    level = check_level(params.get("level"))
    assert request.session is not None  # a method of sessions only
    request.session.log_level = level
    members = upstreams.members.values()
    await asyncio.gather(*(upstream.set_level(level) for upstream in members))
    return {}


def notify_roots_changed(upstreams: Upstreams) -> None:
    """Notify all servers with a session that the client's roots changed."""
    for upstream in upstreams.members.values():
        revision = upstream.revision
        is_session = revision is not None and revision.era is Era.SESSION
        if is_session and upstream.client.is_connected:
            upstream.spawn(upstream.notify_roots_changed())
