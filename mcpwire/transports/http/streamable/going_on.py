"""What a channel does when an exchange did not simply bring the answer.

::

    cut off ──► a place is known, in a session ──► GET from there, as often as it takes
        └─────► a listen of the stateless era ───► asked for again, under a new id
        └─────► ConnectionClosed(sent=True): it may have run
    error ────► 307, 308 where that is allowed ──► the same request, to there
        └─────► the session is forgotten, or the era is another: this channel is lost
"""

from __future__ import annotations

import logging
from random import random
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    AuthError,
    ConnectError,
    ConnectionClosed,
    HTTPError,
    MCPError,
    RemoteProtocolError,
    SessionExpired,
)
from mcpwire.protocol.http import exchange
from mcpwire.protocol.http.answer import LISTEN
from mcpwire.protocol.http.backoff import StreamBackoff, parse_retry_after
from mcpwire.protocol.http.redirects import (
    MAX_REDIRECTS,
    redirect_refusal,
    redirect_target,
)
from mcpwire.protocol.http.repeat import DECLINING_STATUSES, PASSING_STATUSES
from mcpwire.protocol.http.reply import Reply, StreamReply
from mcpwire.protocol.http.request import Request
from mcpwire.transports.http.streamable.inbound import OPENING_S, HttpInbound, Opening
from mcpwire.versions import Era
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcpwire.errors import TransportError
    from mcpwire.protocol.http.answer import CallReply
    from mcpwire.protocol.http.heads import Heads
    from mcpwire.protocol.http.resume import Resumption
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.target import Http

    Fields = tuple[tuple[str, str], ...]

__all__ = ["GoingOn", "encode_call"]

logger = logging.getLogger("mcpwire")

SAYING_WHY_S: Final = 0.2
"""How long the body of an error may take: it can complete nothing."""

DECIDING_S: Final = 5.0
"""The same where it may tell of which era the server is."""


