"""Event stores: keep the messages of event streams, so that clients can resume them.

`EventStore` is the protocol of a store in memory, in a file or on another machine. The
session numbers the messages; a store only keeps and finds them.

2025-11-25 basic/transports, "Resumability and Redelivery": an event id is unique within
its session and names its stream, so that only events of that stream are sent again. The
id also contains the session's mark, so that an id of another session is rejected.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import OrderedDict, deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import attrs

from mcpwire.limits import check_bounds
from mcpwire.server.fair_pool import client_of
from mcpwire.server.log_limit import LimitedLogger

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Coroutine, Sequence
    from os import PathLike

    StartTask = Callable[[Coroutine[Any, Any, None]], None]
    """Starts a task that outlives the session."""

__all__ = [
    "EVENT_COST",
    "Event",
    "EventStore",
    "Journal",
    "MemoryEventStore",
    "SQLiteEventStore",
    "parse_event_id",
]

T = TypeVar("T")

logger = LimitedLogger("mcpwire")

EVENT_COST: Final = 512
"""Bytes that an event counts in addition to its message, for the store's overhead."""

_MAX_DIGITS: Final = 15


@attrs.frozen
class Event:
    """One message of a stream."""

    sequence: int
    """Its number in its stream, which begins with 1; 0 precedes all events."""

    data: bytes
    """The message, as JSON."""


def parse_event_id(text: str) -> tuple[str, int, int] | None:
    """Return the mark, stream and sequence of an event id; ``None``: invalid id."""
    mark, *numbers = text.split(".")
    if not mark or len(numbers) != 2 or not all(map(_is_number, numbers)):
        return None
    return mark, int(numbers[0]), int(numbers[1])


def _is_number(text: str) -> bool:
    # Each number has one valid spelling, so that only ids that we wrote are accepted.
    if not (text.isascii() and text.isdigit()) or len(text) > _MAX_DIGITS:
        return False
    return text == str(int(text))


class EventStore(Protocol):
    """Keeps the messages of streams for a limited time.

    Calls of `append` for one session are sequential and in order; the other methods may
    be called at any time. A store that need not wait may define ``append_nowait``, with
    the parameters of `append`, which is then called instead.

    A session is named by a key that is not secret. The part of the key after its full
    stop is the same for all sessions of one client, so that a store can apply quotas.
    """

    async def append(self, session: str, stream: int, event: Event) -> None:
        """Store an event; storing it again has no effect."""

    async def replay(self, session: str, stream: int, after: int) -> Sequence[Event]:
        """Return the stored events of a stream with a sequence above `after`."""

    async def drop_stream(self, session: str, stream: int) -> None:
        """Delete the events of one stream, which can no longer be resumed."""

    async def drop_session(self, session: str) -> None:
        """Delete the events of all streams of a session."""

    async def aclose(self) -> None:
        """Release the resources of the store."""


@attrs.define
class _Entry:
    session: str
    stream: int
    event: Event
    stored_at: float

    @property
    def size(self) -> int:
        return len(self.event.data) + EVENT_COST


class _Entries(OrderedDict[int, _Entry]):
    """Entries by number. Finding the oldest entry in a dict would take linear time."""

    size = 0


