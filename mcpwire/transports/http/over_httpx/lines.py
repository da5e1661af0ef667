"""The connections of the asyncio engine: who uses which, and how to let go of them.

httpx says only with a response over which connection it came. A `Tap` learns it from
the first write: it listens to the steps that httpcore tells (the documented extension
``trace``), and has a `Line` read and write in the place of each new stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import sys
from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.transports.http._sockets import FIRST_BYTES, acknowledged
from mcpwire.transports.http.over_httpx.guard import Guard, UnwantedError

if TYPE_CHECKING:
    import weakref

    from mcpwire.limits import Limits
    from mcpwire.transports.http.destination import Destination
    from mcpwire.transports.http.over_httpx.errors import Facts

__all__ = ["Owner", "Tap", "abort_transport", "close_socket", "current_tap"]

_CANCEL: Final = 8
"""RFC 9113, 7: the stream is no longer needed."""

RESET_S: Final = 1.0
"""How long telling the server of a cancelled stream may take."""

LOOK_S: Final = 0.05
"""How often a large body that does not leave looks for an answer that came early."""

SLICE_S: Final = 1.0
"""How soon a thread notices that another one has closed its connection."""

_EVENTS: Final = frozenset({"connect_tcp.complete", "connect_unix_socket.complete"})


class Owner(Protocol):
    """The engine, as its connections see it."""

    connections: int
    bytes_sent: int
    limits: Limits
    client: Any
    transport: Any
    streams: weakref.WeakSet[Any]


_current: ContextVar[Tap] = ContextVar("_current")
"""Whose task this is."""


def current_tap() -> Tap:
    """Return the tap of the exchange that runs in this context."""
    return _current.get()


class Line:
    """One connection: reads and writes for its stream, and tells whoever does."""

    def __init__(self, stream: Any, owner: Owner) -> None:
        self.stream = stream
        self.guard = Guard(owner.limits, is_strict=owner.client is None)
        self.tap: Tap | None = None
        """Which exchange has written last."""
        self._turn = asyncio.Lock()
        self._read, self._write = stream.read, stream.write
        stream.read, stream.write = self.read, self.write

    @property
    def is_secure(self) -> bool:
        """Whether it is TLS: what can be read there may be no answer."""
        return self.stream.get_extra_info("ssl_object") is not None

    def acknowledged(self) -> int:
        """Return how many bytes the peer's system says it has."""
        sock = self.stream.get_extra_info("socket")
        return 0 if sock is None else acknowledged(sock)

    async def aclose(self) -> None:
        """Close the connection."""
        await self.stream.aclose()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read for the stream."""
        tap = _current.get(None)
        if tap is None:
            return bytes(await self._read(max_bytes, timeout))
        tap.check(self)
        data: bytes = await self._read(max_bytes, timeout)
        tap.note_read(self, data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write for the stream."""
        tap = _current.get(None)
        if tap is not None:
            tap.note_write(self, len(buffer))
            if tap.shares:
                # Cut short it would leave half a frame to whoever writes next.
                await asyncio.shield(self._write_whole(buffer))
                return
        if len(buffer) > FIRST_BYTES and not self.is_secure:
            await self._write_large(memoryview(buffer))
        else:
            await self._write(buffer, timeout)

    async def _write_whole(self, buffer: bytes) -> None:
        # Whoever was cancelled has let go of httpcore's own lock.
        async with self._turn:
            await self._write(buffer)

    async def _write_large(self, left: memoryview) -> None:
        """Write while no answer comes: a server may refuse a body it has not read."""
        while left:
            self._check_unanswered()
            piece, left = left[:FIRST_BYTES], left[FIRST_BYTES:]
            writing = asyncio.ensure_future(self._write(bytes(piece)))
            try:
                await self._watch(writing)
            except BaseException:
                writing.cancel()
                raise
            writing.result()

    async def _watch(self, writing: asyncio.Future[None]) -> None:
        while not (await asyncio.wait([writing], timeout=LOOK_S))[0]:
            self._check_unanswered()

    def _check_unanswered(self) -> None:
        if self.stream.get_extra_info("is_readable"):
            # httpcore goes on to read then.
            raise library_of(self.stream).WriteError("answered early")


