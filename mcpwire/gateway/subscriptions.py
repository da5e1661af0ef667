"""Subscriptions and log levels of clients, relayed to the servers.

All subscribers of a resource share one subscription at its server, which is renewed
after each loss of the connection (`client.subscriptions`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import MCPError, RPCError
from mcpwire.gateway.tasks import WatchedTasks
from mcpwire.protocol.methods import TASKS, declared_extensions
from mcpwire.server.notifications import Subscriptions
from mcpwire.server.request import check_level, member_of
from mcpwire.server.resources import check_subscription
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.gateway.upstream import Upstream
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.request import RequestContext, Session

    ServerSubscriptions = list[tuple[Upstream, str, str]]
    """Subscribed resources: the server, the URI there, and the URI for the client."""

logger = logging.getLogger("mcpwire")

RESOURCES_FIELD: Final = "resourceSubscriptions"


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
    subscribing = upstream.upstreams.subscribing
    subscribing[session, public] = upstream
    try:
        await upstream.subscribe(raw, public)
    except BaseException as error:
        if isinstance(error, RPCError) and public not in session.subscribed:
            return  # unsubscribed meanwhile
        session.subscribed -= {public}
        raise
    finally:
        del subscribing[session, public]


async def unsubscribe(
    params: dict[str, Any], request: RequestContext, upstreams: Upstreams
) -> dict[str, Any]:
    """Handle ``resources/unsubscribe`` of a session; a repeated call has no effect.

    The resource may not be listed any more, or by another server.
    """
    session, public = request.session, member_of(params, "uri", str)
    assert session is not None  # as above
    if public in session.subscribed:
        session.subscribed -= {public}
        if found := _find_subscription(public, upstreams, session):
            await found[0].unsubscribe(found[1], public)
    return {}


def _find_subscription(
    public: str, upstreams: Upstreams, session: Session | None = None
) -> tuple[Upstream, str] | None:
    """Return the server with a subscription under a client's URI, and the URI there."""
    for upstream in upstreams.members.values():
        pending = sum(  # of other sessions, which the server may still refuse
            other is not session and uri == public and at is upstream
            for (other, uri), at in upstreams.subscribing.items()
        )
        for raw, names in upstream.subscriptions.items():
            if names[public] > pending:
                return upstream, raw
    return None


async def listen(
    params: dict[str, Any], request: RequestContext, upstreams: Upstreams
) -> dict[str, Any]:
    """Handle ``subscriptions/listen``; return when the limit of subscriptions ends it.

    The acknowledgement omits what a server refuses (2026-07-28
    basic/patterns/subscriptions).
    """
    # The limit is for all sets, and is checked before any request to a server.
    with upstreams.gateway.listens.open_subscription(request.info.owner) as ended:
        return await _listen(ended, params, request, upstreams)


async def _listen(
    ended: asyncio.Event,
    params: dict[str, Any],
    request: RequestContext,
    upstreams: Upstreams,
) -> dict[str, Any]:
    raw_filter = params.get("notifications")
    fields = raw_filter if type(raw_filter) is dict else {}
    server_subscriptions: ServerSubscriptions = []
    upstreams.listening[id(server_subscriptions)] = server_subscriptions
    tasks = WatchedTasks()
    try:
        uris = _parse_texts(fields.get(RESOURCES_FIELD))
        await asyncio.gather(
            *(
                _subscribe_at_server(uri, upstreams, server_subscriptions)
                for uri in uris
            )
        )
        accepted = {name for _, _, name in server_subscriptions}
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
            subscriptions.tasks = tasks  # type: ignore[assignment] # it has the methods used here
            await tasks.add(_parse_texts(ids), request, upstreams)
        return await subscriptions.listen_until(ended, params, request)
    finally:
        del upstreams.listening[id(server_subscriptions)]
        # In tasks of their own: a cancelled caller cannot await them.
        for server, uri, name in server_subscriptions:
            is_here = name in server.subscriptions.get(uri, ())  # else it was moved
            found = None if is_here else _find_subscription(name, upstreams)
            upstream, raw = found or (server, uri)
            upstream.spawn(upstream.unsubscribe(raw, name))
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


async def _subscribe_at_server(
    uri: str, upstreams: Upstreams, server_subscriptions: ServerSubscriptions
) -> None:
    """Subscribe to a resource at its server; on success, append it to the list."""
    for upstream, raw in await upstreams.catalog.owners_of_uri(uri):
        try:
            await upstream.subscribe(raw, uri)
        except MCPError as error:
            logger.debug("%r refused a subscription: %s", upstream.name, error)
        else:
            server_subscriptions.append((upstream, raw, uri))
            return


async def move_subscriptions(
    upstreams: Upstreams,
    removed: Iterable[Upstream],
    added: Iterable[Upstream],
    levels: Iterable[str],
) -> None:
    """Set log levels at new servers, and renew the subscriptions at removed ones."""
    for level in levels:
        await asyncio.gather(*(upstream.set_level(level) for upstream in added))
    lost: Counter[str] = Counter()
    for upstream in removed:
        for names in upstream.subscriptions.values():
            lost.update(names)
        upstream.subscriptions.clear()
    await asyncio.gather(
        *(_resubscribe(upstreams, uri, count) for uri, count in lost.items())
    )


async def _resubscribe(upstreams: Upstreams, uri: str, count: int) -> None:
    server_subscriptions: ServerSubscriptions = []
    for _ in range(count):  # one request; `Client` counts the subscriptions
        await _subscribe_at_server(uri, upstreams, server_subscriptions)
    if not server_subscriptions:
        for session in upstreams.hub.sessions():
            session.subscribed -= {uri}
        for listed in upstreams.listening.values():
            listed[:] = [each for each in listed if each[2] != uri]


def forget_session(upstreams: Upstreams, session: Session) -> None:
    """Cancel the subscriptions of an ended session at the servers of a shared set."""
    for upstream in upstreams.members.values():
        for raw, names in list(upstream.subscriptions.items()):
            for name in session.subscribed.intersection(names):
                if (session, name) not in upstreams.subscribing:  # else cancelled
                    upstream.spawn(upstream.unsubscribe(raw, name))


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
