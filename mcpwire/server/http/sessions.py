"""Sessions over HTTP: POST, GET and DELETE of the revisions up to 2025-11-25.

::

      initialize ──► id ──► POST, GET with the id ──► DELETE, idle, too many
                             │
                             ├─ unknown here: the dispatcher may open it again
                             └─ unknown, ended, another client's: one and the same 404

2025-11-25 basic/transports, "Session Management" and "Protocol Version Header";
2025-03-26 basic, "Batching". The application has checked the rest before:
authentication, formats, sizes, and that a POST does not stand alone.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    ConnectionClosed,
    InternalError,
    InvalidMessage,
    InvalidRequest,
    MCPError,
    RequestTimeout,
    RPCError,
)
from mcpwire.protocol.request_validation import id_in
from mcpwire.server.dispatcher import INITIALIZE, INITIALIZED, HttpRefusal
from mcpwire.server.fair_pool import FairPool, client_key
from mcpwire.server.http.event_store import (
    Journal,
    MemoryEventStore,
    check_bounds,
    parse_event_id,
)
from mcpwire.server.http.exchange import (
    ClientGone,
    HttpProblem,
    as_problem,
    encode_answer,
)
from mcpwire.server.http.streams import (
    STANDALONE,
    Answers,
    ServerStream,
    SseWriter,
    Stream,
)
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.server.request import Session
from mcpwire.transports.base import wait_shared
from mcpwire.transports.handlers import InboundTasks
from mcpwire.versions import REVISIONS, Era, find_revision
from mcpwire.wire import jsonrpc
from mcpwire.wire.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from mcpwire.server.auth.resource_server import Principal
    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.server.http.event_store import EventStore
    from mcpwire.server.http.exchange import Exchange, Fields
    from mcpwire.server.request import Owner, RequestContext, RequestInfo
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

    Send = Callable[[bytes], None]

__all__ = ["TOO_MANY_SESSIONS", "UNKNOWN_SESSION", "HttpSession", "Sessions"]

logger = LimitedLogger("mcpwire")

# The status and the error of each refusal. The owner of a session must not show
# (2025-11-25 security best practices, "Session Hijacking"), so there is one answer to
# ids that are unknown, ended or another client's.
UNKNOWN_SESSION: Final = 404, InvalidRequest("the session is unknown or has ended")
TOO_MANY_SESSIONS: Final = (
    503,
    InvalidRequest("too many sessions are in use"),
    (("retry-after", "5"),),
)
NO_SESSION: Final = "the request needs an Mcp-Session-Id; initialize gives one"
NOT_KEPT: Final = "the events after this Last-Event-ID are not kept"

CANCELLED: Final = "notifications/cancelled"

REQUEST_CANCELLED: Final = -32800
"""The code that the Language Server Protocol has for this; MCP has none."""

ASSUMED: Final = REVISIONS[1]
"""The revision of a request that names none."""

PAUSES_SINCE: Final = REVISIONS[3]
"""Since when a stream may end before its answer, to be resumed.

