"""One session with an MCP server over HTTP, or one origin where there are no sessions.

Each request of MCP is an HTTP request of its own, and its answer comes back on it::

    call ─► POST ─► JSON ───────────────────────────────► result
                 └► stream ─► …events… ─► answer ───────► result
                       └► cut off ─► GET with its place ─► …events… ─► result

A session that the server has forgotten is lost: calls that were open go on until each
has its own answer, and whoever owns the channel opens another for the next.
"""

from __future__ import annotations

import logging
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    CallCancelled,
    ConnectionClosed,
    InternalError,
    LocalProtocolError,
    MCPError,
    RPCError,
    SessionExpired,
    TooManyQuestions,
    TransportError,
)
from mcpwire.protocol.deadline import Deadline
from mcpwire.protocol.http.answer import LISTEN, CallReply
from mcpwire.protocol.http.heads import Heads
from mcpwire.protocol.http.mirror import Mirror
from mcpwire.protocol.http.reply import NoticeReply, Reply
from mcpwire.protocol.http.request import LAST_WORDS, Request
from mcpwire.protocol.negotiation import META
from mcpwire.protocol.owner import TOO_MANY, PeerStats
from mcpwire.transports._fork import let_go_after_fork
from mcpwire.transports.callbacks import stay_for
from mcpwire.transports.http.streamable.going_on import GoingOn, encode_call
from mcpwire.transports.http.streamable.shell import Shell
from mcpwire.versions import Era
from mcpwire.wire import jsonrpc
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.limits import Limits, Recovery
    from mcpwire.transports.base import CallHandle, Inbound, NotifyFn
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.streamable.inbound import Opening
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.tracing import Trace
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

    Fields = tuple[tuple[str, str], ...]

__all__ = ["HttpChannel"]

logger = logging.getLogger("mcpwire")

NOTICE_S: Final = 30.0
"""How long the server may take to accept a notification or an answer of ours."""

CLOSE_S: Final = 2.0
"""How long closing waits until the server has heard the last, and ended the session."""

UNSAID: Final = 4_096
"""How many answers and notices wait for a server that is slow to take them."""

TELLING: Final = frozenset({"initialize", "tools/list"})
"""Requests whose answers say something for those to come."""

NEVER_CANCELLED: Final = frozenset({"initialize"})


