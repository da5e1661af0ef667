"""Tasks in a SQLite file: what has ended outlives the process that ran it.

A thread of its own does the work, one step after the other, so that the loop never
waits for a disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from mcpwire.protocol.tasks import (
    INTERRUPTED,
    HeldTask,
    TaskRecord,
    select_evictions,
)
from mcpwire.server.extensions.tasks_store import StoreFullError
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from mcpwire.protocol.tasks import TaskLimits

__all__ = ["SqliteTaskStore"]

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
        """Return one readable line."""
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

    async def get(self, task_id: str) -> TaskRecord | None:
        """Return a task; see `TaskStore`."""
        found = await self._do(
            lambda database: database.execute(
                "select record from task where id = ?", (task_id,)
            ).fetchone()
        )
        return None if found is None else _read(found[0])

    async def update(self, record: TaskRecord) -> None:
        """Keep how a task stands now, if it is still there."""
        row = (record.is_final, _written(record), record.id)
        await self._do(
            lambda database: database.execute(
                "update task set is_final = ?, record = ? where id = ?", row
            )
        )

    async def list(
        self, owner: str, *, after: tuple[float, str] | None, limit: int
    ) -> list[TaskRecord]:
        """Return tasks of one owner; see `TaskStore`."""
        place = (float("-inf"), "") if after is None else after
        rows = await self._do(
            lambda database: database.execute(
                "select record from task where owner = ? and (created_at, id) > (?, ?)"
                " order by created_at, id limit ?",
                (owner, *place, limit),
            ).fetchall()
        )
        return [_read(row[0]) for row in rows]

    async def delete(self, task_id: str) -> None:
        """Forget a task, if it is there."""
        await self._do(
            lambda database: database.execute(
                "delete from task where id = ?", (task_id,)
            )
        )

    async def expire(self, now: float) -> None:
        """Forget the tasks whose time is over."""
        await self._do(
            lambda database: database.execute(
                "delete from task where expires_at <= ?", (now,)
            )
        )

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
    kept, under_way = database.execute(
        "select count(*), coalesce(sum(owner = ? and not is_final), 0) from task",
        (record.owner,),
    ).fetchone()
    if kept >= limits.kept or under_way >= limits.unfinished:
        _make_room(database, record.owner, limits)
    row = (record.id, record.owner, record.created_at, record.expires_at)
    database.execute(
        "insert into task values (?, ?, ?, ?, ?, ?)",
        (*row, record.is_final, _written(record)),
    )


def _make_room(database: sqlite3.Connection, owner: str, limits: TaskLimits) -> None:
    rows = database.execute(
        "select id, owner, is_final from task order by created_at, id"
    )
    held = [HeldTask(id, whose, bool(is_final)) for id, whose, is_final in rows]
    evicted, to_end = select_evictions(held, owner, limits)
    if evicted is None:
        raise StoreFullError(to_end=to_end)
    database.executemany("delete from task where id = ?", [(id,) for id in evicted])


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
    members: dict[str, Any] = loads(written)
    return TaskRecord(**members)
