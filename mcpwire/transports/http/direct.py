"""The default engine: keep-alive connections to one origin, on asyncio's transports.

::

    exchange ─► idle connection, not readable ─┐
             └► new connection ────────────────┴► write ─► response ─► idle again
                                                             └► rest of a body ─┘

An idle connection is not used if anything is readable on it before the write, EOF
included; `h1` decides after each response whether the connection may be reused. A
request is written again only if nothing of it could be written. If the connection ends
later without a response, the caller decides: the error has ``sent=True``. One timer
serves all connections without a waiting exchange.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ConnectError, ConnectionClosed, TransportError
from mcpwire.transports.base import wait_at_most
from mcpwire.transports.http.connecting import (
    connect,
    connect_error,
    describe_error,
    is_certificate_refusal,
    timeout_error,
)
from mcpwire.transports.http.engine import IDLE_TIMEOUT_S, MAX_TAIL_BYTES, MAX_TAIL_S
from mcpwire.transports.http.h1 import ResponseReader, encode

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

    from mcpwire.errors import MCPError
    from mcpwire.limits import Limits
    from mcpwire.protocol.http_reply import Request
    from mcpwire.transports.http.h1 import ResponseSink
    from mcpwire.transports.http.target import Http

READ_BYTES: Final = 65_536

MAX_WRITE_BYTES: Final = 262_144
"""Maximum bytes per write: asyncio copies the bytes that the system does not accept."""

ATTEMPTS: Final = range(4)
"""Attempts to write a request while nothing of it can be written."""

MAX_FINAL_READS: Final = 1_024
"""Maximum reads at the end of a connection: 64 MiB."""

CLOSE_NOTIFY_TIMEOUT_S: Final = 2.0
"""Maximum seconds for the server's close_notify alert of TLS."""

CLOSE_TIMEOUT_S: Final = CLOSE_NOTIFY_TIMEOUT_S + 0.5
"""Maximum seconds that `aclose` waits for all connections."""


