"""Ids of the events of a session's streams, and a bounded memory of the events.

2025-11-25 basic/transports, "Resumability and Redelivery": an id is unique within its
session and names its stream, so that only events of that stream are sent again. It also
has the mark of its session, so that the id of another session is not accepted.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import attrs

from mcpwire.server.fair_pool import client_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Event", "EventId", "History", "is_complete", "parse_event_id"]

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
