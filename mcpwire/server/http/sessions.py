"""Requests that belong to sessions: POST, GET and DELETE, and who may send them.

::

      initialize ──► id ──► POST, GET with the id ──► DELETE, idle, too many
                             │
                             ├─ unknown here: the dispatcher may know how to go on
                             └─ unknown, ended, somebody else's: one and the same 404

2025-11-25 basic/transports, "Session Management". The application has checked what is
no matter of sessions: who asks, formats, sizes, and that it stands not alone.

One session over HTTP: its running requests, its streams, what it has asked.

It is to HTTP what `server.connection` is to a duplex stream. What comes in is told to
`take`, message by message; how it came, and who may send it, is for `table`.

Sessions by their ids: how many there may be, and when one has been idle too long.

A session that has a running request or an open stream is in use. The others go when
they were idle for too long, and before that when room is needed: the longest idle of
the client with the most first. There is one timer for all of them.

Opens sessions that take their time, and those of ids that are unknown here.

::

      initialize ──► in its own time ──► an id of the dispatcher's, or a random one
      unknown id ──► the dispatcher knows it? ──► a session again, or 404
                      └─ who comes meanwhile waits for the first

How many there are on their way in counts towards the bound on all of them. What opens
its sessions at once needs none of this.

What a session asks its client, and the answers, which come as POSTs of their own.

What a request says of its session, and what a POST of a session may hold.

2025-11-25 basic/transports, "Session Management" and "Protocol Version Header";
2025-03-26 basic, "Batching". A malformed item of a batch is answered by itself and does
not keep the others from being taken.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from mcpwire.errors import (
    ConnectionClosed,
    InternalError,
    InvalidMessage,
    InvalidRequest,
    LocalProtocolError,
    MCPError,
    RequestTimeout,
    RPCError,
)
from mcpwire.server.auth.resource_server import HttpRefusal
from mcpwire.server.fair_pool import FairPool, client_key
from mcpwire.server.http.event_store import (
    Journal,
    MemoryEventStore,
    check_bounds,
    parse_event_id,
)
from mcpwire.server.http.exchange import JSON, ClientGone, HttpProblem
from mcpwire.server.http.streams import (
    STANDALONE,
    Answers,
    ServerStream,
    SseWriter,
    Stream,
    StreamStyle,
)
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.server.request import Session
from mcpwire.transports.handlers import InboundTasks
from mcpwire.versions import REVISIONS, Era, Revision, find_revision
from mcpwire.wire import jsonrpc
from mcpwire.wire.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from mcpwire.server.auth.resource_server import Principal
    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.server.http.event_store import Begin, EventStore
    from mcpwire.server.http.exchange import Exchange, Fields
    from mcpwire.server.request import Facts, Owner, RequestContext
    from mcpwire.wire.jsonrpc import RequestId

    Send = Callable[[bytes], None]

__all__ = [
    "AMBIGUOUS_STREAM",
    "ASSUMED",
    "NOT_KEPT",
    "NO_SESSION",
    "TOO_MANY_SESSIONS",
    "UNKNOWN_SESSION",
    "HttpSession",
    "Malformed",
    "Opening",
    "Posted",
    "Questions",
    "Registry",
    "Sessions",
    "check_batch",
    "check_version",
    "lets_streams_pause",
    "read_message",
]


INITIALIZE: Final = "initialize"

_SESSION: Final = SESSION_ID.lower()
_VERSION: Final = PROTOCOL_VERSION.lower()
_LAST_EVENT: Final = LAST_EVENT_ID.lower()

CLOSE_GRACE_S: Final = 0.5
"""How long handlers may take to end once they are cancelled, and stores to finish."""

RETRY_AFTER: Final = (("retry-after", "5"),)

NO_GET: Final = (405, InvalidRequest("there are no sessions here"))


class Sessions:
    """The sessions of one server; see the module's text.

    Args:
        dispatcher: Who answers.
        event_store: Keeps what was sent, so that streams can be gone on with. ``None``:
            in memory, within bounds; ``False``: nowhere, and events have no ids.
        idle: How long a session may be idle, in seconds.
        maximum: How many there may be.
        retry: How long clients should wait before they come back, in seconds.
        stateless: Whether there are none at all: each POST stands alone.
        ask_timeout: How long a client may take to answer a question, in seconds, if the
            server itself does not allow less.

    Raises:
        ValueError: A number is not above zero.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        event_store: EventStore | bool | None = None,
        idle: float = 1_800.0,
        maximum: int = 10_000,
        retry: float = 1.0,
        stateless: bool = False,
        ask_timeout: float | None = 600.0,
    ) -> None:
        check_bounds(idle=idle, maximum=maximum, retry=retry)
        self._dispatcher = dispatcher
        self._store: EventStore | None = None
        if not (stateless or event_store is False):
            if event_store is None or isinstance(event_store, bool):
                event_store = MemoryEventStore()
            self._store = event_store
        self._by_name: dict[str | None, Revision] = {
            r.name: r for r in dispatcher.revisions if r.era is Era.SESSION
        }
        self._retry = retry
        self._stateless = stateless
        self._ask_timeout = _shorter(ask_timeout, dispatcher.ask_timeout)
        self._registry = Registry(idle=idle, maximum=maximum, end=self._end)
        self._alone: set[HttpSession] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._made_opening: Opening | None = None

    def __len__(self) -> int:
        """Return how many sessions there are."""
        return len(self._registry)

    @property
    def running(self) -> int:
        """How many requests are being answered."""
        return sum(map(len, (*self._registry, *self._alone)))

    # POST...

    async def serve(self, exchange: Exchange, body: Any) -> None:
        """Answer a POST, whose body is the decoded JSON.

        Raises:
            ClientGone: Nobody takes the answer.
        """
        is_initialize = type(body) is dict and body.get("method") == INITIALIZE
        try:
            session = self._session_of(exchange, is_initialize=is_initialize)
            if session is None:
                id = exchange.headers.get(_SESSION)
                if id is None or self._stateless:
                    await self._initialize(exchange, body)
                    return
                session = await self._resume(exchange, id)
            answers = self._take(exchange, session, body)
        except HttpProblem as problem:
            await _refuse(exchange, problem, body)
            return
        if not answers.has_owed:
            # 2025-11-25 basic/transports, "Sending Messages to the Server".
            await exchange.reply(202)
        elif (data := answers.as_json()) is not None:
            status, fields = answers.status
            await exchange.reply_bytes(status, data, JSON, fields)
        else:
            try:
                await answers.respond(exchange)
            finally:
                self._registry.touch(session)

    def _session_of(
        self, exchange: Exchange, *, is_initialize: bool
    ) -> HttpSession | None:
        """Return whose request this is; ``None``: none that is here.

        Raises:
            HttpProblem: It is refused.
        """
        named = self._named_revision(exchange, is_initialize=is_initialize)
        if self._stateless:
            return None if is_initialize else self._stand_alone(named)
        id = exchange.headers.get(_SESSION)
        if id is None:
            if is_initialize:
                return None
            raise HttpProblem(*NO_SESSION)
        session = self._registry.find(id)
        if session is None:
            return None
        # 2025-11-25 security best practices, "Session Hijacking": an id proves nothing.
        if not session.belongs_to(exchange.facts.principal):
            raise HttpProblem(*UNKNOWN_SESSION)
        self._registry.touch(session)
        return session

    def _named_revision(self, exchange: Exchange, *, is_initialize: bool) -> Revision:
        version = exchange.headers.get(_VERSION)
        revision = self._by_name.get(version)
        if revision is not None:
            return revision
        if is_initialize and find_revision(version) is not None:
            # The body says what is wanted, and may want what is not spoken here.
            version = None
        try:
            return check_version(version, self._dispatcher.revisions)
        except InvalidRequest as error:
            raise HttpProblem(400, error) from None

    async def _initialize(self, exchange: Exchange, body: dict[str, Any]) -> None:
        message = read_message(body)
        if not isinstance(message, jsonrpc.Request):
            raise HttpProblem(400, "initialize must be a request")
        fields: Fields = ()
        dispatcher = self._dispatcher
        try:
            if dispatcher.opens_later and not self._stateless:
                opened, result = await self._opening.open(exchange, message.params)
            else:
                opened, result = dispatcher.initialize(
                    message.params, None, exchange.facts
                )
            if not self._stateless:
                fields = ((SESSION_ID, self._add(opened, exchange)),)
        except RPCError as error:
            raise _problem(error) from None
        await exchange.reply(200, jsonrpc.success(message.id, result), fields)

    def _add(self, opened: Session, exchange: Exchange) -> str:
        """Take in a session; return the id it gets.

        Raises:
            RPCError: It gets none.
            HttpProblem: There are too many.
        """
        opened.principal = exchange.facts.principal
        id = None
        try:
            if has_room := self._registry.has_room(exchange.facts.owner):
                id = self._dispatcher.new_session_id(opened)
        except RPCError:
            self._dispatcher.session_left(opened)
            raise
        if not has_room:
            self._dispatcher.session_left(opened)
            raise HttpProblem(*TOO_MANY_SESSIONS, RETRY_AFTER)
        session = self._make(opened, exchange.facts.owner)
        self._dispatcher.hub.add(opened)
        return self._registry.add(session, exchange.facts.owner, id)

    @property
    def _opening(self) -> Opening:
        """What opens sessions that few servers have; imported with the first."""
        if self._made_opening is None:
            from mcpwire.server.http.sessions import Opening

            self._made_opening = Opening(self._dispatcher, self._registry, self._make)
        return self._made_opening

    async def _resume(self, exchange: Exchange, id: str) -> HttpSession:
        """Return the session of an id that is not here.

        Raises:
            HttpProblem: There is none, or not any more.
        """
        try:
            return await self._opening.resume(exchange, id)
        except RPCError as error:
            raise _problem(error) from None

    def _make(self, session: Session, owner: Owner) -> HttpSession:
        return HttpSession(
            self._dispatcher,
            session,
            owner=owner,
            store=self._store,
            begin=self._begin,
            retry=self._retry,
            ask_timeout=self._ask_timeout,
            is_alone=self._stateless,
        )

    def _stand_alone(self, revision: Revision) -> HttpSession:
        """Return a session for one POST, of which nothing is known but its revision."""
        session = self._make(Session(revision, {}, {}, is_initialized=True), "")
        self._alone.add(session)
        session.finished = self._alone.discard
        return session

    def _take(self, exchange: Exchange, session: HttpSession, body: Any) -> Answers:
        """Take in what was posted; return what it is owed.

        Raises:
            HttpProblem: It is refused.
        """
        answers = session.post(is_batch=type(body) is list)
        try:
            messages = self._read(session, body)
            size = exchange.size // max(1, len(messages))
            for message in messages:
                session.take(message, answers, exchange, size)
        finally:
            answers.seal()
        if answers.has_owed:
            return answers
        malformed = [m for m in messages if isinstance(m, Malformed)]
        if len(malformed) == len(messages):
            raise HttpProblem(400, malformed[0].refusal)
        return answers

    def _read(self, session: HttpSession, body: Any) -> list[Posted]:
        if type(body) is not list:
            message = read_message(body)
            if isinstance(message, Malformed) and message.is_request:
                raise HttpProblem(400, message.refusal)
            return [message]
        revision, limit = session.session.revision, self._dispatcher.limits.batch
        try:
            check_batch(body, revision, limit)
        except InvalidRequest as error:
            raise HttpProblem(400, error) from None
        return [read_message(item) for item in body]

    # GET and DELETE...

    async def serve_get(self, exchange: Exchange) -> None:
        """Answer a GET: open a session's stream, or go on with one.

        Raises:
            ClientGone: Nobody takes the answer.
        """
        try:
            id, session = self._existing(exchange)
            if session is None:
                session = await self._resume(exchange, id)
            stream, outlet = await _open_stream(
                session, exchange.headers.get(_LAST_EVENT)
            )
        except HttpProblem as problem:
            await _refuse(exchange, problem)
            return
        session.outlets += 1
        try:
            await outlet.run(exchange)
        finally:
            stream.detach(outlet)
            session.outlets -= 1
            self._registry.touch(session)

    async def serve_delete(self, exchange: Exchange) -> None:
        """Answer a DELETE: end a session, and wait until it has ended.

        Raises:
            ClientGone: Nobody takes the answer.
        """
        try:
            await self._delete(exchange)
        except HttpProblem as problem:
            await _refuse(exchange, problem)
            return
        await exchange.reply(204)

    async def _delete(self, exchange: Exchange) -> None:
        id, session = self._existing(exchange)
        dispatcher = self._dispatcher
        if session is not None:
            dispatcher.withdraw_session_id(id)
            self._registry.remove(session)
            await dispatcher.session_closed(session.session)
        elif not await dispatcher.delete_session(id, exchange.facts):
            raise HttpProblem(*UNKNOWN_SESSION)

    def _existing(self, exchange: Exchange) -> tuple[str, HttpSession | None]:
        """Return the id that a request names, and its session if that is here.

        Raises:
            HttpProblem: It is refused.
        """
        if self._stateless:
            raise HttpProblem(*NO_GET, (("allow", "POST"),))
        session = self._session_of(exchange, is_initialize=False)
        id = exchange.headers.get(_SESSION)
        assert id is not None  # else it was refused
        return id, session

    # The end...

    def _end(self, session: HttpSession) -> None:
        self._dispatcher.session_left(session.session)
        self._stop(session)

    def _stop(self, session: HttpSession) -> None:
        for task in session.close():
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="mcpwire-events")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self, seconds: float) -> None:
        """Wait until what was asked is answered, but not longer than that."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        for session in (*self._registry, *self._alone):
            await session.settle(deadline - loop.time())

    def forget(self) -> None:
        """Let go of everything that was on a loop that has ended, on the next one."""
        self._tasks.clear()
        self._made_opening = None
        for session in self._registry.forget():
            self._dispatcher.session_left(session.session)
            session.forget()
        for session in self._alone:
            session.forget()
        self._alone.clear()

    async def aclose(self) -> None:
        """End all sessions, their requests and streams, and close the store."""
        if self._made_opening is not None:
            await self._made_opening.aclose()
        self._registry.close()
        for session in list(self._alone):
            self._stop(session)
        self._alone.clear()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CLOSE_GRACE_S)
            for task in late:
                task.cancel()
        if self._store is not None:
            await self._store.aclose()


def _problem(error: RPCError) -> HttpProblem:
    """Return the answer to who may not open a session."""
    if isinstance(error, HttpRefusal):
        return HttpProblem(error.http_status, error, error.http_headers)
    return HttpProblem(200, error)


def _shorter(one: float | None, other: float | None) -> float | None:
    return min((t for t in (one, other) if t is not None), default=None)


async def _open_stream(
    session: HttpSession, last_event_id: str | None
) -> tuple[Stream, SseWriter]:
    if last_event_id:
        place = parse_event_id(last_event_id)
        if place is None or place.mark != session.mark:
            raise HttpProblem(*NOT_KEPT)
        found = await session.resume(place.stream, place.sequence)
        if found is None:
            raise HttpProblem(*NOT_KEPT)
        return found
    outlet = session.open_server_stream()
    if outlet is None:
        # To take it over would be to take it away from whoever has it.
        raise HttpProblem(*AMBIGUOUS_STREAM)
    return session.server_stream, outlet


async def _refuse(exchange: Exchange, problem: HttpProblem, body: Any = None) -> None:
    """Answer with an error that names the request, where that has an id."""
    id = body.get("id") if type(body) is dict and "method" in body else None
    message = jsonrpc.failure(id if jsonrpc.is_request_id(id) else None, problem.error)
    await exchange.reply(problem.status, message, problem.headers)


logger = LimitedLogger("mcpwire")


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
            answers.expect_response()
            self._requested(message, answers, exchange, size)
        elif isinstance(message, jsonrpc.Notification):
            self._notified(message)
        elif isinstance(message, Malformed):
            self._malformed(message, answers)
        else:
            self._questions.take(message)

    def _malformed(self, message: Malformed, answers: Answers) -> None:
        if message.is_request:
            answers.expect_response()
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
                again = dispatcher.initialize(params, self.session, exchange.facts)
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
                facts=(
                    exchange.facts_with(answers.pause)
                    if self._can_pause
                    else exchange.facts
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

    def open_server_stream(self) -> SseWriter | None:
        """Return what carries the stream of a GET; ``None``: something does already."""
        if self.server_stream.outlet is not None:
            return None
        outlet = SseWriter(self._room)
        self.server_stream.open(outlet)
        return outlet

    async def resume(self, number: int, after: int) -> tuple[Stream, SseWriter] | None:
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
        outlet = SseWriter(self._room)
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


ID_BYTES: Final = 32
"""How much chance is in an id; 16 would do."""


class Registry:
    """The sessions of one server; see the module's text.

    Args:
        idle: How long a session may be idle, in seconds.
        maximum: How many there may be.
        end: Ends one that is not here any more.
    """

    def __init__(
        self, *, idle: float, maximum: int, end: Callable[[HttpSession], None]
    ) -> None:
        self._idle = idle
        self._maximum = maximum
        self._end = end
        # The one that was not used for longest is the first.
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()
        self._pool: FairPool[HttpSession] = FairPool()
        self._timer: asyncio.TimerHandle | None = None
        self._remove = self.remove

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._sessions)

    def __iter__(self) -> Iterator[HttpSession]:
        """Go through all of them."""
        return iter(self._sessions.values())

    def has_room(self, owner: Owner, opening: int = 0) -> bool:
        """Tell whether there may be one more, for which another may have to go.

        An owner with more than this owner loses an idle one, else a busy one: an open
        question keeps a session busy, too. Else this owner loses an idle one.

        Args:
            owner: Whose it is.
            opening: How many are on their way in already.
        """
        if len(self._sessions) + opening < self._maximum:
            return True
        found = self._pool.to_displace(owner, _is_idle)
        if found is not None:
            self.remove(found)
        return found is not None

    def add(self, session: HttpSession, owner: Owner, id: str | None = None) -> str:
        """Take in a session; return the id it gets, unless one is given.

        2025-11-25 basic/transports, "Session Management": globally unique, visible
        ASCII; security best practices, "Session Hijacking": not to be guessed.

        Raises:
            ValueError: The id is somebody else's.
        """
        if id is None:
            id = secrets.token_urlsafe(ID_BYTES)
        elif id in self._sessions:
            raise ValueError("two sessions have one id")
        session.session.id = id
        # A third of what a partial takes.
        session.session.end = MethodType(self._remove, session)
        self._sessions[id] = session
        self._pool.add(session, owner)
        self.touch(session)
        if self._timer is None:
            self._arm()
        return id

    def find(self, id: str) -> HttpSession | None:
        """Return the session with that id.

        The id is a secret and may be looked up all the same: the hash of a text is
        keyed by chance, and two texts are compared only where all of it is equal.
        """
        return self._sessions.get(id)

    def touch(self, session: HttpSession) -> None:
        """Take note that a session is used, if it is still here."""
        id = session.session.id
        if id is not None and self._sessions.get(id) is session:
            session.used_at = asyncio.get_running_loop().time()
            self._sessions.move_to_end(id)
            self._pool.touch(session)

    def remove(self, session: HttpSession) -> None:
        """End a session, if it is still here."""
        id = session.session.id
        if id is not None and self._sessions.get(id) is session:
            del self._sessions[id]
            self._pool.discard(session)
            session.session.end = None
            self._end(session)

    def close(self) -> None:
        """End all of them."""
        for session in list(self._sessions.values()):
            self.remove(session)
        # Not with the last that ends by itself: where sessions come and go one by one,
        # the loop would be left with a cancelled timer of each.
        self._disarm()

    def forget(self) -> list[HttpSession]:
        """Let go of all of them without ending them: their loop has ended."""
        forgotten = list(self._sessions.values())
        for session in forgotten:
            session.session.end = None
        self._sessions.clear()
        self._pool.clear()
        self._disarm()
        return forgotten

    # Idle ones...

    def _arm(self) -> None:
        first = next(iter(self._sessions.values()))
        self._timer = asyncio.get_running_loop().call_at(
            first.used_at + self._idle, self._sweep
        )

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._sessions:
            session = next(iter(self._sessions.values()))
            if session.used_at + self._idle > now:
                self._arm()
                return
            if session.is_active:
                self.touch(session)
            else:
                self.remove(session)


def _is_idle(session: HttpSession) -> bool:
    return not session.is_active


T = TypeVar("T")

INITIALIZED: Final = "notifications/initialized"


END_GRACE_S: Final = 0.5
"""How long what was opening may take to end once nobody waits for it."""


class Opening:
    """Opens the sessions of one server; see the module's text.

    Args:
        dispatcher: Who answers.
        registry: Where they are kept.
        make: Makes of a session what serves it over HTTP.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        registry: Registry,
        make: Callable[[Session, Owner], HttpSession],
    ) -> None:
        self._dispatcher = dispatcher
        self._registry = registry
        self._make = make
        self._count = 0
        self._resuming: dict[
            tuple[str, object], asyncio.Task[HttpSession | HttpProblem | RPCError]
        ] = {}

    async def open(
        self, exchange: Exchange, params: dict[str, Any] | None
    ) -> tuple[Session, dict[str, Any]]:
        """Open a session for its `initialize`; return it and the result.

        Raises:
            RPCError: It is refused.
            HttpProblem: There are too many.
            ClientGone: Nobody waits for it; nothing is left of it.
        """
        if not self._registry.has_room(exchange.facts.owner, self._count):
            raise HttpProblem(*TOO_MANY_SESSIONS, RETRY_AFTER)
        self._count += 1
        try:
            return await _while_there(
                exchange,
                self._dispatcher.open_session(params, None, exchange.facts),
                lambda opened: self._dispatcher.session_left(opened[0]),
            )
        finally:
            self._count -= 1

    async def resume(self, exchange: Exchange, id: str) -> HttpSession:
        """Return the session of an id that is not here, if the dispatcher knows it.

        It goes on also if this is cancelled: whoever asks next finds it.

        Raises:
            RPCError: It cannot be opened any more.
            HttpProblem: It is unknown, somebody else's, or there are too many.
        """
        principal = exchange.facts.principal
        key = id, principal and principal.key
        resuming = self._resuming.get(key)
        if resuming is None:
            resuming = asyncio.get_running_loop().create_task(
                self._resume(id, exchange.facts), name="mcpwire-http-resume"
            )
            self._resuming[key] = resuming
            resuming.add_done_callback(lambda _: self._resuming.pop(key, None))
        try:
            session = await asyncio.shield(resuming)
        except asyncio.CancelledError:
            if resuming.cancelled():  # the server ends; whoever waits is not cancelled
                raise HttpProblem(*UNKNOWN_SESSION) from None
            raise
        if isinstance(session, Exception):
            raise session
        if not session.belongs_to(principal):
            raise HttpProblem(*UNKNOWN_SESSION)
        self._registry.touch(session)
        return session

    async def _resume(
        self, id: str, facts: Facts
    ) -> HttpSession | HttpProblem | RPCError:
        # An id that is unknown takes nobody's place, so there is no look at it before.
        self._count += 1
        try:
            resumed = await self._dispatcher.resume_session(id, facts)
        except RPCError as error:
            return error
        finally:
            self._count -= 1
        if resumed is None:
            return HttpProblem(*UNKNOWN_SESSION)
        if not self._registry.has_room(facts.owner, self._count):
            self._dispatcher.session_left(resumed)
            return HttpProblem(*TOO_MANY_SESSIONS, RETRY_AFTER)
        session = self._make(resumed, facts.owner)
        self._registry.add(session, facts.owner, id)
        self._dispatcher.hub.add(resumed)
        # Its client has said so, to whoever opened it.
        self._dispatcher.notified(resumed, INITIALIZED, None)
        return session

    # The end...

    async def aclose(self) -> None:
        """Stop what is opening again."""
        tasks = list(self._resuming.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=END_GRACE_S)


