"""The connections under httpx: who uses which, and how to let go of them.

httpx says only with a response over which connection it came. A `Tap` learns it from
the first write: it listens to the steps that httpcore tells (the documented extension
``trace``) and replaces reading and writing on each new stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.transports.http._sockets import acknowledged

if TYPE_CHECKING:
    import weakref

    from mcpwire.transports.http._httpx_errors import Facts

__all__ = [
    "Owner",
    "Tap",
    "abort_transport",
    "close_socket",
    "reset_frame",
]

RESET_S: Final = 1.0
"""How long telling the server of a cancelled stream may take."""


class Owner(Protocol):
    """The engine, as its connections see it."""

    connections: int
    bytes_sent: int

    @property
    def streams(self) -> weakref.WeakSet[Any]:
        """All that were opened and are not gone."""


_current: ContextVar[Tap] = ContextVar("_current")
"""Whose task this is."""


class Tap:
    """What one exchange does to the connection it gets."""

    def __init__(self, owner: Owner, facts: Facts) -> None:
        self._owner = owner
        self._facts = facts
        self._stream: Any = None
        self._opening: Any = None
        self._stream_id: int | None = None
        self._begun_at: int | None = None
        self._has_answer = False
        _current.set(self)

    # What httpcore tells...

    async def trace(self, event: str, info: dict[str, Any]) -> None:
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
                self._stream_id = info.get("stream_id")

    def _opened(self, stream: Any) -> None:
        self._stream = self._opening = stream
        self._owner.streams.add(stream)
        read, write = stream.read, stream.write

        async def tapped_read(max_bytes: int, timeout: float | None = None) -> bytes:
            data: bytes = await read(max_bytes, timeout)
            tap = _current.get(None)
            if tap is not None:
                tap.note_read(data)
            return data

        async def tapped_write(buffer: bytes, timeout: float | None = None) -> None:
            tap = _current.get(None)
            if tap is not None:
                tap.note_write(stream, len(buffer))
            await write(buffer, timeout)

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
            and self._stream_id is None
            # The goodbye of TLS is no FIN.
            and self._stream.get_extra_info("ssl_object") is None
        ):
            self._facts.is_unseen = 0 < _acknowledged(self._stream) <= self._begun_at

    # ... and the end.

    async def hang_up(self, response: Any, *, cancels: bool) -> None:
        """Let go of the connection of an exchange that has failed.

        Args:
            response: What came of it, or ``None``.
            cancels: Whether the server has to be told.
        """
        if cancels and self._stream_id is not None:
            # httpcore only forgets a stream, and the server would go on with the call.
            with contextlib.suppress(*_failures(self._stream)):
                await self._stream.write(reset_frame(self._stream_id), RESET_S)
        if response is not None:
            await response.aclose()
        elif self._opening is not None:
            # Between two steps of connecting httpcore would lose it.
            await self._opening.aclose()


def reset_frame(stream_id: int) -> bytes:
    """Return the frame that cancels a stream of HTTP/2 (RFC 9113, 6.4)."""
    return b"\0\0\4\3\0%b\0\0\0\x08" % stream_id.to_bytes(4)


def _failures(stream: Any) -> tuple[type[Exception], ...]:
    """Return what writing a frame between those of others may raise."""
    import anyio

    httpcore = sys.modules[type(stream).__module__.partition(".")[0]]
    return (httpcore.NetworkError, httpcore.TimeoutException, anyio.BusyResourceError)


def _acknowledged(stream: Any) -> int:
    sock = stream.get_extra_info("socket")
    return 0 if sock is None else acknowledged(sock)


def abort_transport(stream: Any) -> None:
    """Close a connection now, whether or not its loop runs here or ever again."""
    # httpcore wraps a stream of anyio, which may be one of TLS over another.
    inner = stream
    for name in ("_stream", "transport_stream"):
        inner = getattr(inner, name, inner)
    transport = getattr(inner, "_transport", None)
    if transport is not None:
        with contextlib.suppress(RuntimeError):  # its loop is closed
            transport.abort()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        close_socket(stream)


def close_socket(stream: Any) -> None:
    """Close a socket behind the back of its loop, which does not run here."""
    sock = stream.get_extra_info("socket")
    if sock is not None:
        # asyncio shows a wrapper that cannot close.
        getattr(sock, "_sock", sock).close()
