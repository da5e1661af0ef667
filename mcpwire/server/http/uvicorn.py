"""HTTP/1.1 server on uvicorn with limits on the resources that a client can hold.

::

    socket ─► HttpConnection ─► httptools ─► HttpRequest ─► ASGI application
                  │                              │
                  └─ Connections: pool, log      └─ response, written with its head

The resources that a client can hold, and their limits:

- a connection without a request: `Limits.head_timeout` for a head, uvicorn's
  ``timeout_keep_alive`` between requests, and a share of all connections;
- a head, or the framing and the trailers of a body: `Limits.head`;
- a response that the client does not read: `Limits.stall_timeout` without progress, and
  `Limits.unwritten_total` for all connections and event streams together;
- pipelined requests that wait for earlier responses: `MAX_WAITING_REQUESTS`.

On shutdown uvicorn waits for its connections before it notifies the application, but
event streams do not end by themselves. So the application is drained first, while new
requests are still answered with 503; then uvicorn shuts down.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import logging
import os
import signal
import socket
import struct
import sys
import threading
from collections import deque
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import quote, unquote

import attrs
import httptools

from mcpwire._package import import_optional
from mcpwire.server.fair_pool import FairPool
from mcpwire.server.http.app import access_log_on_stderr
from mcpwire.server.http.exchange import UNREAD, TimerQueue, UnreadAccount
from mcpwire.server.lifespan import (
    arm_exit_timer,
    join_threads_or_exit,
    refuse_running_loop,
)
from mcpwire.server.log_limit import LimitedLogger, error_kind
from mcpwire.wire.urls import address_class, is_loopback, network_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcpwire.limits import Limits
    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.http.exchange import Event, Receive, Scope, Send

logger = LimitedLogger("mcpwire")
access_logger = logging.getLogger("uvicorn.access")

TASK_NAME: Final = "mcpwire-http-request"

MAX_WAITING_REQUESTS: Final = 64
"""How many pipelined requests of one connection wait for earlier responses."""

READ_AHEAD: Final = 65_536
"""How many unread bytes of a body are buffered before reading is paused."""

STALL_BYTES: Final = 65_536
"""The bytes of a response that a client must read within `Limits.stall_timeout`."""

LINGER_S: Final = 1.0
"""How long a connection is read after its last response, which a reset could lose."""

MAX_DISCARDED_BYTES: Final = 262_144
"""How many received bytes are discarded during that time."""

NO_LINGER: Final = struct.pack("ii", 1, 0)

FIELD_COST: Final = 32
"""The size of a field beyond its bytes, as in RFC 7541, 4.1: empty ones use memory."""

STATUS_LINES: Final = {
    status: f"HTTP/1.1 {status} {phrase}\r\n".encode()
    for status, phrase in (
        dict.fromkeys(range(100, 600), "") | {each: each.phrase for each in HTTPStatus}
    ).items()
}

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

BUSY_RESPONSE: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class Connections:
    """All connections of one server; uvicorn's factory of protocols."""

    def __init__(self, limits: Limits, *, maximum: int, keep_alive: float) -> None:
        self.limits = limits
        self.head_timers = TimerQueue(limits.head_timeout)
        self.idle_timers = TimerQueue(keep_alive)
        self.linger_timers = TimerQueue(LINGER_S)
        self.stall_timers = TimerQueue(limits.stall_timeout)
        self.is_draining = False  # whether each connection closes after its response
        self.pool: FairPool[HttpConnection] = FairPool()
        self.unread = UnreadAccount(limits.unwritten_total)
        self.extensions = {UNREAD: self.unread}  # of ASGI
        self._maximum = maximum

    def __call__(
        self,
        config: Any,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> HttpConnection:
        """Return the protocol of a new connection; uvicorn calls this."""
        return HttpConnection(self, config, server_state, app_state)

    def add(self, connection: HttpConnection) -> bool:
        """Add a connection if there is room; it may displace another connection."""
        pool = self.pool
        if len(pool) >= self._maximum:
            displaced = pool.find_displaceable(connection.owner, HttpConnection.is_idle)
            if displaced is None:
                return False
            pool.discard(displaced)
            displaced.abort()
        pool.add(connection, connection.owner)
        return True


class HttpConnection(asyncio.Protocol):
    """One connection: parses requests and runs them one after another."""

    _transport: asyncio.Transport

    def __init__(
        self,
        connections: Connections,
        config: Any,
        state: Any,
        app_state: dict[str, Any],
    ) -> None:
        self.owner = ""  # the network of the client's address
        self.registry = connections
        self.config = config
        self.state = state  # uvicorn's: connections, tasks, default header fields
        # Done when the client has read enough; ``None`` if writing is possible.
        self.writable: asyncio.Future[None] | None = None
        self._app_state = app_state
        self._loop = asyncio.get_running_loop()
        self._parser = self._new_parser()
        self._client: tuple[str, int] | None = None
        self._server: tuple[str, int | None] | None = None
        self._scheme = "http"
        # The running request, the waiting ones, and the one that is being read.
        self._request: HttpRequest | None = None
        self._waiting: deque[HttpRequest] = deque()
        self._reading: HttpRequest | None = None
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._is_in_head = False
        self._room = 0  # remaining bytes for the target and the fields
        self._framing_size = 0  # bytes since the last part of a body
        # The timeout of the connection that is set now.
        self._timers: TimerQueue | None = None
        self._stall_size = 0
        self._is_ended = False
        self._discarded = 0
        self._is_read_paused = False

    # Methods of `asyncio.Protocol`

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection if there is room; otherwise answer with 503."""
        # Transports of uvloop are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        peer, local = (
            transport.get_extra_info(name) for name in ("peername", "sockname")
        )
        if isinstance(peer, tuple):
            self._client = peer[0], peer[1]
            self.owner = network_of(peer[0])
        self._server = (
            (local[0], local[1]) if isinstance(local, tuple) else (local, None)
        )
        if transport.get_extra_info("sslcontext"):
            self._scheme = "https"
        if not self.registry.add(self):
            logger.warning("too many connections: refused one", kind=id(self.registry))
            self._is_ended = True
            self._transport.write(BUSY_RESPONSE)
            self._transport.close()
            return
        self.state.connections.add(self)
        self._start_head_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """Discard the connection and notify its requests."""
        self._is_ended = True
        self.state.connections.discard(self)
        self.registry.pool.discard(self)
        self.resume_writing()
        self._stop_stall_timer()
        self._set_timeout(None)
        self._waiting.clear()
        for request in (self._request, self._reading):
            if request is not None:
                request.set_disconnected()
        # These refer back to the connection: heads and bodies would stay in memory
        # until the garbage collector runs.
        self._request = self._reading = None
        del self._parser

    def pause_writing(self) -> None:
        """Pause writing: the client does not read."""
        self.writable = self._loop.create_future()
        self._start_stall_timer()

    def resume_writing(self) -> None:
        """Resume writing."""
        writable, self.writable = self.writable, None
        if writable is not None:
            self._stop_stall_timer()
            writable.set_result(None)

    @property
    def unread(self) -> int:
        """The number of bytes that wait for the client to read."""
        return self._transport.get_write_buffer_size()

    def _start_stall_timer(self) -> None:
        """Count the unread bytes and start the timer of the stall timeout."""
        self._stall_size = self.unread
        self.registry.stall_timers.add(self._check_stall)
        self.registry.unread.count(self)

    def _stop_stall_timer(self) -> None:
        self.registry.unread.discard(self)
        self.registry.stall_timers.discard(self._check_stall)

    def _check_stall(self) -> None:
        """Abort unless the client has read enough since the last check."""
        if self.unread > self._stall_size - STALL_BYTES:
            self.abort()
        else:
            self._start_stall_timer()

    # Incoming data

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, or discard them if the connection is closing."""
        if self._is_ended:
            self._discarded += len(data)
            if self._discarded > MAX_DISCARDED_BYTES:
                self.pause_reading()
            return
        self._framing_size += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            logger.debug("an invalid HTTP request", exc_info=error)
            self._refuse("invalid HTTP request")
            return
        limit = self.registry.limits.head
        if self._framing_size > limit:
            self._refuse(f"the head is over {limit} bytes")
        elif self._is_in_head:
            self._start_head_timeout()

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # RFC 9110, 7.8: a server may ignore Upgrade, as this one does. The
                # parser has no option for that, so it parses the head without Upgrade.
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        version = self._parser.get_http_version().encode()
        line = b"%b %b HTTP/%b" % (self._parser.get_method(), self._url, version)
        fields = [b"%b: %b" % field for field in self._fields if field[0] != b"upgrade"]
        self._parser = self._new_parser()
        return b"\r\n".join([line, *fields, b"", b""])

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # `on_message_begin` ignores the data that follows `Connection: close`.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def eof_received(self) -> None:
        """Count unread bytes; the transport closes once the client has read them."""
        if self.unread and self.writable is None:
            self._start_stall_timer()

    # Timeouts

    def _set_timeout(self, timers: TimerQueue | None) -> None:
        """Set the timeout of the connection, in place of an earlier one."""
        if self._timers is not None:
            self._timers.discard(self._expire)
        self._timers = timers
        if timers is not None:
            timers.add(self._expire)

    def _start_head_timeout(self) -> None:
        """Limit the time for a head, or for a body that the application ignores."""
        if self._timers is not self.registry.head_timers:
            self._set_timeout(self.registry.head_timers)

    def _stop_head_timeout(self) -> None:
        if self._timers is self.registry.head_timers:
            self._set_timeout(None)

    def _expire(self) -> None:
        self._timers = None
        if self._is_ended and self.unread:
            # Until `_check_stall` aborts.
            self._set_timeout(self.registry.linger_timers)
        elif self._is_ended or self.unread:
            self.abort()
        else:
            self._transport.close()

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        """Start to parse a head."""
        self._url = b""
        self._fields = []
        self._room = self.registry.limits.head
        self._is_in_head = not self._is_ended

    def on_url(self, url: bytes) -> None:
        """Append a part of the request target."""
        self._url += url
        self._room -= len(url)
        if self._room < 0:
            raise httptools.HttpParserError("the head is too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Append a field of the head; discard a trailer field."""
        self._room -= len(name) + len(value) + FIELD_COST
        if self._room < 0:
            raise httptools.HttpParserError("the head is too long")
        # RFC 9110, 6.5.1: a trailer field must not be merged into the head.
        if self._is_in_head:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Start the request, or queue it behind earlier requests."""
        parser = self._parser
        method = parser.get_method()
        if method == b"CONNECT":
            raise httptools.HttpParserError("CONNECT is not supported")
        if self._is_ended or parser.should_upgrade():
            return  # ignored data, or a head that `_feed` parses again
        self._is_in_head = False
        self._framing_size = 0
        self._stop_head_timeout()
        url = httptools.parse_url(self._url)
        raw_path = url.path or b"/"  # RFC 9110, 4.2.3
        path = raw_path.decode("ascii")
        version = parser.get_http_version()
        root = self.config.root_path
        scope: Scope = {
            "type": "http",
            "asgi": {"version": self.config.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "method": method.decode("ascii"),
            "scheme": self._scheme,
            "path": root + (unquote(path) if "%" in path else path),
            "raw_path": root.encode() + raw_path,
            "query_string": url.query or b"",
            "root_path": root,
            "headers": self._fields,
            "server": self._server,
            "client": self._client,
            "state": self._app_state.copy(),
            "extensions": self.registry.extensions,
        }
        is_1_1 = version == "1.1"
        expect = dict(self._fields).get(b"expect", b"")
        request = HttpRequest(
            self,
            scope,
            keep_alive=is_1_1 and parser.should_keep_alive(),
            expects_continue=is_1_1 and expect.lower() == b"100-continue",
        )
        self._reading = request
        if self._request is None:
            self._start_request(request)
            return
        if len(self._waiting) >= MAX_WAITING_REQUESTS:
            raise httptools.HttpParserError("too many requests wait for answers")
        self._waiting.append(request)
        self.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body to the request."""
        self._framing_size = 0
        if self._reading is not None:
            self._reading.add(body)

    def on_message_complete(self) -> None:
        """Mark the body of the request as complete."""
        request, self._reading = self._reading, None
        if request is None:
            return  # ignored data, or a head that is parsed again
        self._framing_size = 0
        self._stop_head_timeout()
        request.complete()
        if not request.keep_alive:
            self._is_ended = True  # the following data is no request
        elif self._request is None and not self._is_ended:
            self._set_timeout(self.registry.idle_timers)

    # Running requests

    def _start_request(self, request: HttpRequest) -> None:
        self._request = request
        if self._timers is not self.registry.head_timers:
            self._set_timeout(None)
        self.registry.pool.touch(self)
        config, state = self.config, self.state
        limit = config.limit_concurrency
        app = config.loaded_app
        if limit is not None and max(len(state.connections), len(state.tasks)) >= limit:
            app = unavailable
        context = contextvars.Context() if config.reset_contextvars else None
        task = self._loop.create_task(request.run(app), name=TASK_NAME, context=context)
        state.tasks.add(task)
        task.add_done_callback(state.tasks.discard)

    def finish_request(self, request: HttpRequest) -> None:
        """Start the next request after a response, or close the connection."""
        self.state.total_requests += 1
        self._request = None
        if self._transport.is_closing():
            return
        if not request.keep_alive:
            self._close_after_output(is_all_read=request.is_complete)
            return
        if self._waiting:
            self._start_request(self._waiting.popleft())
        elif self._reading is request:
            self._start_head_timeout()
        elif not self._is_in_head:
            self._set_timeout(self.registry.idle_timers)
        self.resume_reading()

    def _refuse(self, reason: str) -> None:
        """Answer with 400, unless an earlier request is still to be answered."""
        if self._is_ended:
            return
        logger.warning("refused a connection: %s", reason, kind=id(self.registry))
        self._is_ended = True
        self._stop_head_timeout()
        self._waiting.clear()
        request = self._request
        if request is not None and request is not self._reading:
            request.keep_alive = False
            return
        if request is not None:
            request.set_disconnected()
            if request.is_started:
                self.abort()
                return
        elif self._reading is not None:
            self._close_after_output(is_all_read=False)  # it has already been answered
            return
        text = reason.encode()
        self._transport.write(
            STATUS_LINES[400]
            + b"content-type: text/plain\r\nconnection: close\r\n"
            + b"content-length: %d\r\n\r\n%b" % (len(text), text)
        )
        self._close_after_output(is_all_read=False)

    def _close_after_output(self, *, is_all_read: bool) -> None:
        """Close the connection when all output is written.

        `is_all_read`: whether all input has been read. Closing with unread input resets
        the connection, and the client could lose the response.
        """
        self._is_ended = True
        self._waiting.clear()
        if (is_all_read and not self.registry.is_draining) or not (
            self._transport.can_write_eof()
        ):
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write_eof()
            self.resume_reading()
            self._set_timeout(self.registry.linger_timers)
        if self.unread and self.writable is None:
            self._start_stall_timer()

    def shutdown(self) -> None:
        """Close the connection gracefully; uvicorn calls this on shutdown."""
        if self._request is None:
            if not self._is_ended:
                self._close_after_output(is_all_read=False)
        else:
            self._request.keep_alive = False

    def abort(self) -> None:
        """Close the connection at once; unwritten output is lost."""
        self._is_ended = True
        sock = self._transport.get_extra_info("socket")
        if self.unread and sock is not None:
            # By a reset: a client that does not read would occupy the kernel's buffer.
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self._transport.abort()

    def is_idle(self) -> bool:
        """Return whether no request is running."""
        return self._request is None

    def write(self, data: bytes) -> None:
        """Write bytes of a response."""
        self._transport.write(data)

    def pause_reading(self) -> None:
        """Pause reading until `resume_reading`."""
        if not self._is_read_paused and not self._transport.is_closing():
            self._is_read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading, unless a request waits for an earlier response."""
        is_paused = self._is_read_paused and not self._waiting
        if is_paused and not self._transport.is_closing():
            self._is_read_paused = False
            self._transport.resume_reading()


@attrs.define(eq=False, repr=False)
class HttpRequest:
    """One request and its response, as ASGI `receive` and `send`."""

    _connection: HttpConnection
    _scope: Scope
    keep_alive: bool  # whether the connection persists afterwards
    _expects_continue: bool
    _body: bytearray = attrs.field(factory=bytearray)  # as far as it was not delivered
    is_complete: bool = False  # the body is complete
    _is_delivered: bool = False  # the application has received the end of the body
    _is_gone: bool = False
    _wake: asyncio.Future[None] | None = None
    is_started: bool = False  # the application has sent the head of the response
    _is_over: bool = False
    _head: bytes = b""
    _is_chunked: bool = False
    _has_content: bool = True
    _remaining: int | None = None

    # Called by the connection

    def add(self, body: bytes) -> None:
        """Add a part of the body."""
        if self._is_over:
            return
        self._body += body
        if len(self._body) > READ_AHEAD:
            self._connection.pause_reading()
        self._notify()

    def complete(self) -> None:
        """Mark the body as complete."""
        self.is_complete = True
        self._notify()

    def set_disconnected(self) -> None:
        """Mark the client as disconnected."""
        self._is_gone = True
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # The application's side

    async def run(self, app: Any) -> None:
        """Run the application; an error yields a 500, or closes the connection."""
        connection = self._connection
        try:
            await app(self._scope, self.receive, self.send)
        except Exception as error:
            logger.exception("an ASGI application failed", kind=error_kind(error))
        except BaseException:
            connection.abort()
            raise
        else:
            if not (self._is_over or self._is_gone):
                logger.error("an ASGI application has not answered")
        if self._is_over or self._is_gone:
            return
        if self.is_started and not self._head:
            connection.abort()
            return
        self.keep_alive = self.is_started = self._is_chunked = False
        self._remaining, self._head = None, b""
        headers = [(b"content-length", b"0")]
        start = {"type": "http.response.start", "status": 500, "headers": headers}
        await self.send(start)
        await self.send({"type": "http.response.body"})

    async def receive(self) -> Event:
        """Return the next part of the body, or a disconnect event."""
        connection = self._connection
        if self._expects_continue and not (self.is_started or self._is_gone):
            self._expects_continue = False
            connection.write(CONTINUE)
        while not (
            self._body
            or self._is_gone
            or self._is_over
            or (self.is_complete and not self._is_delivered)
        ):
            connection.resume_reading()
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None
        if self._is_gone or self._is_over:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        self._is_delivered = self.is_complete
        return {"type": "http.request", "body": body, "more_body": not self.is_complete}

    async def send(self, event: Event) -> None:
        """Send the head of the response, or a part of its body."""
        connection = self._connection
        while connection.writable is not None:
            await asyncio.shield(connection.writable)
        if self._is_gone:
            return
        kind = event["type"]
        if kind == "http.response.start" and not self.is_started:
            self._start(event)
        elif kind == "http.response.body" and self.is_started and not self._is_over:
            self._send_body(event.get("body", b""), event.get("more_body", False))
        else:
            raise RuntimeError(f"the ASGI event {kind!r} does not belong here")

    def _start(self, event: Event) -> None:
        """Store the head until a part of the body follows, as ASGI requires."""
        connection, status = self._connection, event["status"]
        headers = [*connection.state.default_headers, *event.get("headers", ())]
        fields = [(name.lower(), value) for name, value in headers]
        lines = [b"%b: %b\r\n" % field for field in fields]
        is_closing = self._read_framing(fields)
        # RFC 9110, 10.1.1: a client that waits for 100 may omit the body; its next
        # request would be read as the body.
        awaits_continue = self._expects_continue and not self.is_complete
        if awaits_continue or connection.registry.is_draining:
            self.keep_alive = False
        if not (self.keep_alive or is_closing):
            lines.append(b"connection: close\r\n")
        # RFC 9110, 6.4.1: a HEAD, a 204 and a 304 have no content. RFC 9112, 6.3: for
        # HTTP/1.0 a body without a length ends with the connection.
        self._has_content = self._scope["method"] != "HEAD" and status not in {204, 304}
        if not self._has_content:
            self._is_chunked, self._remaining = False, None
        elif self._remaining is None and not self._is_chunked:
            self._is_chunked = self._scope["http_version"] == "1.1"
            if self._is_chunked:
                lines.append(b"transfer-encoding: chunked\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise RuntimeError("a header field of the answer has a line break")
        self.is_started = True
        self._head = b"%b%b\r\n" % (STATUS_LINES[status], head)
        if connection.config.access_log and access_logger.hasHandlers():
            self._log_access(status)

    def _read_framing(self, fields: list[tuple[bytes, bytes]]) -> bool:
        """Store the framing of the body; return whether the connection is to close."""
        is_closing = False
        for name, value in fields:
            if name == b"content-length":
                self._remaining = int(value)
            elif name == b"transfer-encoding" and value.lower() == b"chunked":
                self._is_chunked = True
            elif name == b"connection" and b"close" in value.lower():
                self.keep_alive, is_closing = False, True
        return is_closing

    def _log_access(self, status: int) -> None:
        scope = self._scope
        path, query = quote(scope["path"]), scope["query_string"].decode("ascii")
        access_logger.info(
            '%s - "%s %s HTTP/%s" %d',
            "{}:{}".format(*scope["client"]) if scope["client"] else "",
            scope["method"],
            f"{path}?{query}" if query else path,
            scope["http_version"],
            status,
        )

    def _send_body(self, body: bytes, more_body: bool) -> None:  # noqa: FBT001 - ASGI's
        connection = self._connection
        if self._is_chunked:
            parts = [b"%x\r\n" % len(body), body, b"\r\n"] if body else []
            if not more_body:
                parts.append(b"0\r\n\r\n")
            body = b"".join(parts)
        elif not self._has_content:
            body = b""
        elif self._remaining is not None:
            self._remaining -= len(body)
            if self._remaining < 0 or (self._remaining and not more_body):
                raise RuntimeError("the answer does not have its Content-Length")
        head, self._head = self._head, b""
        if head and len(body) > MAX_COPIED_BYTES:
            connection.write(head)
            head = b""
        if data := head + body if head else body:
            connection.write(data)
        if not more_body:
            self._is_over = True
            self._body.clear()
            self._notify()
            connection.finish_request(self)


async def unavailable(_scope: Scope, _receive: Any, send: Any) -> None:
    """Answer with 503: uvicorn's ``limit_concurrency`` is reached."""
    headers = [(b"content-length", b"0"), (b"retry-after", b"1")]
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body"})


# Serving

LOCAL: Final = "127.0.0.1"
"""2026-07-28 streamable-http, "Security Endpoint": local servers listen here only."""

BACKLOG: Final = 2_048
"""How many connections the kernel queues before they are accepted."""

ACCEPT_BURST: Final = 64
"""How many connections are accepted in one iteration of the loop."""

RESERVED_DESCRIPTORS: Final = 32
"""How many of the process's descriptors are reserved for other uses."""

KEEP_ALIVE_S: Final = 30
"""How long an idle connection is kept, in seconds; clients close theirs earlier."""

CLOSE_GRACE_S: Final = 1
"""How long connections may stay open after the last response, in seconds."""

_OPTIONS: Final[Mapping[str, Any]] = {
    "http": "auto",
    "lifespan": "off",  # `serve_http` starts and closes the application
    "log_config": None,
    "log_level": "warning",
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "ws": "none",
    "timeout_keep_alive": KEEP_ALIVE_S,
    "backlog": ACCEPT_BURST,
    "timeout_graceful_shutdown": CLOSE_GRACE_S,
}
"""The defaults of uvicorn's settings, which a caller may change."""

_UNSUPPORTED_OPTIONS: Final = (
    *("factory", "fd", "host", "port", "uds", "workers", "timeout_worker_healthcheck"),
    *("reload", "reload_delay", "reload_dirs", "reload_excludes", "reload_includes"),
    "loop",
)
"""Settings that only uvicorn's own command reads."""

MAX_COPIED_BYTES: Final = 64 * 1024
"""The largest body that is copied, to be sent together with the head."""

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class App(Protocol):
    """An application that can be started, drained and closed, as `AsgiApp`."""

    limits: Limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""

    async def start(self) -> None:
        """Start it before its first request."""

    async def drain(self, timeout: float = ...) -> None:
        """Wait for the running calls, which end after this time."""

    async def aclose(self) -> None:
        """End all calls and streams."""


class Servable(Protocol):
    """An object that can be served over HTTP: a `Server` or a gateway."""

    @property
    def auth(self) -> ResourceServer | None:
        """Authenticates its clients; ``None``: all clients are accepted."""

    def asgi(self, **options: Any) -> App:
        """Return it as an application."""


class CannotListen(OSError):
    """An address cannot be listened on; the message contains the reason."""


def run_http(
    server: Servable,
    address: str = f"{LOCAL}:8000",
    *,
    around: Callable[[], contextlib.AbstractAsyncContextManager[object]] = (
        contextlib.nullcontext
    ),
    quiet: bool = False,
    **options: Any,
) -> None:
    """Serve over HTTP as the main work of the process, until SIGINT or SIGTERM.

    One line on stderr reports the URL, and one line follows for each request, from the
    logger ``mcpwire.access``, unless the program's own logging handles it.

    A handler that does not end, also in a thread, ends with the process, with exit code
    0: in that case this function does not return. The context manager that `around`
    returns is entered on the loop before serving; for the rest see `serve_http`.
    """
    refuse_running_loop()
    import_optional("uvicorn", "uvicorn", "serving over HTTP")
    known_threads = threading.enumerate()
    if quiet:
        options.setdefault("announce", bool)  # which writes nothing
    access_log = contextlib.nullcontext if quiet else access_log_on_stderr

    async def serve() -> list[threading.Timer]:
        async with around():
            await serve_http(server, address, has_signals=True, **options)
        return arm_exit_timer(0)

    with access_log():
        timers = asyncio.run(serve())
    for timer in timers:
        timer.cancel()
    join_threads_or_exit(known_threads, 0)


async def serve_http(
    server: Servable,
    address: str = f"{LOCAL}:8000",
    *,
    drain_timeout: float = 10.0,
    max_connections: int | None = None,
    announce: Callable[[str], object] | None = None,
    has_signals: bool = False,
    uvicorn: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """Serve over HTTP until the task is cancelled; then shut down gracefully.

    Args:
        server: The server or gateway.
        address: ``HOST:PORT``, or a port on the loopback address; 0 takes a free port.
        drain_timeout: How long calls may take on shutdown, in seconds.
        max_connections: The maximum number of connections; by default three quarters of
            the process's limit of descriptors.
        announce: Called with the endpoint's URL when the server is ready; by default
            the URL is written to stderr.
        has_signals: Whether SIGINT and SIGTERM shut down; a second one does so at once.
        uvicorn: More options of uvicorn: ``ssl_certfile`` and others.
        options: Those of `Server.asgi`.

    Raises:
        LocalProtocolError: uvicorn is not installed.
        ValueError: The address or an option is malformed.
        CannotListen: The address cannot be listened on; it is an `OSError`.
    """
    host, port = read_address(address)
    overrides = uvicorn or {}
    for name in _UNSUPPORTED_OPTIONS:
        item = overrides.get(name)
        if item and f"{name}={item}" not in {"workers=1", "loop=auto", "loop=asyncio"}:
            raise ValueError(
                f"uvicorn's {name!r} has no effect here: this process and its loop "
                "serve the address; server.asgi() runs under uvicorn's own command"
            )
    # No request has the unspecified address in its Host.
    bound = None if address_class(host) == "unspecified" else host.lower()
    app = server.asgi(**{"bound": bound, **options})
    settings = {**_OPTIONS, **overrides}
    connections = Connections(
        app.limits,
        maximum=_max_connections() if max_connections is None else max_connections,
        keep_alive=settings["timeout_keep_alive"],
    )
    if settings["http"] == "auto":
        settings["http"] = connections
    listening = _listen(host, port)
    try:
        await app.start()
        scheme = "https" if settings.get("ssl_certfile") else "http"
        url = f"{scheme}://{_format_address(listening)}{options.get('path', '/mcp')}"
        _warn_if_open(server, listening)
        runner = _runner(
            app,
            drain_timeout,
            settings,
            connections,
            announce=partial(announce or partial(print_url, server=server), url),
            has_signals=has_signals,
        )
        await _run(runner, listening)
    finally:
        listening.close()
        await app.aclose()


async def _run(runner: Any, listening: socket.socket) -> None:
    """Run uvicorn; if cancelled, shut it down gracefully first."""
    running = asyncio.get_running_loop().create_task(
        runner.serve(sockets=[listening]), name="mcpwire-http-serve"
    )
    try:
        with _limit_accept_errors():
            await asyncio.shield(running)
    except asyncio.CancelledError:
        runner.should_exit = True
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                runner.force()  # a second cancellation ends it at once
        raise
    finally:
        for server in getattr(runner, "servers", ()):
            server.close()  # if `announce` raised an error; otherwise no effect


@contextlib.contextmanager
def _limit_accept_errors() -> Iterator[None]:
    """Limit the errors of a failing `accept` to one log line a second."""
    loop = asyncio.get_running_loop()
    previous = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        message = context.get("message")
        if message == "socket.accept() out of system resource":
            logger.error("cannot accept connections: %s", context.get("exception"))
        elif previous is not None:
            previous(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
    try:
        yield
    finally:
        loop.set_exception_handler(previous)


def _max_connections() -> int:
    """Return the number of connections that the limit of descriptors allows."""
    try:
        import resource
    except ImportError:
        return 512 - RESERVED_DESCRIPTORS  # Windows
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        descriptors = 2**20
    return max(1, min(descriptors * 3 // 4, descriptors - RESERVED_DESCRIPTORS))


def _runner(
    app: App,
    drain_timeout: float,
    settings: dict[str, Any],
    connections: Connections,
    *,
    announce: Callable[[], object],
    has_signals: bool,
) -> Any:
    """Return a uvicorn server that drains the application on shutdown."""
    uvicorn = import_optional("uvicorn", "uvicorn", "serving over HTTP")

    class Runner(uvicorn.Server):  # type: ignore[misc, name-defined] # is imported late
        """Drains first; stops on signals without raising them again."""

        should_exit: bool
        is_forced = False
        _draining: asyncio.Task[None] | None = None

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for each in sockets or ():
                each.listen(BACKLOG)  # asyncio's `backlog` also limits accepts per turn
            announce()  # from here on, signals shut down gracefully

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            connections.is_draining = True
            timeout = 0 if self.is_forced else drain_timeout
            self._draining = asyncio.get_running_loop().create_task(
                app.drain(timeout), name="mcpwire-http-drain"
            )
            await asyncio.wait([self._draining])
            if self._draining.cancelled():  # by `force`: end the remaining calls
                await app.drain(0)
            await super().shutdown(sockets)

        def force(self) -> None:
            """Shut down without waiting for calls."""
            self.is_forced = True
            if self._draining is not None:
                self._draining.cancel()

        def stop(self) -> None:
            """Shut down; on a second call, at once."""
            if self.should_exit:
                self.force()
            self.should_exit = True

        def capture_signals(self) -> contextlib.AbstractContextManager[None]:
            return _handle_signals(self.stop if has_signals else None)

    return Runner(uvicorn.Config(app, **settings))


@contextlib.contextmanager
def _handle_signals(stop: Callable[[], None] | None) -> Iterator[None]:
    """Stop the server on signals; restore the signal handlers afterwards."""
    loop = asyncio.get_running_loop()
    previous = {}
    for number in SIGNALS if stop is not None else ():
        # Not supported by some platforms' loops and outside the main thread.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            handler = signal.getsignal(number)
            loop.add_signal_handler(number, stop)  # type: ignore[arg-type] # not None
            previous[number] = handler
    try:
        yield
    finally:
        for number, handler in previous.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


# The listening socket


def read_address(address: str) -> tuple[str, int]:
    """Return the host and the port of an address."""
    if not isinstance(address, str):
        raise ValueError(f"the address must be a text, HOST:PORT, got {address!r}")
    host, colon, digits = address.rpartition(":")
    if not colon:
        host = ""
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"an IPv6 address needs brackets, got {address!r}")
    if not digits.isdecimal() or not digits.isascii() or not 0 <= int(digits) < 2**16:
        raise ValueError(f"the address must be HOST:PORT, got {address!r}")
    return host or LOCAL, int(digits)


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. Raises `CannotListen`."""
    listening: socket.socket | None = None
    try:
        candidates = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
        # If a name has both, prefer IPv4, which most clients try.
        family, kind, protocol, _, socket_address = min(
            candidates, key=lambda candidate: candidate[0] != socket.AF_INET
        )
        # If the protocol is given, asyncio sets TCP_NODELAY on accepted connections:
        # otherwise each response with a head and a body would wait for an
        # acknowledgement.
        listening = socket.socket(family, kind, protocol)
        if os.name == "posix":  # elsewhere it lets several processes share the port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(socket_address)
        listening.listen(BACKLOG)
    except OSError as error:
        if listening is not None:
            listening.close()
        is_in_use = error.errno == errno.EADDRINUSE
        advice = "; port 0 takes a free one" if is_in_use else ""
        raise CannotListen(
            error.errno,
            f"cannot listen on {host!r}, port {port}: {error.strerror}{advice}",
        ) from error
    return listening


def _format_address(listening: socket.socket) -> str:
    host, port, *_ = listening.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _warn_if_open(server: Servable, listening: socket.socket) -> None:
    """Warn if a server without authentication listens on a non-loopback address."""
    host = listening.getsockname()[0]
    if server.auth is None and not is_loopback(host):
        logger.warning(
            "every client that reaches %s may use this server: it has no auth",
            host,
            kind=host,
        )


def print_url(url: str, server: Servable) -> None:
    """Write the server's URL, name and revisions to stderr."""
    if sys.stderr is None:
        return
    served: Any = server
    parts = [getattr(served, "name", ""), *map(str, getattr(served, "revisions", ()))]
    details = ", ".join(filter(None, parts))
    with contextlib.suppress(OSError):  # a full disk, or a closed pipe
        sys.stderr.write(f"mcpwire: serving {url}{details and f' ({details})'}\n")
        sys.stderr.flush()
