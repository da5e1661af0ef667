"""Requests that belong to sessions: POST, GET and DELETE, and who may send them.

::

      initialize ──► id ──► POST, GET with the id ──► DELETE, idle, too many
                             │
                             ├─ unknown here: the dispatcher may know how to go on
                             └─ unknown, ended, somebody else's: one and the same 404

2025-11-25 basic/transports, "Session Management". The application has checked what is
no matter of sessions: who asks, formats, sizes, and that it stands not alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidRequest, RPCError
from mcpwire.server.auth.challenges import HttpRefusal
from mcpwire.server.http.exchange import JSON, HttpProblem
from mcpwire.server.http.sessions.event_history import parse_event_id
from mcpwire.server.http.sessions.events import MemoryEventStore, check_bounds
from mcpwire.server.http.sessions.registry import Registry
from mcpwire.server.http.sessions.rules import (
    AMBIGUOUS_STREAM,
    NO_SESSION,
    NOT_KEPT,
    TOO_MANY_SESSIONS,
    UNKNOWN_SESSION,
    Malformed,
    check_batch,
    check_version,
    read_message,
)
from mcpwire.server.http.sessions.session import HttpSession
from mcpwire.server.request import Session
from mcpwire.versions import Era, find_revision
from mcpwire.wire import jsonrpc
from mcpwire.wire.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.server.http.exchange import Exchange, Fields
    from mcpwire.server.http.sessions.answers import Answers
    from mcpwire.server.http.sessions.beginning.opening import Opening
    from mcpwire.server.http.sessions.events import EventStore
    from mcpwire.server.http.sessions.outlets import Outlet
    from mcpwire.server.http.sessions.rules import Posted
    from mcpwire.server.http.sessions.streams import Stream
    from mcpwire.server.request import Owner
    from mcpwire.versions import Revision

__all__ = ["Sessions"]

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
        if not session.belongs_to(exchange.info.principal):
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
                    message.params, None, exchange.info
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
        opened.principal = exchange.info.principal
        id = None
        try:
            if has_room := self._registry.has_room(exchange.info.owner):
                id = self._dispatcher.new_session_id(opened)
        except RPCError:
            self._dispatcher.session_left(opened)
            raise
        if not has_room:
            self._dispatcher.session_left(opened)
            raise HttpProblem(*TOO_MANY_SESSIONS, RETRY_AFTER)
        session = self._make(opened, exchange.info.owner)
        self._dispatcher.hub.add(opened)
        return self._registry.add(session, exchange.info.owner, id)

    @property
    def _opening(self) -> Opening:
        """What opens sessions that few servers have; imported with the first."""
        if self._made_opening is None:
            from mcpwire.server.http.sessions.beginning.opening import Opening

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
            await outlet.carry(exchange)
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
        elif not await dispatcher.delete_session(id, exchange.info):
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
) -> tuple[Stream, Outlet]:
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
