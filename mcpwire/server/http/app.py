"""The ASGI application: what comes to which part of the server, and when it ends.

::

    lifespan ─► start, drain                   optional: the first request starts, too
    http ──► health, ready
        └──► RequestGuard: Host, Origin, CORS, authentication
              └──► endpoint: POST ─► Stateless   what stands alone
                                  └► Sessions    what belongs to a session
                             GET, DELETE ─► Sessions

In which order a POST is looked at stands in `protocol.request_validation`.

When the application starts, what it is doing, and how it ends.

::

    new ──first request, lifespan──► started ──drain──► draining ──► closed
                                        ▲                              │
                                        └────── a lifespan anew ───────┘

The paths of the application: the endpoints, and those that anybody may look at.

Who may come in: by Host and Origin, by what a browser asks first, by credentials.

The rules for Host and Origin are in `protocol.request_validation`, those for tokens in
``server.auth``; here they are applied to an exchange.

One line of log per request: who asked what, what came of it, how long it took.

No query, header or argument is in it, but what the reason of a refusal quotes. What a
client chose is quoted and cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import sys
import time
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from mcpwire.errors import InternalError, InvalidRequest, RPCError
from mcpwire.protocol.request_validation import (
    EVENT_STREAM,
    OriginPolicy,
    UnreadableMessage,
    accepts,
    check_formats,
    is_json,
    is_stateless,
    read_json,
    read_message,
)
from mcpwire.server.auth.resource_server import CREDENTIALS, HttpRefusal
from mcpwire.server.http.exchange import ClientGone, Exchange, HttpProblem, Timeouts
from mcpwire.server.http.stateless import RETRY_AFTER, SHUTTING_DOWN, Stateless
from mcpwire.server.log_limit import LimitedLogger, place_of
from mcpwire.versions import Era
from mcpwire.wire.headers import is_field_value, is_token
from mcpwire.wire.json import JSONDecodeError, loads
from mcpwire.wire.jsonrpc import failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.server.http.event_store import EventStore
    from mcpwire.server.http.exchange import Receive, Scope, Send
    from mcpwire.server.http.legacy_sse import LegacySse
    from mcpwire.server.http.sessions import Sessions
    from mcpwire.wire.json import Json


__all__ = [
    "Access",
    "AsgiApp",
    "Lifecycle",
    "Place",
    "RequestGuard",
    "Router",
    "is_read",
    "told_on_stderr",
]


logger = LimitedLogger("mcpwire")

POST_ONLY: Final = (("allow", "POST"),)
ALL_VERBS: Final = (("allow", "POST, GET, DELETE"),)


class AsgiApp:
    """An MCP server as an ASGI application, to be run or mounted anywhere.

    It starts itself with the first request, so that mounting it needs no wiring; where
    the ASGI lifespan reaches it, it uses that.

    Args:
        dispatcher: Who answers.
        path: Where the endpoint is. Where the application is mounted, it also answers
            at the mount's own path.
        allowed_hosts: The names that the server is asked by, such as
            ``"mcp.example.com"``, ``"*.example.com"`` or ``"*"``. By default those of
            this machine itself and the address that it listens on.
        allowed_origins: The pages that may ask, such as ``"https://example.com"``. By
            default those of this machine itself, and of the host that is asked.
        cors: Whether browsers are told that those pages may ask and read the answers;
            origins stand for ``True`` and are allowed then.
        health: The path that is answered as long as the server lives; ``None``: none.
        ready: The path that is answered as long as it takes requests; ``None``: none.
        stateless: Whether there are no sessions, so that a request of the revisions
            that have them stands alone, too.
        json_only: Whether calls that stand alone are never answered by a stream.
        legacy_sse: Whether the two endpoints of 2024-11-05 are there as well, at
            ``path/sse`` and ``path/messages``.
        event_store: Keeps what was sent to sessions, so that streams can be gone on
            with. ``None``: in memory, within bounds; ``False``: nowhere.
        session_idle: How long a session may be idle, in seconds.
        max_sessions: How many there may be.
        retry: How long clients of a stream should wait before they come back.
        ask_timeout: How long a client may take to answer a question.
        stream_after: How long a call may take before it is answered by a stream.
        heartbeat: How long a stream is silent before a comment is sent.
        bound: The name that the server was told to listen on.

    Attributes:
        limits: Bounds on what one client may cost.

    Raises:
        ValueError: A path, a host or an origin is none.
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
            reading=limits.body_timeout,
            upgrade=stream_after,
            beat=heartbeat,
            unread=limits.unwritten_total,
        )
        self._door = RequestGuard(
            hosts=allowed_hosts,
            origins=allowed_origins,
            cors=cors or False,
            auth=dispatcher.auth,
            bound=bound,
        )
        self._stateless = Stateless(dispatcher, is_json_only=json_only)
        self._sessions = self._legacy = None
        if any(r.era is Era.SESSION for r in dispatcher.revisions):
            from mcpwire.server.http.sessions import Sessions

            self._sessions = Sessions(
                dispatcher,
                event_store=event_store,
                idle=session_idle,
                maximum=max_sessions,
                retry=retry,
                stateless=stateless,
                ask_timeout=ask_timeout,
            )
        if legacy_sse:
            from mcpwire.server.http.legacy_sse import LegacySse

            self._legacy = LegacySse(dispatcher, maximum=max_sessions)
        self._life = Lifecycle(
            dispatcher,
            self._stateless,
            (self._sessions, self._legacy),
            self._timeouts,
        )
        self._places = Router(
            path,
            health=health,
            ready=ready,
            auth=dispatcher.auth,
            life=self._life,
            has_legacy=legacy_sse,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what the web server brings: one request, or its lifespan."""
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, self.limits, self._timeouts)
        access = Access() if is_read() else None
        self._life.begin(exchange)
        try:
            if await self._let_in(exchange):
                await self._post(exchange, access)
        except ClientGone:
            pass
        except HttpProblem as problem:
            await _refuse(exchange, problem)
        except UnreadableMessage as problem:
            await _refuse(exchange, HttpProblem(400, problem.error), problem.id)
        except Exception as raised:
            # The text of an error that nobody foresaw may hold what is not for clients.
            logger.exception("a request could not be answered", kind=place_of(raised))
            error = InternalError("the server failed")
            await _refuse(exchange, HttpProblem(500, error))
        finally:
            self._life.end(exchange)
            if access is not None:
                access.write(exchange)

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take part in what is no request over HTTP."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._life.follow(receive, send)
        elif kind == "websocket":
            # MCP has no transport over WebSocket; closed unaccepted, it is a 403.
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        else:
            raise RuntimeError(f"unknown kind of ASGI scope: {kind!r}")

    async def start(self) -> None:
        """Start now, and not with the first request; also anew, after its end.

        Raises:
            Exception: What the server's lifespan raised.
        """
        self._life.is_draining = False
        await self._life.start()

    async def drain(self, timeout: float = 10.0) -> None:
        """Take nothing new, let what runs end, and end what stays open.

        What is asked from then on is answered with 503, and those who ask come back.

        Args:
            timeout: How long calls may still take, in seconds; then they are cancelled.
        """
        await self._life.drain(timeout)

    async def aclose(self) -> None:
        """End everything that is open, now."""
        await self._life.aclose()

    async def _let_in(self, exchange: Exchange) -> bool:
        """Check the head; return whether it is a POST to be answered, else answer it.

        Raises:
            HttpProblem: It is refused.
        """
        exchange.check_framing()
        place = self._places.find(exchange)
        if place is not Place.ENDPOINT and await self._places.show(place, exchange):
            return False
        door = self._door
        door.check_origin(exchange)
        if place is None:
            raise self._places.missing(exchange)
        if door.is_preflight(exchange):
            await door.answer_preflight(exchange)
            return False
        is_post = place is Place.ENDPOINT and exchange.verb == "POST"
        if self._life.is_draining and not is_post:
            raise _shutting_down()
        if not self._life.is_started and not self._life.is_draining:
            await self._life.start()
        await door.identify(exchange)
        if is_post:
            refusal = check_formats(exchange.headers, is_json_only=self._is_json_only)
            if refusal is not None:
                raise HttpProblem(*refusal)
            return True
        if place is not Place.ENDPOINT:
            await self._serve_legacy(exchange, place)
        else:
            await self._other(exchange)
        return False

    async def _post(self, exchange: Exchange, access: Access | None) -> None:
        value = read_json(await exchange.body(), exchange.limits.values)
        if access is not None:
            access.note(value)
        # What runs may wait for the client's answer, which is nothing new.
        if self._life.is_draining and not _is_answer(value):
            raise _shutting_down()
        if self._stands_alone(exchange) or self._opens_alone(value):
            await self._stateless.serve(exchange, read_message(value))
        else:
            assert self._sessions is not None  # what else could it be
            await self._sessions.serve(exchange, value)

    def _opens_alone(self, value: Json) -> bool:
        params = value.get("params") if type(value) is dict else None
        return type(params) is dict and self._dispatcher.opens_alone(params)

    def _stands_alone(self, exchange: Exchange) -> bool:
        """Tell whether the head alone says so."""
        return is_stateless(exchange.headers, self._dispatcher.revisions)

    async def _other(self, exchange: Exchange) -> None:
        """Answer what is no POST."""
        sessions = self._sessions
        # 2026-07-28 streamable-http, "Earlier Streamable HTTP Revisions".
        if sessions is None or self._stands_alone(exchange):
            raise HttpProblem(405, "only POST is answered here", POST_ONLY)
        if exchange.verb == "GET":
            if not accepts(exchange.headers.get("accept"), EVENT_STREAM):
                raise HttpProblem(406, f"the Accept must allow {EVENT_STREAM}")
            await sessions.serve_get(exchange)
        elif exchange.verb == "DELETE":
            await sessions.serve_delete(exchange)
        else:
            raise HttpProblem(
                405, InvalidRequest("only POST, GET and DELETE are answered"), ALL_VERBS
            )

    async def _serve_legacy(self, exchange: Exchange, place: Place) -> None:
        """Answer at the endpoints of 2024-11-05."""
        assert self._legacy is not None  # whose places these are
        verb = "GET" if place is Place.LEGACY_STREAM else "POST"
        if exchange.verb != verb:
            raise HttpProblem(405, f"only {verb} is answered here", (("allow", verb),))
        if place is Place.LEGACY_STREAM:
            await self._legacy.serve_stream(exchange)
            return
        if not is_json(exchange.headers.get("content-type")):
            raise HttpProblem(415, "the Content-Type must be application/json")
        await self._legacy.serve_message(exchange)


def _shutting_down() -> HttpProblem:
    return HttpProblem(503, InternalError(SHUTTING_DOWN), RETRY_AFTER)


def _is_answer(value: Json) -> bool:
    return type(value) is dict and "method" not in value


async def _refuse(
    exchange: Exchange, problem: HttpProblem, id: int | str | None = None
) -> None:
    if exchange.status is not None:
        return  # it was begun, and only its end is missing
    with contextlib.suppress(ClientGone):
        await exchange.reply(
            problem.status, failure(id, problem.error), problem.headers
        )


END_GRACE_S: Final = 1.0
"""How long what was cancelled may take to end, and its answer to be sent."""


class Lifecycle:
    """The life of one application; see the module's text.

    Attributes:
        is_draining: Whether nothing new is taken.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        stateless: Stateless,
        others: Iterable[Sessions | LegacySse | None],
        timeouts: Timeouts,
    ) -> None:
        self._dispatcher = dispatcher
        self._stateless = stateless
        self._others = [other for other in others if other is not None]
        self._timeouts = timeouts
        self._open: dict[Exchange, None] = {}
        self._settled: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Task[None] | None = None
        self.is_draining = False

    # What it is doing...

    def begin(self, exchange: Exchange) -> None:
        """Take note of a request."""
        self._open[exchange] = None

    def end(self, exchange: Exchange) -> None:
        """Take note that it is answered."""
        del self._open[exchange]
        if self._settled is not None and self._are_calls_done():
            self._settled.set()

    def _are_calls_done(self) -> bool:
        return not any(exchange.verb == "POST" for exchange in self._open)

    # The beginning...

    @property
    def is_started(self) -> bool:
        """Whether it was started, on this loop."""
        return self._loop is asyncio.get_running_loop()

    async def start(self) -> None:
        """Be started, by whoever comes first.

        Raises:
            Exception: What starting raised; the next one tries again.
        """
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._starting is None or self._starting.get_loop() is not loop:
            self._starting = loop.create_task(
                self._dispatcher.start(), name="mcpwire-http-start"
            )
        starting = self._starting
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError as error:
            if not starting.cancelled():
                raise
            # By `aclose`; whoever waited is not cancelled for that.
            raise RuntimeError("the server ended as it started") from error
        except Exception:
            if self._starting is starting:
                self._starting = None
            raise
        before, self._loop = self._loop, loop
        if before is not None and before.is_closed():
            # It ended without telling us, as where we are mounted.
            for other in self._others:
                other.forget()

    # The end...

    async def drain(self, timeout: float) -> None:
        """Take nothing new, let what runs end, end what stays open."""
        self.is_draining = True
        for exchange in list(self._open):
            exchange.stop_reading(503, InternalError(SHUTTING_DOWN), RETRY_AFTER)
        # Whoever listens is told that it ends; they are calls, too.
        self._dispatcher.hub.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        if not await self._settle(timeout):
            self._stateless.stop_all()
        for other in self._others:
            # A call goes on whose client polls for its answer.
            await other.settle(max(0.0, deadline - loop.time()))
        for other in self._others:
            await other.aclose()
        await self._settle(END_GRACE_S)

    async def _settle(self, seconds: float) -> bool:
        """Wait until no call runs, but not longer than that; tell whether none does."""
        self._settled = asyncio.Event()
        try:
            if not self._are_calls_done():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._settled.wait()
            return self._are_calls_done()
        finally:
            self._settled = None

    async def aclose(self) -> None:
        """End everything, now."""
        loop = asyncio.get_running_loop()
        starting, self._starting = self._starting, None
        if starting is not None and starting.get_loop() is loop:
            starting.cancel()  # which does nothing to one that is done
            await asyncio.wait([starting])
        await self.drain(0)
        self._timeouts.close()
        if self._loop is loop:
            self._loop = None
            await self._dispatcher.aclose()

    # A web server that says so...

    async def follow(self, receive: Receive, send: Send) -> None:
        """Start and end when the web server says."""
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                self.is_draining = False
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


