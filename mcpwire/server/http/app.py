"""The ASGI application: routing of requests, startup and shutdown.

::

    lifespan ─► start, drain                   optional: the first request starts, too
    http ──► health, ready
        └──► RequestGuard: Host, Origin, CORS, authentication
              └──► endpoint: POST ─► Stateless   requests without a session
                                  └► Sessions    messages of a session
                             GET, DELETE ─► Sessions

    new ──first request, lifespan──► started ──drain──► draining ──► closed
                                        ▲                              │
                                        └───── lifespan starts again ──┘

`protocol.request_validation` documents the order of the checks of a POST.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import sys
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from mcpwire.errors import InternalError
from mcpwire.protocol.request_validation import (
    EVENT_STREAM,
    OriginPolicy,
    UnreadableMessage,
    accepts,
    check_formats,
    is_stateless,
    read_json,
    read_message,
)
from mcpwire.server.auth.resource_server import CREDENTIALS, client_address
from mcpwire.server.dispatcher import Dispatcher, HttpRefusal
from mcpwire.server.http.exchange import (
    CLIENT_CLOSED,
    ClientGone,
    Exchange,
    HttpProblem,
    Timeouts,
    UnreadAccount,
    as_problem,
)
from mcpwire.server.http.stateless import RETRY_AFTER, SHUTTING_DOWN, Stateless
from mcpwire.server.log_limit import LimitedLogger, error_kind
from mcpwire.transports.base import wait_at_most, wait_shared
from mcpwire.versions import Era
from mcpwire.wire.headers import is_field_value, is_token
from mcpwire.wire.jsonrpc import failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.http.event_store import EventStore
    from mcpwire.server.http.exchange import Fields, Receive, Scope, Send
    from mcpwire.server.http.legacy_sse import LegacySse
    from mcpwire.server.http.sessions import Sessions
    from mcpwire.wire.json import Json

    Serve = Callable[[Exchange], Awaitable[None]]

logger = LimitedLogger("mcpwire")

POST_ONLY: Final = (("allow", "POST"),)
ALL_VERBS: Final = (("allow", "POST, GET, DELETE"),)

END_GRACE_S: Final = 1.0
"""How long cancelled calls may take to end and to send their responses, in seconds."""


class AsgiApp:
    """An MCP server as an ASGI application, to be run or mounted anywhere.

    The first request starts it, so that mounting it needs no wiring; under a web server
    that sends ASGI lifespan events, those start and close it.

    Args:
        dispatcher: Handles the requests.
        path: The path of the endpoint; a mount also serves it at the mount's own path.
        allowed_hosts: The host names that requests may address, such as
            ``"mcp.example.com"``, ``"*.example.com"`` or ``"*"``. By default the names
            of the local machine and the address that the server listens on.
        allowed_origins: The origins of pages that may send requests, such as
            ``"https://example.com"``. By default the local machine and the host that
            the request addresses.
        cors: Whether CORS headers allow pages of these origins to read the responses;
            origins in place of ``True`` are added to the allowed origins.
        health: The path that returns 200 while the server runs; ``None``: no such path.
        ready: The path that returns 200 while the server accepts requests, else 503.
        stateless: Whether the server has no sessions, so that requests of the revisions
            with sessions are served without one.
        json_only: Whether calls without a session are never answered by a stream.
        legacy_sse: Whether to add the two endpoints of 2024-11-05, ``path/sse`` and
            ``path/messages``.
        event_store: Stores the messages of sessions, so that streams can be resumed.
            ``None``: a bounded store in memory; ``False``: no store.
        session_idle: How long a session may be idle, in seconds.
        max_sessions: The maximum number of sessions.
        retry: How long clients of a stream should wait to reconnect, in seconds.
        ask_timeout: How long a client may take to answer a server request, in seconds.
        stream_after: After how many seconds a call is answered by a stream.
        heartbeat: After how many seconds of silence a stream sends a comment.
        bound: The name of the address that the server listens on.

    Attributes:
        limits: Limits on the resources that one client can use.

    Raises:
        ValueError: A path, a host or an origin is malformed.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        path: str = "/mcp",
        allowed_hosts: Iterable[str] | None = None,
        allowed_origins: Iterable[str] | None = None,
        cors: bool | Iterable[str] | None = None,
        health: str | None = "/health",
        ready: str | None = "/ready",
        stateless: bool = False,
        json_only: bool = False,
        legacy_sse: bool = False,
        event_store: EventStore | Literal[False] | None = None,
        session_idle: float = 1_800.0,
        max_sessions: int = 10_000,
        retry: float = 1.0,
        ask_timeout: float | None = 600.0,
        stream_after: float = 0.1,
        heartbeat: float = 15.0,
        bound: str | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._is_json_only = json_only
        limits = self.limits = dispatcher.limits
        self._timeouts = Timeouts(
            body=limits.body_timeout, stream_after=stream_after, heartbeat=heartbeat
        )
        self._unread = UnreadAccount(limits.unwritten_total)
        self._guard = RequestGuard(
            hosts=allowed_hosts,
            origins=allowed_origins,
            cors=cors or False,
            auth=dispatcher.auth,
            bound=bound,
        )
        # Cached as in `RequestGuard`: parsing them takes a tenth of a plain call.
        self._check_formats = lru_cache(maxsize=32)(check_formats)
        self._stateless = Stateless(dispatcher, is_json_only=json_only)
        self._sessions: Sessions | None = None
        self._legacy: LegacySse | None = None
        if any(r.era is Era.SESSION for r in dispatcher.revisions):
            from mcpwire.server.http.sessions import Sessions

            self._sessions = Sessions(
                dispatcher,
                event_store=event_store,
                idle=session_idle,
                maximum=max_sessions,
                retry=retry,
                stateless=stateless,
                json_only=json_only,
                ask_timeout=ask_timeout,
            )
        for name, value in (("path", path), ("health", health), ("ready", ready)):
            if value is not None and not value.startswith("/"):
                raise ValueError(f"{name} must begin with a slash, got {value!r}")
        self._path = path = path.rstrip("/")
        self._routes: dict[str | None, Serve] = {
            health: self._serve_health,
            ready: self._serve_ready,
            path: self._serve_mcp,
            f"{path}/": self._serve_mcp,
        }
        if legacy_sse:
            from mcpwire.server.http.legacy_sse import LegacySse

            self._legacy = LegacySse(
                dispatcher, maximum=max_sessions, check_message=self._check_message
            )
            self._routes[f"{path}/sse"] = self._legacy.serve_stream
            self._routes[f"{path}/messages"] = self._legacy.serve_message
        # These responses contain no data of clients and need no authentication.
        self._public = {self._serve_health, self._serve_ready, self._serve_metadata}
        auth = dispatcher.auth
        self._metadata_paths = () if auth is None else auth.metadata_paths()
        self._open: set[Exchange] = set()
        self._settling: set[asyncio.Event] = set()
        self._loops: set[asyncio.AbstractEventLoop] = set()  # on which it is started
        self._starting: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}
        self.is_draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope: an HTTP request, the lifespan or a WebSocket."""
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
            return
        if asyncio.current_task() is None:
            # Some web servers call the application outside a task; timeouts need one.
            serving = self(scope, receive, send)
            await asyncio.get_running_loop().create_task(serving)
            return
        exchange = Exchange(
            scope, receive, send, self.limits, self._timeouts, unread=self._unread
        )
        if access_logger.isEnabledFor(logging.INFO):
            exchange.access = AccessRecord()
        self._open.add(exchange)
        try:
            await self._serve(exchange)
        except ClientGone:
            await exchange.end_unanswered()
        except HttpProblem as problem:
            await _refuse(exchange, problem)
        except UnreadableMessage as problem:
            await _refuse(exchange, HttpProblem(400, problem.error, id=problem.id))
        except Exception as raised:
            # The text of an unexpected error may hold data that clients must not see.
            logger.exception("a request could not be answered", kind=error_kind(raised))
            error = InternalError("the server failed")
            await _refuse(exchange, HttpProblem(500, error))
        finally:
            self._open.discard(exchange)
            if self._settling:
                self._report_settled()
            if exchange.access is not None:
                exchange.access.write(exchange)

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a scope that is not an HTTP request: the lifespan, a WebSocket."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._serve_lifespan(receive, send)
        elif kind == "websocket":
            # MCP has no WebSocket transport; closing it before accepting sends a 403.
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        else:
            raise RuntimeError(f"unknown kind of ASGI scope: {kind!r}")

    # Requests

    async def _serve(self, exchange: Exchange) -> None:
        """Check the head of a request and route it. Raises `HttpProblem` and others."""
        exchange.check_framing()
        serve = self._find(exchange)
        if serve in self._public:
            await serve(exchange)
            return
        guard = self._guard
        guard.check_origin(exchange)
        if serve is None:
            endpoint = f"{exchange.scope.get('root_path') or ''}{self._path or '/'}"
            reason = f"nothing is served at this path; the endpoint is {endpoint}"
            raise HttpProblem(404, reason)
        if exchange.verb == "OPTIONS" and guard.is_preflight(exchange):
            await guard.answer_preflight(exchange)
            return
        if self.is_draining:
            # Running calls may wait for a client's response, which arrives by POST.
            if exchange.verb != "POST":
                raise _shutting_down()
        elif asyncio.get_running_loop() not in self._loops:
            await self._start()
        await guard.authenticate(exchange)
        await serve(exchange)

    def _find(self, exchange: Exchange) -> Serve | None:
        path, root = exchange.path, exchange.scope.get("root_path") or ""
        # Some web servers do not remove the mount's path from the request's path.
        if root and (path == root or path.startswith(f"{root}/")):
            path = path[len(root) :]
        serve = self._routes.get(path)
        if serve is None and exchange.path in self._metadata_paths:
            return self._serve_metadata
        if serve is None and path in {"", "/"} and root:
            return self._serve_mcp
        return serve

    async def _serve_health(self, exchange: Exchange) -> None:
        await _reply_document(exchange, 200, {"status": "alive"})

    async def _serve_ready(self, exchange: Exchange) -> None:
        if self.is_draining:
            await _reply_document(exchange, 503, {"status": "draining"}, RETRY_AFTER)
        else:
            await _reply_document(exchange, 200, {"status": "ready"})

    async def _serve_metadata(self, exchange: Exchange) -> None:
        assert self._dispatcher.auth is not None  # it defined the path
        # RFC 9728, 3.1; browser clients read the metadata from other origins.
        exchange.extra.append((b"access-control-allow-origin", b"*"))
        if exchange.verb == "OPTIONS" and self._guard.is_preflight(exchange):
            await self._guard.answer_preflight(exchange)
            return
        await _reply_document(exchange, 200, self._dispatcher.auth.metadata())

    async def _serve_mcp(self, exchange: Exchange) -> None:
        revisions = self._dispatcher.revisions
        is_sessionless = is_stateless(exchange.headers, revisions)
        if exchange.verb != "POST":
            await self._serve_stream(exchange, is_sessionless=is_sessionless)
            return
        field = exchange.headers.get
        refusal = self._check_formats(
            field("content-type"),
            field("content-encoding"),
            field("accept"),
            is_json_only=self._is_json_only,
        )
        if refusal is not None:
            raise HttpProblem(*refusal)
        value = read_json(await exchange.body(), exchange.limits.values)
        if exchange.access is not None or self.is_draining:
            self._check_message(exchange, value)
        if is_sessionless or self._is_stateless_message(value):
            await self._stateless.serve(exchange, read_message(value))
        else:
            assert self._sessions is not None  # the only other era
            await self._sessions.serve(exchange, value)

    def _check_message(self, exchange: Exchange, value: Json) -> None:
        """Log the message of a POST; while draining, refuse all but responses."""
        if exchange.access is not None:
            exchange.access.add_message(value)
        if self.is_draining and not (type(value) is dict and "method" not in value):
            raise _shutting_down()

    def _is_stateless_message(self, value: Json) -> bool:
        params = value.get("params") if type(value) is dict else None
        return type(params) is dict and self._dispatcher.is_stateless_request(params)

    async def _serve_stream(self, exchange: Exchange, *, is_sessionless: bool) -> None:
        """Serve a GET, a DELETE or another verb at the endpoint."""
        sessions = self._sessions
        # 2026-07-28 streamable-http, "Earlier Streamable HTTP Revisions".
        if sessions is None or is_sessionless:
            raise HttpProblem(405, "only POST is allowed here", POST_ONLY)
        if exchange.verb == "GET":
            if not accepts(exchange.headers.get("accept"), EVENT_STREAM):
                raise HttpProblem(406, f"the Accept must allow {EVENT_STREAM}")
            await sessions.serve_get(exchange)
        elif exchange.verb == "DELETE":
            await sessions.serve_delete(exchange)
        else:
            raise HttpProblem(405, "only POST, GET and DELETE are allowed", ALL_VERBS)

    # Startup

    async def start(self) -> None:
        """Start the server before the first request, or again after `aclose`.

        Raises:
            Exception: The error that the server's lifespan raised.
        """
        self.is_draining = False
        await self._start()

    async def _start(self) -> None:
        """Start once on this event loop; after a failure, the next caller retries."""
        loop = asyncio.get_running_loop()
        if loop in self._loops:
            return
        starting = self._starting.get(loop)
        if starting is None:
            starting = self._starting[loop] = loop.create_task(
                self._start_dispatcher(loop), name="mcpwire-http-start"
            )
            starting.add_done_callback(lambda _: self._starting.pop(loop, None))
        try:
            await wait_shared(starting)
        except asyncio.CancelledError as error:
            if not starting.cancelled():
                raise
            # `aclose` cancelled the start; the waiting requests are not cancelled.
            raise RuntimeError("the server ended as it started") from error

    async def _start_dispatcher(self, loop: asyncio.AbstractEventLoop) -> None:
        await self._dispatcher.start()
        closed = {each for each in tuple(self._loops) if each.is_closed()}
        if closed and closed == self._loops:
            # The earlier loops ended without a shutdown, as a mounted application may.
            self._unread = UnreadAccount(self.limits.unwritten_total)
            for part in self._parts():
                part.reset()
        self._loops -= closed
        self._loops.add(loop)

    def _parts(self) -> list[Sessions | LegacySse]:
        return [part for part in (self._sessions, self._legacy) if part is not None]

    # Shutdown

    async def drain(self, timeout: float = 10.0) -> None:
        """Stop accepting requests, wait for running calls, then close open streams.

        New requests are answered with 503 and Retry-After, so that clients retry.

        Args:
            timeout: After how many seconds running calls are cancelled.
        """
        self.is_draining = True
        for exchange in self._open:
            exchange.stop_reading(_shutting_down())
        self._stateless.end_subscriptions()  # they are calls, too
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        if not await self._settle(timeout):
            self._stateless.stop_all()
        for part in self._parts():
            # A session's call may run without an open response: the client polls.
            await part.settle(max(0.0, deadline - loop.time()))
        for part in self._parts():
            await part.aclose()
        await self._settle(END_GRACE_S)

    def _are_calls_done(self) -> bool:
        return not any(exchange.verb == "POST" for exchange in self._open)

    def _report_settled(self) -> None:
        if self._are_calls_done():
            for settled in self._settling:
                settled.set()

    async def _settle(self, seconds: float) -> bool:
        """Wait up to this time for calls to end; return whether all have ended."""
        settled = asyncio.Event()
        self._settling.add(settled)
        try:
            if not self._are_calls_done():
                await wait_at_most(seconds, settled.wait())
            return self._are_calls_done()
        finally:
            self._settling.discard(settled)

    async def aclose(self) -> None:
        """Cancel all calls, close all streams and close the dispatcher."""
        loop = asyncio.get_running_loop()
        starting = self._starting.get(loop)
        if starting is not None:
            starting.cancel()
            await asyncio.wait([starting])
        await self.drain(0)
        if loop in self._loops:
            self._loops.remove(loop)
            await self._dispatcher.aclose()

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        """Handle the events of the ASGI lifespan: start up and shut down."""
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                try:
                    await self.start()
                except Exception as error:
                    logger.exception("the server could not start")
                    message = f"the server could not start: {type(error).__name__}"
                    await send({"type": "lifespan.startup.failed", "message": message})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _shutting_down() -> HttpProblem:
    return HttpProblem(503, InternalError(SHUTTING_DOWN), RETRY_AFTER)


async def _reply_document(
    exchange: Exchange, status: int, document: dict[str, Any], headers: Fields = ()
) -> None:
    if exchange.verb not in {"GET", "HEAD"}:
        raise HttpProblem(405, "only GET is allowed here", (("allow", "GET, HEAD"),))
    await exchange.reply(status, document, headers)


async def _refuse(exchange: Exchange, problem: HttpProblem) -> None:
    if exchange.status is not None:
        return  # the response has started and cannot be replaced
    message = failure(problem.id, problem.error)
    exchange.reason = problem.error.message if problem.status >= 400 else ""
    with contextlib.suppress(ClientGone):
        await exchange.reply(problem.status, message, problem.headers)


# Host, Origin, CORS, authentication

_EXPOSED: Final = b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After"


class RequestGuard:
    """Checks Host, Origin and credentials of requests; sends CORS headers."""

    def __init__(
        self,
        *,
        hosts: Iterable[str] | None = None,
        origins: Iterable[str] | None = None,
        cors: bool | Iterable[str] = False,
        auth: ResourceServer | None = None,
        bound: str | None = None,
    ) -> None:
        if not isinstance(cors, bool):
            origins = (*(origins or ()), *_as_tuple(cors))
        policy = OriginPolicy(
            None if hosts is None else _as_tuple(hosts),
            None if origins is None else _as_tuple(origins),
        )
        # Parsing Host is a quarter of a plain call. 32 entries take at most 2 MiB.
        self._refusal = lru_cache(maxsize=32)(policy.refusal)
        self._has_cors = cors is not False
        self._auth = auth
        # Also the host name of the protected resource, by which clients address it.
        resource = None if auth is None else urlsplit(auth.resource).hostname
        self._names = tuple(name for name in (bound, resource) if name)
        self._credentials = CREDENTIALS if auth is None else auth.credential_headers

    def check_origin(self, exchange: Exchange) -> None:
        """Check Host and Origin, and add the CORS fields. Raises `HttpProblem`."""
        headers = exchange.headers
        origin = headers.get("origin")
        host = headers.get("host")
        server = exchange.scope.get("server")
        refusal = self._refusal(host, origin, server[0] if server else None)
        if refusal is not None and any(
            self._refusal(host, origin, name) is None for name in self._names
        ):
            refusal = None
        if refusal is not None:
            # 2026-07-28 streamable-http, "Security Endpoint": 403, to every verb.
            raise HttpProblem(403, refusal)
        if self._has_cors and origin is not None and is_field_value(origin):
            exchange.extra += [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-expose-headers", _EXPOSED),
                (b"vary", b"Origin"),
            ]

    def is_preflight(self, exchange: Exchange) -> bool:
        """Return whether a request is a CORS preflight that the server answers."""
        return (
            self._has_cors
            and exchange.headers.get("origin") is not None
            and exchange.headers.get("access-control-request-method") is not None
        )

    async def answer_preflight(self, exchange: Exchange) -> None:
        """Answer a CORS preflight: allow the methods and the requested headers."""
        requested = exchange.headers.get("access-control-request-headers") or ""
        # Tool arguments may be mirrored in headers of any name: no list can hold them.
        names = [
            name for item in requested.split(",") if is_token(name := item.strip(" \t"))
        ]
        exchange.extra += [
            (b"access-control-allow-methods", b"POST, GET, DELETE"),
            (b"access-control-allow-headers", ", ".join(names).encode("ascii")),
            (b"access-control-max-age", b"600"),
        ]
        await exchange.reply(204)

    async def authenticate(self, exchange: Exchange) -> None:
        """Authenticate the client and set the exchange's `principal`."""
        exchange.credentials = self._credentials
        if self._auth is None:
            return
        client = exchange.scope.get("client")
        client_address.set(client[0] if client else "")
        try:
            exchange.principal = await self._auth.authenticate(
                exchange.headers, exchange.verb, _url_of(exchange)
            )
        except HttpRefusal as refusal:
            raise as_problem(refusal) from refusal


