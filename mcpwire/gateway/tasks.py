"""Calls that become tasks: their servers, and the task methods of clients.

Both kinds go through between two ends of their own era: the experimental tasks of
2025-11-25, and the extension of 2026-07-28. They have nothing in common that a bridge
could lead over, so no client hears of a kind that its revision does not have.
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
    """Answers a request of one method out of one set."""

__all__ = ["TASK_CAPABILITIES", "WatchedTasks", "task_capabilities", "task_methods"]

logger = logging.getLogger("mcpwire")

TASK_CAPABILITIES: Final[dict[str, Any]] = {
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    "extensions": {TASKS: {}},
}
"""All that a gateway can do with tasks; a client is told what its servers can."""


def task_methods() -> dict[str, Answer]:
    """Return what answers requests about tasks, by method."""
    methods = ("tasks/get", "tasks/result", "tasks/cancel", "tasks/update")
    answers: dict[str, Answer] = {each: partial(_of_one, each) for each in methods}
    return {**answers, "tasks/list": _list}


def task_capabilities(upstreams: Upstreams) -> dict[str, Any]:
    """Return what the servers of a set can do with tasks; each era has its own."""
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


# --- one task


async def _of_one(
    method: str, params: Json, request: RequestContext, upstreams: Upstreams
) -> Json:
    """Answer a request about one task."""
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
    """Return the server of a task of this client's, and what it calls it."""
    able = {each.name: each for each in _able(request, upstreams)}
    found = upstreams.downstream.tasks.find(name, able)
    return None if found is None else (able[found[0]], found[1])


def _able(request: RequestContext, upstreams: Upstreams) -> list[Upstream]:
    """Return the servers that have tasks of the client's kind."""
    era = request.revision.era
    return [
        each
        for each in upstreams.ready()
        if _has_tasks(each) and each.revision is not None and each.revision.era is era
    ]


# --- all of them, at 2025-11-25


async def _list(params: Json, request: RequestContext, upstreams: Upstreams) -> Json:
    """Answer with the client's tasks of all servers, at once.

    A server lists all that the gateway asked it for, which may be other users' as well:
    of those it lists, what this client was told of is passed on.
    """
    if not upstreams.downstream.is_one:
        # 2025-11-25 basic/utilities/tasks, "Task Listing": only the tasks of the asking
        # client, which cannot be told from the others here.
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


# --- how they stand, told unasked at 2026-07-28


class WatchedTasks:
    """The tasks that one ``subscriptions/listen`` wants to hear of.

    It takes the place of a server's own tasks (`server.notifications`).
    """

    def __init__(self) -> None:
        self._watched: dict[str, tuple[Upstream, str]] = {}

    async def add(
        self, names: Sequence[str], request: RequestContext, upstreams: Upstreams
    ) -> None:
        """Have the servers tell of tasks; what they will not tell is left out."""
        for name in names:
            owner = _owner(name, request, upstreams)
            if owner is None:
                continue
            upstream, raw = owner
            try:
                told = await upstream.client.hear(Filter(task_ids=frozenset((raw,))))
            except MCPError as error:
                logger.debug("%r refused a subscription: %s", upstream.name, error)
                continue
            self._watched[name] = owner
            if not told:
                await self.remove(name)

    async def remove(self, name: str) -> None:
        """Want to hear of one no longer."""
        upstream, raw = self._watched.pop(name)
        try:
            await upstream.client.unhear(Filter(task_ids=frozenset((raw,))))
        except MCPError as error:
            logger.debug("%r: %s", upstream.name, error)

    @property
    def names(self) -> list[tuple[Upstream, str]]:
        """The server of each, and the task as clients know it."""
        return [(upstream, name) for name, (upstream, _) in self._watched.items()]

    # What the request asks...

    def watchable(self, names: Sequence[str], _: RequestContext) -> list[str]:
        """Return which of them somebody will tell of."""
        return [name for name in names if name in self._watched]

    def watch(
        self, names: Sequence[str], _: RequestContext, send: NotifyFn
    ) -> Callable[[], None]:
        """Have the request told of tasks; return what ends that."""
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