async def _while_there(
    exchange: Exchange, work: Coroutine[Any, Any, T], undo: Callable[[T], object]
) -> T:
    """Do something as long as the client waits for it; else undo it.

    Raises:
        ClientGone: It went away; the work is cancelled.
    """
    loop = asyncio.get_running_loop()
    working = loop.create_task(work, name="mcpwire-http-open")
    watching = loop.create_task(exchange.watch(), name="mcpwire-http-watch")
    # What a web server raises instead of saying that the client is gone means the same.
    watching.add_done_callback(lambda task: task.cancelled() or task.exception())
    is_wanted = False
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        is_wanted = working.done()
    finally:
        if not is_wanted:
            working.add_done_callback(lambda task: _undo(task, undo))
        for task in (working, watching):
            task.cancel()  # which does nothing to one that is done
        await asyncio.wait([working, watching])
    if not is_wanted:
        raise ClientGone
    return working.result()


def _undo(task: asyncio.Task[T], undo: Callable[[T], object]) -> None:
    """Undo what was done all the same."""
    if not task.cancelled() and task.exception() is None:
        undo(task.result())


CANCELLED_NOTIFICATION: Final = "notifications/cancelled"


@attrs.define(eq=False)
class _Question:
    method: str
    future: asyncio.Future[dict[str, Any]]


