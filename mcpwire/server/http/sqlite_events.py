"""Keeps events in a SQLite file, which other processes and later ones can read.

One thread works on the file, so that no query holds up the loop. Several processes may
share a file: SQLite lets them write one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcpwire.server.http.event_store import Event
from mcpwire.server.http.events import check_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

__all__ = ["SQLiteEventStore"]

T = TypeVar("T")

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS events (
    session TEXT NOT NULL,
    stream INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    at REAL NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (session, stream, sequence)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS events_at ON events (at);
"""

_KEEP: Final = "INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?)"
_FIND: Final = """
SELECT sequence, data FROM events
WHERE session = ? AND stream = ? AND sequence > ? AND at >= ? ORDER BY sequence
"""
_DROP_STREAM: Final = "DELETE FROM events WHERE session = ? AND stream = ?"
_DROP_SESSION: Final = "DELETE FROM events WHERE session = ?"
_DROP_OLD: Final = "DELETE FROM events WHERE at < ?"
_COUNT: Final = "SELECT count(*) FROM events"
# How deep an event lies below the newest one of its client; see `client_key`.
_DROP_DEEPEST: Final = """
DELETE FROM events WHERE (session, stream, sequence) IN (
    SELECT session, stream, sequence FROM (
        SELECT session, stream, sequence, at, row_number() OVER (
            PARTITION BY substr(session, instr(session, '.') + 1)
            ORDER BY at DESC, sequence DESC
        ) AS depth FROM events
    ) ORDER BY depth DESC, at LIMIT ?
)
"""

PRUNED_EVERY: Final = 256
"""After so many events the file is looked through for what is too old or too much."""

_BUSY_S: Final = 5.0
"""How long another process may be writing."""


class SQLiteEventStore:
    """Keeps events in a file; opened with the first event, closed by `aclose`.

    It can be used again after `aclose`. Messages stand in the file as they were sent,
    so it is made for this user alone; the permissions of one that is there are left.

    Args:
        path: The file; it is made where there is none.
        age: For how long events are kept, in seconds.
        events: About how many are kept at most, of all sessions; beyond them the oldest
            of the client with the most go.
        clock: Gives the time in seconds since 1970.

    Raises:
        ValueError: A bound is not above zero.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        age: float = 3_600.0,
        events: int = 100_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_bounds(age=age, events=events)
        self._path = path
        self._age = age
        self._events = events
        self._clock = clock
        self._thread: ThreadPoolExecutor | None = None
        self._file: sqlite3.Connection | None = None
        self._unpruned = 0

    async def append(self, session: str, stream: int, event: Event) -> None:
        """Keep an event; one that is kept already is kept once.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        row = (session, stream, event.sequence, self._clock(), event.data)
        await self._run(lambda file: self._keep(file, row))

    async def replay(self, session: str, stream: int, after: int) -> Sequence[Event]:
        """Return what is kept of a stream with a sequence above `after`, in order.

        Raises:
            sqlite3.Error: The file cannot be read.
        """
        oldest = self._clock() - self._age
        row = (session, stream, after, oldest)
        found = await self._run(lambda file: file.execute(_FIND, row).fetchall())
        return [Event(sequence, data) for sequence, data in found]

    async def drop_stream(self, session: str, stream: int) -> None:
        """Forget one stream.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        await self._run(lambda file: _change(file, _DROP_STREAM, session, stream))

    async def drop_session(self, session: str) -> None:
        """Forget all streams of a session.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        await self._run(lambda file: _change(file, _DROP_SESSION, session))

    async def aclose(self) -> None:
        """Close the file and end the thread, when what was begun is done."""
        thread, self._thread = self._thread, None
        if thread is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(thread, self._close)
            thread.shutdown(wait=True)

    # In the thread...

    async def _run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="mcpwire-events")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._thread, lambda: action(self._open_file())
        )

    def _open_file(self) -> sqlite3.Connection:
        if self._file is None:
            _make(self._path)
            file = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)
            try:
                file.execute("PRAGMA journal_mode = WAL")
                # An event that a crash of the machine loses is one that is not kept.
                file.execute("PRAGMA synchronous = NORMAL")
                file.executescript(_SCHEMA)
            except BaseException:
                file.close()
                raise
            self._file = file
            self._unpruned = PRUNED_EVERY
        return self._file

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _keep(self, file: sqlite3.Connection, row: tuple[Any, ...]) -> None:
        file.execute(_KEEP, row)
        self._unpruned += 1
        if self._unpruned >= PRUNED_EVERY:
            self._unpruned = 0
            _change(file, _DROP_OLD, self._clock() - self._age)
            (count,) = file.execute(_COUNT).fetchone()
            if count > self._events:
                # Some more, for all of them have to be sorted.
                excess = count - self._events + self._events // 16
                _change(file, _DROP_DEEPEST, excess)


def _change(file: sqlite3.Connection, statement: str, *values: Any) -> None:
    file.execute(statement, values)


def _make(path: str | PathLike[str]) -> None:
    """Make a file that only this user can read, if there is none.

    SQLite gives the files that it puts beside it the same permissions.
    """
    with contextlib.suppress(FileExistsError):
        # Only of a new file is the descriptor closed: of another one that would end the
        # locks that this process has on it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
