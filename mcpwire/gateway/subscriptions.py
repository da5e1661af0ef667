"""What clients want to hear of, and what their servers are told of that.

However many want to hear of one resource, its server is told once, and told again after
each loss of the connection (`client.subscriptions`).
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
    """Servers that tell of a resource, by its URI there and for the client."""


__all__ = [
    "follow",
    "forget_session",
    "listen",
    "roots_changed",
    "set_level",
    "subscribe",
    "unsubscribe",
]

logger = logging.getLogger("mcpwire")

RESOURCES_FIELD: Final = "resourceSubscriptions"


async def subscribe(
    upstream: Upstream, raw: str, public: str, request: RequestContext
) -> None:
    """Answer ``resources/subscribe`` of a session; a second time it does nothing.

    `raw` is what the server calls the resource, `public` what the client does.
    """
    session = request.session
    assert session is not None  # the method table: sessions only
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
    """Answer ``resources/unsubscribe`` of a session; see `subscribe`."""
    session = request.session
    assert session is not None  # as above
    if public in session.subscribed:
        session.subscribed -= {public}
        await upstream.unwatch(raw, public)


async def listen(
    params: dict[str, Any], request: RequestContext, upstreams: Upstreams
) -> dict[str, Any]:
    """Answer ``subscriptions/listen``, when the set is closed.

    What a server will not tell is left out of the acknowledgement (2026-07-28
    basic/patterns/subscriptions).
    """
    # Of all sets, before any server is asked for anything.
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
            answering.tasks = tasks  # type: ignore[assignment] # it does what is asked here
            await tasks.add(_texts(ids), request, upstreams)
        return await answering.listen_until(ended, params, request)
    finally:
        # In a task of its own: a cancelled caller cannot wait for it.
        for upstream, raw, name in watched:
            # It may be another one by that name now, which was asked in its place.
            upstream = upstreams.members.get(upstream.name, upstream)  # noqa: PLW2901 - as said
            upstream.spawn(upstream.unwatch(raw, name))
        for upstream, name in tasks.names:
            upstream.spawn(tasks.remove(name))


def _texts(given: Any) -> list[str]:
    """Return what a filter names, each once; nothing where it is malformed."""
    if type(given) is not list or not all(type(each) is str for each in given):
        return []  # which `Subscriptions` refuses
    found = list(dict.fromkeys(given))
    for each in found:
        check_watched(len(found), each)
    return found


async def _watch(uri: str, upstreams: Upstreams, watched: Watched) -> None:
    """Have a server tell of a resource, if it will; note at once that it does."""
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
    """Have the servers of a set tell what clients wanted of those that are gone."""
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
    for _ in range(count):  # the client asks once, and counts
        await _watch(uri, upstreams, watched)
    if not watched:
        for session in upstreams.hub.sessions():
            session.subscribed -= {uri}


def forget_session(upstreams: Upstreams, session: Session) -> None:
    """Have servers that others go on with tell nothing for a session that has left."""
    for upstream in upstreams.members.values():
        for raw, names in list(upstream.watched.items()):
            for name in session.subscribed.intersection(names):
                upstream.spawn(upstream.unwatch(raw, name))


async def set_level(
    params: dict[str, Any], request: RequestContext, upstreams: Upstreams
) -> dict[str, Any]:
    """Answer ``logging/setLevel`` of a session, for all its servers.

    A server that does not take it is no reason to fail: what it sends is looked at
    before it is passed on.
    """
    level = check_level(params.get("level"))
    assert request.session is not None  # the method table: sessions only
    request.session.log_level = level
    members = upstreams.members.values()
    await asyncio.gather(*(each.set_level(level) for each in members))
    return {}


def roots_changed(upstreams: Upstreams) -> None:
    """Tell all servers with a session that the client's roots changed."""
    for upstream in upstreams.members.values():
        revision = upstream.revision
        is_session = revision is not None and revision.era is Era.SESSION
        if is_session and upstream.client.is_connected:
            upstream.spawn(upstream.tell_roots_changed())
