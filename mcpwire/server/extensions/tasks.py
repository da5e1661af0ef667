"""Tasks: calls that are answered at once with a task id while their handler runs on.

One object serves both dialects, the extension of 2026-07-28 and the experimental tasks
of 2025-11-25; each request is answered in the dialect of its revision. The rules which
calls become tasks, and the wire formats, are in `mcpwire.protocol.tasks`.

A task's state is an immutable `TaskRecord`. A change replaces the record at once,
without an await, and then writes it to a store. So readers in this process see the
newest state, and of several writes the last one wins.

2025-11-25 basic/utilities/tasks, "Task Isolation and Access Control", and SEP-2663,
"Security Considerations": a task belongs to the principal that created it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from math import inf
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import attrs

from mcpwire.errors import (
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MCPError,
    MethodNotFound,
    RequestTimeout,
    RPCError,
    rpc_error,
)
from mcpwire.limits import check_count, check_timeout
from mcpwire.protocol import tasks
from mcpwire.protocol.methods import TASKS
from mcpwire.protocol.tasks import StoredTask, TaskLimits, TaskRecord
from mcpwire.server.dispatcher import run_handler
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.server.request import member_of
from mcpwire.transports.base import wait_shared
from mcpwire.versions import Era
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.request import NotifyFn, RequestContext
    from mcpwire.server.tools import Tool

    AnswerFuture = asyncio.Future[dict[str, Any]]

    RunFn = Callable[[RequestContext], Awaitable[dict[str, Any]]]
    """Runs a handler and returns the result of its call; raises its errors."""

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
    """The store has no room for another task.

    Attributes:
        to_end: The id of a running task to end for more room; ``None``: no task.
    """

    def __init__(
        self, message: str = "there are too many tasks", *, to_end: str | None = None
    ) -> None:
        super().__init__(message)
        self.to_end = to_end


class TaskStore(Protocol):
    """Stores the tasks of a server; called on its loop, one call at a time per task.

    The process that runs a task has its newest state; the store is read for all other
    tasks, and to list the tasks of an owner.
    """

    async def open(self, now: float) -> None:
        """Open the store; called before all other methods, and again after `aclose`.

        The process that ran the unfinished tasks may have ended: end them with
        `TaskRecord.stop`, as `INTERRUPTED`.
        """

    async def create(self, record: TaskRecord, limits: TaskLimits) -> None:
        """Store a new task, durably before the method returns.

        Raises:
            StoreFullError: `select_evictions` finds no room for it; it also returns the
                `to_end` of the error.
        """

    async def get(self, task_id: str) -> TaskRecord | None:
        """Return a task, or ``None`` if no task has that id."""

    async def update(self, record: TaskRecord) -> None:
        """Replace the record of a task, if the store has that task."""

    async def list(
        self, owner: str, *, after: tuple[float, str] | None, limit: int
    ) -> list[TaskRecord]:
        """Return tasks of one owner, ordered by creation time and id.

        Args:
            owner: The key of the owner.
            after: Creation time and id of the task before the first one, which may have
                been deleted; ``None``: from the start.
            limit: The maximum number of tasks.
        """

    async def delete(self, task_id: str) -> None:
        """Delete a task, if it is stored."""

    async def expire(self, now: float) -> None:
        """Delete expired tasks."""

    async def aclose(self) -> None:
        """Release all resources; a second call has no effect."""


class MemoryTaskStore:
    """Stores tasks in memory, until the process ends."""

    def __init__(self) -> None:
        self._records: dict[str, TaskRecord] = {}  # the oldest first

    async def open(self, now: float) -> None:
        """Do nothing: the store needs no preparation."""

    async def create(self, record: TaskRecord, limits: TaskLimits) -> None:
        """Store a new task; see `TaskStore`.

        Raises:
            StoreFullError: There is no room for it.
        """
        stored = [StoredTask(r.id, r.owner, r.is_final) for r in self._records.values()]
        evicted, to_end = tasks.select_evictions(stored, record.owner, limits)
        if evicted is None:
            raise StoreFullError(to_end=to_end)
        for task_id in evicted:
            del self._records[task_id]
        self._records[record.id] = record

    async def get(self, task_id: str) -> TaskRecord | None:
        """Return a task; see `TaskStore`."""
        return self._records.get(task_id)

    async def update(self, record: TaskRecord) -> None:
        """Replace the record of a task, if the store has that task."""
        if record.id in self._records:
            self._records[record.id] = record

    async def list(
        self, owner: str, *, after: tuple[float, str] | None, limit: int
    ) -> list[TaskRecord]:
        """Return tasks of one owner; see `TaskStore`."""
        owned = [
            record
            for record in self._records.values()
            if record.owner == owner and (after is None or _sort_key(record) > after)
        ]
        return sorted(owned, key=_sort_key)[:limit]

    async def delete(self, task_id: str) -> None:
        """Delete a task, if it is stored."""
        self._records.pop(task_id, None)

    async def expire(self, now: float) -> None:
        """Delete expired tasks."""
        for record in [r for r in self._records.values() if r.is_expired(now)]:
            del self._records[record.id]

    async def aclose(self) -> None:
        """Do nothing: the tasks stay until the process ends."""


def _sort_key(record: TaskRecord) -> tuple[float, str]:
    return record.created_at, record.id


T = TypeVar("T")

TABLE_VERSION: Final = 1
"""The version of the table; files of another version are not opened."""

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
    """Stores tasks in an SQLite file, for one process at a time.

    Tasks that were running when their process ended cannot be continued. The next
    `open` of the file marks them as failed, with a message that explains it; so two
    processes must not share the file.

    Args:
        path: The file; a new one is accessible to the current user only.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._thread: ThreadPoolExecutor | None = None
        self._database: sqlite3.Connection | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._path!r}>"

    async def _run_in_thread(self, step: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function in the store's thread, in one transaction."""
        assert self._thread is not None  # `open` is called first

        def run_step() -> T:
            assert self._database is not None
            with self._database:
                return step(self._database)

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, run_step)

    async def open(self, now: float) -> None:
        """Open the file; mark tasks of an earlier process as failed.

        Raises:
            OSError: The file cannot be created or opened.
            sqlite3.Error: It is no database, or not one of this store.
        """
        await self.aclose()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mcpwire-tasks")
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._connect)
            await self._run_in_thread(lambda database: _interrupt_all(database, now))
        except BaseException:
            await self.aclose()
            raise

    def _connect(self) -> None:
        import sqlite3

        # Results may contain secrets of users. The descriptor is closed only if the
        # file is new: otherwise that would release this process's locks on the file.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        self._database = sqlite3.connect(self._path, isolation_level="IMMEDIATE")
        version = self._database.execute("pragma user_version").fetchone()[0]
        if version not in {0, TABLE_VERSION}:
            raise sqlite3.DatabaseError(
                f"{self._path!r} has tables of version {version}, not {TABLE_VERSION}"
            )
        self._database.execute("pragma journal_mode = wal")
        # A task that a client knows must survive a power failure.
        self._database.execute("pragma synchronous = full")
        self._database.executescript(_TABLE)
        self._database.execute(f"pragma user_version = {TABLE_VERSION}")

    async def create(self, record: TaskRecord, limits: TaskLimits) -> None:
        """Store a new task on the disk; see `TaskStore`.

        Raises:
            StoreFullError: There is no room for it.
        """
        await self._run_in_thread(lambda database: _create(database, record, limits))

    async def _execute(self, statement: str, *values: Any) -> list[Any]:
        return await self._run_in_thread(
            lambda database: database.execute(statement, values).fetchall()
        )

    async def get(self, task_id: str) -> TaskRecord | None:
        """Return a task; see `TaskStore`."""
        rows = await self._execute("select record from task where id = ?", task_id)
        return _decode_record(rows[0][0]) if rows else None

    async def update(self, record: TaskRecord) -> None:
        """Replace the record of a task, if the store has that task."""
        await self._execute(
            "update task set is_final = ?, record = ? where id = ?",
            record.is_final,
            _encode_record(record),
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
        return [_decode_record(row[0]) for row in rows]

    async def delete(self, task_id: str) -> None:
        """Delete a task, if it is stored."""
        await self._execute("delete from task where id = ?", task_id)

    async def expire(self, now: float) -> None:
        """Delete expired tasks."""
        await self._execute("delete from task where expires_at <= ?", now)

    async def aclose(self) -> None:
        """Close the file; its tasks stay in it."""
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


# Work of the store's thread


def _create(
    database: sqlite3.Connection, record: TaskRecord, limits: TaskLimits
) -> None:
    rows = database.execute(
        "select id, owner, is_final from task order by created_at, id"
    )
    stored = [StoredTask(id, owner, bool(is_final)) for id, owner, is_final in rows]
    evicted, to_end = tasks.select_evictions(stored, record.owner, limits)
    if evicted is None:
        raise StoreFullError(to_end=to_end)
    database.executemany("delete from task where id = ?", [(id,) for id in evicted])
    row = (record.id, record.owner, record.created_at, record.expires_at)
    database.execute(
        "insert into task values (?, ?, ?, ?, ?, ?)",
        (*row, record.is_final, _encode_record(record)),
    )


def _interrupt_all(database: sqlite3.Connection, now: float) -> None:
    rows = database.execute("select record from task where not is_final").fetchall()
    for row in rows:
        record = _decode_record(row[0]).stop(tasks.INTERRUPTED, now=now)
        database.execute(
            "update task set is_final = 1, record = ? where id = ?",
            (_encode_record(record), record.id),
        )


def _encode_record(record: TaskRecord) -> bytes:
    return encode(attrs.asdict(record, recurse=False))


def _decode_record(data: bytes) -> TaskRecord:
    return TaskRecord(**loads(data))


_ADDRESS: Final = "address:"
"""The prefix of owners that are not principals; those of principals are JSON arrays."""


def owner_of(request: RequestContext) -> str:
    """Return the client that a task counts for, as a text that a store can compare."""
    info = request.info
    if info.principal is not None:
        return encode(info.principal.key).decode()
    return f"{_ADDRESS}{info.owner}" if info.owner else ""


def is_reachable(owner: str, request: RequestContext) -> bool:
    """Return whether a client may access a task; only principals are distinguished."""
    if request.info.principal is not None:
        return owner == owner_of(request)
    return not owner or owner.startswith(_ADDRESS)


CHANGED: Final = "notifications/tasks"
PROGRESS: Final = "notifications/progress"
STATUS: Final = "notifications/tasks/status"

logger = LimitedLogger("mcpwire")


@attrs.define(eq=False, repr=False)
class RunningTask:
    """A task with its handler in this process; see the module docstring."""

    record: TaskRecord
    _request: RequestContext
    _store: TaskStore
    _clock: Callable[[], float]
    watchers: dict[object, NotifyFn] = attrs.field(factory=dict, init=False)
    """Get each change of the record, as ``tasks/get`` returns it."""

    changed: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    """Set when the record or the questions change."""

    _saved: TaskRecord = attrs.field(init=False)  # the record in the store
    # The answers to the record's inputs, and those that ``tasks/result`` requests send.
    _answers: dict[str, AnswerFuture] = attrs.field(factory=dict, init=False)
    _being_sent: set[str] = attrs.field(factory=set, init=False)
    _writing: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _job: asyncio.Task[None] | None = attrs.field(default=None, init=False)
    _is_started: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._saved = self.record
        self._request = self._request.for_task(ask=self._ask, notify=self._forward)

    def start(
        self, body: RunFn, params: dict[str, Any], on_end: Callable[[RunningTask], None]
    ) -> asyncio.Task[None]:
        """Start the handler; the returned task raises only `CancelledError`."""
        self._job = asyncio.get_running_loop().create_task(
            self._run(body, params, on_end), name=f"mcpwire-task-{self.record.tool}"
        )
        return self._job

    async def _run(
        self, body: RunFn, params: dict[str, Any], on_end: Callable[[RunningTask], None]
    ) -> None:
        self._is_started = True
        if self.record.is_final:
            # Stopped before it began. The job begins all the same and is cancelled at
            # once, so that it closes its request.
            self._stop()
        try:
            record = await self._outcome(body, params)
            try:
                encode({"result": tasks.write_detailed(record)})
            except LocalProtocolError as error:
                reason = f"the answer could not be encoded: {error}"
                record = self.record.stop(reason, now=self._clock())
            self._set_record(record)
        except asyncio.CancelledError:
            # `cancel` has already set the outcome, except when the loop shuts down.
            self._set_record(self.record.stop(tasks.INTERRUPTED, now=self._clock()))
            raise
        finally:
            self._request.close()
            for answer in self._answers.values():
                answer.cancel()
            self._answers.clear()
            try:
                await self.save()
            finally:
                on_end(self)

    async def _outcome(self, body: RunFn, params: dict[str, Any]) -> TaskRecord:
        """Run the handler; return the final record."""
        try:
            async with asyncio.timeout(self.record.ttl) as timer:
                result = await run_handler(
                    lambda _, request: body(request), params, self._request
                )
        except RPCError as error:
            return self._failed(error)
        except TimeoutError:
            assert timer.expired()  # `run_handler` converts those of handlers
            self._request.is_cancelled = True
            return self.record.stop(tasks.EXPIRED, now=self._clock())
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

    # State

    @property
    def is_saved(self) -> bool:
        """Whether the store has the current record."""
        return self._saved is self.record

    @property
    def has_ended(self) -> bool:
        """Whether the handler has finished."""
        return self._job is not None and self._job.done()

    def _set_record(self, record: TaskRecord) -> None:
        previous, self.record = self.record, record
        if record is previous:
            return
        self._wake()
        for send in tuple(self.watchers.values()):
            send(CHANGED, tasks.write_detailed(record))
        if self._request.session is not None:
            self._send(STATUS, tasks.write_legacy_task(record))

    def _wake(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    async def save(self) -> None:
        """Write the current record to the store; log a failure."""
        async with self._writing:
            record = self.record
            if self._saved is record:
                return
            try:
                await self._store.update(record)
            except Exception:  # an error of the store must not end the task
                logger.exception("a task was not written to %r", self._store)
                return
            self._saved = record

    def cancel(self) -> None:
        """Cancel the task on behalf of its client, if it is running."""
        self._end(self.record.cancel(now=self._clock()))

    def stop(self, reason: str) -> None:
        """End the task as failed for this reason, if it is running."""
        self._end(self.record.stop(reason, now=self._clock()))

    def _end(self, record: TaskRecord) -> None:
        if record is self.record:
            return
        self._request.is_cancelled = True
        self._set_record(record)
        if self._is_started:
            self._stop()

    def _stop(self) -> None:
        assert self._job is not None
        self._job.cancel()

    # Messages to the client

    def _send(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification to a session's client; other clients get none.

        The extension, "Task Status Notifications": neither progress nor messages go
        to listeners of tasks.
        """
        session = self._request.session
        if session is not None and not session.is_closed:
            session.send(method, tasks.relate_to_task(params, self.record.id))

    def _forward(self, method: str, params: dict[str, Any]) -> None:
        """Forward a handler's notification; store a progress message as the status."""
        if method == PROGRESS and (message := params.get("message")) is not None:
            self.record = self.record.describe(message, now=self._clock())
        self._send(method, params)

    async def _ask(
        self, method: str, params: dict[str, Any], key: str | None = None
    ) -> dict[str, Any]:
        """Send a request of the handler to the client; return the client's result."""
        tasks.check_task_can_ask(method, self._request.revision)
        encode(params)  # raises LocalProtocolError in the handler
        record, key = self.record.ask(method, params, now=self._clock(), key=key)
        answer: AnswerFuture = asyncio.get_running_loop().create_future()
        self._answers[key] = answer
        try:
            self._set_record(record)
            await self.save()
            return await answer
        finally:
            if self._answers.pop(key, None) is not None:
                # The handler was cancelled: stop a pending delivery, too.
                answer.cancel()
                self._settle([key])

    def _settle(self, keys: Iterable[str]) -> None:
        self._set_record(self.record.settle(frozenset(keys), now=self._clock()))

    def answer(self, answers: Mapping[str, dict[str, Any]]) -> None:
        """Pass the client's results to the handler, by key."""
        for key, result in answers.items():
            answer = self._answers.pop(key, None)
            if answer is not None and not answer.done():
                answer.set_result(result)
        self._settle(answers)

    async def send_question(self, request: RequestContext) -> bool:
        """Send an open question to the client on the stream of this request."""
        inputs = self.record.inputs
        key = next((key for key in inputs if key not in self._being_sent), None)
        if key is None:
            return False
        answer, question = self._answers[key], inputs[key]
        self._being_sent.add(key)
        params = tasks.relate_to_task(question["params"], self.record.id)
        delivery = asyncio.ensure_future(request.ask(question["method"], params))
        try:
            await asyncio.wait({delivery, answer}, return_when=asyncio.FIRST_COMPLETED)
            if delivery.done() and not answer.done():
                self._deliver_answer(key, delivery)
        finally:
            self._being_sent.discard(key)
            self._wake()  # another request may send it, if it has no answer
            delivery.cancel()
            # Retrieve the outcome, whatever it is.
            await asyncio.gather(delivery, return_exceptions=True)
        return True

    def _deliver_answer(self, key: str, delivery: AnswerFuture) -> None:
        try:
            self.answer({key: delivery.result()})
        except (RPCError, RequestTimeout) as error:
            # Without a task the handler would get this error, too.
            self._answers.pop(key).set_exception(error)
            self._settle([key])


PAGE: Final = 100
"""The maximum number of tasks of one page."""

CLOSE_GRACE_S: Final = 0.25
"""How long handlers may take to end on shutdown, in seconds."""


class Tasks:
    """Runs tool calls as tasks; pass it to `Server(extensions=...)`.

    It applies to tools with ``task="optional"`` or ``task="required"``. Tasks belong to
    the principal of the call that created them; other principals cannot see them. On a
    server that does not distinguish its clients, only the secret id protects a task.

    Args:
        store: The store of tasks; in memory by default.
        ttl: How long a task is kept from its creation, running or not, in seconds;
            ``None``: without limit. A client of 2025-11-25 may request less.
        poll_interval: How many seconds clients should wait between two polls.
        max_tasks: The maximum number of tasks. Over it, the client with the most tasks
            loses its oldest finished one, or if all are running, its oldest one, which
            fails. No client loses a task for a client with as many.
        per_principal: How many tasks of one principal, or of one address over HTTP
            without `auth`, may run at once.
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
        self.settings: dict[str, Any] = {}  # of the extension: it has none
        self._running: dict[str, RunningTask] = {}
        self._jobs: set[asyncio.Task[None]] = set()
        self._opening: asyncio.Task[None] | None = None
        self._has_auth = False
        self._is_attached = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._running)} under way>"

    # Declarations and methods of the server

    @property
    def legacy_capabilities(self) -> dict[str, Any]:
        """The capabilities that the server declares at 2025-11-25.

        2025-11-25 basic/utilities/tasks, "Task Isolation and Access Control": a
        server that cannot distinguish its clients should not list tasks.
        """
        tasks: dict[str, Any] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
        return {"tasks": {"list": {}, **tasks} if self._has_auth else tasks}

    def attach(self, server: Any) -> None:
        """Attach the extension to a server.

        Raises:
            ValueError: The extension is attached to another server.
        """
        if self._is_attached:
            raise ValueError("these tasks belong to another server")
        self._is_attached = True
        self._has_auth = server.auth is not None

    def methods(self) -> dict[str, Handler]:
        """Return the handlers by method, for the server to choose from."""
        methods: dict[str, Handler] = {
            "tasks/get": self._get,
            "tasks/cancel": self._cancel,
            "tasks/update": self._update,
            "tasks/result": self._result,
        }
        return {**methods, "tasks/list": self._list} if self._has_auth else methods

    # Creation of tasks

    async def intercept(
        self, tool: Tool, params: dict[str, Any], request: RequestContext, body: RunFn
    ) -> dict[str, Any] | None:
        """Answer a call with a new task; ``None``: run the call as usual.

        If a task is returned, `body` is called exactly once, with its own request.
        """
        capabilities = request.client_capabilities
        if not tasks.runs_as_task(
            tool.task, tool.key, request.revision, capabilities, params
        ):
            return None
        record = await self._create(tool, params, request)
        task = RunningTask(record, request, self._store, self._clock)
        self._running[record.id] = task
        job = task.start(body, params, self._discard)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        logger.debug("%r runs as a task", tool.key)
        if request.revision.era is Era.STATELESS:
            return tasks.write_created(record)
        return tasks.write_legacy_created(record)

    async def _create(
        self, tool: Tool, params: Mapping[str, Any], request: RequestContext
    ) -> TaskRecord:
        """Create a task and store it (SEP-2663, "Task Creation")."""
        ttl = self._ttl
        requested_ttl = (
            tasks.read_ttl(params) if request.revision.era is Era.SESSION else None
        )
        if requested_ttl is not None:
            # Time to fetch the result once.
            requested_ttl = max(requested_ttl, self._poll_interval)
            ttl = requested_ttl if ttl is None else min(requested_ttl, ttl)
        await self._open()
        now = self._clock()
        await self._save_ended(now)
        record = TaskRecord(
            # 192 random bits: an id cannot be guessed.
            id=secrets.token_urlsafe(24),
            owner=owner_of(request),
            tool=tool.key,
            created_at=now,
            ttl=ttl,
            poll_interval=self._poll_interval,
        )
        await self._store.expire(now)
        try:
            await self._store_record(record)
        except StoreFullError as error:
            raise InternalError(f"{error}, try again later") from error
        except asyncio.CancelledError:
            # The client will never learn the id.
            await self._store.delete(record.id)
            raise
        return record

    async def _store_record(self, record: TaskRecord) -> None:
        """Write a new task to the store; evict others as the store asks."""
        while True:
            try:
                return await self._store.create(record, self._limits)
            except StoreFullError as error:
                task = self._running.get(error.to_end or "")
                if task is None or (task.record.is_final and task.is_saved):
                    raise
                task.stop(tasks.EVICTED)
                await task.save()
                if not task.is_saved:
                    raise

    def _discard(self, task: RunningTask) -> None:
        if task.is_saved:
            self._running.pop(task.record.id, None)

    async def _save_ended(self, now: float) -> None:
        """Save the ended tasks that the store has failed to write."""
        for id, task in list(self._running.items()):
            if task.has_ended:
                if not task.record.is_expired(now):
                    await task.save()
                    if not task.is_saved:
                        return
                self._running.pop(id, None)

    # Methods of tasks

    async def _find(
        self, params: Mapping[str, Any], request: RequestContext
    ) -> tuple[TaskRecord, RunningTask | None]:
        """Return the task that `params` name, and its running part, if it is here."""
        task_id = member_of(params, "taskId", str)
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
        """Handle ``tasks/get``."""
        record, _ = await self._find(params, request)
        if request.revision.era is Era.STATELESS:
            return tasks.write_detailed(record)
        return tasks.write_legacy_task(record)

    async def _update(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``tasks/update``; the result is empty."""
        record, running = await self._find(params, request)
        answers = tasks.read_answers(record, params)
        if running is not None and answers:
            running.answer(answers)
            await running.save()
        return {}

    async def _cancel(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``tasks/cancel``, without waiting for the handler to end."""
        record, running = await self._find(params, request)
        is_stateless = request.revision.era is Era.STATELESS
        if record.is_final and not is_stateless:
            raise InvalidParams(f"the task has ended: {record.status}")
        if running is not None:
            running.cancel()
            await running.save()
            record = running.record
        return {} if is_stateless else tasks.write_legacy_task(record)

    # Methods of 2025-11-25 only

    async def _result(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``tasks/result``: send the task's questions until it has ended.

        2025-11-25 basic/utilities/tasks, "Input Required Status": the questions belong
        to the stream of this request.
        """
        record, running = await self._find(params, request)
        while not record.is_final:
            if running is None:
                # Another process runs it: poll the store.
                await asyncio.sleep(record.poll_interval)
                record, running = await self._find(params, request)
                continue
            if not (request.can_ask and await running.send_question(request)):
                await running.changed.wait()
            record = running.record
        return _call_result(record)

    async def _list(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``tasks/list`` of an authenticated client."""
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

    def watchable_ids(self, ids: Sequence[str], request: RequestContext) -> list[str]:
        """Return the ids of running tasks that the client may access."""
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
        """Send each change of these tasks until the returned function is called."""
        watched = self.watchable_ids(ids, request)
        # Two listeners may pass equal functions, so each has its own key.
        key = object()
        for task_id in watched:
            self._running[task_id].watchers[key] = send

        def unwatch() -> None:
            for task_id in watched:
                if task_id in self._running:
                    self._running[task_id].watchers.pop(key, None)

        return unwatch

    # The store

    async def _open(self) -> None:
        """Open the store, once for all callers; after a failure, the next retries."""
        opening = self._opening
        if opening is None or (
            opening.done() and (opening.cancelled() or opening.exception() is not None)
        ):
            self._opening = opening = asyncio.get_running_loop().create_task(
                self._store.open(self._clock()), name="mcpwire-task-store"
            )
        await wait_shared(opening)

    async def aclose(self) -> None:
        """Stop all tasks and close the store; the object can be used again afterwards.

        A running task fails, with the reason that its server stopped.
        """
        for task in list(self._running.values()):
            task.stop(tasks.INTERRUPTED)
        if self._jobs:
            _, hanging = await asyncio.wait(set(self._jobs), timeout=CLOSE_GRACE_S)
            if hanging:
                logger.warning("%d handlers of tasks did not stop", len(hanging))
        for task in list(self._running.values()):
            await task.save()
        self._running.clear()
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()  # no effect on a finished task
            await asyncio.wait({opening}, timeout=CLOSE_GRACE_S)
            await self._store.aclose()


def _call_result(record: TaskRecord) -> dict[str, Any]:
    """Return or raise the outcome of the call, with the id of its task."""
    if record.error is not None:
        raise rpc_error(
            record.error["code"], record.error["message"], data=record.error.get("data")
        )
    if record.status == tasks.CANCELLED:
        raise InvalidParams("the task was cancelled and has no result")
    assert record.result is not None
    return tasks.relate_to_task(record.result, record.id)
