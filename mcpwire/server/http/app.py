"""The ASGI application: what comes to which part of the server, and when it ends.

::

    lifespan ─► start, drain                   optional: the first request starts, too
    http ──► health, ready
        └──► Door: Host, Origin, CORS, who asks    a head like one before: who asks
              └──► endpoint: POST ─► Stateless   what stands alone
                                  └► Sessions    what belongs to a session
                             GET, DELETE ─► Sessions

In which order a POST is looked at stands in `protocol.request_validation`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Literal

from mcpwire.errors import InternalError, InvalidRequest
from mcpwire.protocol.request_validation import (
    EVENT_STREAM,
    UnreadableMessage,
    accepts,
    check_formats,
    is_json,
    is_stateless,
    read_json,
    read_message,
)
from mcpwire.server.http.accepted import Accepted, Head
from mcpwire.server.http.access import Access, is_read
from mcpwire.server.http.exchange import ClientGone, Exchange, HttpProblem
from mcpwire.server.http.life import Life
from mcpwire.server.http.places import Place, Places
from mcpwire.server.http.security import Door
from mcpwire.server.http.stateless import RETRY_AFTER, SHUTTING_DOWN, Stateless
from mcpwire.server.http.timers import Clocks
from mcpwire.server.log_limit import LimitedLogger, place_of
from mcpwire.versions import Era
from mcpwire.wire.jsonrpc import failure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.server.http.events import EventStore
    from mcpwire.server.http.exchange import Receive, Scope, Send
    from mcpwire.wire.json import Json

__all__ = ["AsgiApp"]

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
        self._clocks = Clocks(
            reading=limits.body_timeout,
            upgrade=stream_after,
            beat=heartbeat,
            unread=limits.unwritten_total,
        )
        self._door = Door(
            hosts=allowed_hosts,
            origins=allowed_origins,
            cors=cors or False,
            auth=dispatcher.auth,
            bound=bound,
        )
        self._accepted = Accepted()
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
        self._life = Life(
            dispatcher,
            self._stateless,
            (self._sessions, self._legacy),
            self._clocks,
        )
        self._places = Places(
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
        headers = self._accepted.read(scope["headers"])
        exchange = Exchange(
            scope, receive, send, self.limits, self._clocks, headers=headers
        )
        access = Access() if is_read() else None
        self._life.begin(exchange)
        try:
            head = self._accepted.find(exchange)
            if head is None:
                head = await self._let_in(exchange)
            elif head.extra or self._door.has_auth or not self._life.is_started:
                await self._let_in_again(exchange, head)
            if head is not None:
                await self._post(exchange, head, access)
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

    async def _let_in_again(self, exchange: Exchange, head: Head) -> None:
        """Let in a POST to the endpoint whose like was let in before.

        Raises:
            HttpProblem: Whoever asks may not, or not now.
        """
        exchange.extra = list(head.extra)
        if not self._life.is_started and not self._life.is_draining:
            await self._life.start()
        await self._door.identify(exchange)

    async def _let_in(self, exchange: Exchange) -> Head | None:
        """Look at a request's head; ``None``: it was no POST, and is answered.

        Raises:
            HttpProblem: It is refused.
        """
        exchange.check_framing()
        place = self._places.find(exchange)
        if place is not Place.ENDPOINT and await self._places.show(place, exchange):
            return None
        door = self._door
        door.check_origin(exchange)
        if place is None:
            raise self._places.missing(exchange)
        if door.is_preflight(exchange):
            await door.answer_preflight(exchange)
            return None
        is_post = place is Place.ENDPOINT and exchange.verb == "POST"
        if self._life.is_draining and not is_post:
            raise _shutting_down()
        if not self._life.is_started and not self._life.is_draining:
            await self._life.start()
        await door.identify(exchange)
        if is_post:
            return self._check_formats(exchange)
        if place is not Place.ENDPOINT:
            await self._serve_legacy(exchange, place)
        else:
            await self._other(exchange)
        return None

    def _check_formats(self, exchange: Exchange) -> Head:
        """Check the rest of the head of a POST to the endpoint, and remember all of it.

        Raises:
            HttpProblem: It is refused.
        """
        refusal = check_formats(exchange.headers, is_json_only=self._is_json_only)
        if refusal is not None:
            raise HttpProblem(*refusal)
        head = Head(tuple(exchange.extra), self._stands_alone(exchange))
        self._accepted.remember(exchange, head)
        return head

    async def _post(
        self, exchange: Exchange, head: Head, access: Access | None
    ) -> None:
        value = read_json(await exchange.body(), exchange.limits.values)
        if access is not None:
            access.note(value)
        # What runs may wait for the client's answer, which is nothing new.
        if self._life.is_draining and not _is_answer(value):
            raise _shutting_down()
        if head.is_stateless or self._opens_alone(value):
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
