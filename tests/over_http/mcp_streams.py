"""The event streams of `mcp_server`: their messages, and how they are resumed.

A resumable stream keeps what it carried under event ids of its own, so that a GET with
`Last-Event-ID` takes it up on another connection. The thread that answers a request and
the one that holds the connection need not be the same.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from http_bytes import LAST_CHUNK, chunk, sse_event, sse_head

if TYPE_CHECKING:
    from raw_server import Connection


class Stream:
    """One event stream, on one connection at a time, or on none."""

    def __init__(self, name: str, *, retry: int | None, cycles: int) -> None:
        self.name = name
        self.retry = retry
        self.cycles = cycles
        """How many more connections get only a priming event."""
        self.is_over = False
        self.filter: dict[str, Any] | None = None
        self.request_id: Any = None
        """The request that the stream belongs to; None for a stream opened by a GET."""
        self.is_resumable = False
        self._primed = 0
        self._carried: list[tuple[int, Any]] = []
        self._lock = threading.RLock()
        self._conn: Connection | None = None

    def open(self, conn: Connection, after: int | None = None, **fields: Any) -> None:
        """Continue on a connection, after the events that the client has."""
        with self._lock:
            self._conn = conn
            data = sse_head(**fields)
            if self.is_resumable:
                self._primed += 1
                id = f"{self.name}/{after or 0}-{self._primed}"
                data += chunk(sse_event("", id=id, retry=self.retry))
            if self.cycles:
                self.cycles -= 1
                self._write(data + LAST_CHUNK)
                self._conn = None
                return
            for number, message in self._carried:
                if after is None or number > after:
                    data += self._event(number, message)
            self._write(data + (LAST_CHUNK if self.is_over else b""))

    def _event(self, number: int, message: Any) -> bytes:
        id = f"{self.name}/{number}-0" if self.is_resumable else None
        return chunk(sse_event(message, id=id))

    def send(self, message: Any, *, is_last: bool = False) -> None:
        """Send a message, now or when the stream is resumed."""
        with self._lock:
            number = len(self._carried) + 1
            self._carried.append((number, message))
            self.is_over = is_last
            end = LAST_CHUNK if is_last else b""
            self._write(self._event(number, message) + end)

    def is_on(self, conn: Connection) -> bool:
        """Tell whether the stream is still active on that connection."""
        return self._conn is conn and not self.is_over

    def break_off(self) -> None:
        with self._lock:
            self._write(LAST_CHUNK)
            if (conn := self._conn) is not None:
                self._conn = None
                conn.nudge()

    def _write(self, data: bytes) -> None:
        conn = self._conn
        if conn is None:
            return
        try:
            conn.send(data)
        except (OSError, ValueError):  # the client left
            self._conn = None
        if self.is_over or self._conn is None:
            with contextlib.suppress(OSError):
                conn.nudge()