class Questions:
    """The open requests of a server to one client, by id.

    Ids count up from 1 and are never used twice. Only those of this session are looked
    at, so that an answer from elsewhere finds nothing.
    """

    __slots__ = ("_last", "_open")

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[RequestId, _Question] = {}

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    async def ask(
        self, send: Send, method: str, params: dict[str, Any], timeout: float | None
    ) -> dict[str, Any]:
        """Send a request and return what the client answers.

        Raises:
            LocalProtocolError: The params are not JSON; nothing was sent.
            RPCError: The client refused.
            RequestTimeout: It did not answer in time, and was told so.
            ConnectionClosed: The session has ended.
        """
        loop = asyncio.get_running_loop()
        id = self._last + 1
        data = encode(jsonrpc.request(id, method, params))
        self._last = id
        question = self._open[id] = _Question(method, loop.create_future())
        began = loop.time()
        try:
            send(data)
            async with asyncio.timeout(timeout):
                return await question.future
        except TimeoutError as error:
            # The client's answer may be an error of that kind.
            if isinstance(error, MCPError):
                raise
            self._withdraw(send, id, "timeout")
            elapsed = loop.time() - began
            assert timeout is not None
            raise RequestTimeout(
                method=method, timeout=timeout, elapsed=elapsed
            ) from error
        except asyncio.CancelledError:
            self._withdraw(send, id, "the request that asked is over")
            raise
        finally:
            self._open.pop(id, None)

    def _withdraw(self, send: Send, id: int, reason: str) -> None:
        # 2025-11-25 basic/utilities/cancellation. Who awaits a future and is cancelled
        # has cancelled the future; one that has an answer is left alone.
        question = self._open.get(id)
        if question is not None and question.future.cancelled():
            params = {"requestId": id, "reason": reason}
            send(encode(jsonrpc.notification(CANCELLED_NOTIFICATION, params)))

    def take(self, message: jsonrpc.Success | jsonrpc.Failure) -> None:
        """Hand an answer to who asked; what answers nothing is dropped."""
        question = self._find(message.id)
        if question is None:
            return
        if isinstance(message, jsonrpc.Success):
            question.future.set_result(message.result)
        else:
            message.error.method = question.method
            question.future.set_exception(message.error)

    def fail(self, id: RequestId | None, error: MCPError) -> None:
        """End a question whose answer is malformed."""
        question = self._find(id)
        if question is not None:
            question.future.set_exception(error)

    def _find(self, id: RequestId | None) -> _Question | None:
        # Ids of ours are integers; 1.0 and True were refused before.
        question = self._open.get(id) if type(id) is int else None
        # Of two answers the first one counts.
        return None if question is None or question.future.done() else question

    def close(self) -> None:
        """End all questions: nobody will answer them."""
        waiting = list(self._open.values())
        self._open.clear()
        for question in waiting:
            if not question.future.done():
                question.future.set_exception(
                    ConnectionClosed(f"{question.method}: the session has ended")
                )