class GoingOn(HttpInbound):
    """The part of a channel that takes more than one HTTP request for one call."""

    _closed_by_us: bool
    _dead: TransportError | None
    _engine: Engine
    _heads: Heads
    _http: Http
    _ids: Iterator[int]
    _last_id: int
    _streams: set[Reply]

    if TYPE_CHECKING:
        # What the channel itself brings.
        def _lose(self, error: TransportError) -> None: ...

        def _start(
            self, method: str, params: Mapping[str, Any] | None, extra: Fields
        ) -> bytes: ...

        async def _own_fields(self, reply: Reply) -> Fields: ...

    async def _exchange(self, reply: Any, request: Request) -> None:
        """Send a request; follow redirects where the target allows that."""
        for _ in range(MAX_REDIRECTS + 1):
            if self._trace is not None:
                self._watch_request(request)
            if reply.aborted is not None:
                raise reply.aborted
            try:
                await self._engine.exchange(request, reply, reply.deadline)
            except MCPError as error:
                if error is not reply.error:
                    raise
            there = self._redirected(reply, request)
            if there is None:
                return
            request = there
            reply.restart()
        raise RemoteProtocolError(f"{reply.what}: more than {MAX_REDIRECTS} redirects")

    def _redirected(self, reply: Reply, request: Request) -> Request | None:
        """Return the request to where the answer points, if that may be followed.

        Raises:
            UrlRefused: It has credentials, and they are for another path or query.
        """
        if not self._http.follow_redirects or not 300 <= reply.status < 400:
            return None
        url = redirect_target(
            self._http.parsed, reply.status, _field(reply, b"location"), allowed=True
        )
        if url is None:
            return None
        from mcpwire.transports.http.destination import redirected

        return redirected(self._http, request, url.target)

    def why_not_followed(self, reply: Reply) -> str:
        """Say why the redirect that came is not followed; empty: it is."""
        why = redirect_refusal(
            self._http.parsed,
            reply.status,
            _field(reply, b"location"),
            allowed=self._http.follow_redirects,
        )
        return why or ""

    # Calls...

    async def _go_on(
        self,
        reply: CallReply,
        request: Request,
        params: Mapping[str, Any] | None,
        broken: ConnectionClosed | None,
    ) -> dict[str, Any]:
        """Bring a call to its result that one exchange did not bring.

        Raises:
            MCPError: It has none.
        """
        there = self._redirected(reply, request)
        if there is not None:
            reply.restart()
            broken = await self._try(reply, there)
        while reply.result is None:
            if reply.error is not None and not self._is_declined(reply):
                raise self._judged(reply, reply.error)
            if reply.aborted is not None:
                raise reply.aborted
            if broken is not None:
                reply.broke()
            if self._may_resume(reply):
                broken = await self._resume(reply, broken)
            elif self._may_ask_again(reply):
                broken = await self._ask_again(reply, params, broken)
            else:
                raise self._cut_off(reply, broken)
        return reply.result

    async def _try(self, reply: CallReply, request: Request) -> ConnectionClosed | None:
        """Send a request of a call; return what broke it off, if something did."""
        try:
            await self._exchange(reply, request)
        except ConnectionClosed as error:
            return error
        return None

    def _cut_off(
        self, reply: CallReply, broken: ConnectionClosed | None
    ) -> ConnectionClosed:
        """Build the error for a call whose answer can never come."""
        if broken is not None and not reply.status:
            return broken
        why = "the stream ended" if broken is None else str(broken)
        error = ConnectionClosed(
            f"{reply.what}: {why} without the answer", target=self.target, sent=True
        )
        error.__cause__ = broken
        return error

    # A broken stream of a session...

    def _may_resume(self, reply: CallReply) -> bool:
        """Tell whether a broken stream can be gone on with.

        2025-11-25 basic/transports, "Resumability and Redelivery": from an event id.
        2026-07-28 has no such thing.
        """
        place = reply.resumption
        return (
            place is not None
            and place.cursor != ""
            and self.recovery.resume
            and self._era is not Era.STATELESS
            and not self._closed_by_us
        )

    async def _resume(
        self, reply: CallReply, broken: ConnectionClosed | None
    ) -> ConnectionClosed | None:
        """Wait as long as the server wishes, and ask for the rest of the stream."""
        place = reply.resumption
        assert place is not None
        now = self._shell.time()
        place.ended(now, failed=broken is not None, retry_after=_retry_after(reply))
        delay = place.delay(now, random())  # noqa: S311 - jitter
        if delay is None:
            raise self._cut_off(reply, broken)
        await self._shell.pause(reply, delay)
        if reply.what == "initialize":  # the rest of it is of the session it began
            self._note_session(reply)
        reply.restart()
        reply.is_resumed = True
        openings = reply.openings
        start = self._heads.get(place.cursor, await self._own_fields(reply))
        try:
            await self._exchange(reply, Request(start))
        except (AuthError, ConnectError, ConnectionClosed) as error:
            if not _is_passing(error):
                raise
            # Whether this one was sent says nothing of the call.
            failure = ConnectionClosed(str(error), target=self.target, sent=True)
            failure.__cause__ = error
            return failure
        return self._judge_resumed(reply, openings)

    def _note_session(self, reply: CallReply) -> None:
        """Take the id of a session, which came with the first head of its answer."""
        session_id = exchange.session_id_in(reply.fields)
        if session_id is not None or not reply.is_resumed:
            self._heads.session_id = session_id

    def _judge_resumed(
        self, reply: CallReply, openings: int
    ) -> ConnectionClosed | None:
        """Say what it means that the GET of a resumption brought no stream."""
        error = reply.error
        if error is None or reply.openings > openings:  # what the stream said
            return None
        failure = ConnectionClosed(
            f"{reply.what}: the stream broke off and cannot be resumed: {error}",
            target=self.target,
            sent=True,
        )
        failure.__cause__ = error
        if reply.status in PASSING_STATUSES:
            reply.error = None
            return failure
        reply.error = failure
        return None

    # A broken listen of the stateless era...

    def _may_ask_again(self, reply: CallReply) -> bool:
        return (
            reply.what == LISTEN
            and self._era is Era.STATELESS
            and self._dead is None
            and (reply.backoff is not None or self._is_declined(reply))
        )

    def _is_declined(self, reply: CallReply) -> bool:
        """Tell whether a listen was declined, and may be asked for again."""
        error = reply.error
        if reply.what != LISTEN or not isinstance(error, HTTPError):
            return False
        declined = DECLINING_STATUSES if reply.backoff is None else PASSING_STATUSES
        return self._era is Era.STATELESS and error.status in declined

    async def _ask_again(
        self,
        reply: CallReply,
        params: Mapping[str, Any] | None,
        broken: ConnectionClosed | None,
    ) -> ConnectionClosed | None:
        """Ask for a broken subscription once more, under a new id.

        2026-07-28 basic/patterns/subscriptions: a server keeps nothing of it, and what
        happened meanwhile is not told.
        """
        if reply.backoff is None:
            reply.backoff = StreamBackoff(self.recovery)
        backoff, error = reply.backoff, reply.error
        now = self._shell.time()
        backoff.ended(now)
        place = reply.resumption
        delay = backoff.delay(
            now,
            random(),  # noqa: S311 - jitter
            retry_ms=None if place is None else place.retry_ms,
            retry_after=_retry_after(reply),
        )
        if delay is None:
            raise error or self._cut_off(reply, broken)
        await self._shell.pause(reply, delay)
        self._waiting.pop(reply.id, None)
        reply.id = self._last_id = next(self._ids)
        self._waiting[reply.id] = reply
        if reply.handle is not None:
            reply.handle.request_id = reply.id
        reply.restart()
        body = encode_call(reply, params)
        start = self._start(reply.what, params, await self._own_fields(reply))
        try:
            await self._exchange(reply, Request(start, body))
        except (AuthError, ConnectError, ConnectionClosed) as error:
            if not _is_passing(error):
                raise
            failure = ConnectionClosed(str(error), target=self.target, sent=True)
            failure.__cause__ = error
            return failure
        return None

    def doubted(self, reply: Reply) -> None:
        """Give the rest of an answer that brings nothing a moment to say why."""
        # Before the agreement the body decides what is tried next.
        seconds = SAYING_WHY_S if self._era is not None else DECIDING_S
        reply.timer = self._shell.after(seconds, self._cut_short, reply)

    def _cut_short(self, reply: Reply) -> None:
        if not reply.is_over:
            reply.cut_short()
            assert reply.error is not None
            self._engine.abort(reply, reply.error)

    def opened(self, reply: Reply) -> None:
        """Take note that a stream is open that is to last."""
        if reply.what == LISTEN and reply.openings > 1:
            self._missed()
        if self._opening is not None and isinstance(reply, StreamReply):
            self._http.memory.streamless = False
            self._opening.settle()
        if reply.backoff is None:
            reply.backoff = StreamBackoff(self.recovery)
        reply.backoff.opened(self._shell.time())

    def _missed(self) -> None:
        self._told.missed()

    # What an error says of the session...

    def _judged(self, reply: Reply, error: MCPError) -> MCPError:
        """Return what to raise for an error; the session may be lost with it."""
        if exchange.is_expired(error, has_session=self._heads.session_id is not None):
            why = f"{self.target} has forgotten the session"
        elif self._era is not None and exchange.contradicts(
            error, self._era, reply.what
        ):
            why = f"{self.target} no longer speaks {self._heads.revision}"
            self._http.memory.era = None
        elif getattr(error, "status", None) == 403:
            from mcpwire.transports.http.scopes import missing_scope

            return missing_scope(self._http, error) or error
        else:
            return error
        self._lose(SessionExpired(why, target=self.target))
        status = getattr(error, "status", None)
        expired = SessionExpired(
            f"{reply.what}: {why} (it answered {status})", target=self.target
        )
        expired.__cause__ = error
        return expired

    # The server's own stream...

    def hear(self, *, wanted: bool) -> None:
        """Open the stream for what the server says unasked, where there is one.

        2025-11-25 basic/transports, "Listening for Messages from the Server". It is
        opened beside everything else, and stays open or comes back by itself. A server
        may send requests of its own there, `ping` at least: so it is open although
        nobody listens, unless this server has answered 405 before.
        """
        if self._opening is not None or self._era is not Era.SESSION:
            return
        mode = self._http.server_stream
        if mode == "auto" and not wanted:
            opens = not self._http.memory.streamless
        else:
            opens = mode != "never"
        if not opens:
            return
        self._opening = Opening(self._shell.time() + OPENING_S)
        self._shell.spawn(self._hear_on, self._opening)

    async def _hear_on(self, opening: Opening) -> None:
        backoff = StreamBackoff(self.recovery)
        place: Resumption | None = None
        has_opened = False
        while True:
            reply = StreamReply(self, "GET")
            reply.resumption, reply.backoff = place, backoff
            self._streams = {reply}  # closing ends its pause, too
            if self._dead is not None:  # whoever closes later finds the stream
                opening.settle()
                return
            await self._hear_once(reply, backoff)
            opening.settle()
            has_opened = has_opened or reply.openings > 0
            if has_opened and reply.error is not None:
                # Where there was a stream, its 404 tells of the session: nobody else
                # may ask the server anything.
                self._judged(reply, reply.error)
            if reply.openings and not (reply.resumption and reply.resumption.cursor):
                self._missed()  # whatever the server says until it is open again
            place = reply.resumption
            now = self._shell.time()
            if place is not None:
                place.ended(now)  # the id it goes on from is no event's of the next
            backoff.ended(now)
            delay = backoff.delay(
                now,
                random(),  # noqa: S311 - jitter
                retry_ms=None if place is None else place.retry_ms,
                retry_after=_retry_after(reply),
            )
            if delay is None:
                return
            await self._shell.pause(reply, delay)

    async def _hear_once(self, reply: StreamReply, backoff: StreamBackoff) -> None:
        """Hold the stream open until it ends."""
        place = reply.resumption
        try:
            extra = await self._own_fields(reply)
            start = self._heads.get(place.cursor if place else None, extra)
            await self._exchange(reply, Request(start))
        except (ConnectError, ConnectionClosed):
            reply.broke()
        except MCPError as error:
            logger.debug("the server's stream: %s", error)
            # It lasted until what it brought went wrong, or there is no token just now.
            if not (reply.openings or getattr(error, "is_passing", False)):
                backoff.refused()
        except Exception:  # a function for headers may raise anything
            logger.exception("the server's stream: there are no headers")
        if reply.messages:
            backoff.delivered()
        if reply.error is not None and _is_final(reply.error):
            # A server without such a stream says so once, and is not asked again.
            backoff.refused()
            if reply.status == 405:
                self._http.memory.streamless = True


def encode_call(reply: CallReply, params: Mapping[str, Any] | None) -> bytes:
    """Return the body of a request.

    Raises:
        LocalProtocolError: The params are no JSON.
    """
    if reply.on_notification is not None:
        params = dict(params or {})
        params["_meta"] = {**(params.get("_meta") or {}), "progressToken": reply.id}
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": reply.id, "method": reply.what}
    if params is not None:
        message["params"] = params
    return encode(message)


def _field(reply: Reply, name: bytes) -> str | None:
    value = reply.fields.get(name)
    return None if value is None else value.decode("latin-1")


def _retry_after(reply: Reply) -> float | None:
    if reply.status < 300:
        return None
    return parse_retry_after(_field(reply, b"retry-after"), wall_time())


def _is_passing(error: MCPError) -> bool:
    """Tell whether it may go well the next time."""
    return not isinstance(error, AuthError) or error.is_passing


def _is_final(error: MCPError) -> bool:
    return not isinstance(error, HTTPError) or error.status not in PASSING_STATUSES
