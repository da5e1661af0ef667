"""One client on a duplex stream: its session, and the handlers that run for it.

It is the stream's `Inbound`. The protocol's rules are in `dispatcher`; here requests
become tasks, and cancellations cancel the tasks. `serve` serves a client over a
connection that the user opened: either side may open it.

A client may initialize again, as a bridge that serves several clients with one child
process does. Running calls keep the previous session until they have ended.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InternalError, MCPError, RPCError, TransportError
from mcpwire.protocol.deadline import Deadline
from mcpwire.server.dispatcher import INITIALIZE, Dispatcher
from mcpwire.server.log_limit import LimitedLogger, error_kind
from mcpwire.server.request import RequestContext, RequestInfo, Session
from mcpwire.transports.base import wait_shared
from mcpwire.transports.custom import LinkChannel, LinkTarget
from mcpwire.transports.handlers import InboundTasks

if TYPE_CHECKING:
    from mcpwire.transports.base import CallHandle, ReplyFn
    from mcpwire.transports.duplex import Duplex
    from mcpwire.wire.jsonrpc import RequestId

    _Request = tuple[RequestId, str, dict[str, Any] | None, ReplyFn, CallHandle | None]

END_GRACE_S: Final = 0.5
"""How long handlers may take to end after a disconnect, in seconds."""

MIN_LIFESPAN_GRACE_S: Final = 0.1
"""The minimum time that the lifespan gets to end, in seconds."""

logger = LimitedLogger("mcpwire")


class ServerConnection:
    """Serves one client until the stream ends; see the module docstring."""

    def __init__(self, dispatcher: Dispatcher, *, transport: str = "memory") -> None:
        self._dispatcher = dispatcher
        limits = dispatcher.limits
        self._tasks = InboundTasks(limit=limits.inbound, backlog=limits.notifications)
        # Long-lived requests must not use up the limit of short ones.
        self._listen_tasks = InboundTasks(limit=limits.listens, backlog=0)
        self._channel: Duplex | None = None
        self._is_stopped = False

        self.request_info = RequestInfo(transport=transport)
        self._started: asyncio.Task[None] | None = None
        self._queued: list[_Request] | None = None
        self._opening_id: RequestId | None = None
        # Previous sessions, while they have running calls.
        self._previous_sessions: dict[Session, asyncio.Task[None]] = {}
        self.session: Session | None = None
        self.ended = asyncio.Event()

    def attach(self, channel: Duplex) -> None:
        """Set the channel of the connection."""
        self._channel = channel

    # Methods of `transports.base.Inbound`

    def request(
        self,
        id: RequestId,
        method: str,
        params: dict[str, Any] | None,
        reply: ReplyFn,
        call: CallHandle | None,
    ) -> None:
        """Answer a request at once, or start a task for it."""
        if self._is_stopped:
            return
        dispatcher = self._dispatcher
        try:
            if self._queued is not None and self._must_wait(method, params):
                self._queued.append((id, method, params, reply, call))
                return
            if method == INITIALIZE and not dispatcher.is_stateless_request(params):
                if dispatcher.opens_in_task:
                    self._open_in_task(id, params, reply)
                else:
                    reply(self._initialize(params))
                return
            request = dispatcher.admit(
                id,
                method,
                params,
                self.session,
                self._notify,
                ask=self._ask,
                info=self.request_info,
            )
            params = params or {}
            if request.route.is_immediate:
                answer = dispatcher.answer_now(request, params)
                assert answer is not None
                reply(answer)
                return
        except RPCError as error:
            reply(error)
            return
        perform = self._perform if dispatcher.lifespan.is_needed else dispatcher.perform
        run = partial(perform, request, params)
        if request.route.is_long_lived:
            end = partial(self._end_listen, id, reply)
            self._listen_tasks.start(id, run, end, tag=request)
        else:
            self._tasks.start(id, run, reply, tag=request)

    def _end_listen(
        self, id: RequestId, reply: ReplyFn, answer: dict[str, Any] | RPCError
    ) -> None:
        """Answer a long-lived request, and send its cancellation after the result."""
        reply(answer)
        if not isinstance(answer, RPCError):
            # 2026-07-28 basic/patterns/cancellation: a server that ends a subscription
            # on stdio cancels it; basic/patterns/subscriptions: after its result.
            self._notify("notifications/cancelled", {"requestId": id})

    def _initialize(self, params: dict[str, Any] | None) -> dict[str, Any]:
        session, result = self._dispatcher.initialize(params, None, self.request_info)
        self._set_session(session)
        return result

    def _set_session(self, session: Session) -> None:
        assert self._channel is not None
        self._channel.revision = session.revision
        session.send = self._notify
        session.ask = self._ask
        previous, self.session = self.session, session
        self._dispatcher.hub.add(session)
        if previous is not None:
            self._previous_sessions[previous] = asyncio.get_running_loop().create_task(
                self._discard_when_idle(previous), name="mcpwire-server-leave"
            )

    async def _discard_when_idle(self, session: Session) -> None:
        """Discard a replaced session when its calls have ended."""
        # The request that opens a session has no context.
        await self._tasks.wait_ended(
            lambda request: request is not None and request.session is session
        )
        self._dispatcher.discard_session(session)
        await self._dispatcher.wait_session_closed(session)
        del self._previous_sessions[session]

    # Sessions that open asynchronously

    def _open_in_task(
        self, id: RequestId, params: dict[str, Any] | None, reply: ReplyFn
    ) -> None:
        """Open the session in a task; queue the requests that need it."""
        self._queued, self._opening_id = [], id

        def on_opened(answer: dict[str, Any] | RPCError) -> None:
            reply(answer)
            self._handle_queued()

        self._tasks.start(id, partial(self._open, params), on_opened)

    async def _open(self, params: dict[str, Any] | None) -> dict[str, Any]:
        dispatcher = self._dispatcher
        session, result = await dispatcher.open_session(params, None, self.request_info)
        if self._is_stopped:
            dispatcher.discard_session(session)
        else:
            self._set_session(session)
        return result

    def _must_wait(self, method: str, params: dict[str, Any] | None) -> bool:
        # 2025-11-25 basic/lifecycle, "Initialization": pings may be sent before that.
        if method == "ping" or self._dispatcher.is_stateless_request(params):
            return False
        assert self._queued is not None
        if len(self._queued) >= self._dispatcher.limits.notifications:
            raise InternalError("too many requests are waiting already")
        return True

    def _handle_queued(self) -> None:
        """Handle the queued requests after the session was opened."""
        queued, self._queued, self._opening_id = self._queued, None, None
        for arguments in queued or ():
            self.request(*arguments)

    async def _perform(
        self, request: RequestContext, params: dict[str, Any]
    ) -> dict[str, Any]:
        try:
            await self._start()
        except BaseException as error:
            request.close()
            if not isinstance(error, Exception):
                raise
            on_error = self.request_info.on_error
            if on_error is None or not on_error(request.id, error):
                logger.exception("the server could not start", kind=error_kind(error))
            raise InternalError("the server could not start") from error
        return await self._dispatcher.perform(request, params)

    async def _start(self) -> None:
        """Enter the lifespan once; after a failure, the next caller retries."""
        started = self._started
        if started is None or (started.done() and started.exception() is not None):
            self._started = started = asyncio.get_running_loop().create_task(
                self._dispatcher.start(), name="mcpwire-server-start"
            )
        await wait_shared(started)

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        assert self._channel is not None
        try:
            self._channel.notify_nowait(method, params)
        except TransportError as error:
            # The client does not read. Responses will fail on that; this may be lost.
            logger.debug("%s was not sent: %s", method, error)

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._channel is not None
        seconds = self._dispatcher.ask_timeout
        now = asyncio.get_running_loop().time()
        deadline = None if seconds is None else Deadline(now, seconds)
        return await self._channel.call(method, params, deadline=deadline)

    def notification(
        self, method: str, params: dict[str, Any] | None, call: CallHandle | None
    ) -> None:
        """Pass a notification of the client to the dispatcher."""
        if self.session is not None:
            self._dispatcher.on_notification(self.session, method, params)

    def cancelled(self, id: RequestId) -> None:
        """Cancel the handler of a request on behalf of the client."""
        if self._queued is not None:
            self._queued = [queued for queued in self._queued if queued[0] != id]
        request = self._tasks.cancel(id) or self._listen_tasks.cancel(id)
        if self._queued is not None and id == self._opening_id:
            # 2025-11-25 basic/utilities/cancellation forbids clients to do this.
            self._handle_queued()
        if request is not None:
            request.is_cancelled = True

    def missed(self) -> None:
        """Do nothing: notifications of clients are not stored."""

    def lost(self, error: TransportError) -> None:
        """Stop all handlers: the stream has ended."""
        # A disconnect is normal; a violation of the protocol is logged.
        if isinstance(error.__cause__, MCPError):
            logger.warning("%s", error)
        self._stop()
        self.ended.set()

    # Shutdown

    def _stop(self) -> list[asyncio.Task[None]]:
        self._is_stopped = True
        for request in self._tasks.unanswered() + self._listen_tasks.unanswered():
            if request is not None:  # the request that opens the session has none
                request.is_cancelled = True
        self._queued = None
        if self.session is not None and not self.session.is_closed:
            self._dispatcher.discard_session(self.session)
        return self._tasks.close() + self._listen_tasks.close()

    async def settle(self, seconds: float) -> None:
        """Wait until all requests are answered, up to this many seconds."""
        await self._tasks.settle(seconds)

    def end_subscriptions(self) -> None:
        """Answer all open subscriptions with their result."""
        self._listen_tasks.end_all(self._dispatcher.end_subscription)

    async def aclose(self, seconds: float = 0.5, *, by: float | None = None) -> None:
        """Cancel the handlers, wait for them up to `seconds`, close the stream."""
        self.end_subscriptions()
        tasks = self._stop()
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=seconds)
        finally:
            assert self._channel is not None
            await self._channel.aclose()
            self.ended.set()
            if by is not None:
                # However long the handlers took, the lifespan gets a minimum time.
                by = max(by, asyncio.get_running_loop().time() + MIN_LIFESPAN_GRACE_S)
            async with asyncio.timeout_at(by):
                await self._finish()

    async def finished(self) -> None:
        """Wait for the cleanup of the connection after the stream has ended."""
        await self.ended.wait()
        tasks = self._stop()
        if tasks:
            await asyncio.wait(tasks, timeout=END_GRACE_S)
        await self._finish()

    async def _finish(self) -> None:
        """Release the lifespan, and wait for the end of the sessions."""
        for session, discarding in list(self._previous_sessions.items()):
            discarding.cancel()
            await asyncio.wait([discarding])
            if not session.is_closed:
                self._dispatcher.discard_session(session)
            await self._dispatcher.wait_session_closed(session)
        if self.session is not None:
            await self._dispatcher.wait_session_closed(self.session)
        started, self._started = self._started, None
        if started is None:
            return
        # No request waits for it; cancelling a finished start has no effect.
        started.cancel()
        await asyncio.wait([started])
        if not started.cancelled() and started.exception() is None:
            await self._dispatcher.aclose()


ANSWER_GRACE_S: Final = 0.2
"""How long handlers may run after the end of input: for ``echo ... | server``."""

CANCEL_GRACE_S: Final = 0.2
"""How long cancelled handlers may take to end, in seconds."""


async def serve(dispatcher: Dispatcher, target: LinkTarget) -> None:
    """Serve one client over the connection of a target; see `Server.serve_stream`."""
    kind = type(target).__name__.lower()
    connection = ServerConnection(dispatcher, transport=kind)
    channel = LinkChannel(
        connection,
        target.open_link,
        role="server",
        limits=dispatcher.limits,
        target=target.name,
    )
    channel.on_eof = connection.ended.set
    connection.attach(channel)
    try:
        await connection.ended.wait()
        await connection.settle(ANSWER_GRACE_S)
    finally:
        await connection.aclose(CANCEL_GRACE_S)
