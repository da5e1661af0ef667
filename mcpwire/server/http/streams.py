"""The event streams of a session: each gives its messages places, and has an outlet.

::

               send                    attach           the client is gone, pause
      message ─────► place ──► journal    ▼                        ▲
                       └──────────────► outlet ──► HTTP response ──┘
                                          └─ none: waits, or is in the journal

2025-11-25 basic/transports, "Multiple Connections" and "Resumability and Redelivery".
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import attrs

from mcpwire.server.http.event_store import Event, EventId
from mcpwire.server.http.reply import as_event
from mcpwire.wire.sse import encode_event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.server.http.journal import Journal
    from mcpwire.server.http.outlets import Outlet

__all__ = ["STANDALONE", "ServerStream", "Stream", "StreamStyle"]

STANDALONE: Final = 0
"""The number of the stream that a GET opens; those that answer POSTs count from 1."""


@attrs.frozen
class StreamStyle:
    """What all streams of a session have in common."""

    mark: str
    """What their ids begin with."""

    journal: Journal | None
    """Where they are kept; ``None``: their events have no ids."""

    has_priming: bool
    """Whether they begin with an event that has an id and nothing else."""

    retry: float
    """How long a client should wait before it comes back, in seconds."""


class Stream:
    """One stream; see the module's text.

    Attributes:
        number: What tells it from the session's others.
        last: The place of the newest message.
        outlet: What carries it now.
    """

    __slots__ = ("_style", "last", "number", "outlet")

    def __init__(self, number: int, style: StreamStyle) -> None:
        self.number = number
        self.last = 0
        self.outlet: Outlet | None = None
        self._style = style

    def send(self, data: bytes) -> None:
        """Send a message, which is JSON on one line."""
        self.last += 1
        journal = self._style.journal
        if journal is not None:
            journal.append(self.number, Event(self.last, data))
        encoded = self.encode(self.last, data)
        if self.outlet is not None and not self.outlet.is_over:
            self.outlet.put(encoded, self.last)
        else:
            self._keep(self.last, encoded)

    def _keep(self, sequence: int, encoded: bytes) -> None:
        """Take what nothing carries at the moment; the journal has it."""

    def encode(self, sequence: int, data: bytes) -> bytes:
        """Return a message as an event with its id."""
        if self._style.journal is None:
            return as_event(data)
        id = f"{self._style.mark}.{self.number}.{sequence}"
        return b"id: " + id.encode() + b"\n" + as_event(data)

    def encode_all(self, events: Iterable[Event]) -> list[tuple[int, bytes]]:
        """Return messages that were sent before as events."""
        return [
            (event.sequence, self.encode(event.sequence, event.data))
            for event in events
        ]

    def prime(self, outlet: Outlet, sequence: int = 0) -> None:
        """Tell the client its place before anything is sent."""
        # 2025-11-25 basic/transports, "Sending Messages to the Server".
        style = self._style
        if style.has_priming:
            id = str(EventId(style.mark, self.number, sequence))
            outlet.put(encode_event(b"", id=id, retry=_milliseconds(style.retry)))

    def attach(self, outlet: Outlet) -> None:
        """Let this carry it from here on, and nothing else."""
        if self.outlet is not None:
            self.outlet.cut()
        self.outlet = outlet

    def detach(self, outlet: Outlet) -> None:
        """Take note that this carries it no longer."""
        if self.outlet is outlet:
            self.outlet = None

    def pause(self, retry: float | None = None) -> None:
        """End the connection and not the stream; the client comes back for the rest."""
        outlet, self.outlet = self.outlet, None
        if outlet is not None:
            if retry is not None:
                outlet.put(b"retry: %d\n\n" % _milliseconds(retry))
            outlet.end()

    def end(self) -> None:
        """End the stream after what was sent."""
        if self.outlet is not None:
            self.outlet.end()


class ServerStream(Stream):
    """The stream for what belongs to no call; what nothing carries waits here.

    Args:
        style: That of the session.
        backlog: How many messages may wait; beyond them the oldest are lost.
        room: How many bytes of them.
    """

    __slots__ = ("_backlog", "_most", "_room", "_size")

    def __init__(self, style: StreamStyle, *, backlog: int, room: int) -> None:
        super().__init__(STANDALONE, style)
        self._most = backlog
        self._room = room
        self._size = 0
        # A deque takes 600 bytes, and most sessions have nothing that waits.
        self._backlog: deque[tuple[int, bytes]] | tuple[()] = ()

    def _keep(self, sequence: int, encoded: bytes) -> None:
        if not self._backlog:
            self._backlog = deque()
        self._backlog.append((sequence, encoded))
        self._size += len(encoded)
        self._trim()

    def _trim(self) -> None:
        while self._backlog and (
            len(self._backlog) > self._most or self._size > self._room
        ):
            self._size -= len(self._backlog.popleft()[1])

    def open(self, outlet: Outlet) -> None:
        """Let this carry it, from the first message that nobody has seen."""
        first = self._backlog[0][0] if self._backlog else self.last + 1
        self.attach(outlet)
        self.prime(outlet, first - 1)
        for sequence, encoded in self.take_backlog():
            outlet.put(encoded, sequence)

    def take_backlog(self) -> list[tuple[int, bytes]]:
        """Return what waits, from now on for nobody."""
        waiting = list(self._backlog)
        self._backlog = ()
        self._size = 0
        return waiting

    def detach(self, outlet: Outlet) -> None:
        """Take note that this carries it no longer; keep what it has not written."""
        if self.outlet is outlet:
            self.outlet = None
            unwritten = outlet.unwritten()
            if unwritten:
                self._backlog = deque(sorted((*self._backlog, *unwritten)))
                self._size += sum(len(encoded) for _, encoded in unwritten)
                self._trim()


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1_000))