@attrs.define(eq=False, repr=False, slots=False, kw_only=True)
class MemoryEventStore:
    """Stores events in memory; the oldest are deleted when a limit is reached.

    Args:
        events: The maximum number of events of one session.
        size: The maximum number of bytes of one session; an event counts its message
            and 512 bytes more.
        total_size: The maximum number of bytes of all sessions; beyond it, the oldest
            events of the client with the most bytes are deleted.
        age: How long an event is kept, in seconds.
        clock: Returns the time in seconds; must be monotonic.

    Raises:
        ValueError: A bound is not above zero.
    """

    _events: int = 1_000
    _size: int = 4 * 1024 * 1024
    _total_size: int = 64 * 1024 * 1024
    _age: float = 600.0
    _clock: Callable[[], float] = time.monotonic
    _last: int = attrs.field(default=0, init=False)
    _all: _Entries = attrs.field(factory=_Entries, init=False)
    _sessions: dict[str, _Entries] = attrs.field(factory=dict, init=False)
    _clients: dict[str, _Entries] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        check_bounds(events=self._events, size=self._size, age=self._age)
        check_bounds(total_size=self._total_size)

    def __len__(self) -> int:
        """Return the number of stored events."""
        return len(self._all)

    @property
    def size(self) -> int:
        """The number of stored bytes, as the limits count them."""
        return self._all.size

    def append_nowait(self, session: str, stream: int, event: Event) -> None:
        """Store an event, without waiting."""
        self._last += 1
        entries = self._sessions.setdefault(session, _Entries())
        client = self._clients.setdefault(client_of(session), _Entries())
        entry = _Entry(session, stream, event, self._clock())
        for group in (self._all, entries, client):
            group[self._last] = entry
            group.size += entry.size
        while len(entries) > self._events or entries.size > self._size:
            self._delete(next(iter(entries)))
        while self._all.size > self._total_size:
            largest = max(self._clients.values(), key=lambda each: each.size)
            self._delete(next(iter(largest)))
        self._delete_expired()

    def _delete_expired(self) -> None:
        now = self._clock()
        while self._all:
            number, entry = next(iter(self._all.items()))
            if now - entry.stored_at <= self._age:
                return
            self._delete(number)

    def _delete(self, number: int) -> None:
        session = self._all[number].session
        client = client_of(session)
        for group in (self._all, self._sessions[session], self._clients[client]):
            group.size -= group.pop(number).size
        if not self._sessions[session]:
            del self._sessions[session]
        if not self._clients[client]:
            del self._clients[client]

    async def append(self, session: str, stream: int, event: Event) -> None:
        """Store an event."""
        self.append_nowait(session, stream, event)

    async def replay(self, session: str, stream: int, after: int) -> Sequence[Event]:
        """Return the stored events of a stream with a sequence above `after`."""
        self._delete_expired()
        return [
            entry.event
            for entry in self._sessions.get(session, _Entries()).values()
            if entry.stream == stream and entry.event.sequence > after
        ]

    async def drop_stream(self, session: str, stream: int) -> None:
        """Delete the events of one stream."""
        for number, entry in list(self._sessions.get(session, _Entries()).items()):
            if entry.stream == stream:
                self._delete(number)

    async def drop_session(self, session: str) -> None:
        """Delete the events of all streams of a session."""
        for number in list(self._sessions.get(session, ())):
            self._delete(number)

    async def aclose(self) -> None:
        """Do nothing: the store holds no resources."""


# A store in a file

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

_INSERT: Final = "INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?)"
_SELECT: Final = """
SELECT sequence, data FROM events
WHERE session = ? AND stream = ? AND sequence > ? AND at >= ? ORDER BY sequence
"""
_DROP_STREAM: Final = "DELETE FROM events WHERE session = ? AND stream = ?"
_DROP_SESSION: Final = "DELETE FROM events WHERE session = ?"
_DROP_OLD: Final = "DELETE FROM events WHERE at < ?"
_COUNT: Final = "SELECT count(*) FROM events"
# The depth of an event is its rank among its client's, newest first; see `client_key`.
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

PRUNE_INTERVAL: Final = 256
"""After how many events the file is searched for expired and excess events."""

_LOCK_WAIT_S: Final = 5.0
"""How long to wait for another process's write, in seconds."""


@attrs.define(eq=False, repr=False, slots=False)
class SQLiteEventStore:
    """Stores events in an SQLite file, which the first call opens and `aclose` closes.

    It can be used again after `aclose`. The file contains the messages unencrypted, so
    a new file is accessible to the current user only; an existing file keeps its
    permissions. Several processes may share a file.

    Args:
        path: The file, created if necessary.
        age: How long events are kept, in seconds.
        events: The approximate maximum number of events of all sessions; beyond it, the
            oldest events of the client with the most are deleted.
        clock: Returns the time in seconds since 1970.

    Raises:
        ValueError: A bound is not above zero.
    """

    _path: str | PathLike[str]
    _age: float = attrs.field(default=3_600.0, kw_only=True)
    _events: int = attrs.field(default=100_000, kw_only=True)
    _clock: Callable[[], float] = attrs.field(default=time.time, kw_only=True)
    # One thread accesses the file, so that no query blocks the loop.
    _thread: ThreadPoolExecutor | None = attrs.field(default=None, init=False)
    # By thread: during `aclose`, the next call opens the file in a new one.
    _opened: threading.local = attrs.field(factory=threading.local, init=False)
    _unpruned: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        check_bounds(age=self._age, events=self._events)

    async def append(self, session: str, stream: int, event: Event) -> None:
        """Store an event; storing it again has no effect.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        row = (session, stream, event.sequence, self._clock(), event.data)
        await self._run(lambda file: self._insert(file, row))

    async def replay(self, session: str, stream: int, after: int) -> Sequence[Event]:
        """Return the stored events of a stream with a sequence above `after`.

        Raises:
            sqlite3.Error: The file cannot be read.
        """
        oldest = self._clock() - self._age
        row = (session, stream, after, oldest)
        rows = await self._run(lambda file: file.execute(_SELECT, row).fetchall())
        return [Event(sequence, data) for sequence, data in rows]

    async def drop_stream(self, session: str, stream: int) -> None:
        """Delete the events of one stream.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        await self._run(lambda file: file.execute(_DROP_STREAM, (session, stream)))

    async def drop_session(self, session: str) -> None:
        """Delete the events of all streams of a session.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        await self._run(lambda file: file.execute(_DROP_SESSION, (session,)))

    async def aclose(self) -> None:
        """Finish pending operations, close the file and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(thread, self._close)
            thread.shutdown(wait=True)

    # Work of the thread

    async def _run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="mcpwire-events")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: action(self._open()))

    def _open(self) -> sqlite3.Connection:
        if not hasattr(self._opened, "file"):
            import sqlite3

            with contextlib.suppress(FileExistsError):
                # The descriptor is closed only if the file is new: closing one of an
                # existing file would release this process's locks on it. SQLite gives
                # its WAL and journal files the same permissions.
                flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
                os.close(os.open(self._path, flags, 0o600))
            file = sqlite3.connect(
                self._path, timeout=_LOCK_WAIT_S, isolation_level=None
            )
            try:
                with contextlib.suppress(sqlite3.OperationalError):
                    # Locked if another process opens it now; that one sets WAL, too.
                    file.execute("PRAGMA journal_mode = WAL")
                # An event lost in a crash of the machine counts as not stored.
                file.execute("PRAGMA synchronous = NORMAL")
                file.executescript(_SCHEMA)
            except BaseException:
                file.close()
                raise
            self._opened.file = file
            self._unpruned = PRUNE_INTERVAL
        opened: sqlite3.Connection = self._opened.file
        return opened

    def _close(self) -> None:
        if hasattr(self._opened, "file"):
            self._opened.file.close()

    def _insert(self, file: sqlite3.Connection, row: tuple[Any, ...]) -> None:
        file.execute(_INSERT, row)
        self._unpruned += 1
        if self._unpruned >= PRUNE_INTERVAL:
            self._unpruned = 0
            file.execute(_DROP_OLD, (self._clock() - self._age,))
            (count,) = file.execute(_COUNT).fetchone()
            if count > self._events:
                # Delete some more: each deletion sorts all events.
                excess = count - self._events + self._events // 16
                file.execute(_DROP_DEEPEST, (excess,))


