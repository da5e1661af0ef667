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
from mcpwire.gateway.translation import replace_task_id
from mcpwire.protocol.methods import TASKS, declared_extensions
from mcpwire.protocol.subscriptions import Filter
from mcpwire.versions import LATEST_SESSION, Era

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcpwire.gateway.upstream import Upstream
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.request import NotifyFn, RequestContext

    Json = dict[str, Any]
    RouteHandler = Callable[[Json, RequestContext, Upstreams], Awaitable[Json]]
    """Handler of the requests of one method, with one set."""

logger = logging.getLogger("mcpwire")

TASK_CAPABILITIES: Final[dict[str, Any]] = {
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    "extensions": {TASKS: {}},
}
"""All task capabilities of a gateway; a client gets those that its servers have."""


def task_handlers() -> dict[str, RouteHandler]:
    """Return the handlers of requests about tasks, by method."""
    methods = ("tasks/get", "tasks/result", "tasks/cancel", "tasks/update")
    handlers: dict[str, RouteHandler] = {
        method: partial(_handle_task_request, method) for method in methods
    }
    return {**handlers, "tasks/list": _list_tasks}


def task_capabilities(upstreams: Upstreams) -> dict[str, Any]:
    """Return the combined task capabilities of the servers of a set, of both eras."""
    capabilities: dict[str, Any] = {}
    for upstream in filter(_has_tasks, upstreams.ready()):
        if upstream.revision is not LATEST_SESSION:
            capabilities["extensions"] = {TASKS: {}}
            continue
        tasks = capabilities.setdefault("tasks", {"requests": {"tools": {"call": {}}}})
        operations = (
            ("list", "cancel") if upstreams.downstream.is_single_client else ("cancel",)
        )
        tasks |= {name: {} for name in operations if upstream.offers(f"tasks.{name}")}
    return capabilities


def _has_tasks(upstream: Upstream) -> bool:
    revision = upstream.revision
    if revision is LATEST_SESSION:
        return upstream.offers("tasks.requests.tools.call")
    is_stateless = revision is not None and revision.era is Era.STATELESS
    return is_stateless and TASKS in declared_extensions(upstream.capabilities)


# Requests about one task


async def _handle_task_request(
    method: str, params: Json, request: RequestContext, upstreams: Upstreams
) -> Json:
    """Handle a request about one task."""
    owner = _find_task(params.get("taskId"), request, upstreams)
    if owner is None:
        raise InvalidParams("unknown task")
    upstream, raw = owner
    result = await forward(upstream, method, {**params, "taskId": raw}, request)
    name = upstreams.downstream.tasks.claim(upstream.name, raw)
    return replace_task_id(result, raw, name)


def _find_task(
    name: object, request: RequestContext, upstreams: Upstreams
) -> tuple[Upstream, str] | None:
    """Return the server of a task of this client, and the task's id there."""
    servers = {each.name: each for each in _task_servers(request, upstreams)}
    task = upstreams.downstream.tasks.find(name, servers)
    return None if task is None else (servers[task[0]], task[1])


def _task_servers(request: RequestContext, upstreams: Upstreams) -> list[Upstream]:
    """Return the servers that have tasks of the client's era."""
    era = request.revision.era
    return [
        upstream
        for upstream in upstreams.ready()
        if _has_tasks(upstream)
        and upstream.revision is not None
        and upstream.revision.era is era
    ]


# List of tasks (2025-11-25)


async def _list_tasks(
    params: Json, request: RequestContext, upstreams: Upstreams
) -> Json:
    """Return the client's tasks of all servers, on one page.

    A server lists all tasks of the gateway's requests, also those of other clients:
    only tasks with an id that this client has received are returned.
    """
    if not upstreams.downstream.is_single_client:
        # 2025-11-25 basic/utilities/tasks, "Task Listing": only tasks of the requesting
        # client, which cannot be identified here.
        raise MethodNotFound("tasks are listed only to identified clients")
    if params.get("cursor") is not None:
        raise InvalidParams("unknown cursor: this list has one page")
    tasks: list[Any] = []
    for upstream in _task_servers(request, upstreams):
        if upstream.offers("tasks.list"):
            tasks += await _list_server_tasks(upstream, request)
    return {"tasks": tasks}


async def _list_server_tasks(upstream: Upstream, request: RequestContext) -> list[Any]:
    tasks, entries, cursor = upstream.downstream.tasks, [], None
    for _ in range(upstream.upstreams.gateway.limits.pages):
        params: Json = {} if cursor is None else {"cursor": cursor}
        page = await forward(upstream, "tasks/list", params, request)
        items = page.get("tasks")
        for item in items if type(items) is list else ():
            raw = item.get("taskId") if type(item) is dict else None
            name = tasks.name(upstream.name, raw) if type(raw) is str else None
            if name is not None:
                entries.append(replace_task_id(item, str(raw), name))
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    return entries


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
            owner = _find_task(name, request, upstreams)
            if owner is None:
                continue
            upstream, raw = owner
            try:
                requested = Filter(task_ids=frozenset((raw,)))
                accepted = await upstream.client.subscriptions.add(requested, {})
            except MCPError as error:
                logger.debug("%r refused a subscription: %s", upstream.name, error)
                continue
            self._watched[name] = owner
            if not accepted:
                await self.remove(name)

    async def remove(self, name: str) -> None:
        """Cancel the subscription to a task."""
        upstream, raw = self._watched.pop(name)
        requested = Filter(task_ids=frozenset((raw,)))
        try:
            await upstream.client.subscriptions.remove(requested, {})
        except MCPError as error:
            logger.debug("%r: %s", upstream.name, error)

    @property
    def names(self) -> list[tuple[Upstream, str]]:
        """The server of each task, and the client's id of the task."""
        return [(upstream, name) for name, (upstream, _) in self._watched.items()]

    # Interface for `Subscriptions`

    def watchable_ids(self, names: Sequence[str], _: RequestContext) -> list[str]:
        """Return the ids of the tasks that are subscribed to."""
        return [name for name in names if name in self._watched]

    def watch(
        self, names: Sequence[str], _: RequestContext, send: NotifyFn
    ) -> Callable[[], None]:
        """Relay notifications about tasks to the request; return a function to stop."""
        watched = [self._watched[name] for name in names]
        for upstream, raw in watched:
            upstream.task_listeners[raw].add(send)

        def stop() -> None:
            for upstream, raw in watched:
                upstream.task_listeners[raw].discard(send)
                if not upstream.task_listeners[raw]:
                    del upstream.task_listeners[raw]

        return stop
