"""Tasks: calls that are answered at once with a name, and go on behind it.

One object serves both dialects, the extension of 2026-07-28 and the experimental tasks
of 2025-11-25; each request is answered in the dialect of its revision. Which calls
become tasks, and how tasks are written, are rules of `mcpwire.protocol.tasks`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.errors import InternalError
from mcpwire.limits import check_timeout
from mcpwire.protocol import tasks
from mcpwire.protocol.methods import TASKS
from mcpwire.protocol.tasks import TaskLimits, runs_as_task
from mcpwire.server.extensions.tasks.answering import Answering
from mcpwire.server.extensions.tasks.owners import is_reachable, owner_of
from mcpwire.server.extensions.tasks.running import RunningTask
from mcpwire.server.extensions.tasks.store import MemoryTaskStore, StoreFullError
from mcpwire.server.extensions.tasks.watching import Watching
from mcpwire.versions import LATEST_SESSION, REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcpwire.protocol.tasks import TaskRecord
    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.extensions.tasks.running import Body
    from mcpwire.server.extensions.tasks.store import TaskStore
    from mcpwire.server.request import NotifyFn, RequestContext

__all__ = ["Tasks"]

CLOSE_GRACE_S: Final = 0.25
"""How long handlers may take to end when their server stops."""

logger = logging.getLogger("mcpwire")


class TaskTool(Protocol):
    """What matters of a tool here."""

    key: str

    task: str
    """``"forbidden"``, ``"optional"`` or ``"required"``."""


class Tasks:
    """Lets calls of tools run as tasks; give it to `Server(extensions=...)`.

    A tool takes part with ``task="optional"`` or ``task="required"``. Tasks belong to
    the principal of the call that made them, and to nobody else they are there. Where
    a server does not tell its clients apart, a task's id is all that protects it.

    Args:
        store: Where tasks are kept; in memory by default.
        ttl: For how many seconds from its creation a task is kept, under way or not;
            ``None`` is for ever. A client of 2025-11-25 may ask for less.
        poll_interval: How many seconds clients should wait between two looks.
        max_tasks: How many tasks are kept at once. Beyond that the oldest finished one
            of the client with the most gives way, or if all of its tasks run, its
            oldest one, which fails. A client loses none for one with as many.
        per_principal: How many tasks of one principal, or of one address over HTTP
            without `auth`, may be under way at once.
        clock: Returns seconds since the epoch.

    Raises:
        ValueError: A number is not above zero.
    """

    id: str = TASKS

    def __init__(
        self,
        store: TaskStore | None = None,
        *,
        ttl: float | None = 3600.0,
        poll_interval: float = 1.0,
        max_tasks: int = 1_000,
        per_principal: int = 100,
        clock: Callable[[], float] = wall_time,
    ) -> None:
        self._store: TaskStore = MemoryTaskStore() if store is None else store
        self._ttl = check_timeout(ttl, "ttl")
        self._poll_interval = check_timeout(poll_interval, "poll_interval") or 1.0
        self._limits = TaskLimits(
            _positive(max_tasks, "max_tasks"),
            _positive(per_principal, "per_principal"),
        )
        self._clock = clock
        self._running: dict[str, RunningTask] = {}
        # Those that have ended, which the store could not be told.
        self._late: dict[str, RunningTask] = {}
        self._jobs: set[asyncio.Task[None]] = set()
        self._watching = Watching()
        self._opening: asyncio.Task[None] | None = None
        self._revisions: Sequence[Any] = REVISIONS
        self._tells_apart = False
        self._is_attached = False

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<{type(self).__name__} {len(self._running)} under way>"

    # What a server declares and routes...

    @property
    def settings(self) -> dict[str, Any]:
        """What the server declares of the extension: that it is there."""
        return {}

    @property
    def legacy_capabilities(self) -> dict[str, Any]:
        """What the server declares at 2025-11-25.

        2025-11-25 basic/utilities/tasks, "Task Isolation and Access Control": who
        cannot tell its clients apart should not list their tasks.
        """
        tasks: dict[str, Any] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
        return {"tasks": {"list": {}, **tasks} if self._tells_apart else tasks}

    def attach(self, server: Any) -> None:
        """Let the tools of a server take part.

        Raises:
            ValueError: Another server has it.
        """
        if self._is_attached:
            raise ValueError("these tasks belong to another server")
        self._is_attached = True
        self._revisions = tuple(getattr(server, "revisions", REVISIONS))
        self._tells_apart = server.auth is not None

    def methods(self) -> dict[str, Handler]:
        """Return the handlers of all methods that some revision of the server has."""
        answering = Answering(self._find, self._list_page)
        methods: dict[str, Handler] = {
            "tasks/get": answering.get,
            "tasks/cancel": answering.cancel,
        }
        if any(revision.era is Era.STATELESS for revision in self._revisions):
            methods["tasks/update"] = answering.update
        if LATEST_SESSION in self._revisions:
            methods["tasks/result"] = answering.result
            if self._tells_apart:
                methods["tasks/list"] = answering.list
        return methods

    # Calls that become tasks...

    async def intercept(
        self,
        tool: TaskTool,
        params: dict[str, Any],
        request: RequestContext,
        body: Body,
    ) -> dict[str, Any] | None:
        """Answer a call with a task, if it is to be one.

        Args:
            tool: What is called.
            params: The params of the call.
            request: The call.
            body: Runs the handler for a request that this hands it. It is called
                exactly once, if a task is returned.

        Returns:
            The answer to the call; ``None``: it is no task, and to be run as usual.

        Raises:
            RPCError: The call is refused.
        """
        capabilities = request.client_capabilities
        if not runs_as_task(
            tool.task, tool.key, request.revision, capabilities, params
        ):
            return None
        record = await self._create(tool, params, request)
        task = RunningTask(
            record, request, store=self._store, clock=self._clock, tell=self._tell
        )
        self._running[record.id] = task
        job = task.start(body, params, self._forget)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        logger.debug("%r runs as a task", tool.key)
        if request.revision.era is Era.STATELESS:
            return tasks.write_created(record)
        return tasks.write_legacy_created(record)

    async def _create(
        self, tool: TaskTool, params: Mapping[str, Any], request: RequestContext
    ) -> TaskRecord:
        """Return a new task, which the store has already.

        SEP-2663, "Task Creation": who is told of a task can ask for it at once.
        """
        ttl = self._ttl
        if request.revision.era is Era.SESSION:
            ttl = self._shortened(tasks.read_ttl(params))
        await self._open()
        now = self._clock()
        if self._late:
            await self._catch_up(now)
        record = tasks.TaskRecord(
            # 192 bits of randomness: nobody finds one by trying.
            id=secrets.token_urlsafe(24),
            owner=owner_of(request),
            tool=tool.key,
            created_at=now,
            ttl=ttl,
            poll_interval=self._poll_interval,
        )
        await self._store.expire(now)
        try:
            await self._keep(record)
        except StoreFullError as error:
            raise InternalError(f"{error}, try again later") from error
        except asyncio.CancelledError:
            # Nobody will hear of it.
            await self._store.delete(record.id)
            raise
        return record

    async def _keep(self, record: TaskRecord) -> None:
        """Write a new task to the store, and end others for it as the store says."""
        while True:
            try:
                return await self._store.create(record, self._limits)
            except StoreFullError as error:
                task = self._running.get(error.to_end or "")
                if task is None or (task.record.is_final and task.is_saved):
                    raise
                task.evict()
                await task.save()
                if not task.is_saved:
                    raise

    def _shortened(self, wanted: float | None) -> float | None:
        """Return for how long a task is kept whose client wants it for so long."""
        if wanted is None:
            return self._ttl
        # Time to fetch the result at least once.
        wanted = max(wanted, self._poll_interval)
        return wanted if self._ttl is None else min(wanted, self._ttl)

    def _forget(self, task: RunningTask) -> None:
        id = task.record.id
        if task.is_saved:
            self._running.pop(id, None)
        else:
            self._late[id] = task

    async def _catch_up(self, now: float) -> None:
        """Write what a store did not take that failed for a while, till it fails again.

        For the store those are under way still, and take the place of others.
        """
        for id, task in list(self._late.items()):
            if task.record.is_expired(now):
                self._let_go(id)
        for id, task in list(self._late.items()):
            await task.save()
            if not task.is_saved:
                return
            self._let_go(id)

    def _let_go(self, id: str) -> None:
        self._late.pop(id, None)
        self._running.pop(id, None)

    def _tell(self, record: TaskRecord) -> None:
        self._watching.tell(record)

    # Tasks that are there...

    async def _find(
        self, params: Mapping[str, Any], request: RequestContext
    ) -> tuple[TaskRecord, RunningTask | None]:
        """Return the task that params name, and what runs of it here.

        Raises:
            InvalidParams: They name none, or none of this client's.
        """
        task_id = tasks.requested_task_id(params)
        running = self._running.get(task_id)
        if running is None:
            await self._open()
            record = await self._store.get(task_id)
        else:
            record = running.record
        if (
            record is None
            or not is_reachable(record.owner, request)
            or record.is_expired(self._clock())
        ):
            raise tasks.unknown_task()
        return record, running

    async def _list_page(
        self, owner: str, after: tuple[float, str] | None, limit: int
    ) -> list[TaskRecord]:
        await self._open()
        await self._store.expire(self._clock())
        page = await self._store.list(owner, after=after, limit=limit)
        return [
            self._running[record.id].record if record.id in self._running else record
            for record in page
        ]

    # Who listens...

    def watchable(self, ids: Sequence[str], request: RequestContext) -> list[str]:
        """Return the tasks that there will be more to tell of, out of those named.

        Those that have ended, and those of others, are left out alike.
        """
        return [
            task_id
            for task_id in ids
            if (task := self._running.get(task_id)) is not None
            and is_reachable(task.record.owner, request)
            and not task.record.is_final
        ]

    def watch(
        self, ids: Sequence[str], request: RequestContext, send: NotifyFn
    ) -> Callable[[], None]:
        """Tell of each step of these tasks until the function returned is called."""
        return self._watching.add(self.watchable(ids, request), send)

    # The life of the store...

    async def _open(self) -> None:
        """Open the store, once, for whoever comes first."""
        if self._opening is None:
            loop = asyncio.get_running_loop()
            self._opening = loop.create_task(
                self._store.open(self._clock()), name="mcpwire-task-store"
            )
        opening = self._opening
        try:
            # Whoever is cancelled leaves it to the others.
            await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._opening is opening:
                self._opening = None  # it failed: the next one tries again
            raise

    async def aclose(self) -> None:
        """Stop all tasks, and let go of the store; it can be used again afterwards.

        A task that is under way fails, and says that its server stopped.
        """
        for task in list(self._running.values()):
            task.interrupt()
        if self._jobs:
            _, hanging = await asyncio.wait(set(self._jobs), timeout=CLOSE_GRACE_S)
            if hanging:
                logger.warning("%d handlers of tasks did not stop", len(hanging))
        for task in list(self._running.values()):
            await task.save()
        self._running.clear()
        self._late.clear()
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()  # which does nothing to one that is done
            await asyncio.wait({opening}, timeout=CLOSE_GRACE_S)
            await self._store.aclose()


def _positive(value: int, name: str) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} must be an integer above 0, got {value!r}")
    return value
