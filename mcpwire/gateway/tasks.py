"""Relay of the task methods of clients to the servers of the tasks.

Both kinds of tasks are relayed between a client and a server of the same era only: the
experimental tasks of 2025-11-25, and the extension of 2026-07-28. They cannot be
converted into each other, so that no client gets tasks that its revision does not have.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidParams, MCPError, MethodNotFound
from mcpwire.gateway.forwarding import forward
from mcpwire.gateway.translation import with_task_id
from mcpwire.protocol.methods import TASKS, declared_extensions
from mcpwire.protocol.subscriptions import Filter
from mcpwire.versions import LATEST_SESSION, Era

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcpwire.gateway.upstream import Upstream
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.request import NotifyFn, RequestContext

    Json = dict[str, Any]
    Answer = Callable[[Json, RequestContext, Upstreams], Awaitable[Json]]
    """Handler of the requests of one method, with one set."""

logger = logging.getLogger("mcpwire")

TASK_CAPABILITIES: Final[dict[str, Any]] = {
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    "extensions": {TASKS: {}},
}
"""All task capabilities of a gateway; a client gets those that its servers have."""


def task_methods() -> dict[str, Answer]:
    """Return the handlers of requests about tasks, by method."""
    methods = ("tasks/get", "tasks/result", "tasks/cancel", "tasks/update")
    answers: dict[str, Answer] = {each: partial(_of_one, each) for each in methods}
    return {**answers, "tasks/list": _list}


def task_capabilities(upstreams: Upstreams) -> dict[str, Any]:
    """Return the combined task capabilities of the servers of a set, of both eras."""
    made: dict[str, Any] = {}
    for upstream in filter(_has_tasks, upstreams.ready()):
        if upstream.revision is not LATEST_SESSION:
            made["extensions"] = {TASKS: {}}
            continue
        tasks = made.setdefault("tasks", {"requests": {"tools": {"call": {}}}})
        can = ("list", "cancel") if upstreams.downstream.is_one else ("cancel",)
        tasks |= {name: {} for name in can if upstream.offers(f"tasks.{name}")}
    return made


def _has_tasks(upstream: Upstream) -> bool:
    revision = upstream.revision
    if revision is LATEST_SESSION:
        return upstream.offers("tasks.requests.tools.call")
    is_stateless = revision is not None and revision.era is Era.STATELESS
    return is_stateless and TASKS in declared_extensions(upstream.capabilities)


# Requests about one task


async def _of_one(
    method: str, params: Json, request: RequestContext, upstreams: Upstreams
) -> Json:
    """Handle a request about one task."""
    owner = _owner(params.get("taskId"), request, upstreams)
    if owner is None:
        raise InvalidParams("there is no such task")
    upstream, raw = owner
    params = {**params, "taskId": raw}
    result = await forward(upstream, method, params, request, upstreams)
    name = upstreams.downstream.tasks.claim(upstream.name, raw)
    return with_task_id(result, raw, name)


def _owner(
    name: object, request: RequestContext, upstreams: Upstreams
) -> tuple[Upstream, str] | None:
    """Return the server of a task of this client, and the task's id there."""
    able = {each.name: each for each in _able(request, upstreams)}
    found = upstreams.downstream.tasks.find(name, able)
    return None if found is None else (able[found[0]], found[1])


def _able(request: RequestContext, upstreams: Upstreams) -> list[Upstream]:
    """Return the servers that have tasks of the client's era."""
    era = request.revision.era
    return [
        each
        for each in upstreams.ready()
        if _has_tasks(each) and each.revision is not None and each.revision.era is era
    ]


# List of tasks (2025-11-25)


async def _list(params: Json, request: RequestContext, upstreams: Upstreams) -> Json:
    """Return the client's tasks of all servers, on one page.

    A server lists all tasks of the gateway's requests, also those of other clients:
    only tasks with an id that this client has received are returned.
    """
    if not upstreams.downstream.is_one:
        # 2025-11-25 basic/utilities/tasks, "Task Listing": only tasks of the requesting
        # client, which cannot be identified here.
        raise MethodNotFound("tasks are listed only to identified clients")
    if params.get("cursor") is not None:
        raise InvalidParams("unknown cursor: this list has one page")
    found: list[Any] = []
    for upstream in _able(request, upstreams):
        if upstream.offers("tasks.list"):
            found += await _list_of(upstream, request, upstreams)
    return {"tasks": found}


async def _list_of(
    upstream: Upstream, request: RequestContext, upstreams: Upstreams
) -> list[Any]:
    tasks, found, cursor = upstreams.downstream.tasks, [], None
    for _ in range(upstreams.gateway.limits.pages):
        params: Json = {} if cursor is None else {"cursor": cursor}
        page = await forward(upstream, "tasks/list", params, request, upstreams)
        listed = page.get("tasks")
        for each in listed if type(listed) is list else ():
            raw = each.get("taskId") if type(each) is dict else None
            name = tasks.name(upstream.name, raw) if type(raw) is str else None
            if name is not None:
                found.append(with_task_id(each, str(raw), name))
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    return found


# Notifications about tasks (2026-07-28)


class WatchedTasks:
    """The tasks that one ``subscriptions/listen`` subscribes to.

    It replaces the tasks of a server in `server.notifications.Subscriptions`.
    """

    def __init__(self) -> None:
        self._watched: dict[str, tuple[Upstream, str]] = {}

    async def add(
        self, names: Sequence[str], request: RequestContext, upstreams: Upstreams
    ) -> None:
        """Subscribe to tasks at their servers; leave out refused ones."""
        for name in names:
            owner = _owner(name, request, upstreams)
            if owner is None:
                continue
            upstream, raw = owner
            try:
                told = await upstream.client.subscribe_to(
                    Filter(task_ids=frozenset((raw,)))
                )
            except MCPError as error:
                logger.debug("%r refused a subscription: %s", upstream.name, error)
                continue
            self._watched[name] = owner
            if not told:
                await self.remove(name)

    async def remove(self, name: str) -> None:
        """Cancel the subscription to a task."""
        upstream, raw = self._watched.pop(name)
        try:
            await upstream.client.unsubscribe_from(Filter(task_ids=frozenset((raw,))))
        except MCPError as error:
            logger.debug("%r: %s", upstream.name, error)

    @property
    def names(self) -> list[tuple[Upstream, str]]:
        """The server of each task, and the client's id of the task."""
        return [(upstream, name) for name, (upstream, _) in self._watched.items()]

    # Interface for `Subscriptions`

    def watchable(self, names: Sequence[str], _: RequestContext) -> list[str]:
        """Return the ids of the tasks that are subscribed to."""
        return [name for name in names if name in self._watched]

    def watch(
        self, names: Sequence[str], _: RequestContext, send: NotifyFn
    ) -> Callable[[], None]:
        """Relay notifications about tasks to the request; return a function to stop."""
        key = object()
        watched = [self._watched[name] for name in names]
        for upstream, raw in watched:
            upstream.watched_tasks.setdefault(raw, {})[key] = send

        def forget() -> None:
            for upstream, raw in watched:
                listeners = upstream.watched_tasks.get(raw, {})
                listeners.pop(key, None)
                if not listeners:
                    upstream.watched_tasks.pop(raw, None)

        return forget
