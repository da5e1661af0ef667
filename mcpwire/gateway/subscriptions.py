"""What clients want to hear of, and what their servers are told of that.

However many want to hear of one resource, its server is told once, and told again after
each loss of the connection (`client.subscriptions`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import MCPError, TransportError
from mcpwire.gateway.tasks import WatchedTasks
from mcpwire.gateway.translation import passed_error
from mcpwire.protocol.methods import TASKS, declared_extensions
from mcpwire.server.notifications import Subscriptions
from mcpwire.server.request import check_level
from mcpwire.server.resources import check_watched
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwire.gateway.relay import RelayClient
    from mcpwire.gateway.upstreams import Upstream, Upstreams
    from mcpwire.server.request import RequestContext, Session


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

SUBSCRIBE: Final = "resources/subscribe"
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
RESOURCES_FIELD: Final = "resourceSubscriptions"


# --- one resource


async def _watch(upstream: Upstream, uri: str, name: str) -> None:
    """Have a server tell when a resource changes that clients know by that name.

    Raises:
        RPCError: It will not.
    """
    client: RelayClient = upstream.client
    # Noted first: what it tells before it has answered counts as well.
    names = client.relay.watched.setdefault(uri, Counter())
    names[name] += 1
    try:
        await client.subscribe(uri)
    except MCPError as error:
        _forget(client, uri, name)
        raise passed_error(upstream.name, SUBSCRIBE, error) from error
    except BaseException:
        _forget(client, uri, name)
        raise


async def _unwatch(upstream: Upstream, uri: str, name: str) -> None:
    client: RelayClient = upstream.client
    if not _forget(client, uri, name):
        return
    try:
        await client.unsubscribe(uri)
    except MCPError as error:
        # Nobody hears of it any more; that its server goes on telling hurts nobody.
        logger.debug("%r: %s", upstream.name, error)


def _forget(client: RelayClient, uri: str, name: str) -> bool:
    names = client.relay.watched.get(uri)
    if names is None or name not in names:
        return False
    names[name] -= 1
    if not names[name]:
        del names[name]
    if not names:
        del client.relay.watched[uri]
    return True


async def subscribe(
    _: Upstreams,
    upstream: Upstream,
    raw: str,
    public: str,
    request: RequestContext,
) -> dict[str, Any]:
    """Answer ``resources/subscribe`` of a session; a second time it does nothing.

    Args:
        upstream: The server of the resource.
        raw: The resource, as the server calls it.
        public: The same, as the client does.
        request: The client's request.

    Raises:
        InvalidParams: The client watches too much already.
        RPCError: The server will not tell.
    """
    session = request.session
    assert session is not None  # the method table: sessions only
    if public in session.subscribed:
        return {}
    check_watched(len(session.subscribed) + 1, public)
    session.subscribed |= {public}
    try:
        await _watch(upstream, raw, public)
    except BaseException:
        session.subscribed -= {public}
        raise
    return {}


async def unsubscribe(
    _: Upstreams,
    upstream: Upstream,
    raw: str,
    public: str,
    request: RequestContext,
) -> dict[str, Any]:
    """Answer ``resources/unsubscribe`` of a session; see `subscribe`."""
    session = request.session
    assert session is not None  # as above
    if public in session.subscribed:
        session.subscribed -= {public}
        await _unwatch(upstream, raw, public)
    return {}


# --- one request that stays open


async def listen(
    params: dict[str, Any], request: RequestContext, upstreams: Upstreams
) -> dict[str, Any]:
    """Answer ``subscriptions/listen``, when the set is closed.

    What a server will not tell is left out of the acknowledgement (2026-07-28
    basic/patterns/subscriptions).

    Raises:
        InvalidParams: The filter is malformed, or names too much.
        InternalError: Too many are open already.
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
    uris = wanted.get(RESOURCES_FIELD) if type(wanted) is dict else None
    watched: list[tuple[Upstream, str, str]] = []
    tasks = WatchedTasks()
    try:
        if type(uris) is list and all(type(uri) is str for uri in uris):
            asked = list(dict.fromkeys(uris))
            for uri in asked:
                check_watched(len(asked), uri)
            await _watch_all(asked, upstreams, watched)
        able = {name for _, _, name in watched}
        answering = Subscriptions(
            upstreams.hub,
            listens=upstreams.gateway.listens,
            capabilities=lambda: upstreams.capabilities(request.revision),
            watchable=lambda asked, _: [uri for uri in asked if uri in able],
        )
        ids = wanted.get("taskIds") if type(wanted) is dict else None
        if ids and TASKS in declared_extensions(request.client_capabilities):
            answering.tasks = tasks  # type: ignore[assignment] # it does what is asked here
            if type(ids) is list and all(type(id) is str for id in ids):
                for id in ids:
                    check_watched(len(ids), id)
                await tasks.add(ids, request, upstreams)
        return await answering.listen_until(ended, params, request)
    finally:
        # In a task of its own: a cancelled caller cannot wait for it.
        for upstream, raw, name in watched:
            # It may be another one by that name now, which was asked in its place.
            upstream = upstreams.members.get(upstream.name, upstream)  # noqa: PLW2901 - as said
            _later(upstream, _unwatch(upstream, raw, name))
        for server, name in tasks.names:
            upstream = upstreams.members[server]
            _later(upstream, tasks.remove(upstream, name))


