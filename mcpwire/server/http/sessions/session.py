"""One session over HTTP: its running requests, its streams, what it has asked.

It is to HTTP what `server.connection` is to a duplex stream. What comes in is told to
`take`, message by message; how it came, and who may send it, is for `table`.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InternalError, InvalidRequest, LocalProtocolError, RPCError
from mcpwire.server.auth.challenges import HttpRefusal
from mcpwire.server.fair_pool import client_key
from mcpwire.server.http.sessions.answers import Answers
from mcpwire.server.http.sessions.journal import Journal
from mcpwire.server.http.sessions.outlets import Outlet
from mcpwire.server.http.sessions.questions import Questions
from mcpwire.server.http.sessions.rules import Malformed, lets_streams_pause
from mcpwire.server.http.sessions.streams import (
    STANDALONE,
    ServerStream,
    Stream,
    StreamStyle,
)
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.transports.handlers import InboundTasks
from mcpwire.wire import jsonrpc
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from mcpwire.server.auth.principal import Principal
    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.server.http.exchange import Exchange, Fields
    from mcpwire.server.http.sessions.events import EventStore
    from mcpwire.server.http.sessions.journal import Begin
    from mcpwire.server.http.sessions.rules import Posted
    from mcpwire.server.request import Owner, RequestContext, Session
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["HttpSession"]

logger = LimitedLogger("mcpwire")

INITIALIZE: Final = "initialize"

ENDED: Final = "the session ended before the answer"

CANCELLED: Final = "request cancelled"

REQUEST_CANCELLED: Final = -32800
"""The code that the Language Server Protocol has for this; MCP has none."""

ENDED_STREAMS_KEPT: Final = 256
"""Streams that have ended and of which it is known how far they went."""


def _say_nothing(_: str, __: dict[str, Any]) -> None:
    """Drop a notification: the session has ended."""


class HttpSession:
    """Serves one session; see the module's text.

    Args:
        dispatcher: Who answers.
        session: What `initialize` fixed.
        owner: The client that it counts to.
        store: Where what is sent is kept; ``None``: nowhere.
        begin: Runs what may outlive the session, for a moment.
        retry: How long a client should wait before it comes back, in seconds.
        ask_timeout: How long it may take to answer a question, in seconds.
        is_alone: Whether it is for one POST, so that nothing else ever reaches it.

    Attributes:
        session: As given.
        mark: What names it where its id, a secret, must not stand.
        outlets: How many GETs carry its streams now.
        used_at: When it was used last, by the loop's clock.
        finished: Told of it when a POST has been answered.
        is_closed: Whether it has ended.
    """

    __slots__ = (
        "__weakref__",
        "_ask_timeout",
        "_begin",
        "_can_ask",
        "_can_pause",
        "_dispatcher",
        "_ended_streams",
        "_last_stream",
        "_open",
        "_owner",
        "_questions",
        "_retry",
        "_room",
        "_server_stream",
        "_store",
        "_streams",
        "_style",
        "_tasks",
        "finished",
        "is_closed",
        "mark",
        "outlets",
        "session",
        "used_at",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        session: Session,
        *,
        owner: Owner,
        store: EventStore | None,
        begin: Begin,
        retry: float,
        ask_timeout: float | None,
        is_alone: bool = False,
    ) -> None:
        self._dispatcher = dispatcher
        self._owner = owner
        self._store = store
        self._begin = begin
        self._retry = retry
        # Made when needed: there may be 10,000 sessions, of which most are idle.
        self._tasks: InboundTasks | None = None
        self._style: StreamStyle | None = None
        self._server_stream: ServerStream | None = None
        self._open: dict[RequestId, tuple[RequestContext, Answers]] = {}
        self._questions = Questions()
        self._ask_timeout = ask_timeout
        self._can_ask = not is_alone
        self.mark = secrets.token_hex(8)
        self._can_pause = store is not None and lets_streams_pause(session.revision)
        self._streams: dict[int, Stream] = {}
        self._ended_streams: dict[int, int] = {}
        self._last_stream = STANDALONE
        self._room = dispatcher.limits.unwritten
        self.session = session
        self.outlets = 0
        self.used_at = 0.0
        self.finished: Callable[[HttpSession], object] | None = None
        self.is_closed = False
        if not is_alone:
            session.send = self.send
            session.ask = self._ask_beside

    @property
    def is_active(self) -> bool:
        """Whether something goes on in it, so that it is not idle."""
        return bool(self._open or self.outlets)

    def __len__(self) -> int:
        """Return how many requests are being answered."""
        return len(self._open)

    def belongs_to(self, principal: Principal | None) -> bool:
        """Tell whether somebody may use it: whoever opened it, and nobody else."""
        owner = self.session.principal
        if owner is None or principal is None:
            return owner is principal
        return owner.key == principal.key

    def _make_tasks(self) -> InboundTasks:
        limits = self._dispatcher.limits
        self._tasks = InboundTasks(
            limit=limits.inbound,
            backlog=limits.notifications,
            room=limits.unwritten,
        )
        return self._tasks

    @property
    def _journal(self) -> Journal | None:
        return None if self._style is None else self._style.journal

    def _style_of_streams(self) -> StreamStyle:
        if self._style is None:
            journal = None
            if self._store is not None:
                key = client_key(self.mark, self._owner)
                journal = Journal(self._store, key, self._begin, room=self._room)
            self._style = StreamStyle(self.mark, journal, self._can_pause, self._retry)
        return self._style

    @property
    def server_stream(self) -> ServerStream:
        """The stream for what belongs to no call."""
        if self._server_stream is None:
            self._server_stream = ServerStream(
                self._style_of_streams(),
                backlog=self._dispatcher.limits.notifications,
                room=self._room,
            )
        return self._server_stream

    # What the server says...

    def send(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification that belongs to no request."""
        self.server_stream.send(encode(jsonrpc.notification(method, params)))

    async def _ask(
        self, answers: Answers, method: str, params: dict[str, Any]
    ) -> dict[str, Any]:
        send = partial(self._send_beside, answers)
        return await self._questions.ask(send, method, params, self._ask_timeout)

    async def _ask_beside(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask what belongs to no request."""
        send = self.server_stream.send
        return await self._questions.ask(send, method, params, self._ask_timeout)

    def _send_beside(self, answers: Answers, data: bytes) -> None:
        # 2025-11-25 basic/transports: what the server asks for a request goes on the
        # stream of that request. That a question is withdrawn may come after its end.
        if not answers.is_over:
            answers.send(data)
        elif not self.is_closed:
            self.server_stream.send(data)

    # What the client says...

    def post(self, *, is_batch: bool = False) -> Answers:
        """Return what will answer the messages of one POST."""
        return Answers(
            self._open_stream, self._finished, room=self._room, is_batch=is_batch
        )

    def take(
        self, message: Posted, answers: Answers, exchange: Exchange, size: int = 0
    ) -> None:
        """Take one message of a POST, which was that long."""
        if isinstance(message, jsonrpc.Request):
            answers.owe()
            self._requested(message, answers, exchange, size)
        elif isinstance(message, jsonrpc.Notification):
            self._notified(message)
        elif isinstance(message, Malformed):
            self._malformed(message, answers)
        else:
            self._questions.take(message)

    def _malformed(self, message: Malformed, answers: Answers) -> None:
        if message.is_request:
            answers.owe()
            self._reply(answers, message.id, message.refusal)
        else:
            self._questions.fail(message.id, message.error)

    def _notified(self, message: jsonrpc.Notification) -> None:
        if message.method == "notifications/cancelled":
            self._cancelled(message.params or {})
        else:
            self._dispatcher.notified(self.session, message.method, message.params)

    def _cancelled(self, params: dict[str, Any]) -> None:
        """Stop the handler of a request that the client withdrew."""
        id = params.get("requestId")
        if not jsonrpc.is_request_id(id) or id not in self._open:
            return
        request, answers = self._open.pop(id)
        # 2025-11-25 basic/utilities/cancellation, "Implementation Notes".
        logger.debug("%r is cancelled: %.100r", request, params.get("reason"))
        request.is_cancelled = True
        assert self._tasks is not None  # which runs what is open
        self._tasks.cancel(id)
        if self._dispatcher.answers_cancelled:
            self._reply(answers, id, RPCError(CANCELLED, code=REQUEST_CANCELLED))
        else:
            answers.withdraw()

    def _requested(
        self, message: jsonrpc.Request, answers: Answers, exchange: Exchange, size: int
    ) -> None:
        id = message.id
        dispatcher = self._dispatcher
        params = message.params or {}
        try:
            if id in self._open:
                raise InvalidRequest("a request with this id is being answered")
            if message.method == INITIALIZE:
                again = dispatcher.initialize(params, self.session, exchange.info)
                self._reply(answers, id, again[1])
                return
            if answers.is_batch and dispatcher.opens_alone(params):
                raise InvalidRequest("what stands alone is not part of a batch")
            request = dispatcher.admit(
                id,
                message.method,
                params,
                self.session,
                partial(self._notify, answers),
                ask=partial(self._ask, answers) if self._can_ask else None,
                info=(
                    exchange.facts_with(answers.pause)
                    if self._can_pause
                    else exchange.info
                ),
            )
            result = dispatcher.answer_now(request, params)
        except RPCError as error:
            self._reply(answers, id, error)
            return
        if result is not None:
            self._reply(answers, id, result)
            return
        self._open[id] = request, answers
        tasks = self._make_tasks() if self._tasks is None else self._tasks
        tasks.start(
            id,
            partial(self._perform, request, params),
            partial(self._answered, request, answers),
            size,
        )

    def _notify(self, answers: Answers, method: str, params: dict[str, Any]) -> None:
        answers.send(encode(jsonrpc.notification(method, params)))

    async def _perform(
        self, request: RequestContext, params: dict[str, Any]
    ) -> dict[str, Any]:
        try:
            return await self._dispatcher.perform(request, params)
        finally:
            request.close()

    def _answered(
        self,
        request: RequestContext,
        answers: Answers,
        answer: dict[str, Any] | RPCError,
    ) -> None:
        del self._open[request.id]
        self._reply(answers, request.id, answer)

    def _reply(
        self,
        answers: Answers,
        id: RequestId | None,
        answer: dict[str, Any] | RPCError,
    ) -> None:
        status: tuple[int, Fields] | None = None
        try:
            if isinstance(answer, RPCError):
                if isinstance(answer, HttpRefusal):
                    status = answer.http_status, answer.http_headers
                data = encode(jsonrpc.failure(id, answer))
            else:
                assert id is not None
                data = encode(jsonrpc.success(id, answer))
        except LocalProtocolError:
            logger.exception("the answer to %.100r cannot be sent", id)
            data = encode(jsonrpc.failure(id, InternalError("the handler failed")))
        answers.answer(data, status)

    # Streams...

    def _open_stream(self) -> Stream:
        self._last_stream += 1
        stream = Stream(self._last_stream, self._style_of_streams())
        self._streams[stream.number] = stream
        return stream

    def _finished(self, answers: Answers) -> None:
        if self.finished is not None:
            self.finished(self)
        stream = answers.stream
        if stream is None:
            return
        journal = self._journal
        self._streams.pop(stream.number, None)
        if journal is None:
            return
        if not answers.has_answer:
            # All of it was withdrawn: whoever asks for the rest would ask for ever.
            journal.drop_stream(stream.number)
            return
        self._ended_streams[stream.number] = stream.last
        if len(self._ended_streams) > ENDED_STREAMS_KEPT:
            # The store lets go of it by itself, as of all that grows old.
            del self._ended_streams[next(iter(self._ended_streams))]

    def open_server_stream(self) -> Outlet | None:
        """Return what carries the stream of a GET; ``None``: something does already."""
        if self.server_stream.outlet is not None:
            return None
        outlet = Outlet(self._room)
        self.server_stream.open(outlet)
        return outlet

    async def resume(self, number: int, after: int) -> tuple[Stream, Outlet] | None:
        """Return what carries a stream from after one place on; ``None``: impossible.

        It takes the place of what carried the stream before, whose client has noticed
        before us that it does not any more.
        """
        journal = self._style_of_streams().journal
        if journal is None:
            return None
        stream = self._find_stream(number)
        if stream is None or after > stream.last:
            return None
        outlet = Outlet(self._room)
        is_live = number not in self._ended_streams
        if is_live:
            # What is sent from now on follows what is replayed.
            stream.attach(outlet)
        events = None
        try:
            events = await journal.replay(number, after, stream.last)
        finally:
            if events is None:
                stream.detach(outlet)
        if events is None or self.is_closed:
            return None
        if isinstance(stream, ServerStream):
            stream.take_backlog()  # it is part of the events
        outlet.put_before(stream.encode_all(events))
        if not is_live:
            outlet.end()
        return stream, outlet

    def _find_stream(self, number: int) -> Stream | None:
        if number == STANDALONE:
            return self.server_stream
        if number in self._ended_streams:
            stream = Stream(number, self._style_of_streams())
            stream.last = self._ended_streams[number]
            return stream
        return self._streams.get(number)

    # The end...

    async def settle(self, seconds: float) -> None:
        """Wait until all requests have been answered, but not longer than that."""
        if self._tasks is not None:
            await self._tasks.settle(seconds)

    def close(self) -> list[asyncio.Task[None]]:
        """End all of it; return the tasks that have yet to end."""
        if self.is_closed:
            return []
        self.is_closed = self.session.is_closed = True
        self.session.send, self.session.ask = _say_nothing, None
        unanswered, self._open = self._open, {}
        tasks = [] if self._tasks is None else self._tasks.close()
        self._questions.close()
        for id, (request, answers) in unanswered.items():
            request.is_cancelled = True
            # Not as if the session had been unknown: the request may have had effects,
            # and nobody should take it for one that has not run.
            self._reply(answers, id, InternalError(ENDED))
        for stream in self._streams.values():
            stream.end()
        if self._server_stream is not None:
            self._server_stream.end()
        self._streams.clear()
        if self._journal is not None:
            self._journal.drop()
        return tasks

    def forget(self) -> None:
        """Let go of what is kept: all that ran here has ended with its loop."""
        self.is_closed = self.session.is_closed = True
        self.session.send, self.session.ask = _say_nothing, None
        if self._journal is not None:
            self._journal.drop()
