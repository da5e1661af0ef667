"""Sessions over HTTP: POST, GET and DELETE of the revisions up to 2025-11-25.

::

      initialize ──► id ──► POST, GET with the id ──► DELETE, idle, too many
                             │
                             ├─ id not in this process: the dispatcher may resume it
                             └─ unknown, ended or another client's: the same 404

2025-11-25 basic/transports, "Session Management" and "Protocol Version Header";
2025-03-26 basic, "Batching". The application has already checked authentication,
formats and sizes, and that a POST belongs to a session.
"""

from __future__ import annotations

import asyncio
import secrets
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
from mcpwire.limits import check_bounds
from mcpwire.protocol.request_validation import read_request_id
from mcpwire.server.dispatcher import INITIALIZE, INITIALIZED, Dispatcher, HttpRefusal
from mcpwire.server.fair_pool import FairPool, client_key
from mcpwire.server.http.event_store import Journal, MemoryEventStore, parse_event_id
from mcpwire.server.http.exchange import (
    ClientGone,
    HttpProblem,
    Stoppable,
    TimerQueue,
    as_problem,
    encode_answer,
    end_task,
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
from mcpwire.versions import REVISIONS, Era, Revision, find_revision
from mcpwire.wire import jsonrpc
from mcpwire.wire.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from mcpwire.server.http.event_store import EventStore
    from mcpwire.server.http.exchange import Exchange, Fields
    from mcpwire.server.request import Owner, RequestContext, RequestInfo
    from mcpwire.wire.jsonrpc import RequestId

    Send = Callable[[bytes], None]

logger = LimitedLogger("mcpwire")

# The status and the error of each refusal. Whether a session exists must not show to
# other clients (2025-11-25 security best practices, "Session Hijacking"): ids that are
# unknown, ended or another client's get the same response.
UNKNOWN_SESSION: Final = 404, InvalidRequest("the session is unknown or has ended")
TOO_MANY_SESSIONS: Final = (
    503,
    InvalidRequest("too many sessions are in use"),
    (("retry-after", "5"),),
)
NO_SESSION: Final = "the request needs an Mcp-Session-Id; initialize gives one"
EVENTS_GONE: Final = "the events after this Last-Event-ID are not kept"

CANCELLED: Final = "notifications/cancelled"

REQUEST_CANCELLED: Final = -32800
"""The code of the Language Server Protocol for a cancelled request; MCP has none."""

DEFAULT_REVISION: Final = REVISIONS[1]
"""The revision of a request without MCP-Protocol-Version."""

PAUSES_SINCE: Final = REVISIONS[3]
"""The first revision in which a stream may end before its response, to be resumed.

2025-11-25 basic/transports, "Sending Messages to the Server": such a stream starts with
an event that has an id and no data, which older clients would parse as a message.
"""

ID_BYTES: Final = 32
"""Random bytes of a session id; 16 would do."""

MAX_ENDED_STREAMS: Final = 256
"""How many ended streams of a session are remembered, so that they can be resumed."""

CLOSE_GRACE_S: Final = 0.5
"""How long cancelled handlers and event stores may take to finish, in seconds."""

_SESSION: Final = SESSION_ID.lower()
_VERSION: Final = PROTOCOL_VERSION.lower()
_LAST_EVENT: Final = LAST_EVENT_ID.lower()


class ServerRequests:
    """The pending requests of a server to one client; ids from 1 are never reused."""

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[RequestId, tuple[str, asyncio.Future[dict[str, Any]]]] = {}

    async def ask(
        self, send: Send, method: str, params: dict[str, Any], timeout: float | None
    ) -> dict[str, Any]:
        """Send a request; return the client's result or raise its error."""
        loop = asyncio.get_running_loop()
        id = self._last + 1
        data = encode(jsonrpc.request(id, method, params))
        self._last = id
        future: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._open[id] = method, future
        started_at = loop.time()
        reason = "the request that it belongs to has ended"
        try:
            send(data)
            await asyncio.wait([future], timeout=timeout)
            if timeout is not None and not future.done():
                reason, elapsed = "timeout", loop.time() - started_at
                raise RequestTimeout(method=method, timeout=timeout, elapsed=elapsed)
            return future.result()
        finally:
            del self._open[id]
            if future.cancel():  # 2025-11-25 basic/utilities/cancellation
                notice = {"requestId": id, "reason": reason}
                send(encode(jsonrpc.notification(CANCELLED, notice)))
            else:
                future.exception()  # this task may be cancelled at the same time

    def resolve(self, id: RequestId | None, answer: dict[str, Any] | MCPError) -> None:
        """Deliver a response; drop it if no request with its id is pending."""
        # Our ids are integers; 1.0 and True were rejected earlier.
        pending = self._open.get(id) if type(id) is int else None
        if pending is None or pending[1].done():  # only the first response counts
            return
        method, future = pending
        if not isinstance(answer, MCPError):
            future.set_result(answer)
            return
        if isinstance(answer, RPCError):
            answer.method = method
        future.set_exception(answer)

    def close(self) -> None:
        """Fail all pending requests: the session has ended."""
        for id, (method, _) in self._open.items():
            self.resolve(id, ConnectionClosed(f"{method}: the session has ended"))


class HttpSession:
    """One session: its running requests, its streams, its open requests to the client.

    The HTTP counterpart of `server.connection`, which serves a duplex stream.
    """

    def __init__(self, sessions: Sessions, session: Session, owner: Owner) -> None:
        self._sessions = sessions
        self._dispatcher = sessions.dispatcher
        self._owner = owner
        # Created on demand: there may be 10,000 sessions, most of them idle.
        self._tasks: InboundTasks | None = None
        self._server_stream: ServerStream | None = None
        self.journal: Journal | None = None
        self._open: dict[RequestId, tuple[RequestContext, Answers]] = {}
        self._server_requests = ServerRequests()
        self._streams: dict[int, Stream] = {}
        self._ended_streams: dict[int, int] = {}  # stream number to last sequence
        self._last_stream = STANDALONE
        self.mark = secrets.token_hex(8)  # public name, as the session id is a secret
        self.can_pause = sessions.store is not None and session.revision >= PAUSES_SINCE
        self.retry = sessions.retry
        self.is_json_only = sessions.is_json_only
        self.room = sessions.dispatcher.limits.unwritten  # of a stream, in bytes
        self.is_closed = False
        self.session = session
        self.writers = 0  # GETs with an open response
        if not sessions.is_stateless:
            session.send = self.send
            session.ask = self._ask

    def is_idle(self) -> bool:
        """Return whether no request runs in the session and no GET is open."""
        return not (self._open or self.writers)

    def expire(self) -> None:
        """Handle the end of the idle timeout."""
        self._sessions.expire(self)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def server_stream(self) -> ServerStream:
        """The stream for messages that belong to no call."""
        if self._server_stream is None:
            self._ensure_journal()
            limits = self._dispatcher.limits
            self._server_stream = ServerStream(
                self, backlog=limits.notifications, room=self.room
            )
        return self._server_stream

    def _ensure_journal(self) -> None:
        store = self._sessions.store
        if self.journal is None and store is not None:
            key = client_key(self.mark, self._owner)
            self.journal = Journal(store, key, self._sessions.start_task, self.room)

    # Messages to the client

    def send(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification that belongs to no request."""
        self.server_stream.send(encode(jsonrpc.notification(method, params)))

    async def _ask(
        self, method: str, params: dict[str, Any], answers: Answers | None = None
    ) -> dict[str, Any]:
        def send(data: bytes) -> None:
            # 2025-11-25 basic/transports: a server request that belongs to a call goes
            # on the stream of that call. Its cancellation may follow after that stream.
            if answers is not None and not answers.is_over:
                answers.send(data)
            elif not self.is_closed:
                self.server_stream.send(data)

        seconds = self._sessions.ask_timeout
        return await self._server_requests.ask(send, method, params, seconds)

    def _notify(self, answers: Answers, method: str, params: dict[str, Any]) -> None:
        answers.send(encode(jsonrpc.notification(method, params)))

    # Messages from the client

    def handle_message(
        self, value: Any, answers: Answers, exchange: Exchange, size: int
    ) -> RPCError | None:
        """Handle one message of a POST, of `size` bytes; return its error, if any."""
        try:
            message = jsonrpc.parse_message(value)
        except InvalidMessage as error:
            return self._handle_malformed(value, answers, error)
        if isinstance(message, jsonrpc.Request):
            answers.expect_response()
            self._handle_request(message, answers, exchange, size)
        elif isinstance(message, jsonrpc.Success):
            self._server_requests.resolve(message.id, message.result)
        elif isinstance(message, jsonrpc.Failure):
            self._server_requests.resolve(message.id, message.error)
        elif message.method == CANCELLED:
            self._cancel(message.params or {})
        else:
            self._dispatcher.on_notification(
                self.session, message.method, message.params
            )
        return None

    def _handle_malformed(
        self, value: Any, answers: Answers, error: InvalidMessage
    ) -> RPCError:
        refusal = InvalidRequest(str(error))
        id = value.get("id") if type(value) is dict else None
        if jsonrpc.is_request_id(id):
            if "method" not in value:
                self._server_requests.resolve(id, error)
            elif answers.is_batch:
                answers.expect_response()
                self._reply(answers, id, refusal)
        return refusal

    def _cancel(self, params: dict[str, Any]) -> None:
        """Cancel the handler of a request on behalf of the client."""
        id = params.get("requestId")
        if not jsonrpc.is_request_id(id) or id not in self._open:
            return
        request, answers = self._open.pop(id)
        # 2025-11-25 basic/utilities/cancellation, "Implementation Notes".
        logger.debug("%r is cancelled: %.100r", request, params.get("reason"))
        request.is_cancelled = True
        assert self._tasks is not None  # it runs all open requests
        self._tasks.cancel(id)
        if self._dispatcher.answers_cancelled:
            error = RPCError("request cancelled", code=REQUEST_CANCELLED)
            self._reply(answers, id, error)
        else:
            answers.withdraw()

    def _handle_request(
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
                initialized = dispatcher.initialize(params, self.session, exchange.info)
                self._reply(answers, id, initialized[1])
                return
            if answers.is_batch and dispatcher.is_stateless_request(params):
                raise InvalidRequest("this message must not be part of a batch")
            can_ask = not self._sessions.is_stateless
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
            partial(self._on_answer, request, answers),
            size,
        )

    def _on_answer(
        self,
        request: RequestContext,
        answers: Answers,
        answer: dict[str, Any] | RPCError,
    ) -> None:
        del self._open[request.id]
        self._reply(answers, request.id, answer)

    def _reply(
        self, answers: Answers, id: RequestId, answer: dict[str, Any] | RPCError
    ) -> None:
        status: tuple[int, Fields, str] | None = None
        if isinstance(answer, HttpRefusal):
            status = answer.http_status, answer.http_headers, answer.message
        answers.answer(encode_answer(id, answer), status)

    # Streams

    def open_stream(self) -> Stream:
        """Return a new stream for the responses to a POST."""
        self._ensure_journal()
        self._last_stream += 1
        stream = self._streams[self._last_stream] = Stream(self._last_stream, self)
        return stream

    def finish(self, answers: Answers) -> None:
        """Discard the state of a POST that is fully answered."""
        if self._sessions.is_stateless:
            self._sessions.stateless_sessions.discard(self)
        stream = answers.stream
        if stream is None:
            return
        self._streams.pop(stream.number, None)
        if self.journal is None:
            return
        if not answers.has_answer:
            # All requests were cancelled: the client would reconnect without end.
            self.journal.drop_stream(stream.number)
            return
        self._ended_streams[stream.number] = stream.last
        if len(self._ended_streams) > MAX_ENDED_STREAMS:
            # The store expires its events by age.
            del self._ended_streams[next(iter(self._ended_streams))]

    def open_server_stream(self) -> tuple[Stream, SseWriter]:
        """Return the stream of a GET and its writer. Raises `HttpProblem`."""
        stream = self.server_stream
        if stream.writer is not None:
            # A second GET must not take the stream away from the first client.
            raise HttpProblem(409, "the session already has a GET stream")
        writer = SseWriter(self.room)
        stream.open(writer)
        return stream, writer

    async def resume(self, last_event_id: str) -> tuple[Stream, SseWriter]:
        """Return the stream of an event and a writer, which starts after that event."""
        mark, number, after = parse_event_id(last_event_id) or ("", 0, 0)
        stream = self._find_stream(number) if mark == self.mark else None
        if stream is None or self.journal is None or after > stream.last:
            raise HttpProblem(400, EVENTS_GONE)
        writer = SseWriter(self.room)
        is_live = number not in self._ended_streams
        if is_live:
            # New messages follow the replayed ones. The new writer replaces an earlier
            # one: the client noticed the broken connection before the server did.
            stream.attach(writer)
        events = None
        try:
            events = await self.journal.replay(number, after, stream.last)
        finally:
            if events is None:
                stream.detach(writer)
        if events is None or self.is_closed:
            raise HttpProblem(400, EVENTS_GONE)
        if isinstance(stream, ServerStream):
            stream.take_backlog()  # the replayed events include it
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

    # Shutdown

    async def settle(self, seconds: float) -> None:
        """Wait until all requests have been answered, up to this many seconds."""
        if self._tasks is not None:
            await self._tasks.settle(seconds)

    def close(self) -> list[asyncio.Task[None]]:
        """End the session and its streams; return the tasks that are still running."""
        if self.is_closed:
            return []
        unanswered, self._open = self._open, {}
        tasks = [] if self._tasks is None else self._tasks.close()
        self._server_requests.close()
        for id, (request, answers) in unanswered.items():
            request.is_cancelled = True
            # Not the error of an unknown session: the request may have had effects, and
            # the client must not conclude that it has not run.
            error = InternalError("the session ended before the answer")
            self._reply(answers, id, error)
        for stream in self._streams.values():
            stream.end()
        if self._server_stream is not None:
            self._server_stream.end()
        self._streams.clear()
        self.reset()
        return tasks

    def reset(self) -> None:
        """Mark the session as closed and drop its journal, without ending tasks."""
        self.is_closed = self.session.is_closed = True
        self.session.send, self.session.ask = lambda *_: None, None
        if self.journal is not None:
            self.journal.drop()


class Sessions:
    """The sessions of one server, by id.

    A session is idle if no request runs in it and no GET is open. Idle sessions expire
    after a timeout, or earlier to make room: see `FairPool.find_displaceable`. With
    `stateless` the server has no sessions: each POST is independent.
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
        json_only: bool = False,
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
        self.is_json_only = stateless and json_only
        timeouts = (ask_timeout, dispatcher.ask_timeout)
        self.ask_timeout = min((t for t in timeouts if t is not None), default=None)
        # One per running POST in stateless mode.
        self.stateless_sessions: set[HttpSession] = set()
        self._revisions = {
            r.name: r for r in dispatcher.revisions if r.era is Era.SESSION
        }
        self._idle_timers = TimerQueue(idle)
        self._maximum = maximum
        self._sessions: dict[str, HttpSession] = {}
        self._pool: FairPool[HttpSession] = FairPool()
        self._tasks: set[asyncio.Task[None]] = set()
        # Sessions that are being opened count towards the maximum.
        self._opening = 0
        self._resuming: dict[
            tuple[str, object], asyncio.Task[HttpSession | HttpProblem]
        ] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[HttpSession]:
        return iter((*self._sessions.values(), *self.stateless_sessions))

    # POST

    async def serve(self, exchange: Exchange, body: Any) -> None:
        """Serve a POST; `body` is the decoded JSON."""
        is_initialize = type(body) is dict and body.get("method") == INITIALIZE
        try:
            revision = self._revision_of(exchange, is_initialize=is_initialize)
            if is_initialize and (
                self.is_stateless or _SESSION not in exchange.headers
            ):
                await self._initialize(exchange, body)
                return
            if self.is_stateless:
                # Only the revision of the client is known.
                new_session = Session(revision, {}, {}, is_initialized=True)
                session = HttpSession(self, new_session, "")
                self.stateless_sessions.add(session)
            else:
                session = await self._find_session(exchange)
            answers = self._handle_messages(exchange, session, body)
        except HttpProblem as problem:
            problem.id = read_request_id(body)
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
        """Return the revision that a request's header names, or the assumed one."""
        version = exchange.headers.get(_VERSION)
        if version is None:
            return DEFAULT_REVISION
        revision = self._revisions.get(version)
        if revision is not None:
            return revision
        if is_initialize and find_revision(version) is not None:
            # The body negotiates the revision and may ask for an unsupported one.
            return DEFAULT_REVISION
        raise HttpProblem(
            400,
            f"the MCP-Protocol-Version {version[:40]!r} is not among those that have "
            f"sessions here: {', '.join(self._revisions)}",
        )

    async def _find_session(self, exchange: Exchange) -> HttpSession:
        """Return the session of a request's id. Raises `HttpProblem`."""
        id = exchange.headers.get(_SESSION)
        if id is None:
            raise HttpProblem(400, NO_SESSION)
        # Looking up the secret id in a dict leaks nothing by timing: string hashes are
        # keyed randomly, and texts are compared only if their hashes are equal.
        session = self._sessions.get(id)
        if session is None:
            session = await self._resume(exchange, id)
        # 2025-11-25 security best practices, "Session Hijacking": an id proves nothing.
        serves = self.dispatcher.serves_session
        owner, principal = session.session.principal, exchange.principal
        if (owner and owner.key) != (principal and principal.key) or (
            serves is not None and not serves(session.session, exchange.scope)
        ):
            raise HttpProblem(*UNKNOWN_SESSION)
        self._touch(session)
        return session

    def _handle_messages(
        self, exchange: Exchange, session: HttpSession, body: Any
    ) -> Answers:
        """Handle the messages of a POST; return its responses. Raises `HttpProblem`."""
        is_batch = type(body) is list
        answers = Answers(session, is_batch=is_batch)
        try:
            if is_batch:
                self._check_batch(session.session.revision, body)
            values = body if is_batch else [body]
            size = exchange.size // len(values)
            refusals = [
                session.handle_message(value, answers, exchange, size)
                for value in values
            ]
        finally:
            answers.seal()  # this discards the session of a stateless POST
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

    # Opening of sessions

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
            if dispatcher.opens_in_task and not self.is_stateless:
                new_session, result = await self._open_session(exchange, params)
            else:
                new_session, result = dispatcher.initialize(params, None, exchange.info)
            if not self.is_stateless:
                fields = ((SESSION_ID, self._add_new(new_session, exchange)),)
        except RPCError as error:
            raise as_problem(error) from None
        await exchange.reply(200, jsonrpc.success(message.id, result), fields)

    async def _open_session(
        self, exchange: Exchange, params: dict[str, Any] | None
    ) -> tuple[Session, dict[str, Any]]:
        """Open a session asynchronously; discard it if the client disconnects."""
        if not self._has_room(exchange.owner):
            raise HttpProblem(*TOO_MANY_SESSIONS)
        self._opening += 1
        running = Stoppable()
        watching = asyncio.get_running_loop().create_task(
            exchange.watch(), name="mcpwire-http-watch"
        )
        watching.add_done_callback(lambda _: running.stop())
        try:
            with running:
                opened = await self.dispatcher.open_session(params, None, exchange.info)
            is_gone = watching.done()
        except Exception:
            if running.is_stopped:
                raise ClientGone from None
            raise
        finally:
            self._opening -= 1
            await end_task(watching)
        if is_gone:
            self.dispatcher.discard_session(opened[0])
            raise ClientGone
        return opened

    def _add_new(self, new_session: Session, exchange: Exchange) -> str:
        """Add a new session; return its id. Raises `RPCError` and `HttpProblem`."""
        if not self._has_room(exchange.owner):
            self.dispatcher.discard_session(new_session)
            raise HttpProblem(*TOO_MANY_SESSIONS)
        try:
            # 2025-11-25 basic/transports, "Session Management": globally unique,
            # visible ASCII; security best practices: unpredictable.
            id = self.dispatcher.new_session_id(new_session)
        except RPCError:
            self.dispatcher.discard_session(new_session)
            raise
        id = id or secrets.token_urlsafe(ID_BYTES)
        self._add(new_session, exchange.owner, id)
        return id

    def _has_room(self, owner: Owner) -> bool:
        """Return whether there is room for a session; end another one if necessary."""
        if len(self._sessions) + self._opening < self._maximum:
            return True
        displaced = self._pool.find_displaceable(owner, HttpSession.is_idle)
        if displaced is not None:
            self._remove(displaced)
        return displaced is not None

    def _add(self, new_session: Session, owner: Owner, id: str) -> HttpSession:
        if id in self._sessions:
            raise ValueError("two sessions have one id")
        self.dispatcher.hub.add(new_session)
        session = HttpSession(self, new_session, owner)
        new_session.id = id
        new_session.end = partial(self._remove, session)
        self._sessions[id] = session
        self._pool.add(session, owner)
        self._touch(session)
        return session

    def _touch(self, session: HttpSession) -> None:
        """Mark a session as just used, if it is still registered."""
        id = session.session.id
        if id is not None and self._sessions.get(id) is session:
            self._idle_timers.add(session.expire)
            self._pool.touch(session)

    # Resumption of sessions

    async def _resume(self, exchange: Exchange, id: str) -> HttpSession:
        """Return the session of an unknown id, if the dispatcher can resume it.

        Concurrent requests share one task. Cancelling a request does not cancel the
        task: the next request finds the resumed session.
        """
        principal = exchange.principal
        key = id, principal and principal.key
        resuming = self._resuming.get(key)
        if resuming is None:
            resuming = asyncio.get_running_loop().create_task(
                self._resume_in_task(id, exchange.info), name="mcpwire-http-resume"
            )
            self._resuming[key] = resuming
            resuming.add_done_callback(lambda _: self._resuming.pop(key, None))
        try:
            resumed = await wait_shared(resuming)
        except asyncio.CancelledError:
            if resuming.cancelled():  # by `aclose`; the waiting requests are not
                raise HttpProblem(*UNKNOWN_SESSION) from None
            raise
        if isinstance(resumed, HttpProblem):  # each waiting request raises its own copy
            raise HttpProblem(resumed.status, resumed.error, resumed.headers)
        return resumed

    async def _resume_in_task(
        self, id: str, info: RequestInfo
    ) -> HttpSession | HttpProblem:
        # Room is made only for a valid id: an unknown one must not displace a session.
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
            self.dispatcher.discard_session(resumed)
            return HttpProblem(*TOO_MANY_SESSIONS)
        session = self._add(resumed, info.owner, id)
        # The client sent it when the session was first opened.
        self.dispatcher.on_notification(resumed, INITIALIZED, None)
        return session

    # GET and DELETE

    async def serve_get(self, exchange: Exchange) -> None:
        """Serve a GET: open a session's stream, or resume one."""
        self._check_headers(exchange)
        session = await self._find_session(exchange)
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
        """Serve a DELETE: end a session, and wait until it has ended."""
        self._check_headers(exchange)
        dispatcher = self.dispatcher
        id = exchange.headers.get(_SESSION)
        if id is None or id in self._sessions:
            session = await self._find_session(exchange)
            assert session.session.id is not None
            dispatcher.withdraw_session_id(session.session.id)
            self._remove(session)
            await dispatcher.wait_session_closed(session.session)
        elif not await dispatcher.delete_session(id, exchange.info):
            raise HttpProblem(*UNKNOWN_SESSION)
        await exchange.reply(204)

    def _check_headers(self, exchange: Exchange) -> None:
        if self.is_stateless:
            raise HttpProblem(405, "this server has no sessions", (("allow", "POST"),))
        self._revision_of(exchange, is_initialize=False)

    # Expiry and shutdown

    def expire(self, session: HttpSession) -> None:
        """End a session if it is idle; called when it was not used for some time."""
        if session.is_idle():
            self._remove(session)
        else:
            self._touch(session)

    def _remove(self, session: HttpSession) -> None:
        """End a session, if it is still registered."""
        id = session.session.id
        if id is not None and self._sessions.get(id) is session:
            del self._sessions[id]
            self._pool.discard(session)
            self._idle_timers.discard(session.expire)
            session.session.end = None
            self.dispatcher.discard_session(session.session)
            self._stop(session)

    def _stop(self, session: HttpSession) -> None:
        for task in session.close():
            self._track(task)

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that outlives its session."""
        self._track(asyncio.get_running_loop().create_task(work, name="mcpwire-events"))

    def _track(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self, seconds: float) -> None:
        """Wait until all requests are answered, up to this many seconds."""
        await asyncio.gather(*(session.settle(seconds) for session in self))

    def reset(self) -> None:
        """Discard all state of an event loop that has ended; called on the next one."""
        self._tasks.clear()
        self._resuming.clear()
        self._opening = 0
        for session in self:
            if session.session.id is not None:
                session.session.end = None
                self.dispatcher.discard_session(session.session)
            session.reset()
        self._sessions.clear()
        self._pool.clear()
        self.stateless_sessions.clear()
        self._idle_timers = TimerQueue(self._idle_timers.seconds)

    async def aclose(self) -> None:
        """End all sessions, their requests and streams, and close the store."""
        resuming = list(self._resuming.values())
        for task in resuming:
            task.cancel()
        if resuming:
            await asyncio.wait(resuming, timeout=CLOSE_GRACE_S)
        for session in list(self._sessions.values()):
            self._remove(session)
        self._idle_timers.clear()
        for session in list(self.stateless_sessions):
            self._stop(session)
        self.stateless_sessions.clear()
        if self._tasks:
            _, unfinished = await asyncio.wait(self._tasks, timeout=CLOSE_GRACE_S)
            for unfinished_task in unfinished:
                unfinished_task.cancel()
        if self.store is not None:
            await self.store.aclose()