class HttpChannel(GoingOn):
    """A `Channel` over Streamable HTTP.

    Attributes:
        target: The URL, without secrets.
        role: ``"client"``.
        stats: What came in beside plain answers.
        reset_on_progress: Whether a call's own notifications extend its deadline.
    """

    role = "client"

    def __init__(
        self,
        target: Http,
        engine: Engine,
        inbound: Inbound,
        *,
        limits: Limits,
        recovery: Recovery,
    ) -> None:
        self._http = target
        self._engine = engine
        self._told = inbound
        self._waiting: dict[int, Any] = {}
        self._shell = Shell(self._waiting, self._expire, limits)
        self._shell.follow(engine)
        self._heads = Heads(target.parsed, dict(target.static_headers))
        self._mirror = Mirror(self._dropped_tool)
        self._ids = count(1)
        self._notices = count(1)
        self._last_id = 0
        self._era: Era | None = None
        self._common_start: bytes | None = None
        """The head of all requests, where no function of the user's is asked for more;
        ``None`` until the revision is agreed on."""
        self._mirrors = False
        self._dead: TransportError | None = None
        self._closed_by_us = False
        self._is_over = False
        self._trace: Trace | None = None
        self.is_watched = False
        self._asked: dict[RequestId, tuple[Reply, list[CallReply]]] = {}
        self._opening: Opening | None = None
        self._streams: set[Reply] = set()
        self._unsaid: deque[tuple[str, bytes, Mapping[str, str] | None]] = deque()
        self._speakers = 0
        self.target = str(target)
        self.limits = limits
        self.recovery = recovery
        self.stats = PeerStats()
        self.reset_on_progress = False
        let_go_after_fork(self)

    def __repr__(self) -> str:
        """Return one readable line."""
        state = "closed" if self._dead is not None else "open"
        return f"<{type(self).__name__} {self.target} {state}, {self._calls()} calls>"

    def _calls(self) -> int:
        return sum(id > 0 for id in list(self._waiting))

    # What is known of it...

    @property
    def lost(self) -> TransportError | None:
        """Why it takes no more calls; ``None`` while it does."""
        return self._dead

    @property
    def is_busy(self) -> bool:
        """Whether calls are open on it."""
        return bool(self._waiting)

    @property
    def revision(self) -> Revision | None:
        """What is spoken; ``None`` until the handshake has decided."""
        return self._heads.revision

    @revision.setter
    def revision(self, revision: Revision | None) -> None:
        self._heads.revision = revision
        self._era = revision.era if revision is not None else None
        self._note_start()

    def _note_start(self) -> None:
        is_common = self._era is not None and self._http.has_static_headers
        self._common_start = self._heads.post() if is_common else None
        self._mirrors = self._era is Era.STATELESS

    @property
    def session_id(self) -> str | None:
        """What the server calls this session, where it has one."""
        return self._heads.session_id

    @property
    def bytes_sent(self) -> int:
        """Bytes that the operating system has taken."""
        return self._engine.bytes_sent

    @property
    def requests_sent(self) -> int:
        """Requests that were begun."""
        return self._last_id

    # Our calls...

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        deadline: Deadline | None,
        handle: CallHandle | None = None,
        on_notification: NotifyFn | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Perform a request; see `Channel.call`."""
        shell = self._shell
        if self._dead is not None or not shell.is_here():
            raise self._refusal()
        id = self._last_id = next(self._ids)
        reply = CallReply(self, method, id, deadline, handle, on_notification)
        # What `encode_call` does, without its call where nothing is to be added.
        body = (
            encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            if params is not None and on_notification is None
            else encode_call(reply, params)
        )
        request = Request(b"", body)
        self._waiting[id] = reply
        if handle is not None:
            handle.request_id = id
        if deadline is not None and deadline.at < shell.clock.at:
            shell.clock.arm(deadline.at)
        try:
            start = self._common_start
            if start is None or headers is not None or self._trace is not None:
                start = await self._composed(reply, request, params, headers)
            elif self._mirrors:
                start = self._mirror.start(start, method, params)
            request.start = start
            broken = None
            try:
                await self._engine.exchange(request, reply, deadline)
            except MCPError as error:
                broken = _broken_off(reply, error)
            result = reply.result
            if result is None:
                result = await self._go_on(reply, request, params, broken)
        except BaseException as error:
            self._gave_up(reply, request, error)
            raise
        finally:
            self._waiting.pop(reply.id, None)
            if reply.holds or reply.timer is not None or shell.has_waiter:
                self._end(reply)
        return self._learn(reply, result) if method in TELLING else result

    async def _composed(
        self,
        reply: CallReply,
        request: Request,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> bytes:
        """Return the head of a request that is not the common one, or is watched."""
        reply.headers = headers
        extra = await self._own_fields(reply)
        request.start = self._start(reply.what, params, extra)
        if self._trace is not None:
            self._watch_request(request)
        return request.start

    def _end(self, reply: Reply) -> None:
        """Let go of what may be left of an exchange that is over, however it ended."""
        if reply.timer is not None:
            reply.timer.cancel()
        if isinstance(reply, CallReply):
            self._let_go(reply)
        if self._shell.has_waiter and not self._waiting:
            self._shell.quiet()

    def _learn(self, reply: CallReply, result: dict[str, Any]) -> dict[str, Any]:
        """Take note of what an answer says for the requests to come."""
        if reply.what == "initialize":
            self._note_session(reply)
            self._note_start()
        elif self._era is Era.STATELESS:
            return self._mirror.learn(result)
        return result

    def _start(
        self, method: str, params: Mapping[str, Any] | None, extra: Fields
    ) -> bytes:
        """Return request line and fields of the POST of a request."""
        if self._era is Era.SESSION:
            return self._heads.post(extra)
        if self._era is None:
            version = _version_in(params)
            if version is None:  # 2025-11-25: `initialize` names none in its head
                return self._heads.post(extra)
            start = self._heads.post(extra, version=version)
        else:
            start = self._heads.post(extra)
        return start + self._mirror.lines(method, params)

    def _dropped_tool(self, name: str, reason: str) -> None:
        # 2026-07-28 basic/transports/streamable-http, "Client Behavior".
        logger.warning("tool %r of %s is left out: %s", name, self.target, reason)

    async def _own_fields(self, reply: Reply) -> Fields:
        """Return the user's fields for one request beside those that never change.

        A function of the user's is asked for each request anew.

        Raises:
            LocalProtocolError: One of them may not be sent.
        """
        own: Fields = ()
        given = self._http.headers
        if callable(given):
            own = self._http.check(await self._shell.settled(reply, given()))
        headers = reply.headers
        return own if not headers else (*own, *self._http.check(headers))

    def _gave_up(
        self, reply: CallReply, request: Request, error: BaseException
    ) -> None:
        """Tell the server of a call that ends without its answer, where it may be told.

        2026-07-28 basic/patterns/cancellation: closing the stream says it; before, a
        notification does, and closing says nothing.
        """
        if isinstance(error, RPCError):
            return
        self.stats.unanswered += 1
        if self._closed_by_us or self._era is not Era.SESSION or not request.start:
            return
        if isinstance(error, MCPError):
            if isinstance(error, CallCancelled):
                reason = error.reason or "cancelled"
            elif isinstance(error, TooManyQuestions):
                reason = TOO_MANY
            elif isinstance(error, TimeoutError):
                reason = "timeout"
            else:
                return
        else:
            reason = "the caller cancelled"
        if reply.what not in NEVER_CANCELLED:
            params = {"requestId": reply.id, "reason": reason}
            body = encode(jsonrpc.notification("notifications/cancelled", params))
            self._say("cancelling", body, reply.headers)

    def cancel(self, handle: CallHandle, reason: str = "cancelled") -> bool:
        """End the call with that handle: it raises `CallCancelled`, the server is told.

        A call that has ended, or has not begun, is left alone. Returns whether there
        was one to end.
        """
        id = handle.request_id
        reply = self._waiting.get(id) if type(id) is int else None
        if reply is None or reply.handle is not handle:
            return False
        return self.cancel_id(id, reason)

    def cancel_id(self, id: RequestId | None, reason: str = "cancelled") -> bool:
        """End the call with that id, as `cancel` does."""
        reply = self._waiting.get(id) if type(id) is int else None
        if reply is None or type(id) is not int or id <= 0:  # what is no call's
            return False
        return self._abort(reply, CallCancelled(reply.what, reason=reason))

    def _abort(self, reply: Reply, error: MCPError) -> bool:
        if reply.aborted is not None:
            return False
        reply.aborted = error
        return self._engine.abort(reply, error) or self._shell.abort(reply, error)

    def _expire(self, _: int, reply: Any, now: float) -> None:
        self._abort(reply, reply.out_of_time(now))

    def _refusal(self) -> MCPError:
        """Say why a call cannot even begin."""
        return self._shell.refusal() or self._closed_error(sent=False)

    def _closed_error(self, *, sent: bool) -> TransportError:
        dead = self._dead
        if isinstance(dead, SessionExpired) and not sent:  # else it may have run
            return SessionExpired(str(dead), target=self.target)
        why = "closed by this side"
        if dead is not None and not self._closed_by_us:
            why = str(dead.args[0])
        return ConnectionClosed(
            f"the connection to {self.target} is closed: {why}",
            target=self.target,
            sent=sent,
        )

    # Notifications and answers of ours...

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification, and wait until the server accepts it."""
        if self._dead is not None or not self._shell.is_here():
            raise self._refusal()
        body = encode(jsonrpc.notification(method, params))
        error = await self._post(method, body, headers)
        if error is not None:
            raise error

    async def _post(
        self,
        what: str,
        body: bytes,
        headers: Mapping[str, str] | None,
    ) -> MCPError | None:
        """Post what gets no answer; return why it was not accepted, if it was not.

        `headers` are those of the call it belongs to, or its own.

        Raises:
            TransportError: The server could not be reached.
        """
        deadline = Deadline(self._shell.time(), NOTICE_S)
        reply = NoticeReply(self, what, deadline)
        key = -next(self._notices)
        self._waiting[key] = reply
        if deadline.at < self._shell.clock.at:
            self._shell.clock.arm(deadline.at)
        try:
            reply.headers = headers
            start = self._heads.post(await self._own_fields(reply))
            if self._era is Era.STATELESS:
                start += self._mirror.lines(what, None)
            await self._exchange(reply, Request(start, body))
        finally:
            self._waiting.pop(key, None)
            self._end(reply)
        return None if reply.error is None else self._judged(reply, reply.error)

    def _say(self, what: str, body: bytes, headers: Mapping[str, str] | None) -> None:
        """Post something that nobody waits for: a few at once, the others behind.

        Of a server that asks faster than it takes the answers, the rest is not
        answered.
        """
        if len(self._unsaid) >= UNSAID:
            logger.debug("%s: dropped, for the server does not listen", what)
            return
        self._unsaid.append((what, body, headers))
        if self._speakers >= self.limits.inbound:
            return
        self._speakers += 1
        stay_for(self._shell.spawn(self._speak))

    async def _speak(self) -> None:
        while True:
            if not self._unsaid:
                self._speakers -= 1
                return
            what, body, headers = self._unsaid.popleft()
            try:
                error = await self._post(what, body, headers)
            except MCPError as raised:
                error = raised
            except Exception:  # a function for headers may raise anything
                logger.exception("%s: there are no headers", what)
                continue
            if error is not None:
                logger.debug("%s: %s", what, error)

    def _answer(
        self, id: RequestId, reply: Reply, answer: dict[str, Any] | RPCError
    ) -> None:
        """Send the answer to a request of the server's, with that call's own fields."""
        try:
            if isinstance(answer, RPCError):
                body = encode(jsonrpc.failure(id, answer))
            else:
                body = encode(jsonrpc.success(id, answer))
        except LocalProtocolError as error:
            refusal = InternalError(f"the answer could not be encoded: {error}")
            body = encode(jsonrpc.failure(id, refusal))
        self._say("answering", body, reply.headers)

    # The end...

    def _lose(self, error: TransportError) -> None:
        """Take no more calls; those that are open go on."""
        if self._dead is None:
            self._dead = error
            if not self._closed_by_us:
                self._told.lost(error)
                # Whoever hears of it answers nothing any more: no clock waits for that.
                for id in list(self._asked):
                    self._release(id)
                # A new channel asks for whatever somebody listens to.
                for reply in list(self._waiting.values()):
                    if reply.what == LISTEN:
                        self._abort(reply, self._closed_error(sent=True))

    def give_up(self, error: TransportError) -> None:
        """Take the session for lost, though it has not ended by itself."""
        self._lose(error)
        self._abort_all()

    def _abort_all(self) -> None:
        """End the calls and the server's own stream; what only tells goes on."""
        calls = [
            reply
            for id, reply in list(self._waiting.items())
            if id > 0 and reply.what not in LAST_WORDS
        ]
        for reply in (*calls, *list(self._streams)):
            self._abort(reply, self._closed_error(sent=True))

    async def drain(self) -> None:
        """Close it as soon as no call is open on it any more."""
        try:
            if self._waiting:
                await self._shell.until_quiet()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End the session; calls still open fail with `ConnectionClosed`.

        The server is told once, and waited for two seconds at most.
        """
        if self._is_over:
            return
        self._is_over = True
        is_live = self._dead is None
        self._closed_by_us = True
        self._lose(TransportError("closed by this side", target=self.target))
        until = self._shell.time() + CLOSE_S
        try:
            # What was said last, such as that a call is given up, goes out before.
            self._abort_all()
            await self._shell.settle(until - CLOSE_S / 2)
            if is_live and self._era is Era.SESSION and self.session_id is not None:
                self._shell.spawn(self._delete)
            await self._shell.settle(until)
        finally:
            self._shell.clock.stop()
            for reply in list(self._waiting.values()):
                self._abort(reply, self._closed_error(sent=True))
            await self._shell.stop()
            await self._engine.aclose()

    async def _delete(self) -> None:
        """Tell the server that the session is over; whatever it says is fine.

        2025-11-25 basic/transports, "Session Management": it may answer 405; 404 and
        501 say as much.
        """
        reply = NoticeReply(self, "DELETE", Deadline(self._shell.time(), CLOSE_S))
        try:
            extra = await self._own_fields(reply)
            await self._exchange(reply, Request(self._heads.delete(extra)))
        except MCPError as error:
            logger.debug("DELETE: %s", error)
        except Exception:  # a function for headers may raise anything
            logger.exception("DELETE: there are no headers")
        else:
            if reply.error is not None:
                logger.debug("DELETE: %s", reply.error)

    def abandon(self) -> None:
        """Let go of the connections now, from anywhere: a finaliser cannot wait."""
        self._closed_by_us = self._is_over = True
        if self._dead is None:
            self._dead = TransportError("abandoned", target=self.target)
        self._shell.clock.stop()
        self._engine.abandon()
        error = self._closed_error(sent=True)
        for reply in (*list(self._streams), *list(self._waiting.values())):
            reply.aborted = reply.aborted or error
            self._shell.abort(reply, error)  # what lets time pass just now

    def forked(self) -> None:
        """Refuse every use: this process was forked off the one that connected."""
        self._shell.forked()
        forked = getattr(self._engine, "forked", self._engine.abandon)
        forked()
        self._closed_by_us = self._is_over = True
        if self._dead is None:
            self._dead = TransportError("left to the parent", target=self.target)


def _broken_off(reply: Reply, error: MCPError) -> ConnectionClosed | None:
    """Return what broke an exchange off; ``None``: the reply says itself what it was.

    Raises:
        MCPError: It is neither.
    """
    if isinstance(error, ConnectionClosed):
        return error
    if error is reply.error:
        return None
    raise error


def _version_in(params: Mapping[str, Any] | None) -> str | None:
    """Return the revision that a request of the handshake names for itself."""
    meta = params.get("_meta") if params is not None else None
    version = meta.get(META + "protocolVersion") if type(meta) is dict else None
    return version if type(version) is str else None
