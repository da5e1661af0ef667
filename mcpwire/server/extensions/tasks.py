"""Tasks: calls that are answered at once with a name, and go on behind it.

One object serves both dialects, the extension of 2026-07-28 and the experimental tasks
of 2025-11-25; each request is answered in the dialect of its revision. Which calls
become tasks, and how tasks are written, are rules of `mcpwire.protocol.tasks`.

A task's state is a value there; here it is replaced step by step, each step at once and
without waiting, and then written to a store. So readers in this process see the newest,
and of several writes the last one counts.

2025-11-25 basic/utilities/tasks, "Task Isolation and Access Control", and SEP-2663,
"Security Considerations": a task belongs to the principal that made it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import attrs

from mcpwire.errors import (
    InternalError,
    InvalidParams,
    MCPError,
    MethodNotFound,
    RequestTimeout,
    RPCError,
    rpc_error,
)
from mcpwire.limits import check_count, check_timeout
from mcpwire.protocol import tasks
from mcpwire.protocol.methods import TASKS
from mcpwire.protocol.tasks import (
    CANCELLED,
    EVICTED,
    EXPIRED,
    INTERRUPTED,
    HeldTask,
    TaskLimits,
    TaskRecord,
    check_task_can_ask,
    relate_to_task,
    runs_as_task,
    select_evictions,
    write_detailed,
    write_legacy_task,
)
from mcpwire.server.dispatcher import run_handler
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.transports.base import wait_shared
from mcpwire.versions import LATEST_SESSION, REVISIONS, Era
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.request import NotifyFn, RequestContext
    from mcpwire.server.tools import Tool

    Body = Callable[[RequestContext], Awaitable[dict[str, Any]]]
    """Runs a handler to the result of its call; may raise what handlers raise."""

__all__ = [
    "MemoryTaskStore",
    "SqliteTaskStore",
    "StoreFullError",
    "TaskStore",
    "Tasks",
    "is_reachable",
    "owner_of",
]


class StoreFullError(MCPError):
    """There is no room for another task.

    Attributes:
        to_end: The id of a running task to end for more room; ``None``: no task.
    """

    def __init__(
        self, message: str = "there are too many tasks", *, to_end: str | None = None
    ) -> None:
        super().__init__(message)
        self.to_end = to_end


class TaskStore(Protocol):
    """Keeps the tasks of a server; called on its loop, by one call at a time per task.

    A task under way is run by the process that created it, which knows best how it
    stands; the store is asked for the others, and for all of an owner's.
    """

    async def open(self, now: float) -> None:
        """Get ready; called before anything else, and again after `aclose`.

        The process that ran the unfinished tasks may be gone: end them with
        `TaskRecord.stop`, as `INTERRUPTED`.
        """

    async def create(self, record: TaskRecord, limits: TaskLimits) -> None:
        """Keep a new task; what is returned from stays.

        Raises:
            StoreFullError: `select_evictions` finds no room for it; it also gives the
                `to_end` of the error.
        """

    async def get(self, task_id: str) -> TaskRecord | None:
        """Return a task, or ``None`` if there is none with that id."""

    async def update(self, record: TaskRecord) -> None:
        """Keep how a task stands now, if it is still there."""

    async def list(
        self, owner: str, *, after: tuple[float, str] | None, limit: int
    ) -> list[TaskRecord]:
        """Return tasks of one owner, ordered by creation time and id.

        Args:
            owner: The key of the owner.
            after: Creation time and id of the task that they come after, which may be
                gone; ``None``: from the first one.
            limit: At most so many.
        """

    async def delete(self, task_id: str) -> None:
        """Forget a task, if it is there."""

    async def expire(self, now: float) -> None:
        """Delete expired tasks."""

    async def aclose(self) -> None:
        """Let go of everything; called twice, it does no more."""


class MemoryTaskStore:
    """Keeps tasks for as long as its process lives."""

    def __init__(self) -> None:
        self._records: dict[str, TaskRecord] = {}  # the oldest first

    async def open(self, now: float) -> None:
        """Get ready, which takes nothing."""

    async def create(self, record: TaskRecord, limits: TaskLimits) -> None:
        """Keep a new task; see `TaskStore`.

        Raises:
            StoreFullError: There is no room for it.
        """
        held = [HeldTask(r.id, r.owner, r.is_final) for r in self._records.values()]
        evicted, to_end = select_evictions(held, record.owner, limits)
        if evicted is None:
            raise StoreFullError(to_end=to_end)
        for task_id in evicted:
            del self._records[task_id]
        self._records[record.id] = record

    async def get(self, task_id: str) -> TaskRecord | None:
        """Return a task; see `TaskStore`."""
        return self._records.get(task_id)

    async def update(self, record: TaskRecord) -> None:
        """Keep how a task stands now, if it is still there."""
        if record.id in self._records:
            self._records[record.id] = record

    async def list(
        self, owner: str, *, after: tuple[float, str] | None, limit: int
    ) -> list[TaskRecord]:
        """Return tasks of one owner; see `TaskStore`."""
        found = [
            record
            for record in self._records.values()
            if record.owner == owner and (after is None or _place(record) > after)
        ]
        return sorted(found, key=_place)[:limit]

    async def delete(self, task_id: str) -> None:
        """Forget a task, if it is there."""
        self._records.pop(task_id, None)

    async def expire(self, now: float) -> None:
        """Delete expired tasks."""
        for record in [r for r in self._records.values() if r.is_expired(now)]:
            del self._records[record.id]

    async def aclose(self) -> None:
        """Keep what there is: the process lives on."""


def _place(record: TaskRecord) -> tuple[float, str]:
    return record.created_at, record.id


T = TypeVar("T")

VERSION: Final = 1
"""Of the table; a file with another one is not ours to change."""

_TABLE: Final = """
create table if not exists task (
    id text primary key,
    owner text not null,
    created_at real not null,
    expires_at real,
    is_final integer not null,
    record blob not null
);
create index if not exists task_by_owner on task (owner, created_at, id);
create index if not exists task_by_expiry on task (expires_at);
"""


class SqliteTaskStore:
    """Keeps tasks in one file, for one process at a time.

    Tasks that were under way when their process ended cannot go on. The next one to
    open the file marks them as failed, with a message that says so; so two processes
    must not share it.

    Args:
        path: The file. It is made for this user alone where it is not there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._thread: ThreadPoolExecutor | None = None
        self._database: sqlite3.Connection | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._path!r}>"

    async def _do(self, step: Callable[[sqlite3.Connection], T]) -> T:
        """Do a step in the store's thread, wholly or not at all."""
        assert self._thread is not None  # `open` comes first

        def work() -> T:
            assert self._database is not None
            with self._database:
                return step(self._database)

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work)

    async def open(self, now: float) -> None:
        """Open the file and end what an earlier process left under way.

        Raises:
            OSError: The file cannot be made or opened.
            sqlite3.Error: It is no database, or not one of this store.
        """
        await self.aclose()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mcpwire-tasks")
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._connect)
            await self._do(lambda database: _interrupt_all(database, now))
        except BaseException:
            await self.aclose()
            raise

    def _connect(self) -> None:
        import sqlite3

        # Results may be anybody's secrets. Only of a new file is the descriptor closed:
        # of another one that would end the locks that this process has on it.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        self._database = sqlite3.connect(self._path, isolation_level="IMMEDIATE")
        version = self._database.execute("pragma user_version").fetchone()[0]
        if version not in {0, VERSION}:
            raise sqlite3.DatabaseError(
                f"{self._path!r} has tables of version {version}, not {VERSION}"
            )
        self._database.execute("pragma journal_mode = wal")
        # What was told must be there after a power cut too.
        self._database.execute("pragma synchronous = full")
        self._database.executescript(_TABLE)
        self._database.execute(f"pragma user_version = {VERSION}")

    async def create(self, record: TaskRecord, limits: TaskLimits) -> None:
        """Keep a new task, on the disk before this returns; see `TaskStore`.

        Raises:
            StoreFullError: There is no room for it.
        """
        await self._do(lambda database: _create(database, record, limits))

    async def _execute(self, statement: str, *values: Any) -> list[Any]:
        return await self._do(
            lambda database: database.execute(statement, values).fetchall()
        )

    async def get(self, task_id: str) -> TaskRecord | None:
        """Return a task; see `TaskStore`."""
        rows = await self._execute("select record from task where id = ?", task_id)
        return _read(rows[0][0]) if rows else None

    async def update(self, record: TaskRecord) -> None:
        """Keep how a task stands now, if it is still there."""
        await self._execute(
            "update task set is_final = ?, record = ? where id = ?",
            record.is_final,
            _written(record),
            record.id,
        )

    async def list(
        self, owner: str, *, after: tuple[float, str] | None, limit: int
    ) -> list[TaskRecord]:
        """Return tasks of one owner; see `TaskStore`."""
        created_at, id = (-inf, "") if after is None else after
        rows = await self._execute(
            "select record from task where owner = ? and (created_at, id) > (?, ?)"
            " order by created_at, id limit ?",
            owner,
            created_at,
            id,
            limit,
        )
        return [_read(row[0]) for row in rows]

    async def delete(self, task_id: str) -> None:
        """Forget a task, if it is there."""
        await self._execute("delete from task where id = ?", task_id)

    async def expire(self, now: float) -> None:
        """Delete expired tasks."""
        await self._execute("delete from task where expires_at <= ?", now)

    async def aclose(self) -> None:
        """Close the file; what it keeps stays."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(thread, self._disconnect)
        finally:
            thread.shutdown(wait=False)

    def _disconnect(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()


# What runs in the store's thread...


def _create(
    database: sqlite3.Connection, record: TaskRecord, limits: TaskLimits
) -> None:
    rows = database.execute(
        "select id, owner, is_final from task order by created_at, id"
    )
    held = [HeldTask(id, owner, bool(is_final)) for id, owner, is_final in rows]
    evicted, to_end = select_evictions(held, record.owner, limits)
    if evicted is None:
        raise StoreFullError(to_end=to_end)
    database.executemany("delete from task where id = ?", [(id,) for id in evicted])
    row = (record.id, record.owner, record.created_at, record.expires_at)
    database.execute(
        "insert into task values (?, ?, ?, ?, ?, ?)",
        (*row, record.is_final, _written(record)),
    )


def _interrupt_all(database: sqlite3.Connection, now: float) -> None:
    rows = database.execute("select record from task where not is_final").fetchall()
    for row in rows:
        record = _read(row[0]).stop(INTERRUPTED, now=now)
        database.execute(
            "update task set is_final = 1, record = ? where id = ?",
            (_written(record), record.id),
        )


def _written(record: TaskRecord) -> bytes:
    return encode(attrs.asdict(record, recurse=False))


def _read(written: bytes) -> TaskRecord:
    return TaskRecord(**loads(written))


_ADDRESS: Final = "address:"
"""The prefix of owners that are not principals; those of principals are JSON arrays."""


def owner_of(request: RequestContext) -> str:
    """Return the client that a task counts to, as a text that a store can compare."""
    info = request.info
    if info.principal is not None:
        return encode(info.principal.key).decode()
    return f"{_ADDRESS}{info.owner}" if info.owner else ""


def is_reachable(owner: str, request: RequestContext) -> bool:
    """Tell whether a client may name a task; only principals are told apart."""
    if request.info.principal is not None:
        return owner == owner_of(request)
    return not owner or owner.startswith(_ADDRESS)


CHANGED: Final = "notifications/tasks"
PROGRESS: Final = "notifications/progress"
STATUS: Final = "notifications/tasks/status"

logger = LimitedLogger("mcpwire")


@attrs.define(eq=False)
class Question:
    """What a handler asks the client, until it is answered or not asked any more."""

    method: str

    params: Mapping[str, Any]

    answer: asyncio.Future[dict[str, Any]]

    is_put: bool = False
    """Whether somebody is putting it to the client right now."""


class RunningTask:
    """A task with its handler in this process; see the module's text."""

    def __init__(
        self,
        record: TaskRecord,
        request: RequestContext,
        *,
        store: TaskStore,
        clock: Callable[[], float],
        tell: Callable[[TaskRecord], None],
    ) -> None:
        self.record = record
        self._saved = record  # as the store has it
        self._store = store
        self._clock = clock
        self._tell = tell
        self._session = request.session
        self._request = request.for_task(ask=self._ask, notify=self._hear)
        self._questions: dict[str, Question] = {}
        self.changed = asyncio.Event()  # it stands otherwise, or may be asked for more
        self._writing = asyncio.Lock()
        self._job: asyncio.Task[None] | None = None
        self._has_begun = False

    def start(
        self, body: Body, params: dict[str, Any], on_end: Callable[[RunningTask], None]
    ) -> asyncio.Task[None]:
        """Let it run; the task that is returned raises nothing but its cancellation."""
        self._job = asyncio.get_running_loop().create_task(
            self._run(body, params, on_end), name=f"mcpwire-task-{self.record.tool}"
        )
        return self._job

    async def _run(
        self, body: Body, params: dict[str, Any], on_end: Callable[[RunningTask], None]
    ) -> None:
        self._has_begun = True
        if self.record.is_final:
            # Stopped before it began. It begins all the same, and finds itself
            # cancelled: what it was given has to be closed.
            self._stop()
        try:
            self._move(await self._outcome(body, params))
        except asyncio.CancelledError:
            # A cancel has set the outcome before, except at the end of the loop.
            self._move(self.record.stop(INTERRUPTED, now=self._clock()))
            raise
        finally:
            self._request.close()
            for question in self._questions.values():
                question.answer.cancel()
            self._questions.clear()
            try:
                await self.save()
            finally:
                on_end(self)

    async def _outcome(self, body: Body, params: dict[str, Any]) -> TaskRecord:
        """Run the handler and return how the task ends."""
        try:
            async with asyncio.timeout(self.record.ttl) as time_kept:
                result = await run_handler(
                    lambda _, request: body(request), params, self._request
                )
        except RPCError as error:
            return self._failed(error)
        except TimeoutError:
            assert time_kept.expired()  # those of handlers do not come this far
            self._request.is_cancelled = True
            return self.record.stop(EXPIRED, now=self._clock())
        if result.get("resultType", "complete") != "complete":
            tool = self.record.tool
            logger.error("a task of the tool %r did not complete", tool, kind=tool)
            return self._failed(InternalError("the handler failed"))
        return self.record.complete(result, now=self._clock())

    def _failed(self, error: RPCError) -> TaskRecord:
        fields: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.data is not None:
            fields["data"] = error.data
        return self.record.fail(fields, now=self._clock())

    # How it stands...

    @property
    def is_saved(self) -> bool:
        """Whether the store has it as it stands."""
        return self._saved is self.record

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self._job is not None and self._job.done()

    def _move(self, record: TaskRecord) -> None:
        before, self.record = self.record, record
        if record is before:
            return
        self._wake()
        self._tell(record)
        if self._session is not None:
            self._send(STATUS, write_legacy_task(record))

    def _wake(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    async def save(self) -> None:
        """Write how it stands to the store; where that fails, say so in the log."""
        async with self._writing:
            record = self.record
            if self._saved is record:
                return
            try:
                await self._store.update(record)
            except Exception:  # the boundary of stores: the task must go on
                logger.exception("a task was not written to %r", self._store)
                return
            self._saved = record

    def cancel(self) -> None:
        """Stop it because its client wants that; nothing where it has ended."""
        self._end(self.record.cancel(now=self._clock()))

    def stop(self, reason: str) -> None:
        """Stop it as failed, for that reason; nothing where it has ended."""
        self._end(self.record.stop(reason, now=self._clock()))

    def _end(self, record: TaskRecord) -> None:
        if record is self.record:
            return
        self._request.is_cancelled = True
        self._move(record)
        if self._has_begun:
            self._stop()

    def _stop(self) -> None:
        assert self._job is not None
        self._job.cancel()

    # What it tells and asks...

    def _send(self, method: str, params: dict[str, Any]) -> None:
        """Tell a session's client; a call that stands alone has nobody to tell.

        The extension, "Task Status Notifications": neither progress nor messages go
        to listeners of tasks.
        """
        session = self._session
        if session is not None and not session.is_closed:
            session.send(method, relate_to_task(params, self.record.id))

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        """Take what the handler tells: where its work is becomes part of its status."""
        if method == PROGRESS and (message := params.get("message")) is not None:
            self.record = self.record.describe(message, now=self._clock())
        self._send(method, params)

    async def _ask(
        self, method: str, params: dict[str, Any], key: str | None = None
    ) -> dict[str, Any]:
        """Wait until the client has answered a question of the handler."""
        check_task_can_ask(method, self._request.revision)
        record, key = self.record.ask(method, params, now=self._clock(), key=key)
        question = Question(method, params, asyncio.get_running_loop().create_future())
        self._questions[key] = question
        try:
            self._move(record)
            await self.save()
            return await question.answer
        finally:
            if self._questions.pop(key, None) is not None:
                # The handler waits no longer; cancel the sending of the question, too.
                question.answer.cancel()
                self._settle([key])

    def _settle(self, keys: Iterable[str]) -> None:
        self._move(self.record.settle(frozenset(keys), now=self._clock()))

    def answer(self, answers: Mapping[str, dict[str, Any]]) -> None:
        """Give the handler what the client answered, by key."""
        for key, answer in answers.items():
            question = self._questions.pop(key, None)
            if question is not None and not question.answer.done():
                question.answer.set_result(answer)
        self._settle(answers)

    async def put_question(self, request: RequestContext) -> bool:
        """Put an open question to the client by way of a request of its own."""
        waiting = (item for item in self._questions.items() if not item[1].is_put)
        key, question = next(waiting, (None, None))
        if key is None or question is None:
            return False
        question.is_put = True
        asking = asyncio.ensure_future(
            request.ask(
                question.method, relate_to_task(question.params, self.record.id)
            )
        )
        try:
            await asyncio.wait(
                {asking, question.answer}, return_when=asyncio.FIRST_COMPLETED
            )
            if asking.done() and not question.answer.done():
                self._take(key, question, asking)
        finally:
            question.is_put = False
            self._wake()  # somebody else may put it, if it is not answered
            asking.cancel()
            # Its end is ours to see, whatever it is.
            await asyncio.gather(asking, return_exceptions=True)
        return True

    def _take(
        self, key: str, question: Question, asking: asyncio.Future[dict[str, Any]]
    ) -> None:
        try:
            self.answer({key: asking.result()})
        except (RPCError, RequestTimeout) as error:
            # Outside a task the handler would get this too.
            del self._questions[key]
            question.answer.set_exception(error)
            self._settle([key])


PAGE: Final = 100
"""How many tasks one page has at most."""

CLOSE_GRACE_S: Final = 0.25
"""How long handlers may take to end when their server stops."""


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
            check_count(max_tasks, "max_tasks"),
            check_count(per_principal, "per_principal"),
        )
        self._clock = clock
        self._running: dict[str, RunningTask] = {}
        self._jobs: set[asyncio.Task[None]] = set()
        self._watchers: dict[str, dict[object, NotifyFn]] = {}
        self._opening: asyncio.Task[None] | None = None
        self._revisions: Sequence[Any] = REVISIONS
        self._tells_apart = False
        self._is_attached = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._running)} under way>"

    # What a server declares and routes...

    @property
    def settings(self) -> dict[str, Any]:
        """What the server declares of the extension: that it is there."""
        return {}

    @property
    def legacy_capabilities(self) -> dict[str, Any]:
        """What the server declares at 2025-11-25.

        2025-11-25 basic/utilities/tasks, "Task Isolation and Access Control": a
        server that cannot tell its clients apart should not list tasks.
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
        methods: dict[str, Handler] = {
            "tasks/get": self._get,
            "tasks/cancel": self._cancel,
        }
        if any(revision.era is Era.STATELESS for revision in self._revisions):
            methods["tasks/update"] = self._update
        if LATEST_SESSION in self._revisions:
            methods["tasks/result"] = self._result
            if self._tells_apart:
                methods["tasks/list"] = self._list
        return methods

    # Calls that become tasks...

    async def intercept(
        self,
        tool: Tool,
        params: dict[str, Any],
        request: RequestContext,
        body: Body,
    ) -> dict[str, Any] | None:
        """Answer a call with a task; ``None``: it is to be run as usual.

        If a task is returned, `body` is called exactly once, for a request of its own.
        """
        capabilities = request.client_capabilities
        if not runs_as_task(
            tool.task, tool.key, request.revision, capabilities, params
        ):
            return None
        record = await self._create(tool, params, request)
        task = RunningTask(
            record,
            request,
            store=self._store,
            clock=self._clock,
            tell=self._tell,
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
        self, tool: Tool, params: Mapping[str, Any], request: RequestContext
    ) -> TaskRecord:
        """Return a new task, which the store has (SEP-2663, "Task Creation")."""
        ttl = self._ttl
        wanted = tasks.read_ttl(params) if request.revision.era is Era.SESSION else None
        if wanted is not None:
            wanted = max(wanted, self._poll_interval)  # to fetch the result once
            ttl = wanted if ttl is None else min(wanted, ttl)
        await self._open()
        now = self._clock()
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
                task.stop(EVICTED)
                await task.save()
                if not task.is_saved:
                    raise

    def _forget(self, task: RunningTask) -> None:
        if task.is_saved:
            self._running.pop(task.record.id, None)

    async def _catch_up(self, now: float) -> None:
        """Write what a store that failed for a while did not take."""
        for id, task in list(self._running.items()):
            if task.has_ended:
                if not task.record.is_expired(now):
                    await task.save()
                    if not task.is_saved:
                        return
                self._running.pop(id, None)

    # Tasks that are there...

    async def _find(
        self, params: Mapping[str, Any], request: RequestContext
    ) -> tuple[TaskRecord, RunningTask | None]:
        """Return the task that params name, and what runs of it here."""
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

    async def _get(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``tasks/get``."""
        record, _ = await self._find(params, request)
        if request.revision.era is Era.STATELESS:
            return tasks.write_detailed(record)
        return tasks.write_legacy_task(record)

    async def _update(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``tasks/update``: with nothing but that it arrived."""
        record, running = await self._find(params, request)
        answers = tasks.read_answers(record, params)
        if running is not None and answers:
            running.answer(answers)
            await running.save()
        return {}

    async def _cancel(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``tasks/cancel``; the handler ends in its own time."""
        record, running = await self._find(params, request)
        is_stateless = request.revision.era is Era.STATELESS
        if record.is_final and not is_stateless:
            raise InvalidParams(f"the task has ended: {record.status}")
        if running is not None:
            running.cancel()
            await running.save()
            record = running.record
        return {} if is_stateless else tasks.write_legacy_task(record)

    # 2025-11-25 only...

    async def _result(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``tasks/result`` when the task has ended; until then ask what it asks.

        2025-11-25 basic/utilities/tasks, "Input Required Status": they belong to the
        stream of this request.
        """
        record, running = await self._find(params, request)
        while not record.is_final:
            if running is None:
                # Another process runs it, and only the store tells how it stands.
                await asyncio.sleep(record.poll_interval)
                record, running = await self._find(params, request)
                continue
            if not (request.can_ask and await running.put_question(request)):
                await running.changed.wait()
            record = running.record
        return _outcome(record)

    async def _list(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``tasks/list`` to an authenticated client."""
        if request.info.principal is None:
            raise MethodNotFound("tasks are listed only to authenticated clients")
        after = tasks.read_cursor(params)
        await self._open()
        await self._store.expire(self._clock())
        owner = owner_of(request)
        page = await self._store.list(owner, after=after, limit=PAGE + 1)
        current = [
            self._running[record.id].record if record.id in self._running else record
            for record in page
        ]
        result: dict[str, Any] = {
            "tasks": [tasks.write_legacy_task(record) for record in current[:PAGE]]
        }
        if len(current) > PAGE:
            result["nextCursor"] = tasks.cursor_after(current[PAGE - 1])
        return result

    def watchable(self, ids: Sequence[str], request: RequestContext) -> list[str]:
        """Return those that go on; ended ones and those of others are left out."""
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
        watched = self.watchable(ids, request)
        # Two may listen with equal functions, so each has its own key.
        key = object()
        for task_id in watched:
            self._watchers.setdefault(task_id, {})[key] = send
        return partial(self._unwatch, watched, key)

    def _unwatch(self, ids: Iterable[str], key: object) -> None:
        for task_id in ids:
            watchers = self._watchers.get(task_id)
            if watchers is not None:
                watchers.pop(key, None)
                if not watchers:
                    del self._watchers[task_id]

    def _tell(self, record: TaskRecord) -> None:
        """Tell how a task stands, as `tasks/get` would."""
        watchers = self._watchers.get(record.id)
        if watchers is None:
            return
        if record.is_final:  # there is nothing more to come
            del self._watchers[record.id]
        for send in tuple(watchers.values()):
            send(CHANGED, write_detailed(record))

    # The life of the store...

    async def _open(self) -> None:
        """Open the store, once for all callers."""
        if self._opening is None:
            loop = asyncio.get_running_loop()
            self._opening = loop.create_task(
                self._store.open(self._clock()), name="mcpwire-task-store"
            )
        opening = self._opening
        try:
            # A cancelled caller leaves it to the others.
            await wait_shared(opening)
        except BaseException:
            if opening.done() and self._opening is opening:
                self._opening = None  # it failed: the next one tries again
            raise

    async def aclose(self) -> None:
        """Stop all tasks, and let go of the store; it can be used again afterwards.

        A task that is under way fails, and says that its server stopped.
        """
        for task in list(self._running.values()):
            task.stop(INTERRUPTED)
        if self._jobs:
            _, hanging = await asyncio.wait(set(self._jobs), timeout=CLOSE_GRACE_S)
            if hanging:
                logger.warning("%d handlers of tasks did not stop", len(hanging))
        for task in list(self._running.values()):
            await task.save()
        self._running.clear()
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()  # which does nothing to one that is done
            await asyncio.wait({opening}, timeout=CLOSE_GRACE_S)
            await self._store.aclose()


def _outcome(record: TaskRecord) -> dict[str, Any]:
    """Return or raise exactly what the call would have, and which task it was."""
    if record.error is not None:
        raise rpc_error(
            record.error["code"],
            record.error["message"],
            data=record.error.get("data"),
        )
    if record.status == CANCELLED:
        raise InvalidParams("the task was cancelled and has no result")
    assert record.result is not None
    return tasks.relate_to_task(record.result, record.id)