class DirectEngine:
    """An `Engine` on asyncio's transports.

    It prefers the most recently used connection, so that the other connections of a
    burst become idle and are closed.
    """

    def __init__(self, target: Http, limits: Limits) -> None:
        self.target = str(target)
        self.http = target
        self.limits = limits
        self.written = 0
        self.bytes_received = 0
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        """The read buffer of all connections: each read is parsed before the next."""
        self.connections: set[Connection] = set()
        self.idle: list[Connection] = []
        self.blocked: set[Connection] = set()
        """Connections with bytes that the system has not accepted yet."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: ssl.SSLContext | None = None
        self._opening: dict[ResponseSink, asyncio.Timeout] = {}
        self._aborted: dict[ResponseSink, MCPError] = {}
        self._connecting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._is_closed = False
        self._all_closed = asyncio.Event()

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.target} {len(self.connections)} open, "
            f"{len(self.idle)} idle>"
        )

    @property
    def bytes_sent(self) -> int:
        """Number of bytes that the operating system has accepted so far."""
        buffered = (
            connection.transport.get_write_buffer_size() for connection in self.blocked
        )
        return self.written - sum(buffered)

    async def exchange(self, request: Request, reply: ResponseSink) -> None:
        """Send a request and pass its response to `reply`; see `Engine.exchange`."""
        if self.blocked or self._connecting_bytes:
            self._check_unwritten(request)
        first, rest = encode(request)
        connection = self._pop_idle()
        for _ in ATTEMPTS:
            if connection is None:
                connection = await self._connect(request, reply)
            waiter = connection.send(first, rest, reply)
            if waiter is not None:
                break
            connection = None  # the other idle connections may also have ended
        else:
            raise self.closed_error("no connection takes the request", sent=False)
        try:
            await waiter
        except BaseException:
            if connection.waiter is waiter:
                connection.fail()
            raise
        finally:
            del waiter  # an error refers to this frame: avoid a cycle

    def abort(self, reply: ResponseSink, error: MCPError) -> bool:
        """End the exchange of a reply; see `Engine.abort`."""
        for connection in self.connections:
            if connection.reply is reply:
                waiter = connection.waiter
                if waiter is None or waiter.done():
                    return False
                connection.fail(None if reply.is_over else error)
                return True
        opening = self._opening.get(reply)
        if opening is None or opening.expired() or reply in self._aborted:
            return False
        self._aborted[reply] = error
        with contextlib.suppress(RuntimeError):  # no running loop: it ends when open
            opening.reschedule(0)
        return True

    # Connections

    def _pop_idle(self) -> Connection | None:
        """Return an idle connection that still seems open, if there is one."""
        idle = self.idle
        while idle:
            connection = idle.pop()
            # Anything readable is EOF, or bytes without a request.
            is_fresh = connection.close_at > monotonic() and not connection.is_unusable
            if is_fresh and not connection.poll(0):
                return connection
            connection.transport.close()
        return None

    async def _connect(self, request: Request, reply: ResponseSink) -> Connection:
        """Return a new connection; an abort ends the attempt."""
        if self._is_closed:
            raise self.closed_error("closed by this side", sent=False)
        http = self.http
        size = _request_size(request)
        self._connecting_bytes += size
        try:
            async with asyncio.timeout(http.connect_timeout) as self._opening[reply]:
                connection = await self._open_connection()
        except (OSError, UnicodeError, ConnectError) as error:
            if reply in self._aborted:
                raise self._aborted[reply] from None
            if isinstance(error, ConnectError):
                raise
            if isinstance(error, TimeoutError) and error.errno is None:
                raise timeout_error(http) from error  # not ETIMEDOUT of the system
            raise connect_error(http, error) from error
        finally:
            self._connecting_bytes -= size
            del self._opening[reply]
            aborted = self._aborted.pop(reply, None)
        if aborted is not None:  # in the iteration of the loop in which it opened
            self.release(connection)
            raise aborted
        return connection

    async def _open_connection(self) -> Connection:
        loop = self._loop = asyncio.get_running_loop()
        http = self.http
        options: dict[str, Any] = {}
        if http.parsed.scheme == "https":
            if self._context is None:
                from mcpwire.transports.http.tls import ssl_context

                self._context = ssl_context(http)
            options = {
                "ssl": self._context,
                # RFC 6066 section 3: no trailing dot.
                "server_hostname": http.parsed.host.removesuffix("."),
                "ssl_shutdown_timeout": CLOSE_NOTIFY_TIMEOUT_S,
            }
        sock = await connect(http)
        _, connection = await loop.create_connection(
            lambda: Connection(self, sock), sock=sock, **options
        )
        return connection

    def _check_unwritten(self, request: Request) -> None:
        """Raise if the unwritten bytes and this request exceed `Limits.unwritten`."""
        waiting = self._connecting_bytes + sum(
            connection.unwritten for connection in self.blocked
        )
        limit = self.limits.unwritten
        if waiting and waiting + _request_size(request) > limit:
            raise TransportError(
                f"{self.target}: the server does not read: {waiting} bytes are "
                f"unwritten (Limits.unwritten is {limit})",
                target=self.target,
            )

    def closed_error(self, reason: str, *, sent: bool) -> ConnectionClosed:
        """Return the error for a connection that has ended."""
        return ConnectionClosed(
            f"{self.target}: {reason}", target=self.target, sent=sent
        )

    # Events of connections

    def release(self, connection: Connection) -> None:
        """Keep a connection as idle after its response, or close it."""
        reader = connection.reader
        if self._is_closed or not reader.may_reuse or connection.is_unusable:
            connection.abort()
            return
        self.idle.append(connection)
        self.close_after(connection, reader.idle_s)

    def remove(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        if connection in self.idle:
            self.idle.remove(connection)
        self.connections.discard(connection)
        self.blocked.discard(connection)
        if not self.connections:
            self._all_closed.set()

    # Timer

    def close_after(self, connection: Connection, seconds: float) -> None:
        """Close a connection after `seconds`, unless an exchange waits for it then."""
        connection.close_at = at = monotonic() + seconds
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            assert self._loop is not None, "a connection without a loop"
            self._timer = self._loop.call_later(seconds, self._close_expired)
            self._timer_at = at

    def _close_expired(self) -> None:
        """Close connections that are idle, or in the rest of a body, for too long."""
        self._timer, self._timer_at = None, inf
        now = monotonic()
        for connection in [each for each in self.connections if each.waiter is None]:
            if connection.close_at > now:
                self.close_after(connection, connection.close_at - now)
            elif connection.reply is not None:
                connection.fail()
            else:
                connection.transport.close()

    # Closing

    async def aclose(self) -> None:
        """Close all connections, within a time limit."""
        self._refuse_new()
        for connection in list(self.connections):
            if connection.reply is not None:
                connection.fail(self.closed_error("closed by this side", sent=True))
            else:
                connection.transport.close()
        try:
            if self.connections:
                self._all_closed.clear()
                await wait_at_most(CLOSE_TIMEOUT_S, self._all_closed.wait())
        finally:
            for connection in list(self.connections):
                connection.abort()

    def _refuse_new(self) -> None:
        """Refuse new exchanges, and end pending connection attempts."""
        self._is_closed = True
        self.idle.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, inf
        for reply in list(self._opening):
            self.abort(reply, self.closed_error("closed by this side", sent=False))

    def abandon(self) -> None:
        """Close the sockets at once, even without a running loop."""
        if self._loop is None or self._loop.is_closed():
            self.after_fork()
            return
        self._refuse_new()
        for connection in list(self.connections):
            connection.fail(self.closed_error("closed by this side", sent=True))
            if not self._loop.is_running():
                connection.socket.close()

    def after_fork(self) -> None:
        """Close this process's copies of the sockets; the parent's stay open."""
        self._is_closed = True
        self._timer = None
        for connection in self.connections:
            connection.socket.close()
        self.connections.clear()
        self.idle.clear()


class Connection(asyncio.BufferedProtocol):
    """One connection to the target's origin: one request and response at a time.

    `waiter` is resolved when the reply is over. A connection that `is_unusable` is not
    reused: it has ended, or bytes of a request are still unwritten.
    """

    transport: asyncio.Transport

    def __init__(self, engine: DirectEngine, sock: socket.socket) -> None:
        self.socket = sock
        self.reader = ResponseReader(engine.limits, IDLE_TIMEOUT_S)
        self.reply: ResponseSink | None = None  # ``None`` while idle
        self.waiter: asyncio.Future[None] | None = None
        self.close_at = 0.0  # when to close it, idle or in the rest of a body
        self.poll = _make_poll(sock.fileno())
        self.is_unusable = False
        self._engine = engine
        self._is_secure = engine.http.parsed.scheme == "https"
        self._loop = asyncio.get_running_loop()
        self._unsent = memoryview(b"")
        self._is_paused = False
        self._tail_left = 0

    # Exchanges

    def send(
        self, first: bytes, rest: memoryview | None, reply: ResponseSink
    ) -> asyncio.Future[None] | None:
        """Write a request; return the future that is resolved when its reply is over.

        ``None``: the system accepted nothing of it.
        """
        self.transport.write(first)
        if self.transport.is_closing():
            self.abort()
            return None
        self.reply = reply
        self.reader.expect(reply)
        waiter = self.waiter = self._loop.create_future()
        self._engine.written += len(first)
        if rest is not None:
            self._unsent = rest
            self._write_rest()
        return waiter

    def _write_rest(self) -> None:
        while self._unsent and not (self._is_paused or self.transport.is_closing()):
            chunk, self._unsent = (
                self._unsent[:MAX_WRITE_BYTES],
                self._unsent[MAX_WRITE_BYTES:],
            )
            self.transport.write(chunk)
            self._engine.written += len(chunk)

    @property
    def unwritten(self) -> int:
        """Number of bytes that are not written yet, as the server does not read."""
        return self.transport.get_write_buffer_size() + len(self._unsent)

    def abort(self) -> None:
        """Close the connection at once; `connection_lost` ends a waiting exchange."""
        self._unsent = memoryview(b"")
        self.is_unusable = True
        if self._is_secure:
            # The TLS layer may be calling `buffer_updated` at this moment.
            self._loop.call_soon(self.transport.abort)
        else:
            self.transport.abort()

    def fail(self, error: BaseException | None = None) -> None:
        """Close the connection at once, and raise `error` in a waiting exchange."""
        if not self._loop.is_closed():
            self._end_exchange(error)
            self.abort()

    def _end_exchange(self, error: BaseException | None = None) -> None:
        waiter, self.waiter = self.waiter, None
        self.reply = None
        if waiter is None or waiter.done():
            return
        if error is not None:
            waiter.set_exception(error)
            waiter.exception()  # so that asyncio does not log it as never retrieved
        else:
            waiter.set_result(None)

    def _complete(self) -> None:
        self._engine.release(self)  # first: the next request may reuse it
        self._end_exchange()

    # Callbacks of asyncio

    def connection_made(self, transport: Any) -> None:
        """Store the transport, plain or TLS."""
        self.transport = transport
        # Cause `pause_writing` as soon as the system does not accept everything.
        transport.set_write_buffer_limits(high=1, low=0)
        self._engine.connections.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the read buffer, a memoryview because the TLS layer slices it."""
        return self._engine.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse the received bytes."""
        self._engine.bytes_received += nbytes
        reply = self.reply
        if reply is None:  # bytes without a request
            self.abort()
            return
        try:
            self.reader.feed(self._engine.read_buffer[:nbytes])
        except BaseException as error:
            self.fail(error)
            if not isinstance(error, Exception):
                raise
            return
        if self.reader.is_complete:
            self._complete()
        elif self.waiter is None:
            self._tail_left -= nbytes
            if self._tail_left < 0:
                self.abort()  # a new connection is cheaper
        elif reply.is_over:
            waiter, self.waiter = self.waiter, None
            self._tail_left = MAX_TAIL_BYTES
            self._engine.close_after(self, MAX_TAIL_S)
            if not waiter.done():
                waiter.set_result(None)

    def eof_received(self) -> None:
        """End a waiting exchange at EOF; the transport closes itself."""
        self._on_stream_end(None, "the server closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        """End a waiting exchange, and remove the connection from the engine."""
        self.is_unusable = True
        if self.waiter is not None:
            self._on_stream_end(exc, "the connection ended")
        self.reply = None
        self._unsent = memoryview(b"")
        self._engine.remove(self)

    def pause_writing(self) -> None:
        """Pause writing: the server does not read."""
        self._is_paused = self.is_unusable = True
        self._engine.blocked.add(self)

    def resume_writing(self) -> None:
        """Resume writing."""
        self._is_paused = False
        self._engine.blocked.discard(self)
        self._write_rest()
        if not self.transport.is_closing():
            self.is_unusable = self._is_paused

    # End of the stream

    def _on_stream_end(self, error: Exception | None, reason: str) -> None:
        """Handle the end of the stream: complete the response, or fail the exchange."""
        self.is_unusable = True
        is_clean = error is None
        try:
            if error is not None or self._is_secure:
                is_clean = self._read_rest()
            if self.reply is None:
                return
            if is_clean and self.reader.eof():
                self._complete()
                return
        except Exception as raised:  # noqa: BLE001 - a reply's error goes to its waiter
            self._end_exchange(raised)
            return
        self._end_exchange(self._end_error(error, reason))

    def _read_rest(self) -> bool:
        """Read the undelivered bytes; return whether the stream ends properly.

        A server may respond before it has read the request, and close: then writing
        fails, but the response is valid. Over TLS, asyncio drops undelivered bytes at
        the end of the stream, and does not report whether a close_notify ended it;
        without one, the body may be truncated by an attacker (RFC 9112 section 9.8).
        """
        read_buffer = self._engine.read_buffer
        tls = self.transport.get_extra_info("ssl_object")
        try:
            for _ in range(MAX_FINAL_READS):
                if self.reply is None:
                    return False
                if tls is not None:
                    count = tls.read(len(read_buffer), read_buffer)
                else:
                    count = self.socket.recv_into(read_buffer)
                if not count:
                    return tls is not None
                self.buffer_updated(count)
        except OSError:  # no more data; also an `SSLError`
            return False
        return False

    def _end_error(self, error: BaseException | None, reason: str) -> MCPError:
        if error is not None:
            if not self.reader.has_started and is_certificate_refusal(error):
                refused = connect_error(self._engine.http, error)
                refused.__cause__ = error
                return refused
            reason = f"the connection broke ({describe_error(error)})"
        reason = f"{reason} {self.reader.phase}"
        if not self.reader.has_started:
            reason += ": the request may have run"
        closed = self._engine.closed_error(reason, sent=True)
        closed.__cause__ = error
        return closed


def _make_poll(fd: int) -> Callable[[float], list[Any]]:
    """Return a function that polls a file descriptor for readable data."""
    if not hasattr(select, "poll"):  # Windows
        return lambda _: select.select([fd], [], [], 0)[0]
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return poll.poll


def _request_size(request: Request) -> int:
    return len(request.start) + (len(request.body) if request.body is not None else 0)
