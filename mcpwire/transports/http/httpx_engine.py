"""The engine over httpx: proxies, HTTP/2, and a user's own httpx client.

One task per exchange calls httpx. After the reply is over, it continues to read for
some seconds, so that the connection can be reused. ::

    exchange() ─► task: send ─► head ─► data … ─┬─► data … ─► end
         ▲                                      │    (for some seconds)
         └──────── over, failed, aborted ◄──────┘

docs/http.md lists the differences from `direct`. Without a client of the user the
engine calls a transport of httpx: a client around the transport would store cookies,
add headers, and log each URL with its query. `httpx2` has the same interface, so names
are looked up in the module of the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
import sys
import threading
import weakref
from contextvars import ContextVar, copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import (
    ConnectError,
    ConnectionClosed,
    HTTPError,
    LocalProtocolError,
    MCPError,
    MessageTooLarge,
    RemoteProtocolError,
)
from mcpwire.transports.base import register_after_fork, wait_at_most
from mcpwire.transports.handlers import is_blocking, prepare_thread_call
from mcpwire.transports.http.connecting import (
    connect_error,
    is_certificate_refusal,
    timeout_error,
)
from mcpwire.transports.http.credentials import Destination
from mcpwire.transports.http.engine import (
    IDLE_TIMEOUT_S,
    MAX_TAIL_BYTES,
    MAX_TAIL_S,
    proxy_url,
)
from mcpwire.transports.http.tls import ssl_context
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import ModuleType

    from mcpwire.limits import Limits
    from mcpwire.protocol.http_reply import Request
    from mcpwire.transports.http.h1 import ResponseSink
    from mcpwire.transports.http.target import Http

CLOSE_TIMEOUT_S: Final = 2.0
"""Maximum seconds for the end of all exchanges, and for closing the transport."""

_MAX_IDLE_CONNECTIONS: Final = 64
"""Maximum idle connections; httpcore counts busy ones too, so it is not small."""

_OPENED_STEPS: Final = frozenset(
    {"connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete"}
)

_NOT_CONNECTED: Final = frozenset(
    {
        "ConnectError",
        "ConnectTimeout",
        "PoolTimeout",
        "ProxyError",
        "UnsupportedProtocol",
    }
)
_REFUSED_STREAM: Final = 7
"""RFC 9113 section 7: the peer did not process the request."""

_CLOSED: Final = re.compile(
    r"Server disconnected|peer closed connection|incomplete chunked"
)
_MAX_SHOWN_CHARACTERS: Final = 100

_current: ContextVar[_Exchange] = ContextVar("_current")
"""The exchange that runs in this context, also in its thread."""


class HttpxEngine:
    """An `Engine` over httpx."""

    def __init__(
        self,
        target: Http,
        limits: Limits,
        *,
        address: str | None = None,
        connect_timeout: float | None = None,
    ) -> None:
        self.target = str(target)
        self.http = target
        self.limits = limits
        self.bytes_sent = self.bytes_received = 0
        self.client = target.http_client
        self.proxy = proxy_url(target)
        self.streams: weakref.WeakSet[Any] = weakref.WeakSet()
        self.exchanges: set[_Exchange] = set()
        self._is_closed = False
        self._transport: Any = None
        if self.client is None:
            import httpx

            self.library: ModuleType = httpx
            self._transport = _make_transport(target, self.proxy, httpx)
        else:
            self.library = _client_library(self.client)
        self.is_async = self.client is None or hasattr(self.client, "aclose")
        if not (self.is_async or is_blocking()):
            kind = _type_name(self.client)
            raise ValueError(f"http_client must be an httpx.AsyncClient, got {kind}")
        self._origin = target.parsed.origin
        self._extensions: dict[str, Any] = {
            "timeout": dict.fromkeys(("read", "write", "pool"))
            | {"connect": connect_timeout or target.connect_timeout}
        }
        if address is not None and address != target.parsed.host:
            name = target.parsed.host.removesuffix(".")
            self._extensions["sni_hostname"] = name
            self._origin = attrs.evolve(target.parsed, host=address).origin
        register_after_fork(self)

    async def exchange(self, request: Request, reply: ResponseSink) -> None:
        """Send a request and pass its response to `reply`; see `Engine.exchange`."""
        if self._is_closed:
            raise self.closed_error(sent=False)
        for earlier in self.exchanges:
            if earlier.reply is reply:  # it gets a new response now
                earlier.end()
        exchange = _Exchange(self, request, reply)
        try:
            await exchange.finished
        except asyncio.CancelledError:
            exchange.end()
            raise

    def build_request(self, request: Request, trace: Callable[..., Any]) -> Any:
        """Return an httpx request; only its connect timeout is enforced by httpx."""
        library, client = self.library, self.client
        return (library.Request if client is None else client.build_request)(
            request.verb,
            library.URL(self._origin + request.target),
            headers=request.fields,
            content=request.body,
            extensions={**self._extensions, "trace": trace},
        )

    async def send(self, request: Any) -> Any:
        """Send an httpx request; return the response with its body unread."""
        if self.client is None:
            return await self._transport.handle_async_request(request)
        hooks = self.client.event_hooks["request"]
        check = _check_destination_async if self.is_async else _check_destination
        if check not in hooks[-1:]:
            # An earlier entry stays: a request may be passing the hooks.
            hooks.append(check)
        options = {"stream": True, "follow_redirects": False}
        if self.is_async:
            return await self.client.send(request, **options)
        return await _ExchangeThread().send(
            lambda: self.client.send(request, **options)
        )

    def abort(self, reply: ResponseSink, error: MCPError) -> bool:
        """End the exchange of a reply; see `Engine.abort`."""
        return any(
            exchange.fail(error)
            for exchange in list(self.exchanges)
            if exchange.reply is reply
        )

    async def aclose(self) -> None:
        """Close the connections of the engine, within a time limit."""
        self._stop()
        if self.exchanges:
            tasks = [exchange.task for exchange in self.exchanges]
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT_S)
        if self._transport is not None:
            await wait_at_most(CLOSE_TIMEOUT_S, self._transport.aclose())

    def _stop(self) -> None:
        self._is_closed = True
        for exchange in list(self.exchanges):
            exchange.fail(self.closed_error(sent=exchange.may_be_sent))
            if self.client is None:
                exchange.task.cancel()
            else:  # the user's other requests may use the connection
                exchange.end()

    def abandon(self) -> None:
        """Shut the connections down without waiting, even without a running loop.

        Of a user's client, only those of exchanges: its other requests use the rest. An
        HTTP/2 connection is shut down for a blocking client only, to end its thread.
        """
        streams = list(self.streams)
        if self.client is not None:
            is_async = self.is_async
            streams = [
                e.stream for e in self.exchanges if not (e.is_shared and is_async)
            ]
        with contextlib.suppress(RuntimeError):  # their loop is closed
            self._stop()
        for stream in streams:
            _shut_down(stream)

    def after_fork(self) -> None:
        """Close this process's copies of the sockets; the parent's stay open."""
        self._is_closed = True
        devnull = os.open(os.devnull, os.O_RDWR)
        for stream in list(self.streams):
            sock = stream.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                os.dup2(devnull, sock.fileno())
        os.close(devnull)

    def closed_error(self, *, sent: bool) -> ConnectionClosed:
        """Return the error for an engine that is closed."""
        return ConnectionClosed(
            f"{self.target}: closed by this side", target=self.target, sent=sent
        )


class _Exchange:
    """One request, and the task that passes its response to the reply.

    `is_shared`: the connection is HTTP/2. `has_started`: sending has started; only
    known if the exchange `is_traced`: the transport reports trace events.
    """

    def __init__(
        self, engine: HttpxEngine, request: Request, reply: ResponseSink
    ) -> None:
        loop = asyncio.get_running_loop()
        self.engine = engine
        self.reply = reply
        self.finished: asyncio.Future[None] = loop.create_future()
        self.stream: Any = None
        self.is_traced = self.is_shared = self.has_started = self.has_head = False
        self._request = request
        self.destination: Destination | None = None
        self._opening: Any = None  # a new connection, before its first request
        self._is_ending = self._is_writing = False
        self._tail_timer: asyncio.TimerHandle | None = None
        # Not `create_task`: an eager task factory would start the task at once.
        self.task = asyncio.Task(self._run(), loop=loop, name="mcpwire-httpx")
        self.task.add_done_callback(self._on_task_done)
        engine.exchanges.add(self)

    @property
    def may_be_sent(self) -> bool:
        """Whether the server may have received the request."""
        return self.has_started or not self.is_traced

    # Called by the engine

    def fail(self, error: MCPError) -> bool:
        """End the exchange, with `error` if not over; return whether it was running."""
        if self.finished.done():
            return False
        if self.reply.is_over:
            self.finished.set_result(None)
        else:
            self.finished.set_exception(error)
            self.finished.exception()  # so that asyncio does not log it
        self.end()
        return True

    def end(self) -> None:
        """Cancel the task as soon as this does not break a shared connection."""
        self._is_ending = True
        # If one of several requests that wait for a new HTTP/2 connection is cancelled,
        # httpcore drops the connection for all of them.
        waits = not self.has_started and (self.is_shared or self.engine.http.http2)
        if not (waits or self._is_writing):
            self.task.cancel()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self.engine.exchanges.discard(self)
        if self._tail_timer is not None:
            self._tail_timer.cancel()
        error = None if task.cancelled() else task.exception()
        if self.finished.done():
            return
        if task.cancelled():  # not by `end`: by a hook of the user's client
            error = self.engine.closed_error(sent=self.may_be_sent)
        if error is not None:
            self.finished.set_exception(error)
        else:
            self.finished.set_result(None)

    # Run in the task

    async def _run(self) -> None:
        _current.set(self)
        engine = self.engine
        response = None
        try:
            trace = (
                self._on_trace_event_async if engine.is_async else self._on_trace_event
            )
            request = engine.build_request(self._request, trace)
            if engine.client is not None:
                self.destination = Destination(engine.http, self._request, request.url)
            response = await engine.send(request)
            await self._pass_response(response)
        except _exception_types(engine.library) as error:
            translated = _translate(engine, self, error)
            # The error of httpx contains one of our headers, or the whole URL.
            is_secret = isinstance(translated, LocalProtocolError | HTTPError)
            raise translated from None if is_secret else error
        except RuntimeError:
            if self.has_started or not getattr(engine.client, "is_closed", False):
                raise
            raise LocalProtocolError("http_client is closed") from None
        finally:
            if response is not None:
                await response.aclose()
            elif hasattr(self._opening, "aclose"):
                # After a cancellation in the TLS handshake, httpcore leaves it open.
                await self._opening.aclose()

    async def _pass_response(self, response: Any) -> None:
        reply = self.reply
        fields, is_encoded = _read_fields(response, self.engine)
        status = response.status_code
        self.has_head = True
        reply.head(status, fields)
        self._check_over()
        # An encoded body of an error is discarded: the status is enough.
        is_dropped = is_encoded and self.engine.client is None
        # A hook of the user's client may have read it already.
        is_read = response.is_stream_consumed
        is_decoded = is_read or (is_encoded and not is_dropped)
        chunks = response.aiter_bytes() if is_decoded else response.aiter_raw()
        tail = MAX_TAIL_BYTES
        async for chunk in chunks:
            if self.finished.done():
                tail -= len(chunk)
                if tail < 0:  # a new connection is cheaper
                    return
            if not is_dropped:
                reply.data(chunk)
                self._check_over()
        reply.end()

    def _check_over(self) -> None:
        """Resume the caller if the reply is over; limit the time for the rest."""
        if self.reply.is_over and not self.finished.done():
            self.finished.set_result(None)
            self._tail_timer = self.task.get_loop().call_later(MAX_TAIL_S, self.end)

    # Trace events of httpcore (its documented extension "trace")

    async def _on_trace_event_async(self, event: str, info: dict[str, Any]) -> None:
        self._on_trace_event(event, info)

    def _on_trace_event(self, event: str, info: dict[str, Any]) -> None:
        self.is_traced = True
        part, _, step = event.partition(".")
        self.is_shared = self.is_shared or part == "http2"
        if step in _OPENED_STEPS:
            self._opening = info["return_value"]
            _instrument(self.engine, self._opening)
        elif step == "send_connection_init.started":
            self._opening = None
        elif step == "send_request_headers.started":
            request = info["request"]
            if request.method == b"CONNECT":  # for a proxy
                return
            if self.destination is not None:
                self.destination.check_written(request)
            self._opening = None
            if self._is_ending:
                raise _ExchangeEndedError
            self.has_started = True

    def use(self, stream: Any) -> None:
        """Record the stream for the next write, unless the exchange has ended."""
        self.stream = stream
        # `end` may have been called in the loop's thread before there was a stream.
        if self._is_ending and not (self.is_shared or self.engine.is_async):
            raise _ExchangeEndedError

    async def write(self, write: Callable[..., Any], buffer: bytes, *args: Any) -> None:
        """Write to an HTTP/2 connection; `end` cancels before or after the write only.

        During a write, anyio would mark the TLS stream as broken, and an incomplete
        frame would end the connection for all requests.
        """
        self._is_writing = True
        try:
            await write(buffer, *args)
        finally:
            self._is_writing = False
        if self._is_ending and self.has_started:
            raise asyncio.CancelledError


def _instrument(engine: HttpxEngine, stream: Any) -> None:
    """Count the bytes of a new connection, and record it in the writing exchange."""
    read, write = stream.read, stream.write
    is_async = hasattr(stream, "aclose")

    async def read_and_count(max_bytes: int, timeout: float | None = None) -> Any:
        data = await read(max_bytes, timeout)
        engine.bytes_received += len(data)
        return data

    def note_and_write(buffer: bytes, timeout: float | None = None) -> Any:
        exchange = _current.get(None)
        if exchange is not None:
            exchange.use(stream)
            exchange.engine.bytes_sent += len(buffer)
            if exchange.is_shared and is_async:
                return exchange.write(write, buffer, timeout)
        return write(buffer, timeout)

    stream.write = note_and_write
    if is_async:
        stream.read = read_and_count
    engine.streams.add(stream)


class _ExchangeEndedError(Exception):
    """The exchange was ended before its request was sent."""


def _check_destination(request: Any) -> None:
    """Check the URL of a request after all hooks of the user's client."""
    exchange = _current.get(None)
    if exchange is not None and exchange.destination is not None:
        exchange.destination.check(request)


