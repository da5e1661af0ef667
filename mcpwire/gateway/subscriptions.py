"""Subscriptions and log levels of clients, relayed to the servers.

All subscribers of a resource share one subscription at its server, which is renewed
after each loss of the connection (`client.subscriptions`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import MCPError
from mcpwire.gateway.tasks import WatchedTasks
from mcpwire.protocol.methods import TASKS, declared_extensions
from mcpwire.server.notifications import Subscriptions
from mcpwire.server.request import check_level
from mcpwire.server.resources import check_watched
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.gateway.upstream import Upstream
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.request import RequestContext, Session

    Watched = list[tuple[Upstream, str, str]]
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
    check_watched(len(session.subscribed) + 1, public)
    session.subscribed |= {public}
    try:
        await upstream.watch(raw, public)
    except BaseException:
        session.subscribed -= {public}
        raise


async def unsubscribe(
    upstream: Upstream, raw: str, public: str, request: RequestContext
) -> None:
    """Handle ``resources/unsubscribe`` of a session; see `subscribe`."""
    session = request.session
    assert session is not None  # as above
    if public in session.subscribed:
        session.subscribed -= {public}
        await upstream.unwatch(raw, public)


async def listen(
    params: dict[str, Any], request: RequestContext, upstreams: Upstreams
) -> dict[str, Any]:
    """Handle ``subscriptions/listen``; return when the limit of subscriptions ends it.

    The acknowledgement omits what a server refuses (2026-07-28
    basic/patterns/subscriptions).
    """
    # The limit is for all sets, and is checked before any request to a server.
    with upstreams.gateway.listens.entered(request.info.owner) as ended:
        return await _listen(ended, params, request, upstreams)


async def _listen(
    ended: asyncio.Event,
    params: dict[str, Any],
    request: RequestContext,
    upstreams: Upstreams,
) -> dict[str, Any]:
    wanted = params.get("notifications")
    fields = wanted if type(wanted) is dict else {}
    watched: Watched = []
    tasks = WatchedTasks()
    try:
        uris = _texts(fields.get(RESOURCES_FIELD))
        await asyncio.gather(*(_watch(uri, upstreams, watched) for uri in uris))
        able = {name for _, _, name in watched}
        answering = Subscriptions(
            upstreams.hub,
            listens=upstreams.gateway.listens,
            capabilities=lambda: upstreams.capabilities(request.revision),
            watchable=lambda asked, _: [uri for uri in asked if uri in able],
        )
        ids = fields.get("taskIds")
        if ids and TASKS in declared_extensions(request.client_capabilities):
            answering.tasks = tasks  # type: ignore[assignment] # it has the methods used here
            await tasks.add(_texts(ids), request, upstreams)
        return await answering.listen_until(ended, params, request)
    finally:
        # In tasks of their own: a cancelled caller cannot await them.
        for upstream, raw, name in watched:
            # The server may have been replaced by one with renewed subscriptions.
            upstream = upstreams.members.get(upstream.name, upstream)  # noqa: PLW2901 - as said
            upstream.spawn(upstream.unwatch(raw, name))
        for upstream, name in tasks.names:
            upstream.spawn(tasks.remove(name))


def _texts(given: Any) -> list[str]:
    """Return the texts of a filter, each once; an empty list if it is malformed."""
    if type(given) is not list or not all(type(each) is str for each in given):
        return []  # `Subscriptions` refuses the filter
    found = list(dict.fromkeys(given))
    for each in found:
        check_watched(len(found), each)
    return found


async def _watch(uri: str, upstreams: Upstreams, watched: Watched) -> None:
    """Subscribe to a resource at its server; on success, append it to `watched`."""
    owner = await upstreams.catalog.owner_of_uri(uri)
    if owner is None:
        return
    upstream, raw = owner
    try:
        await upstream.watch(raw, uri)
    except MCPError as error:
        logger.debug("%r refused a subscription: %s", upstream.name, error)
    else:
        watched.append((upstream, raw, uri))


async def follow(
    upstreams: Upstreams,
    gone: Iterable[Upstream],
    new: Iterable[Upstream],
    levels: Iterable[str],
) -> None:
    """Set log levels at new servers, and renew the subscriptions at removed ones."""
    for level in levels:
        await asyncio.gather(*(each.set_level(level) for each in new))
    lost: Counter[str] = Counter()
    for each in gone:
        for names in each.watched.values():
            lost.update(names)
        each.watched.clear()
    await asyncio.gather(*(_watch_again(upstreams, *each) for each in lost.items()))


async def _watch_again(upstreams: Upstreams, uri: str, count: int) -> None:
    watched: Watched = []
    for _ in range(count):  # one request; `Client` counts the subscriptions
        await _watch(uri, upstreams, watched)
    if not watched:
        for session in upstreams.hub.sessions():
            session.subscribed -= {uri}


def forget_session(upstreams: Upstreams, session: Session) -> None:
    """Cancel the subscriptions of an ended session at the servers of a shared set."""
    for upstream in upstreams.members.values():
        for raw, names in list(upstream.watched.items()):
            for name in session.subscribed.intersection(names):
                upstream.spawn(upstream.unwatch(raw, name))


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
    await asyncio.gather(*(each.set_level(level) for each in members))
    return {}


def roots_changed(upstreams: Upstreams) -> None:
    """Notify all servers with a session that the client's roots changed."""
    for upstream in upstreams.members.values():
        revision = upstream.revision
        is_session = revision is not None and revision.era is Era.SESSION
        if is_session and upstream.client.is_connected:
            upstream.spawn(upstream.notify_roots_changed())
