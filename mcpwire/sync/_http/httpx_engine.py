"""The blocking engine over httpx: in the thread that calls, without a loop.

An exchange returns when its reply is over. If its response is not complete then, the
response is parked; the next exchange reads what is left of it, if that comes at once,
and has its connection. ::

    exchange() ─► send ─► head ─► data … ─► end ─► idle
                                    └─► parked ─► the next exchange() ─► idle, or closed

With HTTP/2 a connection serves one exchange at a time: httpcore waits for a connection
that another thread reads without looking at any clock. That is so with a user's client
for HTTP/2, too, and there the time of a call is looked at only when something comes.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ConnectionClosed, LocalProtocolError, MCPError
from mcpwire.sync._http._httpx_exchange import Exchange
from mcpwire.transports._fork import let_go_after_fork
from mcpwire.transports.http.over_httpx.errors import Translator
from mcpwire.transports.http.over_httpx.requests import (
    Requests,
    check_client,
    library_of,
    make_transport,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http.request import Request
    from mcpwire.transports.http.destination import Destination
    from mcpwire.transports.http.engine import Fed
    from mcpwire.transports.http.target import Http

__all__ = ["BlockingHttpxEngine"]

PARKED: Final = 8
"""How many responses may be parked."""


class BlockingHttpxEngine:
    """Performs HTTP requests to one origin with httpx, in any number of threads.

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
        self._http = target
        self.is_shared = not target.http2
        if self.client is None:
            import httpx

            self.library: ModuleType = httpx
            self._transports = [self._make_transport()]
        else:
            check_client(self.client, asynchronous=False)
            self.library = library_of(self.client)
            self._transports = []
        self.requests = Requests(target, self.library, self.client)
        self.translate = Translator(target, limits)
        self.streams: weakref.WeakSet[Any] = weakref.WeakSet()
        self._running: dict[int, Exchange] = {}
        self._parked: list[Exchange] = []
        # A finaliser may come while its own thread holds it.
        self._mutex = threading.RLock()
        self._refusal: Callable[..., MCPError] | None = None
        let_go_after_fork(self)

    def _make_transport(self) -> Any:
        return make_transport(self._http, self.library.HTTPTransport, self.library)

    def exchange(self, request: Request, reply: Fed, deadline: Deadline | None) -> None:
        """Send a request and feed its reply until that is over.

        See `mcpwire.transports.http.engine`. Interrupting it closes the connection.

        Raises:
            ConnectError: No connection came about; nothing was sent.
            ConnectionClosed: The connection ended before the reply was over; `sent`
                tells whether the request may have been seen.
            RemoteProtocolError: What came back is no acceptable HTTP, or the reply
                refused it.
            LocalProtocolError: This process was forked off the one that connected.
            MCPError: The deadline has passed, or what `abort` was given.
        """
        self._check()
        aborted: MCPError | None = getattr(reply, "aborted", None)
        if aborted is not None:
            raise aborted
        if getattr(self.client, "is_closed", False):
            raise LocalProtocolError("http_client is closed")
        exchange = Exchange(self, reply, deadline)
        key = id(reply)
        self._running[key] = exchange
        try:
            self._check()  # it may have been closed before it knew of this
            exchange.slice()
            if self._parked:
                self._finish_parked(reply)
            exchange.run(request)
            self._take_out(key, exchange)
            if getattr(reply, "error", None) is not None:
                exchange.hang_up()  # what failed the call may have no end
            elif not exchange.is_complete:
                self._park(exchange)
        except BaseException:
            self._running.pop(key, None)
            exchange.hang_up()
            raise

    def _check(self) -> None:
        if self._refusal is not None:
            raise self._refusal()

    def _take_out(self, key: int, exchange: Exchange) -> None:
        with self._mutex:  # whoever takes it out has the say
            was_aborted = self._running.pop(key, None) is None
        if was_aborted:
            assert exchange.error is not None
            raise exchange.error

    def abort(self, reply: Fed, error: MCPError) -> bool:
        """End the exchange of that reply with an error; return whether one ran.

        From any thread. An exchange that is about to connect notices it afterwards.
        """
        with self._mutex:
            exchange = self._running.pop(id(reply), None)
            if exchange is None:
                return False
            exchange.error = error
        exchange.tap.wake()
        return True

    # Transports...

    def send(
        self, transport: Any, request: Any, destination: Destination | None
    ) -> Any:
        """Send a request of httpx; return the response, unread."""
        if destination is None:
            return transport.handle_request(request)
        with destination.watch(self.client, asynchronous=False):
            return self.client.send(request, stream=True, follow_redirects=False)

    def borrow(self) -> Any:
        """Return a transport for one exchange; ``None`` for the user's client."""
        if self.client is not None:
            return None
        if self.is_shared:
            return self._transports[0]
        with self._mutex:
            if self._transports:
                return self._transports.pop()
        return self._make_transport()

    def give_back(self, transport: Any) -> None:
        """Take back what `borrow` gave and is as good as new."""
        with self._mutex:
            if self._refusal is None:
                self._transports.append(transport)
                return
        transport.close()

    # ... responses that are answered and not complete ...

    def _park(self, exchange: Exchange) -> None:
        exchange.park()
        with self._mutex:
            self._parked.append(exchange)
            late = self._parked.pop(0) if len(self._parked) > PARKED else None
        if self._refusal is not None:
            self._drop_parked()
        elif late is not None:
            late.hang_up()

    def _finish_parked(self, reply: Fed) -> None:
        """Read on where this thread or another has left off, as far as that comes."""
        with self._mutex:
            parked, self._parked = self._parked, []
        for exchange in parked:
            if exchange.reply is reply:
                exchange.leave()
            if not exchange.finish():
                with self._mutex:
                    self._parked.append(exchange)
        if self._refusal is not None:
            self._drop_parked()

    def _drop_parked(self) -> None:
        with self._mutex:
            dropped, self._parked = self._parked, []
        for exchange in dropped:
            exchange.hang_up()

    # ... and the end of everything.

    def close(self) -> None:
        """Close every connection; exchanges still open raise `ConnectionClosed`."""
        self._refusal = self._refusal or self.closed
        for key in list(self._running):
            with self._mutex:
                exchange = self._running.pop(key, None)
                if exchange is None:
                    continue
                exchange.error = self.closed(sent=exchange.facts.may_be_sent)
            exchange.tap.wake()
        self._drop_parked()
        for transport in list(self._transports):
            transport.close()

    def abandon(self) -> None:
        """Let go of the sockets at once and wait for nothing, from anywhere."""
        self.close()

    def forked(self) -> None:
        """Close our copies of the sockets; the parent keeps its own."""
        self._refusal = self._was_forked
        self._mutex = threading.RLock()
        for stream in list(self.streams):
            stream.close()

    def closed(self, *, sent: bool = False) -> MCPError:
        """Build the error for what is closed by us."""
        return ConnectionClosed(
            f"{self.target}: closed by this side", target=self.target, sent=sent
        )

    @staticmethod
    def _was_forked() -> MCPError:
        return LocalProtocolError(
            "this process was forked off the one that connected: connect anew here"
        )