async def _check_destination_async(request: Any) -> None:
    _check_destination(request)


def _read_fields(response: Any, engine: HttpxEngine) -> tuple[dict[bytes, bytes], bool]:
    """Return the fields of a response, and whether its body is encoded.

    Only a user's client may request encoded bodies; they are decoded.
    """
    raw, limit = response.headers.raw, engine.limits.head
    if sum(len(name) + len(value) + 4 for name, value in raw) > limit:
        text = f"the head of the response is over the limit of {limit} bytes"
        raise MessageTooLarge(text, limit=limit)
    fields: dict[bytes, bytes] = {}
    for raw_name, value in raw:
        name = raw_name.lower()
        fields[name] = fields[name] + b", " + value if name in fields else value
    status = response.status_code
    if status < 200:
        raise RemoteProtocolError(f"the response has the interim status {status}")
    # RFC 9112 section 6.3: both fields may be an attempt at request smuggling.
    if b"content-length" in fields and b"transfer-encoding" in fields:
        raise RemoteProtocolError("the response has two lengths")
    encoding = fields.get(b"content-encoding", b"identity")
    if encoding.lower() == b"identity":
        return fields, False
    if engine.client is not None:
        # Both describe the encoded bytes, but the decoded ones are passed on.
        del fields[b"content-encoding"]
        fields.pop(b"content-length", None)
    elif status < 300:
        raise RemoteProtocolError(
            f"content-encoding {encoding[:40]!r} although only identity is accepted"
        )
    return fields, True