# The status and the error of each refusal. The owner of a session must not show
# (2025-11-25 security best practices, "Session Hijacking"), so there is one answer to
# ids that are unknown, ended or another client's.
UNKNOWN_SESSION: Final = 404, InvalidRequest("the session is unknown or has ended")
NO_SESSION: Final = (
    400,
    InvalidRequest("the request needs an Mcp-Session-Id; initialize gives one"),
)
TOO_MANY_SESSIONS: Final = 503, InvalidRequest("too many sessions are in use")
AMBIGUOUS_STREAM: Final = 409, InvalidRequest("the session has its GET stream already")
NOT_KEPT: Final = (
    400,
    InvalidRequest("the events after this Last-Event-ID are not kept"),
)

ASSUMED: Final = REVISIONS[1]
"""The revision of a request that names none."""

_PAUSES_SINCE: Final = REVISIONS[3]


def lets_streams_pause(revision: Revision) -> bool:
    """Tell whether a stream may end before its answer, to be resumed.

    2025-11-25 basic/transports, "Sending Messages to the Server": then it begins with
    an event that has an id and no data, which older clients would take for a message.
    """
    return revision >= _PAUSES_SINCE


def check_version(header: str | None, spoken: Iterable[Revision]) -> Revision:
    """Return the revision that a request names in its head.

    In a session that is only checked: what was negotiated counts.

    Raises:
        InvalidRequest: It has no sessions, or is not spoken here.
    """
    if header is None:
        return ASSUMED
    revision = find_revision(header)
    sessions = [r for r in spoken if r.era is Era.SESSION]
    if revision is None or revision not in sessions:
        names = ", ".join(r.name for r in sessions)
        raise InvalidRequest(
            f"the MCP-Protocol-Version {header[:40]!r} is not among those that have "
            f"sessions here: {names}"
        )
    return revision