2025-11-25 basic/transports, "Sending Messages to the Server": then it begins with an
event that has an id and no data, which older clients would take for a message.
"""

ID_BYTES: Final = 32
"""How much chance is in an id; 16 would do."""

ENDED_STREAMS_KEPT: Final = 256
"""Streams that have ended and of which it is known how far they went."""

CLOSE_GRACE_S: Final = 0.5
"""How long handlers may take to end once they are cancelled, and stores to finish."""

_SESSION: Final = SESSION_ID.lower()
_VERSION: Final = PROTOCOL_VERSION.lower()
_LAST_EVENT: Final = LAST_EVENT_ID.lower()


class ServerRequests:
    """The open requests of a server to one client; ids from 1, none used twice."""

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[RequestId, tuple[str, asyncio.Future[dict[str, Any]]]] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def ask(
        self, send: Send, method: str, params: dict[str, Any], timeout: float | None
    ) -> dict[str, Any]:
        """Send a request and return the client's result; raise its error."""
        loop = asyncio.get_running_loop()
        id = self._last + 1
        data = encode(jsonrpc.request(id, method, params))
        self._last = id
        future: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._open[id] = method, future
        began = loop.time()
        reason = "the request that asked is over"
        try:
            send(data)
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError as error:
            # The client's answer may be an error of that kind.
            if isinstance(error, MCPError):
                raise
            reason = "timeout"
            elapsed = loop.time() - began
            assert timeout is not None
            raise RequestTimeout(
                method=method, timeout=timeout, elapsed=elapsed
            ) from error
        finally:
            del self._open[id]
            # 2025-11-25 basic/utilities/cancellation. Cancelling the task that awaits a
            # future cancels the future; one that has an answer is left alone.
            if future.cancelled():
                told = {"requestId": id, "reason": reason}
                send(encode(jsonrpc.notification(CANCELLED, told)))

    def take(self, id: RequestId | None, answer: dict[str, Any] | MCPError) -> None:
        """Deliver an answer; what answers no open request is dropped."""
        # Ids of ours are integers; 1.0 and True were refused before.
        found = self._open.get(id) if type(id) is int else None
        if found is None or found[1].done():  # of two answers the first one counts
            return
        method, future = found
        if not isinstance(answer, MCPError):
            future.set_result(answer)
            return
        if isinstance(answer, RPCError):
            answer.method = method
        future.set_exception(answer)

    def close(self) -> None:
        """End all requests: no answer will come."""
        for id, (method, _) in self._open.items():
            self.take(id, ConnectionClosed(f"{method}: the session has ended"))


