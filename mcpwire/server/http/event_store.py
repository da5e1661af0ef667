"""Ids of the events of a session's streams, and a bounded memory of the events.

2025-11-25 basic/transports, "Resumability and Redelivery": an id is unique within its
session and names its stream, so that only events of that stream are sent again. It also
has the mark of its session, so that the id of another session is not accepted.

Where the messages of streams are kept, so that a client can ask for them again.

`EventStore` is what a store has to do, in memory, in a file or on another machine.
Router are given out by the session that sends, so a store only keeps and finds.

Keeps events in a SQLite file, which other processes and later ones can read.

One thread works on the file, so that no query holds up the loop. Several processes may
share a file: SQLite lets them write one after the other.

What one session has sent on its streams, on its way into the store and back.

Sending never waits for the store. What it has not taken yet is kept here, so that
nothing is missing where a client asks for it in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from collections import OrderedDict, deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import attrs

from mcpwire.server.fair_pool import client_of
from mcpwire.server.log_limit import LimitedLogger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from os import PathLike

    Begin = Callable[[Coroutine[Any, Any, None]], None]
    """Makes a task that somebody owns who outlives the session."""

__all__ = [
    "Event",
    "EventId",
    "EventStore",
    "History",
    "Journal",
    "MemoryEventStore",
    "SQLiteEventStore",
    "check_bounds",
    "is_complete",
    "parse_event_id",
]


_DIGITS_MAX: Final = 15


@attrs.frozen
class Event:
    """One message of a stream."""

    sequence: int
    """Its place in its stream, which begins with 1; 0 is before them all."""

    data: bytes
    """The message, as JSON."""


@attrs.frozen
class EventId:
    """One place in one stream of one session."""

    mark: str
    """The mark of the session: no secret, and without full stops."""

    stream: int

    sequence: int

    def __str__(self) -> str:
        return f"{self.mark}.{self.stream}.{self.sequence}"


def parse_event_id(text: str) -> EventId | None:
    """Return the place that an id names, or ``None`` if this is no id of ours."""
    parts = text.split(".")
    if len(parts) != 3 or not parts[0]:
        return None
    stream, sequence = _number(parts[1]), _number(parts[2])
    if stream is None or sequence is None:
        return None
    return EventId(parts[0], stream, sequence)


def _number(text: str) -> int | None:
    # One spelling of each number only, so that what is parsed is what was written.
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX:
        return None
    return int(text) if text == "0" or text[0] != "0" else None


def is_complete(events: Iterable[Event], after: int, last: int) -> bool:
    """Tell whether these are all events after one place, up to and with another."""
    return [event.sequence for event in events] == list(range(after + 1, last + 1))


@attrs.define
class _Entry:
    session: str
    stream: int
    event: Event
    at: float


@attrs.define(eq=False)
class _Kept:
    """The events of one session or one client, oldest first."""

    entries: OrderedDict[int, _Entry] = attrs.field(factory=OrderedDict)
    size: int = 0


class History:
    """Events of many sessions; the oldest go when a bound is reached.

    Sessions are named by keys of `client_key`.

    Args:
        events: How many are kept of one session.
        size: How many bytes of messages are kept of one session.
        total_size: How many bytes of all sessions together; beyond them the oldest of
            the client with the most bytes go.
        age: For how long, in seconds.

    Attributes:
        size: The bytes that are kept.
    """

    def __init__(self, *, events: int, size: int, total_size: int, age: float) -> None:
        self._events = events
        self._size = size
        self._total_size = total_size
        self._age = age
        self._all: OrderedDict[int, _Entry] = OrderedDict()
        self._sessions: dict[str, _Kept] = {}
        self._clients: dict[str, _Kept] = {}
        self._last = 0
        self.size = 0

    def __len__(self) -> int:
        return len(self._all)

    def append(self, session: str, stream: int, event: Event, now: float) -> None:
        """Keep one event; forget those that are too old or too many."""
        self._last += 1
        entry = _Entry(session, stream, event, now)
        kept = self._sessions.setdefault(session, _Kept())
        client = self._clients.setdefault(client_of(session), _Kept())
        self._all[self._last] = kept.entries[self._last] = entry
        client.entries[self._last] = entry
        length = len(event.data)
        kept.size += length
        client.size += length
        self.size += length
        while len(kept.entries) > self._events or kept.size > self._size:
            self._forget(next(iter(kept.entries)))
        while self.size > self._total_size:
            greediest = max(self._clients.values(), key=_size_of)
            self._forget(next(iter(greediest.entries)))
        self.prune(now)

    def prune(self, now: float) -> None:
        """Forget the events that are too old."""
        while self._all:
            number, entry = next(iter(self._all.items()))
            if now - entry.at <= self._age:
                return
            self._forget(number)

    def _forget(self, number: int) -> None:
        entry = self._all.pop(number)
        length = len(entry.event.data)
        self.size -= length
        client = client_of(entry.session)
        for group, name in ((self._sessions, entry.session), (self._clients, client)):
            kept = group[name]
            del kept.entries[number]
            kept.size -= length
            if not kept.entries:
                del group[name]

    def replay(self, session: str, stream: int, after: int, now: float) -> list[Event]:
        """Return the kept events of a stream after one place, in order."""
        self.prune(now)
        kept = self._sessions.get(session)
        if kept is None:
            return []
        return [
            entry.event
            for entry in kept.entries.values()
            if entry.stream == stream and entry.event.sequence > after
        ]

    def drop_stream(self, session: str, stream: int) -> None:
        """Forget one stream."""
        kept = self._sessions.get(session)
        if kept is None:
            return
        for number, entry in list(kept.entries.items()):
            if entry.stream == stream:
                self._forget(number)

    def drop_session(self, session: str) -> None:
        """Forget all streams of a session."""
        kept = self._sessions.get(session)
        if kept is not None:
            for number in list(kept.entries):
                self._forget(number)


def _size_of(kept: _Kept) -> int:
    return kept.size


class EventStore(Protocol):
    """Keeps the messages of streams for a while.

    What is appended to one session comes in order and one at a time; the rest may come
    at any time. A store that need not wait may have ``append_nowait``, with the same
    parameters as `append`, which is called instead.

    A session is named by a key that is no secret. What stands behind its full stop is
    the same for all sessions of one client, so that a store can divide its room.
    """

    async def append(self, session: str, stream: int, event: Event) -> None:
        """Keep an event; one that is kept already is kept once."""

    async def replay(self, session: str, stream: int, after: int) -> Sequence[Event]:
        """Return what is kept of a stream with a sequence above `after`, in order."""

    async def drop_stream(self, session: str, stream: int) -> None:
        """Forget one stream: nobody may ask for it any more."""

    async def drop_session(self, session: str) -> None:
        """Forget all streams of a session."""

    async def aclose(self) -> None:
        """Let go of what the store holds open."""


class MemoryEventStore:
    """Keeps events in this process; the oldest go when a bound is reached.

    Args:
        events: How many are kept of one session.
        size: How many bytes of messages are kept of one session.
        total_size: How many bytes of all sessions together; beyond them the oldest of
            the client with the most bytes go.
        age: For how long, in seconds.
        clock: Gives the time in seconds; never goes back.

    Raises:
        ValueError: A bound is not above zero.
    """

    def __init__(
        self,
        *,
        events: int = 1_000,
        size: int = 4 * 1024 * 1024,
        total_size: int = 64 * 1024 * 1024,
        age: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_bounds(events=events, size=size, total_size=total_size, age=age)
        self._history = History(
            events=events, size=size, total_size=total_size, age=age
        )
        self._clock = clock

    def __len__(self) -> int:
        """Return how many events are kept."""
        return len(self._history)

    def append_nowait(self, session: str, stream: int, event: Event) -> None:
        """Keep an event; never waits."""
        self._history.append(session, stream, event, self._clock())

    async def append(self, session: str, stream: int, event: Event) -> None:
        """Keep an event."""
        self.append_nowait(session, stream, event)

    async def replay(self, session: str, stream: int, after: int) -> Sequence[Event]:
        """Return what is kept of a stream with a sequence above `after`, in order."""
        return self._history.replay(session, stream, after, self._clock())

    async def drop_stream(self, session: str, stream: int) -> None:
        """Forget one stream."""
        self._history.drop_stream(session, stream)

    async def drop_session(self, session: str) -> None:
        """Forget all streams of a session."""
        self._history.drop_session(session)

    async def aclose(self) -> None:
        """Do nothing: what is kept goes with the store."""


def check_bounds(**bounds: float) -> None:
    """Check numbers that somebody has given.

    Raises:
        ValueError: One is not above zero; names it.
    """
    for name, value in bounds.items():
        if not value > 0:
            raise ValueError(f"{name} must be above zero, got {value!r}")


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


logger = LimitedLogger("mcpwire")

FAILED: Final = "the event store failed"

EVERYTHING: Final = -1
"""Stands for all streams."""


class Journal:
    """The events of one session; see the module's text.

    Args:
        store: Where they are kept.
        key: What names the session there.
        begin: Runs what has to wait for the store.
        room: How many bytes may wait for it; beyond them the oldest are lost.
    """

    __slots__ = (
        "_append_nowait",
        "_begin",
        "_is_busy",
        "_is_used",
        "_key",
        "_room",
        "_size",
        "_store",
        "_todo",
    )

    def __init__(self, store: EventStore, key: str, begin: Begin, *, room: int) -> None:
        self._store = store
        self._key = key
        self._begin = begin
        self._room = room
        self._append_nowait: Callable[[str, int, Event], None] | None = getattr(
            store, "append_nowait", None
        )
        # An event to be kept, or without one a stream to be forgotten.
        self._todo: deque[tuple[int, Event | None]] | tuple[()] = ()
        self._size = 0
        self._is_busy = False
        self._is_used = False

    def append(self, stream: int, event: Event) -> None:
        """Keep an event, as soon as the store takes it."""
        self._is_used = True
        if self._append_nowait is not None:
            try:
                self._append_nowait(self._key, stream, event)
            except Exception:
                logger.exception(FAILED)
            return
        self._size += len(event.data)
        if self._size > self._room:
            # It will be missing, which whoever asks for it is told.
            self._size -= len(event.data)
            logger.error("the event store is too slow: an event was not kept")
            return
        self._add(stream, event)

    def drop_stream(self, stream: int) -> None:
        """Forget a stream."""
        self._add(stream, None)

    def drop(self) -> None:
        """Forget all of it: the session is over."""
        self._todo = ()
        self._size = 0
        if self._is_used:
            self._add(EVERYTHING, None)

    def _add(self, stream: int, event: Event | None) -> None:
        if not self._todo:
            self._todo = deque()
        self._todo.append((stream, event))
        if not self._is_busy:
            self._is_busy = True
            self._begin(self._work())

    async def _work(self) -> None:
        try:
            while self._todo:
                item = self._todo[0]
                try:
                    await self._perform(*item)
                except Exception:
                    logger.exception(FAILED)
                # `drop` may have emptied it meanwhile.
                if self._todo and self._todo[0] is item:
                    self._todo.popleft()
                    self._size -= len(item[1].data) if item[1] else 0
        finally:
            self._is_busy = False

    async def _perform(self, stream: int, event: Event | None) -> None:
        if event is not None:
            await self._store.append(self._key, stream, event)
        elif stream == EVERYTHING:
            await self._store.drop_session(self._key)
        else:
            await self._store.drop_stream(self._key, stream)

    async def replay(self, stream: int, after: int, last: int) -> list[Event] | None:
        """Return a stream's events after one place up to another, if all are kept."""
        if after == last:
            return []
        waiting = [event for number, event in self._todo if number == stream and event]
        try:
            stored = await self._store.replay(self._key, stream, after)
        except Exception:
            logger.exception(FAILED)
            return None
        found = {event.sequence: event for event in (*stored, *waiting)}
        events = [found[n] for n in sorted(found) if after < n <= last]
        return events if is_complete(events, after, last) else None