class ThreadedLine(Line):
    """One connection of a blocking client, for the threads of exchanges."""

    async def aclose(self) -> None:
        """Close the connection; that does not block."""
        self.stream.close()

    def read(  # type: ignore[override]  # its stream is not asynchronous
        self, max_bytes: int, timeout: float | None = None
    ) -> bytes:
        """Read for the stream."""
        tap = _current.get(None)
        if tap is None:
            return bytes(self._read(max_bytes, timeout))
        tap.check(self)
        while True:
            with contextlib.suppress(library_of(self.stream).ReadTimeout):
                data: bytes = self._read(max_bytes, SLICE_S)
                tap.note_read(self, data)
                return data

    def write(  # type: ignore[override]  # as above
        self, buffer: bytes, timeout: float | None = None
    ) -> None:
        """Write for the stream."""
        tap = _current.get(None)
        if tap is not None:
            tap.note_write(self, len(buffer))
        if tap is None or len(buffer) <= FIRST_BYTES or self.is_secure or tap.shares:
            self._write(buffer, timeout)
        else:
            self._write_unanswered(memoryview(buffer))

    def _write_unanswered(self, left: memoryview) -> None:
        """Write while no answer comes: a server may refuse a body it has not read."""
        sock: socket.socket = self.stream.get_extra_info("socket")
        try:
            sock.settimeout(0)
            with selectors.DefaultSelector() as selector:
                selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
                while left:
                    selector.select(SLICE_S)
                    self._check_unanswered()
                    with contextlib.suppress(BlockingIOError):
                        left = left[sock.send(left) :]
        except (OSError, ValueError) as error:  # ValueError: closed meanwhile
            raise library_of(self.stream).WriteError(error) from error


class Tap:
    """What one exchange does to the connection it gets.

    Args:
        owner: The engine, which counts the bytes.
        facts: What becomes known of the exchange.

    Attributes:
        destination: Where its credentials may go, with a client of the user's.
    """

    def __init__(self, owner: Owner, facts: Facts) -> None:
        self._owner = owner
        self._facts = facts
        self._line: Line | None = None
        self._opening: Line | None = None
        self._loop = asyncio.get_running_loop()
        self._begun_at: int | None = None
        self._has_answer = self._is_spoilt = False
        self.destination: Destination | None = None
        self._stream_id: int | None = None
        _current.set(self)

    # What httpcore tells...

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        """Take note of a step of httpcore's."""
        self.note_step(event, info)

    def note_step(self, event: str, info: dict[str, Any]) -> None:
        """Take note of a step of httpcore's; from the thread that takes it."""
        self._facts.is_traced = True
        step = event.partition(".")[2]
        if step in _EVENTS:
            self._opened(info["return_value"])
        elif step == "start_tls.started":
            self._opening = self._line
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
                self._stream_id = info.get("stream_id")

    def _connected(self) -> None:
        if self._facts.is_unwanted:
            raise UnwantedError
        if self._opening is not None:
            self._opening = None
            self._owner.connections += 1

    def _opened(self, stream: Any) -> None:
        add = self._owner.streams.add
        if hasattr(stream, "aclose"):
            self._line = Line(stream, self._owner)
            add(stream)
        else:
            self._line = ThreadedLine(stream, self._owner)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(add, stream)
        self._opening = self._line

    # ... what passes ...

    @property
    def shares(self) -> bool:
        """Whether others use the connection, too: it is HTTP/2."""
        return self._stream_id is not None

    @property
    def _is_http1(self) -> bool:
        """Whether it has begun on a connection that it has to itself."""
        return self._facts.has_begun and self._stream_id is None

    def check_destination(self, request: Any) -> None:
        """Check a request of httpcore's, whose head is about to be written.

        Raises:
            UrlRefused: Its credentials are for another URL.
        """
        if self.destination is not None:
            self.destination.check_trace(request)

    def note_write(self, line: Line, size: int) -> None:
        """Take note that this exchange uses that connection.

        Raises:
            StaleError: It must not.
            UnwantedError: The exchange was given up.
        """
        self._line = line
        line.tap = self
        if self._is_http1 and self._facts.is_unwanted:
            raise UnwantedError
        if self._is_http1 and self._begun_at is None:
            line.guard.begin(monotonic())
            self._begun_at = line.acknowledged()
            self._has_answer = False
        self._owner.bytes_sent += size

    def check(self, line: Line) -> None:
        """Raise what was wrong with what came last."""
        if self._is_http1:
            line.guard.check()

    def note_read(self, line: Line, data: bytes) -> None:
        """Take note of what came, and of what its end proves.

        Raises:
            MCPError: It is not acceptable.
        """
        if not self._is_http1:
            return
        if data:
            self._has_answer = True
            now = monotonic()
            line.guard.feed(data, now)
            self._is_spoilt = not line.guard.may_reuse(now)
        # The goodbye of TLS is no FIN.
        elif self._begun_at is not None and not self._has_answer and not line.is_secure:
            self._facts.is_unseen = 0 < line.acknowledged() <= self._begun_at

    # ... and the end.

    async def finish(self) -> None:
        """Close the connection of a complete answer if that was not all."""
        line = self._line
        # Not asked now: another exchange may have the connection already.
        if line is not None and self._is_spoilt:
            await line.aclose()

    def give_up(self) -> None:
        """Let no request begin any more, and wake the thread that waits for an answer.

        Not where others use the connection, too.
        """
        self._facts.is_unwanted = True
        line = self._line
        if line is not None and line.tap is self and not self.shares:
            wake_thread(line.stream)

    async def hang_up(self, response: Any, *, cancels: bool) -> None:
        """Let go of the connection of an exchange that has failed.

        Args:
            response: What came of it, or ``None``.
            cancels: Whether the server has to be told.
        """
        if cancels and self._stream_id is not None:
            await self._reset_stream(self._stream_id)
        if response is not None:
            await response.aclose()
        elif self._opening is not None:
            # Between two steps of connecting httpcore would lose it.
            await self._opening.aclose()

    async def _reset_stream(self, stream_id: int) -> None:
        """Cancel a stream of HTTP/2 (RFC 9113, 6.4).

        httpcore only forgets it: the server would go on with the call, and it would
        count among the streams that may be open.
        """
        found = _http2_connections(self._owner)
        if self._line is not None:
            found = [each for each in found if each[0] is self._line.stream]
        if len(found) != 1:  # it has written nothing, and could be on any of them
            return
        stream, state = found[0]
        failures = (library_of(stream).NetworkError, TimeoutError, *_h2_errors())
        with contextlib.suppress(*failures):
            state.reset_stream(stream_id, error_code=_CANCEL)
            async with asyncio.timeout(RESET_S):
                await stream.write(state.data_to_send())