class HttpSession:
    """One session: its running requests, its streams, its open requests to the client.

    It is to HTTP what `server.connection` is to a duplex stream.
    """

    def __init__(self, shared: Sessions, session: Session, owner: Owner) -> None:
        self._shared = shared
        self._dispatcher = shared.dispatcher
        self._owner = owner
        # Made when needed: there may be 10,000 sessions, of which most are idle.
        self._tasks: InboundTasks | None = None
        self._server_stream: ServerStream | None = None
        self.journal: Journal | None = None
        self._open: dict[RequestId, tuple[RequestContext, Answers]] = {}
        self._server_requests = ServerRequests()
        self._streams: dict[int, Stream] = {}
        self._ended_streams: dict[int, int] = {}  # and how far they went
        self._last_stream = STANDALONE
        self.mark = secrets.token_hex(8)  # names it where its id, a secret, must not
        self.can_pause = shared.store is not None and session.revision >= PAUSES_SINCE
        self.retry = shared.retry
        self.room = shared.dispatcher.limits.unwritten  # of a stream, in bytes
        self.is_closed = False
        self.session = session
        self.writers = 0  # GETs that write its streams now
        self.used_at = 0.0  # by the loop's clock
        if not shared.is_stateless:
            session.send = self.send
            session.ask = self._ask

    def is_idle(self) -> bool:
        """Tell whether no request runs in it, and no GET reads from it."""
        return not (self._open or self.writers)

    def __len__(self) -> int:
        return len(self._open)

    def belongs_to(self, principal: Principal | None) -> bool:
        """Tell whether this client has opened it."""
        owner = self.session.principal
        if owner is None or principal is None:
            return owner is principal
        return owner.key == principal.key

    @property
    def server_stream(self) -> ServerStream:
        """The stream for messages that belong to no call."""
        if self._server_stream is None:
            self._begin_journal()
            limits = self._dispatcher.limits
            self._server_stream = ServerStream(
                self, backlog=limits.notifications, room=self.room
            )
        return self._server_stream

    def _begin_journal(self) -> None:
        store = self._shared.store
        if self.journal is None and store is not None:
            key = client_key(self.mark, self._owner)
            self.journal = Journal(store, key, self._shared.start, room=self.room)

    # From the server to the client...

    def send(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification that belongs to no request."""
        self.server_stream.send(encode(jsonrpc.notification(method, params)))

    async def _ask(
        self, method: str, params: dict[str, Any], answers: Answers | None = None
    ) -> dict[str, Any]:
        def send(data: bytes) -> None:
            # 2025-11-25 basic/transports: a request of the server that belongs to a
            # call goes on the stream of that call. Its cancellation may come later.
            if answers is not None and not answers.is_over:
                answers.send(data)
            elif not self.is_closed:
                self.server_stream.send(data)

        seconds = self._shared.ask_timeout
        return await self._server_requests.ask(send, method, params, seconds)

    def _notify(self, answers: Answers, method: str, params: dict[str, Any]) -> None:
        answers.send(encode(jsonrpc.notification(method, params)))

    # From the client...

    def take(
        self, value: Any, answers: Answers, exchange: Exchange, size: int
    ) -> RPCError | None:
        """Take one message of a POST, which was that long; return what is wrong."""
        try:
            message = jsonrpc.parse_message(value)
        except InvalidMessage as error:
            return self._take_malformed(value, answers, error)
        if isinstance(message, jsonrpc.Request):
            answers.expect_response()
            self._take_request(message, answers, exchange, size)
        elif isinstance(message, jsonrpc.Success):
            self._server_requests.take(message.id, message.result)
        elif isinstance(message, jsonrpc.Failure):
            self._server_requests.take(message.id, message.error)
        elif message.method == CANCELLED:
            self._cancel(message.params or {})
        else:
            self._dispatcher.notified(self.session, message.method, message.params)
        return None

    def _take_malformed(
        self, value: Any, answers: Answers, error: InvalidMessage
    ) -> RPCError:
        refusal = InvalidRequest(str(error))
        id = value.get("id") if type(value) is dict else None
        if jsonrpc.is_request_id(id):
            if "method" not in value:
                self._server_requests.take(id, error)
            elif answers.is_batch:
                answers.expect_response()
                self._reply(answers, id, refusal)
        return refusal

    def _cancel(self, params: dict[str, Any]) -> None:
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
            error = RPCError("request cancelled", code=REQUEST_CANCELLED)
            self._reply(answers, id, error)
        else:
            answers.withdraw()

    def _take_request(
        self, message: jsonrpc.Request, answers: Answers, exchange: Exchange, size: int
    ) -> None:
        id = message.id
        dispatcher = self._dispatcher
        params = message.params or {}
        try:
            if id in self._open or id in answers.ids:
                raise InvalidRequest("a request with this id is being answered")
            if answers.is_batch:
                answers.ids.add(id)
            if message.method == INITIALIZE:
                again = dispatcher.initialize(params, self.session, exchange.info)
                self._reply(answers, id, again[1])
                return
            if answers.is_batch and dispatcher.opens_alone(params):
                raise InvalidRequest("what stands alone is not part of a batch")
            can_ask = not self._shared.is_stateless
            request = dispatcher.admit(
                id,
                message.method,
                params,
                self.session,
                partial(self._notify, answers),
                ask=partial(self._ask, answers=answers) if can_ask else None,
                info=exchange.info_with(answers.pause if self.can_pause else None),
            )
            result = dispatcher.answer_now(request, params)
        except RPCError as error:
            self._reply(answers, id, error)
            return
        if result is not None:
            self._reply(answers, id, result)
            return
        self._open[id] = request, answers
        if self._tasks is None:
            limits = dispatcher.limits
            self._tasks = InboundTasks(
                limit=limits.inbound, backlog=limits.notifications, room=self.room
            )
        self._tasks.start(
            id,
            partial(dispatcher.perform, request, params),
            partial(self._answered, request, answers),
            size,
        )

    def _answered(
        self,
        request: RequestContext,
        answers: Answers,
        answer: dict[str, Any] | RPCError,
    ) -> None:
        del self._open[request.id]
        request.close()
        self._reply(answers, request.id, answer)

    def _reply(
        self, answers: Answers, id: RequestId, answer: dict[str, Any] | RPCError
    ) -> None:
        status: tuple[int, Fields] | None = None
        if isinstance(answer, HttpRefusal):
            status = answer.http_status, answer.http_headers
        answers.answer(encode_answer(id, answer), status)

    # Streams...

    def open_stream(self) -> Stream:
        """Return a new stream, for the answer to a POST."""
        self._begin_journal()
        self._last_stream += 1
        stream = self._streams[self._last_stream] = Stream(self._last_stream, self)
        return stream

    def finish(self, answers: Answers) -> None:
        """Let go of a POST that has been answered."""
        if self._shared.is_stateless:
            self._shared.alone.discard(self)
        stream = answers.stream
        if stream is None:
            return
        self._streams.pop(stream.number, None)
        if self.journal is None:
            return
        if not answers.has_answer:
            # All of it was withdrawn: a client that asked for the rest would not stop.
            self.journal.drop_stream(stream.number)
            return
        self._ended_streams[stream.number] = stream.last
        if len(self._ended_streams) > ENDED_STREAMS_KEPT:
            # The store lets go of it by itself, as of all that grows old.
            del self._ended_streams[next(iter(self._ended_streams))]

    def open_server_stream(self) -> tuple[Stream, SseWriter]:
        """Return the stream of a GET and its writer. Raises `HttpProblem`."""
        stream = self.server_stream
        if stream.writer is not None:
            # To take it over would be to take it away from the client that has it.
            raise HttpProblem(409, "the session has its GET stream already")
        writer = SseWriter(self.room)
        stream.open(writer)
        return stream, writer

    async def resume(self, last_event_id: str) -> tuple[Stream, SseWriter]:
        """Return a stream and its writer, which begins after that event."""
        mark, number, after = parse_event_id(last_event_id) or ("", 0, 0)
        stream = self._find_stream(number) if mark == self.mark else None
        if stream is None or self.journal is None or after > stream.last:
            raise HttpProblem(400, NOT_KEPT)
        writer = SseWriter(self.room)
        is_live = number not in self._ended_streams
        if is_live:
            # What is sent from now on follows what is replayed. It takes the place of
            # the writer before: the client noticed the broken connection first.
            stream.attach(writer)
        events = None
        try:
            events = await self.journal.replay(number, after, stream.last)
        finally:
            if events is None:
                stream.detach(writer)
        if events is None or self.is_closed:
            raise HttpProblem(400, NOT_KEPT)
        if isinstance(stream, ServerStream):
            stream.take_backlog()  # it is part of the events
        writer.put_before(
            [(e.sequence, stream.encode(e.sequence, e.data)) for e in events]
        )
        if not is_live:
            writer.end()
        return stream, writer

    def _find_stream(self, number: int) -> Stream | None:
        if number == STANDALONE:
            return self.server_stream
        if number in self._ended_streams:
            stream = Stream(number, self)
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
        unanswered, self._open = self._open, {}
        tasks = [] if self._tasks is None else self._tasks.close()
        self._server_requests.close()
        for id, (request, answers) in unanswered.items():
            request.is_cancelled = True
            # Not as if the session had been unknown: the request may have had effects,
            # and nobody should take it for one that has not run.
            error = InternalError("the session ended before the answer")
            self._reply(answers, id, error)
        for stream in self._streams.values():
            stream.end()
        if self._server_stream is not None:
            self._server_stream.end()
        self._streams.clear()
        self.forget()
        return tasks

    def forget(self) -> None:
        """Let go of what is kept: nothing runs here any more."""
        self.is_closed = self.session.is_closed = True
        self.session.send, self.session.ask = lambda *_: None, None
        if self.journal is not None:
            self.journal.drop()


class Sessions:
    """The sessions of one server, by their ids.

    A session is idle if no request runs in it and no GET reads from it. Idle ones go
    after a while, and before that when room is needed: see `FairPool.to_displace`.
    With `stateless` there are none at all: each POST stands alone.
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
        self.dispatcher = dispatcher
        self.store: EventStore | None = None
        if not (stateless or event_store is False):
            if event_store is None or isinstance(event_store, bool):
                event_store = MemoryEventStore()
            self.store = event_store
        self.retry = retry
        self.is_stateless = stateless
        both = (ask_timeout, dispatcher.ask_timeout)
        self.ask_timeout = min((t for t in both if t is not None), default=None)
        self.alone: set[HttpSession] = set()  # what answers POSTs without a session
        self._revisions = {
            r.name: r for r in dispatcher.revisions if r.era is Era.SESSION
        }
        self._idle = idle
        self._maximum = maximum
        # The least recently used one is the first.
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()
        self._pool: FairPool[HttpSession] = FairPool()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Sessions on their way in, which count towards the maximum.
        self._opening = 0
        self._resuming: dict[
            tuple[str, object], asyncio.Task[HttpSession | HttpProblem]
        ] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[HttpSession]:
        return iter((*self._sessions.values(), *self.alone))

    # POST...

    async def serve(self, exchange: Exchange, body: Any) -> None:
        """Answer a POST with the decoded JSON of its body."""
        is_initialize = type(body) is dict and body.get("method") == INITIALIZE
        try:
            revision = self._revision_of(exchange, is_initialize=is_initialize)
            if is_initialize and (
                self.is_stateless or _SESSION not in exchange.headers
            ):
                await self._initialize(exchange, body)
                return
            if self.is_stateless:
                # Nothing is known of it but its revision.
                opened = Session(revision, {}, {}, is_initialized=True)
                session = HttpSession(self, opened, "")
                self.alone.add(session)
            else:
                session = await self._find(exchange)
            answers = self._take(exchange, session, body)
        except HttpProblem as problem:
            problem.id = id_in(body)
            raise
        try:
            if answers.expects_any:
                await answers.respond(exchange)
            else:
                # 2025-11-25 basic/transports, "Sending Messages to the Server".
                await exchange.reply(202)
        finally:
            self._touch(session)

    def _revision_of(self, exchange: Exchange, *, is_initialize: bool) -> Revision:
        """Return the revision in a request's head; a session only has it checked."""
        version = exchange.headers.get(_VERSION)
        if version is None:
            return ASSUMED
        revision = self._revisions.get(version)
        if revision is not None:
            return revision
        if is_initialize and find_revision(version) is not None:
            # The body says what is wanted, and may want what is not spoken here.
            return ASSUMED
        raise HttpProblem(
            400,
            f"the MCP-Protocol-Version {version[:40]!r} is not among those that have "
            f"sessions here: {', '.join(self._revisions)}",
        )

    async def _find(self, exchange: Exchange) -> HttpSession:
        """Return the session that a request names. Raises `HttpProblem`."""
        id = exchange.headers.get(_SESSION)
        if id is None:
            raise HttpProblem(400, NO_SESSION)
        # The id is a secret and may be looked up all the same: the hash of a text is
        # keyed by chance, and two texts are compared only where all of it is equal.
        session = self._sessions.get(id)
        if session is None:
            session = await self._resume(exchange, id)
        # 2025-11-25 security best practices, "Session Hijacking": an id proves nothing.
        if not session.belongs_to(exchange.principal):
            raise HttpProblem(*UNKNOWN_SESSION)
        self._touch(session)
        return session

    def _take(self, exchange: Exchange, session: HttpSession, body: Any) -> Answers:
        """Take in what was posted; return its answers. Raises `HttpProblem`."""
        is_batch = type(body) is list
        answers = Answers(session, is_batch=is_batch)
        try:
            if is_batch:
                self._check_batch(session.session.revision, body)
            values = body if is_batch else [body]
            size = exchange.size // len(values)
            refusals = [session.take(each, answers, exchange, size) for each in values]
        finally:
            answers.seal()  # which lets go of a session for one POST
        refusal = refusals[0]
        if refusal is not None and not answers.expects_any and None not in refusals:
            raise HttpProblem(400, refusal)
        return answers

    def _check_batch(self, revision: Revision, body: list[Any]) -> None:
        limit = self.dispatcher.limits.batch
        if not revision.receives_batches:
            # 2025-06-18 changelog: batches were removed again.
            raise HttpProblem(400, "batches belong to revision 2025-03-26 only")
        if not body:
            raise HttpProblem(400, "a batch must not be empty")
        if len(body) > limit:
            raise HttpProblem(400, f"a batch must not be longer than {limit} messages")

    # The beginning of a session...

    async def _initialize(self, exchange: Exchange, body: dict[str, Any]) -> None:
        try:
            message = jsonrpc.parse_message(body)
        except InvalidMessage as error:
            raise HttpProblem(400, InvalidRequest(str(error))) from None
        if not isinstance(message, jsonrpc.Request):
            raise HttpProblem(400, "initialize must be a request")
        params = message.params
        fields: Fields = ()
        dispatcher = self.dispatcher
        try:
            if self.is_stateless:
                _, result = dispatcher.initialize(params, None, exchange.info)
            else:
                if dispatcher.opens_later:
                    opened, result = await self._open_later(exchange, params)
                else:
                    opened, result = dispatcher.initialize(params, None, exchange.info)
                fields = ((SESSION_ID, self._add_new(opened, exchange)),)
        except RPCError as error:
            raise as_problem(error) from None
        await exchange.reply(200, jsonrpc.success(message.id, result), fields)

    async def _open_later(
        self, exchange: Exchange, params: dict[str, Any] | None
    ) -> tuple[Session, dict[str, Any]]:
        """Open a session that takes its time; leave nothing if the client goes away."""
        if not self._has_room(exchange.owner):
            raise HttpProblem(*TOO_MANY_SESSIONS)
        self._opening += 1
        loop = asyncio.get_running_loop()
        opening = loop.create_task(
            self.dispatcher.open_session(params, None, exchange.info),
            name="mcpwire-http-open",
        )
        watching = loop.create_task(exchange.watch(), name="mcpwire-http-watch")
        # What a web server raises instead of saying that the client is gone means the
        # same.
        watching.add_done_callback(lambda task: task.cancelled() or task.exception())
        watching.add_done_callback(lambda _: opening.cancel())
        is_wanted = False
        try:
            await asyncio.wait([opening])
            is_wanted = not watching.done()
        finally:
            self._opening -= 1
            if not is_wanted:
                opening.add_done_callback(self._let_go)
                opening.cancel()  # which does nothing to one that is done
            watching.cancel()
            await asyncio.wait([opening, watching])
        if not is_wanted:
            raise ClientGone
        return opening.result()

    def _let_go(self, opening: asyncio.Task[tuple[Session, dict[str, Any]]]) -> None:
        """Let go of a session that was opened for a client that has left."""
        if not opening.cancelled() and opening.exception() is None:
            self.dispatcher.session_left(opening.result()[0])

    def _add_new(self, opened: Session, exchange: Exchange) -> str:
        """Take in a session; return its id. Raises `RPCError` and `HttpProblem`."""
        opened.principal = exchange.principal
        if not self._has_room(exchange.owner):
            self.dispatcher.session_left(opened)
            raise HttpProblem(*TOO_MANY_SESSIONS)
        try:
            # 2025-11-25 basic/transports, "Session Management": globally unique,
            # visible ASCII; security best practices: not to be guessed.
            id = self.dispatcher.new_session_id(opened)
        except RPCError:
            self.dispatcher.session_left(opened)
            raise
        id = id or secrets.token_urlsafe(ID_BYTES)
        self._add(opened, exchange.owner, id)
        return id

    def _has_room(self, owner: Owner) -> bool:
        """Tell whether one more session has room; another may have to go for it."""
        if len(self._sessions) + self._opening < self._maximum:
            return True
        found = self._pool.to_displace(owner, HttpSession.is_idle)
        if found is not None:
            self._remove(found)
        return found is not None

    def _add(self, opened: Session, owner: Owner, id: str) -> HttpSession:
        if id in self._sessions:
            raise ValueError("two sessions have one id")
        self.dispatcher.hub.add(opened)
        session = HttpSession(self, opened, owner)
        opened.id = id
        opened.end = partial(self._remove, session)
        self._sessions[id] = session
        self._pool.add(session, owner)
        self._touch(session)
        if self._timer is None:
            self._arm()
        return session

    def _touch(self, session: HttpSession) -> None:
        """Note that a session is used, if it is still here."""
        id = session.session.id
        if id is not None and self._sessions.get(id) is session:
            session.used_at = asyncio.get_running_loop().time()
            self._sessions.move_to_end(id)
            self._pool.touch(session)

    # Sessions that are opened again...

    async def _resume(self, exchange: Exchange, id: str) -> HttpSession:
        """Return the session of an id that is not here, if the dispatcher knows it.

        Requests that come meanwhile wait for the first. It goes on also if this is
        cancelled: the next request finds it.
        """
        principal = exchange.principal
        key = id, principal and principal.key
        resuming = self._resuming.get(key)
        if resuming is None:
            resuming = asyncio.get_running_loop().create_task(
                self._open_again(id, exchange.info), name="mcpwire-http-resume"
            )
            self._resuming[key] = resuming
            resuming.add_done_callback(lambda _: self._resuming.pop(key, None))
        try:
            found = await wait_shared(resuming)
        except asyncio.CancelledError:
            if resuming.cancelled():  # the server ends, and cancels none that wait
                raise HttpProblem(*UNKNOWN_SESSION) from None
            raise
        if isinstance(found, HttpProblem):  # several may wait: each raises its own
            raise HttpProblem(found.status, found.error, found.headers)
        return found

    async def _open_again(
        self, id: str, info: RequestInfo
    ) -> HttpSession | HttpProblem:
        # An id that is unknown takes no session's place, so room is made only after it.
        self._opening += 1
        try:
            resumed = await self.dispatcher.resume_session(id, info)
        except RPCError as error:
            return as_problem(error)
        finally:
            self._opening -= 1
        if resumed is None:
            return HttpProblem(*UNKNOWN_SESSION)
        if not self._has_room(info.owner):
            self.dispatcher.session_left(resumed)
            return HttpProblem(*TOO_MANY_SESSIONS)
        session = self._add(resumed, info.owner, id)
        # Its client has said so before.
        self.dispatcher.notified(resumed, INITIALIZED, None)
        return session

    # GET and DELETE...

    async def serve_get(self, exchange: Exchange) -> None:
        """Answer a GET: open a session's stream, or resume one."""
        self._check_named(exchange)
        session = await self._find(exchange)
        last_event_id = exchange.headers.get(_LAST_EVENT)
        if last_event_id:
            stream, writer = await session.resume(last_event_id)
        else:
            stream, writer = session.open_server_stream()
        session.writers += 1
        try:
            await writer.run(exchange)
        finally:
            stream.detach(writer)
            session.writers -= 1
            self._touch(session)

    async def serve_delete(self, exchange: Exchange) -> None:
        """Answer a DELETE: end a session, and wait until it has ended."""
        self._check_named(exchange)
        dispatcher = self.dispatcher
        id = exchange.headers.get(_SESSION)
        if id is None or id in self._sessions:
            session = await self._find(exchange)
            assert session.session.id is not None
            dispatcher.withdraw_session_id(session.session.id)
            self._remove(session)
            await dispatcher.session_closed(session.session)
        elif not await dispatcher.delete_session(id, exchange.info):
            raise HttpProblem(*UNKNOWN_SESSION)
        await exchange.reply(204)

    def _check_named(self, exchange: Exchange) -> None:
        if self.is_stateless:
            raise HttpProblem(405, "there are no sessions here", (("allow", "POST"),))
        self._revision_of(exchange, is_initialize=False)

    # The end...

    def _arm(self) -> None:
        """Set the timer for the session that was not used for longest."""
        first = next(iter(self._sessions.values()))
        self._timer = asyncio.get_running_loop().call_at(
            first.used_at + self._idle, self._sweep
        )

    def _sweep(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._sessions:
            session = next(iter(self._sessions.values()))
            if session.used_at + self._idle > now:
                self._arm()
                return
            if session.is_idle():
                self._remove(session)
            else:
                self._touch(session)

    def _remove(self, session: HttpSession) -> None:
        """End a session, if it is still here."""
        id = session.session.id
        if id is not None and self._sessions.get(id) is session:
            del self._sessions[id]
            self._pool.discard(session)
            session.session.end = None
            self.dispatcher.session_left(session.session)
            self._stop(session)

    def _stop(self, session: HttpSession) -> None:
        for task in session.close():
            self._own(task)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that outlives its session."""
        self._own(asyncio.get_running_loop().create_task(work, name="mcpwire-events"))

    def _own(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self, seconds: float) -> None:
        """Wait until all requests are answered, but not longer than that."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        for session in self:
            await session.settle(deadline - loop.time())

    def forget(self) -> None:
        """Let go of everything that was on a loop that has ended, on the next one."""
        self._tasks.clear()
        self._resuming.clear()
        self._opening = 0
        for session in self:
            if session.session.id is not None:
                session.session.end = None
                self.dispatcher.session_left(session.session)
            session.forget()
        self._sessions.clear()
        self._pool.clear()
        self.alone.clear()
        self._timer = None

    async def aclose(self) -> None:
        """End all sessions, their requests and streams, and close the store."""
        resuming = list(self._resuming.values())
        for task in resuming:
            task.cancel()
        if resuming:
            await asyncio.wait(resuming, timeout=CLOSE_GRACE_S)
        for session in list(self._sessions.values()):
            self._remove(session)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for session in list(self.alone):
            self._stop(session)
        self.alone.clear()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CLOSE_GRACE_S)
            for late_task in late:
                late_task.cancel()
        if self.store is not None:
            await self.store.aclose()