# Journal of one session

STORE_FAILED: Final = "the event store failed"

ALL_STREAMS: Final = -1
"""In place of a stream's number: all streams."""


@attrs.define(eq=False, repr=False)
class Journal:
    """Writes the events of one session to its store, and reads them back.

    Sending never waits for the store. Events that the store has not accepted yet are
    buffered here, up to `room` bytes, so that a replay in the meantime includes them.
    """

    _store: EventStore
    _key: str
    _start: StartTask
    _room: int
    # An event to store, or ``None`` to delete the stream.
    _queue: deque[tuple[int, Event | None]] | tuple[()] = ()
    _size: int = 0
    _is_processing: bool = False
    _is_used: bool = False

    def append(self, stream: int, event: Event) -> None:
        """Store an event, or buffer it until the store is ready."""
        self._is_used = True
        append_nowait = getattr(self._store, "append_nowait", None)
        if append_nowait is not None:
            try:
                append_nowait(self._key, stream, event)
            except Exception:
                logger.exception(STORE_FAILED)
        elif self._size + len(event.data) > self._room:
            # A client that resumes before this event gets an error.
            logger.error("the event store is too slow: an event was not kept")
        else:
            self._size += len(event.data)
            self._add(stream, event)

    def drop_stream(self, stream: int) -> None:
        """Delete the events of one stream."""
        self._add(stream, None)

    def drop(self) -> None:
        """Delete all events: the session is over."""
        self._queue = ()
        self._size = 0
        if self._is_used:
            self._add(ALL_STREAMS, None)

    def _add(self, stream: int, event: Event | None) -> None:
        if not self._queue:
            self._queue = deque()
        self._queue.append((stream, event))
        if not self._is_processing:
            self._is_processing = True
            self._start(self._process_queue())

    async def _process_queue(self) -> None:
        try:
            while self._queue:
                item = self._queue[0]
                try:
                    await self._perform(*item)
                except Exception:
                    logger.exception(STORE_FAILED)
                # `drop` may have emptied the queue during the await.
                if self._queue and self._queue[0] is item:
                    self._queue.popleft()
                    self._size -= len(item[1].data) if item[1] else 0
        finally:
            self._is_processing = False

    async def _perform(self, stream: int, event: Event | None) -> None:
        if event is not None:
            await self._store.append(self._key, stream, event)
        elif stream == ALL_STREAMS:
            await self._store.drop_session(self._key)
        else:
            await self._store.drop_stream(self._key, stream)

    async def replay(self, stream: int, after: int, last: int) -> list[Event] | None:
        """Return a stream's events after `after` up to `last`; ``None``: incomplete."""
        if after == last:
            return []
        queued = [event for number, event in self._queue if number == stream and event]
        try:
            stored = await self._store.replay(self._key, stream, after)
        except Exception:
            logger.exception(STORE_FAILED)
            return None
        events = {event.sequence: event for event in (*stored, *queued)}
        numbers = range(after + 1, last + 1)
        if not all(sequence in events for sequence in numbers):
            return None
        return [events[sequence] for sequence in numbers]