def library_of(stream: Any) -> Any:
    """Return the module that a stream comes from: httpcore, or one like it."""
    return sys.modules[type(stream).__module__.partition(".")[0]]


def _h2_errors() -> tuple[type[Exception], ...]:
    h2 = sys.modules.get("h2.exceptions")
    return () if h2 is None else (h2.H2Error,)


def _http2_connections(owner: Owner) -> list[tuple[Any, Any]]:
    """Return streams of connections of HTTP/2 with its state on each.

    Nothing public leads there; what is not found is left alone.
    """
    client = owner.client
    transports = [owner.transport, getattr(client, "_transport", None)]
    transports += (getattr(client, "_mounts", None) or {}).values()
    found = []
    for transport in transports:
        pool = getattr(transport, "_pool", None)
        for connection in getattr(pool, "connections", ()):
            inner = connection
            while inner is not None:  # through a tunnel there are two wrappers
                state = getattr(inner, "_h2_state", None)
                if state is not None:
                    found.append((inner._network_stream, state))  # noqa: SLF001 - as said above
                inner = getattr(inner, "_connection", None)
    return found


def abort_transport(stream: Any) -> None:
    """Close a connection now, whether or not its loop runs here or ever again."""
    if not hasattr(stream, "aclose"):
        wake_thread(stream)
        return
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


def wake_thread(stream: Any) -> None:
    """End a connection for the thread that waits for it, which closes it."""
    sock = stream.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            # Not the method of `SSLSocket`, which turns it into a plain one.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def close_socket(stream: Any) -> None:
    """Close a socket behind the back of its loop, which does not run here."""
    sock = stream.get_extra_info("socket")
    if sock is not None:
        # asyncio shows a wrapper that cannot close.
        getattr(sock, "_sock", sock).close()
