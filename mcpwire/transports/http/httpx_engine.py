"""The engine over httpx: proxies, HTTP/2, and clients that the user brings along.

One task per exchange talks to httpx, and reads on when the reply is over, so that the
connection can be used again. ::

    exchange() ─► task: send ─► head ─► data … ─┬─► data … ─► end
         ▲                                      │    (for some seconds)
         └──────── over, failed, aborted ◄──────┘

httpcore opens a new connection where the end of an idle one is readable before it is
used, and repeats nothing that was written, except over HTTP/2 what the server says it
did not process (RFC 9113, 6.8). The engine adds the one proof that the direct engine
has, too: a FIN while the kernel knows of no acknowledged byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ConnectionClosed, LocalProtocolError, MCPError
from mcpwire.transports.base import let_go_after_fork
from mcpwire.transports.handlers import is_blocking
from mcpwire.transports.http._sockets import RESENDS, TAIL_BYTES, TAIL_S
from mcpwire.transports.http.over_httpx.errors import Facts, Translator, shown_cause
from mcpwire.transports.http.over_httpx.guard import StaleError, UnwantedError
from mcpwire.transports.http.over_httpx.lines import (
    Tap,
    abort_transport,
    close_socket,
)
from mcpwire.transports.http.over_httpx.requests import (
    Requests,
    check_client,
    failures_of,
    library_of,
    make_transport,
)
from mcpwire.transports.http.over_httpx.responses import (
    FRESH_S,
    body_of,
    is_http2,
    read_head,
)
from mcpwire.transports.http.over_httpx.threaded import ThreadedClient

if TYPE_CHECKING:
    from types import ModuleType

    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http_reply import Request
    from mcpwire.transports.http.destination import Destination
    from mcpwire.transports.http.engine import Fed
    from mcpwire.transports.http.target import Http

__all__ = ["HttpxEngine"]

CLOSE_S: Final = 2.0
"""How long exchanges may take to let go of their connections."""


class HttpxEngine:
    """Performs HTTP requests to one origin with httpx.

    Args:
        target: Where to, and whether with a client of the user's.
        limits: `Limits.head` counts here.

    Raises:
        ConnectError: A file of the TLS options cannot be used.
        ValueError: The user's client is of the wrong kind, or a package is missing.
    """

    def __init__(self, target: Http, limits: Limits) -> None:
        self.target = str(target)
        self.connections = 0
        self.bytes_sent = 0
        self.limits = limits
        self.connect_timeout = target.connect_timeout
        self.client = target.http_client
        self.is_shared = target.http2
        """Whether exchanges may wait for one connection together."""
        self.transport: Any = None
        if self.client is None:
            import httpx

            self.library: ModuleType = httpx
            self.transport = make_transport(target, httpx.AsyncHTTPTransport, httpx)
        else:
            if not is_blocking():
                check_client(self.client)
            self.library = library_of(self.client)
            if not hasattr(self.client, "aclose"):
                self.client = ThreadedClient(self.client)
        self.requests = Requests(target, self.library, self.client)
        self.translate = Translator(target, limits)
        self.streams: weakref.WeakSet[Any] = weakref.WeakSet()
        self.rests: dict[Fed, _Exchange] = {}
        """Who reads what is left of an answer."""
        self._running: dict[Fed, _Exchange] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        let_go_after_fork(self)

    async def exchange(
        self, request: Request, reply: Fed, deadline: Deadline | None
    ) -> None:
        """Send a request and feed its reply until that is over.

        See `mcpwire.transports.http.engine`. The deadline is the caller's to watch.

        Raises:
            ConnectError: No connection came about; nothing was sent.
            ConnectionClosed: The connection ended before the reply was over; `sent`
                tells whether the request may have been seen.
            RemoteProtocolError: What came back is no acceptable HTTP, or the reply
                refused it.
            MCPError: What `abort` was given.
        """
        del deadline
        if self._is_closed:
            raise self.closed(sent=False)
        aborted: MCPError | None = getattr(reply, "aborted", None)
        if aborted is not None:
            raise aborted
        if getattr(self.client, "is_closed", False):
            raise LocalProtocolError("http_client is closed")
        if reply in self.rests:  # it is fed another answer now
            self.rests.pop(reply).was_left = True
        exchange = _Exchange(self, request, reply)
        self._tasks.add(exchange.task)
        exchange.task.add_done_callback(self._tasks.discard)
        self._running[reply] = exchange
        try:
            await exchange.over
        except asyncio.CancelledError:
            exchange.cancel()
            raise
        finally:
            del self._running[reply]

    async def settle(self) -> None:
        """Wait a moment for the rest of an answer, to use its connection again."""
        now = asyncio.get_running_loop().time()
        fresh = [rest.task for rest in self.rests.values() if now < rest.fresh_until]
        if fresh:
            await asyncio.wait(
                fresh, timeout=FRESH_S, return_when=asyncio.FIRST_COMPLETED
            )

    async def send(self, request: Any, destination: Destination | None) -> Any:
        """Send a request of httpx; return the response, unread."""
        if destination is None:
            return await self.transport.handle_async_request(request)
        with destination.watch(self.client):
            return await self.client.send(request, stream=True, follow_redirects=False)

    def abort(self, reply: Fed, error: MCPError) -> bool:
        """End the exchange of that reply with an error; return whether one ran."""
        exchange = self._running.get(reply)
        return exchange is not None and exchange.fail(error)

    async def aclose(self) -> None:
        """Close every connection that is ours; bounded in time."""
        self._is_closed = True
        self._stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_S)
        if self.transport is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self.transport.aclose()
                    for stream in list(self.streams):
                        await stream.aclose()

    def _stop(self) -> None:
        for exchange in list(self._running.values()):
            exchange.fail(self.closed(sent=exchange.facts.may_be_sent))
        for task in self._tasks:
            task.cancel()

    def abandon(self) -> None:
        """Let go of the sockets at once and wait for nothing, from anywhere.

        The idle ones of a user's client are the user's.
        """
        self._is_closed = True
        with contextlib.suppress(RuntimeError):  # their loop is closed
            self._stop()
        for stream in list(self.streams):
            abort_transport(stream)

    def forked(self) -> None:
        """Close our copies of the sockets; the parent keeps its own."""
        self._is_closed = True
        for stream in list(self.streams):
            close_socket(stream)

    def closed(self, *, sent: bool) -> ConnectionClosed:
        """Build the error for what is closed by us."""
        return ConnectionClosed(
            f"{self.target}: closed by this side", target=self.target, sent=sent
        )


class _Exchange:
    """One request, and the task that feeds its reply."""

    def __init__(self, engine: HttpxEngine, request: Request, reply: Fed) -> None:
        loop = asyncio.get_running_loop()
        self.engine = engine
        self.reply = reply
        self.facts = Facts()
        self.over: asyncio.Future[None] = loop.create_future()
        self.task = loop.create_task(self._carry(request))
        self.task.add_done_callback(self._ended)
        self.was_left = False
        self.fresh_until = 0.0
        self._end: asyncio.TimerHandle | None = None

    # From outside...

    def fail(self, error: MCPError) -> bool:
        """End it with an error; return whether it was under way."""
        if self.over.done():
            return False
        self.over.set_exception(error)
        self._stop()
        return True

    def cancel(self) -> None:
        """End it: nobody waits any more."""
        if self.over.done() and not self.over.cancelled():
            self.over.exception()  # nobody will ask
        self._stop()

    def _stop(self) -> None:
        if self.engine.is_shared and not self.facts.has_begun:
            # httpcore forgets a connection that is on its way once one who waits for
            # it is cancelled, whoever else does.
            self.facts.is_unwanted = True
        else:
            self.task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._end is not None:
            self._end.cancel()
        if self.engine.rests.get(self.reply) is self:
            del self.engine.rests[self.reply]
        error = None if task.cancelled() else task.exception()
        if self.over.done():
            return
        if task.cancelled():  # from inside: by a hook of the user's client
            error = self.engine.closed(sent=self.facts.may_be_sent)
        if error is not None:
            self.over.set_exception(error)
        else:
            self.over.set_result(None)

    # ... and in its task.

    async def _carry(self, request: Request) -> None:
        engine = self.engine
        if engine.rests:
            await engine.settle()
        resends = 0
        while True:
            try:
                await self._try(request)
            except StaleError:  # each time there is one connection less
                self._renew()
            except UnwantedError:
                return
            except failures_of(engine.library) as error:
                if not self.facts.is_unseen or resends == RESENDS:
                    ours = engine.translate(error, self.facts)
                    raise ours from shown_cause(ours, error)
                resends += 1
                self._renew()
            else:
                return

    def _renew(self) -> None:
        self.facts = Facts()
        self.facts.is_unwanted = self.over.done()

    async def _try(self, request: Request) -> None:
        engine = self.engine
        tap = Tap(engine, self.facts)
        response = None
        try:
            response = await engine.send(
                engine.requests.build(request, tap, engine.connect_timeout),
                tap.destination,
            )
            await self._feed(response)
            await tap.finish()
        except failures_of(engine.library):
            await tap.hang_up(response, cancels=False)
            raise
        except BaseException:
            await tap.hang_up(response, cancels=True)
            raise

    async def _feed(self, response: Any) -> None:
        reply = self.reply
        head = read_head(
            response, self.engine.limits, decodes=self.engine.client is not None
        )
        self.facts.has_head = True
        reply.head(head.status, head.fields)
        if reply.is_over:
            self._wake(response)
        unwanted = 0
        async for chunk in body_of(response, head):
            if self.over.done():
                unwanted += len(chunk)
                if unwanted > TAIL_BYTES:  # another connection costs less
                    raise UnwantedError
            if not (head.is_muted or self._is_left):
                reply.data(chunk)
                if reply.is_over:
                    self._wake(response)
        await response.aclose()
        if not self._is_left:
            reply.end()

    @property
    def _is_left(self) -> bool:
        """Whether the reply waits for another answer by now."""
        if self.over.done() and not self.reply.is_over:
            self.was_left = True
        return self.was_left

    def _wake(self, response: Any) -> None:
        """Let whoever waits go on, and read on for a while."""
        if self.over.done():
            return
        self.over.set_result(None)
        loop = self.task.get_loop()
        self._end = loop.call_later(TAIL_S, self.task.cancel)
        self.engine.rests[self.reply] = self
        if not is_http2(response):
            self.fresh_until = loop.time() + FRESH_S
