"""The connections under a blocking httpx: waiting in slices, waking, letting go.

httpx limits each read alone, and a read that ran out of time costs the connection. So a
`Line` reads and writes in the place of each new stream: in slices, and before each it
asks whether the exchange may go on. A `Tap` learns of new streams from the steps that
httpcore tells (the documented extension ``trace``).
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.transports.http._sockets import FIRST_BYTES
from mcpwire.transports.http.over_httpx.guard import Guard
from mcpwire.transports.http.over_httpx.passing import PassedLine, Passing

if TYPE_CHECKING:
    import weakref

    from mcpwire.limits import Limits
    from mcpwire.transports.http.over_httpx.errors import Facts

__all__ = ["Owner", "Patience", "Tap"]

_OPENED: Final = frozenset({"connect_tcp.complete", "connect_unix_socket.complete"})


class Owner(Protocol):
    """The engine, as its connections see it."""

    connections: int
    bytes_sent: int
    limits: Limits
    client: Any
    streams: weakref.WeakSet[Any]


class Patience(Protocol):
    """The exchange, as its connection sees it."""

    def slice(self) -> float:
        """Return how many seconds to wait at a time; raises when it is over."""

    def left(self) -> float | None:
        """Return how many seconds there are at all; raises when it is over."""


_current: ContextVar[Tap | None] = ContextVar("_current", default=None)
"""Whose thread this is, while it is somebody's."""


class Line(PassedLine):
    """One connection: reads and writes for its stream, as whoever does may wait."""

    def __init__(self, stream: Any, owner: Owner) -> None:
        self.stream = stream
        self.guard = Guard(owner.limits, is_strict=owner.client is None)
        self._httpcore = sys.modules[type(stream).__module__.partition(".")[0]]
        self._read, self._write = stream.read, stream.write
        stream.read, stream.write = self.read, self.write

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read for the stream."""
        tap = _current.get()
        if tap is None:
            return bytes(self._read(max_bytes, timeout))
        tap.check(self)
        while True:
            limit = tap.patience.slice()
            try:
                data: bytes = self._read(max_bytes, limit)
            except self._httpcore.ReadTimeout:
                continue
            tap.note_read(self, data)
            return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write for the stream."""
        tap = _current.get()
        if tap is None:
            self._write(buffer, timeout)
            return
        tap.note_write(self, len(buffer))
        is_large = len(buffer) > FIRST_BYTES
        if is_large and not self.is_secure and hasattr(select, "poll"):
            self._write_large(memoryview(buffer), tap.patience)
        else:
            self._write(buffer, tap.patience.left())

    def _write_large(self, left: memoryview, patience: Patience) -> None:
        """Write while no answer comes: a server may refuse a body it has not read."""
        sock: socket.socket = self.stream.get_extra_info("socket")
        poll = select.poll()
        poll.register(sock, select.POLLIN | select.POLLOUT)
        while left:
            ready = poll.poll(patience.slice() * 1000)
            if ready and ready[0][1] & ~select.POLLOUT:
                # httpcore goes on to read then.
                raise self._httpcore.WriteError("answered early")
            if ready:
                left = left[self._send(sock, left) :]

    def _send(self, sock: socket.socket, left: memoryview) -> int:
        sock.settimeout(0)
        try:
            return sock.send(left)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._httpcore.WriteError(error) from error

    def has_bytes(self, timeout: float) -> bool:
        """Wait until something can be read; return whether it can."""
        sock = self.stream.get_extra_info("socket")
        if isinstance(sock, ssl.SSLSocket) and sock.pending():
            return True
        try:
            return bool(select.select([sock], [], [], timeout)[0])
        except (OSError, ValueError):  # closed meanwhile, or too many for `select`
            return True


class Tap(Passing):
    """What one exchange does to the connection it gets; a context of its thread."""

    def __init__(self, owner: Owner, facts: Facts, patience: Patience) -> None:
        self.patience = patience
        super().__init__(owner, facts)
        self._is_http2 = False

    def __enter__(self) -> None:
        """Be the one whose thread this is."""
        self._token = _current.set(self)

    def __exit__(self, *_: object) -> None:
        """Leave the thread to others."""
        _current.reset(self._token)

    # What httpcore tells...

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Take note of a step of httpcore's."""
        self._facts.is_traced = True
        step = event.partition(".")[2]
        if step in _OPENED:
            self._opened(info["return_value"])
        elif step == "start_tls.started":
            self._opening = None if self._line is None else self._line.stream
        elif step == "start_tls.complete":
            self._opened(info["return_value"])
        elif step == "send_connection_init.started":
            self._connected()
        elif step == "send_request_headers.started":
            if info["request"].method == b"CONNECT":  # for a proxy
                self._opening = None
            else:
                self.check_destination(info["request"])
                self._connected()
                self._facts.has_begun = True
                self._begun_at = None
                self._is_http2 = "stream_id" in info

    def _connected(self) -> None:
        if self._opening is not None:
            self._opening = None
            self._owner.connections += 1

    def _opened(self, stream: Any) -> None:
        self._opening = stream
        self._line = Line(stream, self._owner)
        self._owner.streams.add(stream)

    # ... what passes ...

    @property
    def _is_http1(self) -> bool:
        return self._facts.has_begun and not self._is_http2

    @property
    def has_all(self) -> bool | None:
        """Whether all of the response has come; ``None`` if that is not known."""
        if self._line is None or not self._is_http1:
            return None
        has_all: bool | None = self._line.guard.has_all
        return has_all

    def has_bytes(self, timeout: float) -> bool:
        """Wait until something can be read; return whether it can."""
        return self._line is None or self._line.has_bytes(timeout)

    # ... and the end.

    def wake(self) -> None:
        """Make the thread that waits stop waiting; from any thread."""
        line = self._line
        sock = None if line is None else line.stream.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                # Not the method of `SSLSocket`, which turns it into a plain one.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def finish(self) -> None:
        """Close the connection of a complete answer if that was not all."""
        line = self._line
        # Not asked now: another exchange may have the connection already.
        if line is not None and self._is_spoilt:
            line.stream.close()

    def hang_up(self, response: Any, *, is_ours: bool) -> None:
        """Let go of the connection of an exchange that has failed.

        Args:
            response: What came of it, or ``None``.
            is_ours: Whether no other exchange uses the connection.
        """
        if response is not None:
            response.close()
        # httpcore only forgets a stream of HTTP/2, and the server would go on with the
        # call; and between two steps of connecting it would lose the connection.
        stream = self._opening
        if is_ours and self._line is not None:
            stream = self._line.stream
        if stream is not None:
            stream.close()