# --- batches


@attrs.frozen
class Malformed:
    """A value that is not a message."""

    error: InvalidMessage

    id: jsonrpc.RequestId | None = None
    """Its id, if it has one."""

    is_request: bool = False
    """Whether it expects an answer: it has a method and an id."""

    @property
    def refusal(self) -> RPCError:
        """The error to answer."""
        return InvalidRequest(str(self.error))


Posted = jsonrpc.Message | Malformed


def read_message(value: Any) -> Posted:
    """Return the message that a decoded JSON value is, or what is wrong with it."""
    try:
        return jsonrpc.parse_message(value)
    except InvalidMessage as error:
        id = value.get("id") if type(value) is dict else None
        if not jsonrpc.is_request_id(id):
            return Malformed(error)
        return Malformed(error, id, "method" in value)


def check_batch(values: list[Any], revision: Revision, limit: int) -> None:
    """Check that a batch is allowed.

    Raises:
        InvalidRequest: The revision has none, or it is empty or too long.
    """
    if not revision.receives_batches:
        # 2025-06-18 changelog: batches were removed again.
        raise InvalidRequest("batches belong to revision 2025-03-26 only")
    if not values:
        raise InvalidRequest("a batch must not be empty")
    if len(values) > limit:
        raise InvalidRequest(f"a batch must not be longer than {limit} messages")