def _url_of(exchange: Exchange) -> str:
    """Return the URL of a request, built from the scope and Host."""
    scope = exchange.scope
    query: str = scope.get("query_string", b"").decode("latin-1")
    host = exchange.headers.get("host") or ""
    url = f"{scope.get('scheme', 'http')}://{host}{scope['path']}"
    return f"{url}?{query}" if query else url


def _as_tuple(values: Iterable[str]) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(values)


# Access log

access_logger = logging.getLogger("mcpwire.access")

MAX_TEXT: Final = 80
MAX_REASON: Final = 200

MAX_LINE: Final = 2_000
"""Characters of a line; below `PIPE_BUF`, the bytes a pipe takes without blocking."""


@contextlib.contextmanager
def access_log_on_stderr() -> Iterator[None]:
    """Write the access log to stderr, unless the program's logging handles it."""
    if access_logger.isEnabledFor(logging.INFO) or sys.stderr is None:
        yield
        return
    handler = _StderrHandler()
    handler.setFormatter(logging.Formatter("mcpwire: %(message)s"))
    previous = access_logger.level, access_logger.propagate
    access_logger.addHandler(handler)
    access_logger.setLevel(logging.INFO)
    access_logger.propagate = False
    try:
        yield
    finally:
        access_logger.removeHandler(handler)
        access_logger.level, access_logger.propagate = previous


