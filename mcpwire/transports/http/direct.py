"""The default engine on asyncio: keep-alive connections of our own to one origin.

An exchange on an idle connection is a poll, a write and a future: no task, no timer.
Whatever takes longer has one timer per engine, armed while a connection is idle or its
response is not read to its end.

A request is sent again only where it provably never reached the server's program: its
connection had ended while it was idle, nothing of it could be written, or the stream
ended without a byte while the kernel knew of no byte that arrived.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ConnectionClosed, TransportError
from mcpwire.transports.http import _sockets
from mcpwire.transports.http._connecting import GOODBYE_S, connect
from mcpwire.transports.http._connection import FIRST_READ_BYTES, Connection

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from mcpwire.errors import MCPError
    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http_reply import Request
    from mcpwire.transports.http.engine import Fed
    from mcpwire.transports.http.target import Http

__all__ = ["DirectEngine"]

TAIL_WAIT_S: Final = 0.002
"""How long the rest of a response is waited for before another connection is opened."""

ATTEMPTS: Final = range(1 + _sockets.RESENDS)

CLOSE_S: Final = GOODBYE_S + 0.5
"""How long closing waits for the goodbyes."""


class DirectEngine:
    """See `Engine`.

    The connection used last is used first, so that those a burst needed go idle and
    are closed.
    """

    def __init__(self, target: Http, limits: Limits) -> None:
        self.target = str(target)
        self.connections = 0
        self.written = 0
        self._http = target
        self._limits = limits
        self._context: ssl.SSLContext | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._create_future: Callable[[], asyncio.Future[Any]]
        self._process = os.getpid()
        self.view = memoryview(bytearray(FIRST_READ_BYTES))
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._lingering: set[Connection] = set()
        self._clogged: set[Connection] = set()
        self._opening: dict[int, asyncio.Future[Any]] = {}
        self._tail_waiter: asyncio.Future[None] | None = None
        self._aborted: dict[int, MCPError] = {}
        self._held_back = 0
        self._streams = 0  # GETs, whose responses may last as long as the session
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._is_closed = False
        self._emptied: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        """Return one readable line."""
        return (
            f"<{type(self).__name__} {self.target} {len(self._open)} open, "
            f"{self.idle} idle>"
        )

    @property
    def bytes_sent(self) -> int:
        """How many bytes were handed to the operating system so far."""
        return self.written - sum(c.buffered for c in self._clogged)

    @property
    def idle(self) -> int:
        """How many connections wait for the next request."""
        return len(self._idle)

    async def exchange(
        self, request: Request, reply: Fed, deadline: Deadline | None
    ) -> None:
        """Send a request and feed its reply; see `Engine.exchange`."""
        body = request.body
        if body is not None and len(body) <= _sockets.FIRST_BYTES:
            # As `encode` does it, without a call for each request; all in one is the
            # cheapest.
            first = b"%bcontent-length: %d\r\n\r\n%b" % (request.start, len(body), body)
            rest = None
        else:
            first, rest = _sockets.encode(request)
            self._streams += body is None
        try:
            if self._clogged or self._held_back:
                self._check_unwritten(request)
            connection = self._take()
            if connection is None and self._lingering:
                connection = await self._tail(reply)
            for _ in ATTEMPTS:
                if connection is None:
                    connection = await self._new(request, reply)
                waiter = self._create_future()
                connection.send(first, rest, reply, waiter)
                try:
                    if await waiter:
                        return
                except BaseException:
                    if connection.waiter is waiter:
                        connection.waiter = None  # the loop may be closed by now
                        connection.fail()
                    raise
                connection = None  # the idle ones may be as dead as that one
            raise self._closed_error("it ends every connection unread", sent=False)
        finally:
            if body is None:
                self._streams -= 1

    def abort(self, reply: Fed, error: MCPError) -> bool:
        """End the exchange of that reply with an error; return whether one ran."""
        for connection in self._open:
            if connection.reply is reply:
                waiter = connection.waiter
                if waiter is None or waiter.done():
                    return False
                connection.fail(error)
                return True
        task = self._opening.get(id(reply))
        if task is None:
            return False
        self._aborted[id(reply)] = error
        task.cancel()
        return True

    # Connections...

    def _take(self) -> Connection | None:
        """Return an idle connection that still seems to live."""
        idle = self._idle
        if idle:
            now = monotonic()
            while idle:
                connection = idle.pop()
                # What is readable is the end, or bytes that nobody asked for.
                if connection.until > now and not connection.poll(0):
                    return connection
                connection.close()
        return None

    async def _new(self, request: Request, reply: Fed) -> Connection:
        """Return a new connection; an abort reaches it meanwhile."""
        if self._is_closed:
            raise self._closed_error("closed by this side", sent=False)
        loop = self._begin()
        key = id(reply)
        size = _size(request)
        task = loop.create_task(self._connect(), name="mcpwire-http-connect")
        self._opening[key] = task
        self._held_back += size
        connection = None
        try:
            connection = await task
            error = self._aborted.get(key)
        except asyncio.CancelledError:
            error = self._why(key)
            if error is None:
                if task.done() and not task.cancelled() and task.exception() is None:
                    self.completed(task.result())
                raise
        finally:
            del self._opening[key]
            self._aborted.pop(key, None)
            self._held_back -= size
        if error is None and connection is not None:
            return connection
        if connection is not None:
            self.completed(connection)
        raise error or self._closed_error("closed by this side", sent=False)

    def _begin(self) -> asyncio.AbstractEventLoop:
        """Return the loop, with everything ready for a connection."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            # What `create_future` of asyncio's loop does, without its call.
            self._create_future = partial(asyncio.Future, loop=self._loop)
        if self._context is None and self._http.parsed.scheme == "https":
            from mcpwire.transports.http.tls import ssl_context

            self._context = ssl_context(self._http)
        return self._loop

    async def _tail(self, reply: Fed) -> Connection | None:
        """Return a connection whose response is complete in a moment, if one is.

        Mostly the rest is right behind the answer; then one connection is enough.
        """
        assert self._loop is not None, "a connection without a loop"
        fresh = [c for c in self._lingering if not c.was_waited_for]
        if not fresh:
            return None
        for connection in fresh:
            connection.was_waited_for = True
        key = id(reply)
        self._opening[key] = self._tail_waiter = waiter = self._create_future()
        timer = self._loop.call_later(TAIL_WAIT_S, _wake, waiter)
        try:
            await waiter
            error = self._aborted.get(key)  # in the turn in which it was over
        except asyncio.CancelledError:
            error = self._why(key)
            if error is None:
                raise
        finally:
            timer.cancel()
            del self._opening[key]
            self._aborted.pop(key, None)
        if error is not None:
            raise error
        return self._take()

    def _why(self, key: int) -> MCPError | None:
        """Return what an abort gave for a cancellation; none where it is another's."""
        ours = asyncio.current_task()
        if ours is not None and ours.cancelling():
            return None
        return self._aborted.get(key)

    async def _connect(self) -> Connection:
        connection = await connect(self._http, self._context, self._make)
        self.connections += 1
        return connection

    def _make(self) -> Connection:
        return Connection(self, self._http, self._limits)

    def _check_unwritten(self, request: Request) -> None:
        """Refuse a request for which there is no room.

        Raises:
            TransportError: Too much is waiting for the server to read.
        """
        waiting = self._held_back
        for connection in list(self._clogged):
            unwritten = connection.unwritten
            waiting += unwritten
            if not unwritten:
                self._clogged.discard(connection)
        limit = self._limits.unwritten
        if waiting and waiting + _size(request) > limit:
            raise TransportError(
                f"{self.target}: the server does not read: {waiting} bytes are "
                f"unwritten (Limits.unwritten is {limit})",
                target=self.target,
            )

    def _closed_error(self, why: str, *, sent: bool) -> ConnectionClosed:
        return ConnectionClosed(f"{self.target}: {why}", target=self.target, sent=sent)

    # What connections tell.

    def opened(self, connection: Connection) -> None:
        """Take note of a connection that is to be closed some day."""
        self._open.add(connection)

    def completed(self, connection: Connection) -> bool:
        """Take a connection back; it is idle from now on, or closed.

        Returns whether all are idle now.
        """
        reader = connection.reader
        if self._lingering:
            self._lingering.discard(connection)
            if self._tail_waiter is not None:
                _wake(self._tail_waiter)
                self._tail_waiter = None
        if (
            reader.may_reuse
            and not self._is_closed
            and not (self._clogged and connection.unwritten)
        ):
            self._idle.append(connection)
            seconds = _sockets.IDLE_S
            if reader.keep_alive_s < seconds:  # noqa: PLR1730 - `min` costs a call
                seconds = reader.keep_alive_s
            connection.until = until = monotonic() + seconds
            if until < self._timer_at:
                self._arm(until)
        else:
            connection.abort()
        return len(self._idle) + self._streams >= len(self._open)

    def lingers(self, connection: Connection) -> None:
        """Give the rest of a response its time."""
        connection.was_waited_for = False
        connection.tail_left = _sockets.TAIL_BYTES
        self._lingering.add(connection)
        connection.until = until = monotonic() + _sockets.TAIL_S
        if until < self._timer_at:
            self._arm(until)

    def clogs(self, connection: Connection) -> None:
        """Count what waits on that connection."""
        self._clogged.add(connection)

    def ended(self, connection: Connection) -> None:
        """Give that connection to nobody any more."""
        if connection in self._idle:
            self._idle.remove(connection)

    def lost(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self.ended(connection)
        self._open.discard(connection)
        self._lingering.discard(connection)
        self._clogged.discard(connection)
        if self._emptied is not None and not self._open and not self._emptied.done():
            self._emptied.set_result(None)

    # Time...

    def _arm(self, at: float) -> None:
        assert self._loop is not None, "a connection without a loop"
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_later(max(at - monotonic(), 0), self._sweep)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._timer_at = inf

    def _sweep(self) -> None:
        """Close what was idle, or not at its end, for too long."""
        self._timer = None
        self._timer_at = inf
        now = monotonic()
        for connection in [c for c in self._idle if c.until <= now]:
            self._idle.remove(connection)
            connection.close()
        for connection in [c for c in self._lingering if c.until <= now]:
            self._lingering.discard(connection)
            connection.fail()
        left = [c.until for c in (*self._idle, *self._lingering)]
        if left:
            self._arm(min(left))

    # The end.

    async def aclose(self) -> None:
        """Close every connection; bounded in time."""
        self._stop()
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        for connection in list(self._open):
            if connection.reply is not None:
                connection.fail(self._closed_error("closed by this side", sent=True))
        if self._open:
            if self._emptied is None:
                self._emptied = self._create_future()
            await asyncio.wait([self._emptied], timeout=CLOSE_S)
        for connection in list(self._open):
            connection.abort()

    def _stop(self) -> None:
        """Begin nothing any more, and end what has not begun."""
        self._is_closed = True
        self._disarm()
        for key, task in self._opening.items():
            error = self._closed_error("closed by this side", sent=False)
            self._aborted.setdefault(key, error)
            task.cancel()

    def abandon(self) -> None:
        """Close the sockets now, from anywhere; in a forked process only our copies."""
        loop = self._loop
        if os.getpid() != self._process or (loop is not None and loop.is_closed()):
            self._is_closed = True
            self._timer = None
            for connection in self._open:
                connection.close_socket()
            self._open.clear()
            self._idle.clear()
            return
        self._stop()
        for connection in list(self._open):
            connection.transport.abort()
            if loop is not None and not loop.is_running():
                connection.close_socket()
        self._idle.clear()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _size(request: Request) -> int:
    return len(request.start) + (len(request.body) if request.body is not None else 0)