async def _watch_all(
    uris: list[str], upstreams: Upstreams, watched: list[tuple[Upstream, str, str]]
) -> None:
    """Have the servers tell of these; note each that they will tell at once."""
    await asyncio.gather(*(_watch_one(uri, upstreams, watched) for uri in uris))


async def _watch_one(
    uri: str, upstreams: Upstreams, watched: list[tuple[Upstream, str, str]]
) -> None:
    owner = await upstreams.catalog.owner_of_uri(uri)
    if owner is None:
        return
    upstream, raw = owner
    try:
        await _watch(upstream, raw, uri)
    except MCPError as error:
        logger.debug("%r tells nothing of a resource: %s", upstream.name, error)
        return
    watched.append((upstream, raw, uri))


# --- servers that are others now, and clients that have left


async def follow(
    upstreams: Upstreams,
    gone: Sequence[Upstream],
    new: Sequence[Upstream],
    levels: Sequence[str],
) -> None:
    """Have the servers of a set tell what clients wanted of those that are not there.

    What none of them tells any more can be subscribed to anew, should one have it.

    Args:
        upstreams: The set.
        gone: The servers that left.
        new: The servers that joined.
        levels: From what levels on clients wanted messages.
    """
    is_shared = upstreams.downstream.session is None
    for level in levels:
        await asyncio.gather(
            *(_level_to(each, level, is_shared=is_shared) for each in new)
        )
    lost: Counter[str] = Counter()
    for each in gone:
        for names in each.client.relay.watched.values():
            lost.update(names)
        each.client.relay.watched.clear()
    await asyncio.gather(*(_watch_again(upstreams, *each) for each in lost.items()))


async def _watch_again(upstreams: Upstreams, uri: str, count: int) -> None:
    watched: list[tuple[Upstream, str, str]] = []
    for _ in range(count):  # the client asks once, and counts
        await _watch_one(uri, upstreams, watched)
    if not watched:
        for session in upstreams.hub.sessions():
            session.subscribed -= {uri}


def forget_session(upstreams: Upstreams, session: Session) -> None:
    """Have servers that others go on with tell nothing for a session that has left."""
    for upstream in upstreams.members.values():
        for raw, names in list(upstream.client.relay.watched.items()):
            for name in session.subscribed.intersection(names):
                _later(upstream, _unwatch(upstream, raw, name))


# --- what a session says once


async def set_level(
    params: dict[str, Any], request: RequestContext, upstreams: Upstreams
) -> dict[str, Any]:
    """Answer ``logging/setLevel`` of a session, for all its servers.

    A server that does not take it is no reason to fail: what it sends is looked at
    before it is passed on.

    Raises:
        InvalidParams: There is no such level.
    """
    level = check_level(params.get("level"))
    session = request.session
    assert session is not None  # the method table: sessions only
    session.log_level = level
    is_shared = upstreams.downstream.session is None
    members = upstreams.members.values()
    await asyncio.gather(
        *(_level_to(each, level, is_shared=is_shared) for each in members)
    )
    return {}


async def _level_to(upstream: Upstream, level: str, *, is_shared: bool) -> None:
    client: RelayClient = upstream.client
    profile = client.profile
    if is_shared:
        await client.relay.lower_level(client, level)
        return
    if profile.agreement is None or not profile.offers("logging"):
        client.keep_level(level)
        return
    try:
        await client.set_log_level(level)  # type: ignore[arg-type] # it is checked
    except MCPError as error:
        logger.debug("%r takes no log level: %s", upstream.name, error)
        client.keep_level(level)


def roots_changed(upstreams: Upstreams) -> None:
    """Tell all servers of a session that its client's roots changed."""
    for upstream in upstreams.members.values():
        client: RelayClient = upstream.client
        agreement = client.profile.agreement
        if (
            agreement is not None
            and agreement.revision.era is Era.SESSION
            and client.is_connected
        ):
            _later(upstream, _tell_roots(client))


async def _tell_roots(client: RelayClient) -> None:
    try:
        await client.notify(ROOTS_CHANGED)
    except TransportError as error:
        logger.debug("roots/list_changed was not told: %s", error)


def _later(upstream: Upstream, work: Any) -> None:
    """Do something that nobody waits for, for as long as the connection lives."""
    client: RelayClient = upstream.client
    client.connection.spawn(work, "relay")
