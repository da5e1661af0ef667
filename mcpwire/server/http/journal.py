"""What one session has sent on its streams, on its way into the store and back.

Sending never waits for the store. What it has not taken yet is kept here, so that
nothing is missing where a client asks for it in between.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from mcpwire.server.http.event_store import Event, is_complete
from mcpwire.server.log_limit import LimitedLogger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from mcpwire.server.http.events import EventStore

    Begin = Callable[[Coroutine[Any, Any, None]], None]
    """Makes a task that somebody owns who outlives the session."""

__all__ = ["Journal"]

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