class _ExchangeThread:
    """A daemon thread for one exchange of a blocking client; also its response.

    The interpreter may exit while it runs. If the exchange is cancelled, the connection
    is shut down, so that the current step fails; then the thread closes the response.
    """

    def __init__(self) -> None:
        self._response: Any = None
        self._is_ended = False
        self._steps: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(
            target=copy_context().run,
            args=(self._run_steps,),
            name="mcpwire-httpx",
            daemon=True,
        ).start()

    def _run_steps(self) -> None:
        for step in iter(self._steps.get, None):
            step()
        if self._response is not None:
            with contextlib.suppress(Exception):  # no caller waits for the error
                self._response.close()

    async def send(self, send: Callable[[], Any]) -> _ExchangeThread:
        """Send the request in the thread; return this object as the response."""

        def step() -> None:
            self._response = send()

        await self._run_step(step)
        return self

    async def _run_step(self, function: Callable[..., Any], *args: Any) -> Any:
        step, result = prepare_thread_call(function, *args)
        self._steps.put(step)
        try:
            return await result
        except BaseException:
            exchange = _current.get()
            if not exchange.is_shared:  # else the thread waits for the response
                _shut_down(exchange.stream)
            self._finish()
            raise

    def _finish(self) -> None:
        self._is_ended = True
        self._steps.put(None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    def aiter_raw(self) -> AsyncIterator[bytes]:
        """Yield the body without decoding."""
        return self._read(self._response.iter_raw())

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the decoded body."""
        return self._read(self._response.iter_bytes())

    async def _read(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        while (chunk := await self._run_step(next, chunks, None)) is not None:
            yield chunk

    async def aclose(self) -> None:
        """Close the response, unless its thread already does."""
        if not self._is_ended:
            await self._run_step(self._response.close)
            self._finish()


def _shut_down(stream: Any) -> None:
    """Shut a socket down, so that the loop or thread that reads it closes it."""
    sock = None if stream is None else stream.get_extra_info("socket")
    if sock is None:
        return
    with contextlib.suppress(OSError):
        if isinstance(sock, socket.socket):
            # Not the method of `SSLSocket`, which makes it a plain socket.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
        else:
            sock.shutdown(socket.SHUT_RDWR)


# Libraries and transports


def _client_library(client: Any) -> ModuleType:
    """Return the module of a client: httpx, or one with the same interface."""
    for cls in type(client).__mro__:
        module = sys.modules.get(cls.__module__.partition(".")[0])
        if hasattr(module, "HTTPError") and hasattr(module, "AsyncHTTPTransport"):
            assert module is not None
            return module
    raise ValueError(f"http_client must be an httpx client, got {_type_name(client)}")


def _type_name(client: Any) -> str:
    cls = type(client)
    return f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}"


def _exception_types(library: ModuleType) -> tuple[type[Exception], ...]:
    """Return a library's exceptions, and those that httpcore does not translate."""
    h2 = sys.modules.get("h2.exceptions")
    types: tuple[type[Exception], ...] = (library.HTTPError, ssl.SSLError)
    return types if h2 is None else (*types, h2.H2Error)


def _make_transport(target: Http, proxy: str | None, library: ModuleType) -> Any:
    is_secure_proxy = (proxy or "")[:6].lower() == "https:"
    context: ssl.SSLContext | bool = False  # never used, and cheap to create
    if target.parsed.scheme == "https" or is_secure_proxy:
        context = ssl_context(target)
    try:
        if (library.URL(proxy or "").port or 0) > 65_535:
            raise ValueError("its port is too large")  # noqa: TRY301 - as of httpx
        return library.AsyncHTTPTransport(
            verify=context,
            http2=target.http2,
            limits=library.Limits(
                max_connections=None,
                max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_TIMEOUT_S,
            ),
            proxy=library.Proxy(proxy, ssl_context=context)
            if is_secure_proxy
            else proxy,
            trust_env=False,
        )
    except ImportError as error:  # not of h2: the target has checked it
        raise ConnectError(
            "a SOCKS proxy needs the package socksio: install 'httpx[socks]'",
            target=str(target),
        ) from error
    except (ValueError, library.InvalidURL):  # their texts may contain a password
        raise ConnectError(
            f"cannot use the proxy '{mask_url(proxy or '')}': it is not an http, "
            "https, socks5 or socks5h URL with a valid port",
            target=str(target),
        ) from None


# Errors, without text of httpx that may include a header, query or user name


def _translate(engine: HttpxEngine, exchange: _Exchange, error: Exception) -> MCPError:
    """Return the `MCPError` for an exception of httpx."""
    # By name, as the classes of `httpx2` have the same names.
    names = {cls.__name__ for cls in type(error).__mro__}
    chain = list(_causes(error))
    if names & _NOT_CONNECTED or not exchange.may_be_sent:
        return _not_connected_error(engine, error, names)
    frame = _http2_frame(chain)
    refusal = _request_error(engine, error, names, chain)
    if refusal is not None:
        return refusal
    cause = _root_cause(chain)
    if frame is None and not exchange.has_head and is_certificate_refusal(cause):
        return _not_connected_error(engine, error, names)
    # Not if the whole connection ends: then httpcore sends the request again itself.
    is_refused = (
        getattr(frame, "error_code", None) == _REFUSED_STREAM
        and type(frame).__name__ == "StreamReset"
    )
    place = "within the body" if exchange.has_head else "before the response"
    if not (exchange.has_head or is_refused):
        place += ": the request may have run"
    return ConnectionClosed(
        f"{engine.target}: {_describe_end(frame, cause)} {place}",
        target=engine.target,
        sent=not is_refused,
    )


def _request_error(
    engine: HttpxEngine, error: Exception, names: set[str], chain: list[BaseException]
) -> MCPError | None:
    """Return the error if the cause is not the end of the connection, else ``None``."""
    if any(type(cause).__module__.partition(".")[0] == "h2" for cause in chain):
        return RemoteProtocolError("the response is not acceptable HTTP/2")
    if "LocalProtocolError" in names:
        return LocalProtocolError("the request cannot be sent: its head is not HTTP")
    if "HTTPStatusError" in names:
        return _hook_error(engine, error)
    if "DecodingError" in names:
        return RemoteProtocolError("the body of the response cannot be decoded")
    is_end = _http2_frame(chain) is not None or _CLOSED.match(str(error))
    if "RemoteProtocolError" not in names or is_end:
        return None
    # The text after the colon contains received data.
    detail = str(error).partition(":")[0][:_MAX_SHOWN_CHARACTERS]
    return RemoteProtocolError(f"the response is not acceptable HTTP: {detail}")


def _not_connected_error(
    engine: HttpxEngine, error: Exception, names: set[str]
) -> ConnectError:
    connect_failure = _connect_error(engine, error, names)
    if engine.proxy is None:
        return connect_failure
    return ConnectError(
        f"{connect_failure} (through the proxy '{mask_url(engine.proxy)}')",
        target=connect_failure.target,
        errno=connect_failure.errno,
        reason=connect_failure.reason,
    )


def _connect_error(
    engine: HttpxEngine, error: Exception, names: set[str]
) -> ConnectError:
    if "ConnectTimeout" in names:
        return timeout_error(engine.http)
    if "PoolTimeout" in names:
        message = "the HTTP client has no connection left"
    elif "UnsupportedProtocol" in names:
        message = "the HTTP client does not speak this scheme"
    elif "ProxyError" in names:
        text = (
            str(error)[:_MAX_SHOWN_CHARACTERS].encode("unicode_escape").decode("ascii")
        )
        message = f"the proxy refuses: {text or type(error).__name__}"
    elif (cause := _root_cause(list(_causes(error)))) is not None:
        return connect_error(engine.http, cause)
    else:
        message = (
            f"cannot connect to {engine.http.parsed.authority!r}: "
            "the connection ended before anything was sent"
        )
    return ConnectError(message, target=engine.target)


def _hook_error(engine: HttpxEngine, error: Any) -> HTTPError:
    response = error.response
    return HTTPError(
        f"{engine.target}: the HTTP client's hook refuses status "
        f"{response.status_code}",
        status=response.status_code,
        headers={name.lower(): value for name, value in response.headers.items()},
        target=engine.target,
    )


def _describe_end(frame: Any, cause: Exception | None) -> str:
    if frame is not None:
        return f"the server ended the stream with code {int(frame.error_code)}"
    if cause is None:
        return "the connection ended"
    if isinstance(cause, ssl.SSLError):
        detail = (cause.reason or "unknown").lower().replace("_", " ")
        return f"the connection broke (TLS: {detail})"
    number = getattr(cause, "errno", None)
    detail = os.strerror(number) if number else type(cause).__name__
    return f"the connection broke ({detail})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all errors that led to it, outermost first."""
    queue: list[BaseException] = [error]
    seen: set[int] = set()
    while queue:
        current = queue.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        # httpcore removes causes when it re-raises, and keeps them as arguments.
        related = [current.__cause__, current.__context__, *current.args]
        related += getattr(current, "exceptions", ())
        queue += [cause for cause in related if isinstance(cause, BaseException)]


def _root_cause(chain: list[BaseException]) -> OSError | UnicodeError | None:
    """Return the error of the resolver, of TLS or of the system, if there is one."""
    for kinds in ((socket.gaierror, UnicodeError), ssl.SSLError):
        for cause in chain:
            if isinstance(cause, kinds):
                assert isinstance(cause, OSError | UnicodeError)
                return cause
    for cause in chain:
        if isinstance(cause, OSError) and cause.errno is not None:
            # asyncio replaces the message of some.
            return OSError(cause.errno, os.strerror(cause.errno))
    return None


def _http2_frame(chain: list[BaseException]) -> Any:
    """Return the event with which the peer ended a stream or the connection."""
    for cause in chain:
        for argument in cause.args:
            if getattr(argument, "error_code", None) is not None:
                return argument
    return None