class Place(Enum):
    """What is at a path."""

    ENDPOINT = auto()
    """The one of Streamable HTTP."""

    LEGACY_STREAM = auto()
    """Where clients of 2024-11-05 open a connection."""

    LEGACY_MESSAGES = auto()
    """Where they send what they have to say."""

    HEALTH = auto()
    """What shows that the server lives."""

    READY = auto()
    """What shows that it takes requests."""

    DOCUMENT = auto()
    """What the resource server says of itself (RFC 9728)."""


_FOR_EVERYBODY: Final = frozenset({Place.HEALTH, Place.READY, Place.DOCUMENT})


class Router:
    """Knows the paths, and answers those that show nothing of anybody.

    Args:
        endpoint: The path of the endpoint.
        health: The path that shows that the server lives.
        ready: The path that shows that it takes requests.
        auth: Says at which paths, from the root of the host, it describes itself.
        life: Knows whether requests are taken.
        has_legacy: Whether there are the endpoints of 2024-11-05.

    Raises:
        ValueError: A path is none.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        health: str | None,
        ready: str | None,
        auth: ResourceServer | None,
        life: Lifecycle,
        has_legacy: bool = False,
    ) -> None:
        for name, path in (("path", endpoint), ("health", health), ("ready", ready)):
            if path is not None and not path.startswith("/"):
                raise ValueError(f"{name} must begin with a slash, got {path!r}")
        endpoint = endpoint.rstrip("/")
        self._endpoint = endpoint or "/"
        self._places: dict[str | None, Place] = {
            health: Place.HEALTH,
            ready: Place.READY,
            endpoint: Place.ENDPOINT,
            f"{endpoint}/": Place.ENDPOINT,
        }
        if has_legacy:
            self._places[f"{endpoint}/sse"] = Place.LEGACY_STREAM
            self._places[f"{endpoint}/messages"] = Place.LEGACY_MESSAGES
        self._documents = frozenset(() if auth is None else auth.metadata_paths())
        self._auth = auth
        self._life = life

    def find(self, exchange: Exchange) -> Place | None:
        """Return what is at the path of a request; ``None``: nothing."""
        path = _below_mount(exchange)
        place = self._places.get(path)
        if place is None and exchange.scope["path"] in self._documents:
            return Place.DOCUMENT
        if place is None and path in {"", "/"} and exchange.scope.get("root_path"):
            return Place.ENDPOINT
        return place

    def missing(self, exchange: Exchange) -> HttpProblem:
        """Return what is said where nothing is: who mistook the path learns the one."""
        root = exchange.scope.get("root_path") or ""
        return HttpProblem(
            404,
            f"there is nothing at this path; the endpoint is {root}{self._endpoint}",
        )

    async def show(self, place: Place | None, exchange: Exchange) -> bool:
        """Answer with what anybody may look at; tell whether the place is of that kind.

        Raises:
            HttpProblem: It is not looked at, but something else is done.
        """
        if place not in _FOR_EVERYBODY:
            return False
        status = 200
        if place is Place.HEALTH:
            document: dict[str, Any] = {"status": "alive"}
        elif place is Place.READY:
            is_ready = not self._life.is_draining
            document = {"status": "ready" if is_ready else "draining"}
            status = 200 if is_ready else 503
        else:
            assert self._auth is not None  # whose document it is
            # RFC 9728, 3.1; clients in browsers read it from other origins.
            exchange.extra.append((b"access-control-allow-origin", b"*"))
            document = self._auth.metadata()
        if exchange.verb not in {"GET", "HEAD"}:
            raise HttpProblem(
                405, "only GET is answered here", (("allow", "GET, HEAD"),)
            )
        await exchange.reply(status, document)
        return True


def _below_mount(exchange: Exchange) -> str:
    """Return the path without that of the mount, which some servers leave in it."""
    path = exchange.path
    root: str = exchange.scope.get("root_path", "")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in {"", "/"}:
        return path[len(root) :]
    return path


_ORIGIN: Final = "origin"
_ASKED_VERB: Final = "access-control-request-method"
_ASKED_NAMES: Final = "access-control-request-headers"

_EXPOSED: Final = b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After"
_VERBS: Final = b"POST, GET, DELETE"
_REMEMBERED_S: Final = b"600"


class RequestGuard:
    """Lets requests in; see the module's text.

    Args:
        hosts: The names that the server is asked by (`OriginPolicy`).
        origins: The pages that may ask (`OriginPolicy`).
        cors: Whether browsers are told that those pages may ask and read the answers;
            origins, which are allowed then, stand for ``True``.
        auth: Who may ask at all.
        bound: The name that the server was told to listen on.

    Raises:
        ValueError: A host or origin is none.
    """

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
            origins = (*(origins or ()), *_several(cors))
        self._admission = OriginPolicy(
            None if hosts is None else _several(hosts),
            None if origins is None else _several(origins),
        )
        self._has_cors = cors is not False
        self._auth = auth
        # Also the name that its own resource has: clients know it by that one.
        resource = None if auth is None else urlsplit(auth.resource).hostname
        self._names = tuple(name for name in (bound, resource) if name)
        self._credentials = CREDENTIALS if auth is None else auth.credential_headers

    def check_origin(self, exchange: Exchange) -> None:
        """Check where a request comes from.

        Raises:
            HttpProblem: It comes from where it must not.
        """
        headers = exchange.headers.joined
        origin = headers.get(_ORIGIN)
        host = headers.get("host")
        server = exchange.scope.get("server")
        refuse = self._admission.refusal
        refusal = refuse(host, origin, server[0] if server else None)
        if refusal is not None and any(
            refuse(host, origin, name) is None for name in self._names
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
        """Tell whether a browser asks what it may ask, and is to be told."""
        return (
            exchange.verb == "OPTIONS"
            and self._has_cors
            and exchange.headers.get(_ORIGIN) is not None
            and exchange.headers.get(_ASKED_VERB) is not None
        )

    async def answer_preflight(self, exchange: Exchange) -> None:
        """Tell a browser that it may send what MCP needs."""
        asked = (exchange.headers.get(_ASKED_NAMES) or "").split(",")
        # A tool's arguments may have headers of any name, so there is no list of them.
        names = [name for each in asked if is_token(name := each.strip(" \t"))]
        exchange.extra += [
            (b"access-control-allow-methods", _VERBS),
            (b"access-control-allow-headers", ", ".join(names).encode("ascii")),
            (b"access-control-max-age", _REMEMBERED_S),
        ]
        await exchange.reply(204)

    @property
    def has_auth(self) -> bool:
        """Whether it matters who asks."""
        return self._auth is not None

    async def identify(self, exchange: Exchange) -> None:
        """Find out who asks, and set the exchange's `principal`.

        Raises:
            HttpProblem: Nobody who may.
        """
        exchange.credentials = self._credentials
        if self._auth is None:
            return
        from mcpwire.server.auth.resource_server import client_address  # few have auth

        client = exchange.scope.get("client")
        client_address.set(client[0] if client else "")
        try:
            exchange.principal = await self._auth.authenticate(
                exchange.headers, exchange.verb, _url_of(exchange)
            )
        except HttpRefusal as refusal:
            raise as_problem(refusal) from refusal


def as_problem(refusal: HttpRefusal) -> HttpProblem:
    """Return a refusal that knows its status as a problem of HTTP."""
    error = refusal if isinstance(refusal, RPCError) else InvalidRequest(str(refusal))
    return HttpProblem(refusal.http_status, error, refusal.http_headers)


def _url_of(exchange: Exchange) -> str:
    """Return the URL that was asked for, as far as a server knows it."""
    scope: Mapping[str, Any] = exchange.scope
    query: str = scope.get("query_string", b"").decode("latin-1")
    host = exchange.headers.get("host") or ""
    url = f"{scope.get('scheme', 'http')}://{host}{scope['path']}"
    return f"{url}?{query}" if query else url


def _several(values: Iterable[str]) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(values)


access_logger = logging.getLogger("mcpwire.access")

SHOWN: Final = 80
REASON_SHOWN: Final = 200

LINE_SHOWN: Final = 2_000
"""Characters: what a pipe takes without blocking is longer (`PIPE_BUF`)."""

_NOT_ANSWERED: Final = 499  # as web servers log a client that did not wait

_NAMES: Final = ("name", "uri", "taskId")
"""The params that say what a method is about."""


def is_read() -> bool:
    """Tell whether anybody reads the lines."""
    return access_logger.isEnabledFor(logging.INFO)


@contextlib.contextmanager
def told_on_stderr() -> Iterator[None]:
    """Write the lines to stderr, unless the program's own logging reads them."""
    if is_read() or sys.stderr is None:
        yield
        return
    handler = _OnStderr()
    handler.setFormatter(logging.Formatter("mcpwire: %(message)s"))
    before = access_logger.level, access_logger.propagate
    access_logger.addHandler(handler)
    access_logger.setLevel(logging.INFO)
    access_logger.propagate = False
    try:
        yield
    finally:
        access_logger.removeHandler(handler)
        access_logger.level, access_logger.propagate = before


