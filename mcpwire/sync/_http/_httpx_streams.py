"""The connections under a blocking httpx: waiting in slices, waking, letting go.

httpx limits each read alone, and a read that ran out of time costs the connection. So a
`Tap` replaces reading on each new stream: it reads in slices, and asks before each
whether the exchange may go on. It learns of new streams from the steps that httpcore
tells (the documented extension ``trace``).
"""

from __future__ import annotations

import contextlib
import socket
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from mcpwire.transports.http._sockets import acknowledged

if TYPE_CHECKING:
    import weakref

    from mcpwire.transports.http._httpx_errors import Facts

__all__ = ["Owner", "Patience", "Tap"]


class Owner(Protocol):
    """The engine, as its connections see it."""

    connections: int
    bytes_sent: int

    @property
    def streams(self) -> weakref.WeakSet[Any]:
        """All that were opened and are not gone."""


class Patience(Protocol):
    """The exchange, as its connection sees it."""

    def slice(self) -> float:
        """Return how many seconds to wait at a time; raises when it is over."""

    def left(self) -> float | None:
        """Return how many seconds there are at all; raises when it is over."""


_current: ContextVar[Tap | None] = ContextVar("_current", default=None)
"""Whose thread this is, while it is somebody's."""


class Tap:
    """What one exchange does to the connection it gets; a context of its thread."""

    def __init__(self, owner: Owner, facts: Facts, patience: Patience) -> None:
        self._owner = owner
        self._facts = facts
        self.patience = patience
        self._stream: Any = None
        self._opening: Any = None
        self._is_http2 = False
        self._begun_at: int | None = None
        self._has_answer = False

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
        if step in {"connect_tcp.complete", "connect_unix_socket.complete"}:
            self._owner.connections += 1
            self._opened(info["return_value"])
        elif step == "start_tls.started":
            self._opening = self._stream
        elif step == "start_tls.complete":
            self._opened(info["return_value"])
        elif step in {"send_request_headers.started", "send_connection_init.started"}:
            self._opening = None
            request = info["request"]
            if "headers" in step and request.method != b"CONNECT":  # for a proxy
                self._facts.has_begun = True
                self._is_http2 = "stream_id" in info

    def _opened(self, stream: Any) -> None:
        self._stream = self._opening = stream
        self._owner.streams.add(stream)
        read, write = stream.read, stream.write
        httpcore = sys.modules[type(stream).__module__.partition(".")[0]]

        def tapped_read(max_bytes: int, timeout: float | None = None) -> bytes:
            tap = _current.get()
            if tap is None:
                return bytes(read(max_bytes, timeout))
            while True:
                limit = tap.patience.slice()
                try:
                    data: bytes = read(max_bytes, limit)
                except httpcore.ReadTimeout:
                    continue
                tap.note_read(data)
                return data

        def tapped_write(buffer: bytes, timeout: float | None = None) -> None:
            tap = _current.get()
            if tap is not None:
                tap.note_write(stream, len(buffer))
                timeout = tap.patience.left()
            write(buffer, timeout)

        stream.read, stream.write = tapped_read, tapped_write

    # ... what passes ...

    def note_write(self, stream: Any, size: int) -> None:
        """Take note that this exchange uses that connection."""
        self._stream = stream
        self._owner.bytes_sent += size
        if self._facts.has_begun and self._begun_at is None:
            self._begun_at = _acknowledged(stream)

    def note_read(self, data: bytes) -> None:
        """Take note of what came, and of what its end proves."""
        if data:
            self._has_answer = self._facts.has_begun
        elif (
            self._begun_at is not None
            and not self._has_answer
            and not self._is_http2
            # The goodbye of TLS is no FIN.
            and self._stream.get_extra_info("ssl_object") is None
        ):
            self._facts.is_unseen = 0 < _acknowledged(self._stream) <= self._begun_at

    # ... and the end.

    def wake(self) -> None:
        """Make the thread that waits stop waiting; from any thread."""
        stream = self._stream
        sock = None if stream is None else stream.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                # Not the method of `SSLSocket`, which turns it into a plain one.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

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
        stream = self._stream if is_ours else self._opening
        if stream is not None:
            stream.close()


def _acknowledged(stream: Any) -> int:
    sock = stream.get_extra_info("socket")
    return 0 if sock is None else acknowledged(sock)