class _StderrHandler(logging.StreamHandler[Any]):
    """Drops lines while stderr is a full pipe, where writing would block the server."""

    _dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, unless the write would block."""
        if not _is_writable(self.stream):
            self._dropped += 1
            return
        super().emit(record)
        self._dropped = 0

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with the number of dropped lines before it."""
        line = super().format(record)[:MAX_LINE]
        if self._dropped:
            line += f" ({self._dropped} more were not written)"
        return line


def _is_writable(stream: Any) -> bool:
    """Return whether a line can be written to a stream without blocking."""
    if not hasattr(select, "poll"):
        return True  # Windows
    poll = select.poll()
    try:
        poll.register(stream.fileno(), select.POLLOUT)
    except (AttributeError, OSError, ValueError):
        return True  # not a file
    return bool(poll.poll(0))


class AccessRecord:
    """The log line of a request: client, verb, path, method, status, time, error.

    It contains no query, header or argument, except those that the reason of a refusal
    quotes. Text from clients is escaped and truncated.
    """

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._details = ""

    def add_message(self, value: Any) -> None:
        """Add the method and the target of the decoded body, if it is a message."""
        if type(value) is not dict or type(method := value.get("method")) is not str:
            return
        self._details = f" {_escape(method)}"
        params = value.get("params")
        if type(params) is dict:
            targets = (params.get(key) for key in ("name", "uri", "taskId"))
            name = next((target for target in targets if type(target) is str), None)
            if name is not None:
                # The query of a URI may contain credentials.
                plain = name.partition("?")[0].partition("#")[0]
                self._details += f" {_escape(plain)}"

    def write(self, exchange: Exchange) -> None:
        """Write the line, after the response."""
        client = exchange.scope.get("client")
        access_logger.info(
            "%s %s %s%s %d %.1f ms%s",
            _escape(client[0]) if client else "-",
            exchange.verb,
            _escape(exchange.path),
            self._details,
            exchange.status or CLIENT_CLOSED,
            (time.perf_counter() - self._started) * 1000,
            _reason(exchange.reason),
        )


def _reason(message: str) -> str:
    """Return the reason of a refusal, as the suffix of its line."""
    if not message:
        return ""
    text = message[:MAX_REASON] + ("..." if len(message) > MAX_REASON else "")
    return f": {text if text.isascii() and text.isprintable() else ascii(text)}"


def _escape(text: str) -> str:
    excerpt = text[:MAX_TEXT] + ("..." if len(text) > MAX_TEXT else "")
    is_plain = excerpt.isascii() and excerpt.isprintable() and " " not in excerpt
    return excerpt if is_plain else ascii(excerpt)