class _OnStderr(logging.StreamHandler[Any]):
    """Leaves lines out while stderr is a full pipe: writing would stop the server."""

    _left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, if it can be written at once."""
        if not _takes_more(self.stream):
            self._left_out += 1
            return
        super().emit(record)
        self._left_out = 0

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and how many before it were not written."""
        line = super().format(record)[:LINE_SHOWN]
        if self._left_out:
            line += f" ({self._left_out} more were not written)"
        return line


def _takes_more(stream: Any) -> bool:
    """Tell whether a line can be written without waiting for its reader."""
    if not hasattr(select, "poll"):
        return True  # Windows
    poll = select.poll()
    try:
        poll.register(stream.fileno(), select.POLLOUT)
    except (AttributeError, OSError, ValueError):
        return True  # it is no file
    return bool(poll.poll(0))


class Access:
    """Writes the line of one request."""

    __slots__ = ("_about", "_started")

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._about = ""

    def note(self, value: Any) -> None:
        """Take note of what the body says: a decoded message, or anything else."""
        if type(value) is not dict:
            return
        method = value.get("method")
        if type(method) is not str:
            return
        self._about = f" {_show(method)}"
        params = value.get("params")
        if type(params) is dict:
            for key in _NAMES:
                if type(params.get(key)) is str:
                    self._about += f" {_show(_without_query(params[key]))}"
                    break

    def write(self, exchange: Exchange) -> None:
        """Write the line: it has been answered."""
        client = exchange.scope.get("client")
        access_logger.info(
            "%s %s %s%s %d %.1f ms%s",
            _show(client[0]) if client else "-",
            exchange.verb,
            _show(exchange.path),
            self._about,
            exchange.status or _NOT_ANSWERED,
            (time.perf_counter() - self._started) * 1000,
            _reason(exchange.refusal),
        )


def _reason(refusal: bytes | None) -> str:
    """Return why a request was refused, as the end of its line."""
    try:
        said = loads(refusal) if refusal else None
    except JSONDecodeError:
        return ""
    error = said.get("error") if type(said) is dict else None
    message = error.get("message") if type(error) is dict else None
    if type(message) is not str:
        return ""
    shown = message[:REASON_SHOWN] + ("..." if len(message) > REASON_SHOWN else "")
    return f": {shown if shown.isascii() and shown.isprintable() else ascii(shown)}"


def _without_query(text: str) -> str:
    # A URI may carry credentials there.
    return text.partition("?")[0].partition("#")[0]


def _show(text: str) -> str:
    shown = text[:SHOWN] + ("..." if len(text) > SHOWN else "")
    is_plain = shown.isascii() and shown.isprintable() and " " not in shown
    return shown if is_plain else ascii(shown)
