"""Streamable HTTP: one session with an MCP server, or one origin without sessions.

Each MCP request is an HTTP request, and its response contains the MCP response::

    call ─► POST ─► JSON ───────────────────────────────► result
                 └► stream ─► …events… ─► response ─────► result
                       └► cut off ─► GET with Last-Event-ID ─► …events… ─► result
                           └► of a listen: sent again with a new id

`protocol.retry.Resumption` decides whether a stream is resumed, and after which event.

If the server has deleted the session, the channel is lost: open calls continue until
each has its own outcome, and the owner of the channel opens another channel for the
next call.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from itertools import count
from random import random
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    AuthError,
    CallCancelled,
    ConnectError,
    ConnectionClosed,
    HTTPError,
    InternalError,
    LocalProtocolError,
    MCPError,
    RPCError,
    SessionExpired,
    TooManyQuestions,
    TransportError,
)
from mcpwire.protocol import http_reply
from mcpwire.protocol.deadline import Deadline
from mcpwire.protocol.http_headers import MirroredHeaders, RequestHeaders
from mcpwire.protocol.http_reply import SENT_WHEN_CLOSING, Reply, Request
from mcpwire.protocol.methods import ACKNOWLEDGED, LISTEN
from mcpwire.protocol.peer import NEVER_CANCELLED, TOO_MANY_REASON, PeerStats
from mcpwire.protocol.retry import DECLINING_STATUSES, TEMPORARY_STATUSES, StreamBackoff
from mcpwire.transports.base import BaseChannel
from mcpwire.transports.handlers import run_until_done
from mcpwire.transports.http.credentials import missing_scope_error
from mcpwire.transports.http.sender import MAX_ERROR_BODY_S, Sender, field
from mcpwire.types._base import PROTOCOL_VERSION
from mcpwire.versions import Era
from mcpwire.wire import jsonrpc
from mcpwire.wire.headers import parse_retry_after
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from mcpwire.limits import Limits, Recovery
    from mcpwire.protocol.retry import Resumption
    from mcpwire.transports.base import CallHandle, Inbound, NotifyFn, Trace
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.sender import Fields
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.authorizer import Authorizer
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

logger = logging.getLogger("mcpwire")

NOTIFY_TIMEOUT_S: Final = 30.0
"""Maximum seconds until the server accepts a notification or response of ours."""

CLOSE_TIMEOUT_S: Final = 2.0
"""Maximum seconds that closing waits for the last messages and the DELETE."""

MAX_OUTBOX: Final = 4_096
"""Maximum responses and cancellations that wait for a slow server."""

LEARNED_METHODS: Final = frozenset({"initialize", "tools/list"})
"""Requests with results that affect later requests."""

STREAM_OPEN_TIMEOUT_S: Final = 1.0
"""Maximum seconds to wait for the opening of the server's own stream."""

NEGOTIATION_ERROR_BODY_S: Final = 5.0
"""Maximum seconds for the body of an error that may show the era of the server."""


class _BackgroundTask(asyncio.Task[Any]):
    """A task that may be pending when its loop is discarded: it loses no data."""

    def __del__(self) -> None:
        """Suppress the log message of `Task` about a pending task: the client warns."""


class HttpChannel(Sender, BaseChannel):
    """A `Channel` over Streamable HTTP."""

    role = "client"
    target: str  # the URL, without secrets

    def __init__(
        self,
        target: Http,
        engine: Engine,
        inbound: Inbound,
        *,
        limits: Limits,
        recovery: Recovery,
        authorizer: Authorizer | None = None,
    ) -> None:
        # First, as `after_fork` uses its attributes and may be called after the second.
        Sender.__init__(self, target, engine, authorizer)
        BaseChannel.__init__(self, inbound, {}, limits, str(target))
        self._time = self._loop.time
        self._tasks: set[asyncio.Task[Any]] = set()
        self._all_calls_done: asyncio.Future[None] | None = None
        self._heads = RequestHeaders(target.parsed, dict(target.static_headers))
        self._has_dynamic_headers = not target.has_static_headers
        self._mirror = MirroredHeaders(self._warn_dropped_tool)
        self._notification_ids = count(1)
        self._era: Era | None = None
        self._is_over = False
        self._trace: Trace | None = None
        # Before the agreement, the body of an error decides the next attempt.
        self._error_body_s = NEGOTIATION_ERROR_BODY_S
        self._server_requests: dict[RequestId, Reply] = {}
        self._stream_opening: asyncio.Future[None] | None = None
        self._opening_deadline = 0.0
        self._streams: set[Reply] = set()
        self._post_slots = asyncio.Semaphore(limits.inbound)
        self.recovery = recovery
        self.stats = PeerStats()
        self.requests_sent = 0

    # State

    @property
    def is_busy(self) -> bool:
        """Whether calls are open on the channel."""
        return bool(self._calls)

    @property
    def revision(self) -> Revision | None:
        """The agreed revision; ``None`` until the handshake has decided."""
        return self._heads.revision

    @revision.setter
    def revision(self, revision: Revision | None) -> None:
        self._heads.revision = revision
        self._era = revision.era if revision is not None else None
        self._error_body_s = (
            NEGOTIATION_ERROR_BODY_S if revision is None else MAX_ERROR_BODY_S
        )

    @property
    def session_id(self) -> str | None:
        """The session id of the server, if there is one."""
        return self._heads.session_id

    @property
    def bytes_sent(self) -> int:
        """Number of bytes that the operating system has accepted."""
        return self.engine.bytes_sent

    @property
    def bytes_received(self) -> int:
        """Number of bytes received, heads of responses included."""
        return self.engine.bytes_received

    # Calls

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
        if self._lost is not None or asyncio.get_running_loop() is not self._loop:
            raise self._refusal()
        self.requests_sent = id = self.requests_sent + 1
        reply = Reply(self, "call", method, deadline, id, handle, on_notification)
        reply.headers = headers
        request = Request(b"", encode_call(reply, params))
        self._calls[id] = reply
        exchange: Callable[..., Any] = self._exchange
        if handle is not None:
            handle.request_id = id
            request.is_unattended = handle.is_unattended
            if handle.is_background:
                request.is_background, exchange = True, self._exchange_again
                reply.backoff = StreamBackoff(self.recovery)
        if deadline is not None and deadline.at < self._timeouts.at:
            self._timeouts.arm(deadline.at)
        try:
            user_fields: Fields = ()
            if headers is not None or self._has_dynamic_headers:
                user_fields = await self._user_fields(reply)
            request.start = self._request_head(method, params, user_fields)
            try:
                disconnect = await exchange(reply, request)
            except ConnectionClosed as error:
                disconnect = error
            result = reply.result
            if result is None:
                result = await self._continue_call(reply, params, disconnect)
        except BaseException as error:
            self._send_cancellation(reply, request, error)
            raise
        finally:
            self.remove_exchange(reply.id, reply)
            if reply.pauses:
                self._timeouts.release(reply)
            reply.error = reply.aborted = None  # they refer to this frame: a cycle
        return self._learn(reply, result) if method in LEARNED_METHODS else result

    def remove_exchange(self, key: int, reply: Reply) -> None:
        """Remove an exchange that is over, and cancel its timer."""
        self._calls.pop(key, None)
        if reply.timer is not None:
            reply.timer.cancel()
        if (
            self._all_calls_done is not None
            and not self._calls
            and not self._all_calls_done.done()
        ):
            self._all_calls_done.set_result(None)

    def _learn(self, reply: Reply, result: dict[str, Any]) -> dict[str, Any]:
        """Store the parts of a result that affect later requests."""
        if reply.what == "initialize":
            self._store_session_id(reply)
        elif self._era is Era.STATELESS:
            return self._mirror.add_tools(result)
        return result

    def _request_head(
        self, method: str, params: Mapping[str, Any] | None, extra: Fields
    ) -> bytes:
        """Return the request line and the fields of the POST of a request."""
        era = self._era
        if era is Era.SESSION:
            return self._heads.post(extra)
        # 2025-11-25: `initialize` has no protocol version in its head.
        version = _version_in(params) if era is None else None
        start = self._heads.post(extra, version=version)
        if era is not None or version is not None:
            start += self._mirror.lines(method, params)
        return start

    def _warn_dropped_tool(self, name: str, reason: str) -> None:
        # 2026-07-28 basic/transports/streamable-http, "Client Behavior".
        logger.warning("tool %r of %s is left out: %s", name, self.target, reason)

    def _send_cancellation(
        self, reply: Reply, request: Request, error: BaseException
    ) -> None:
        """Send a cancellation for an unanswered call, in the session era.

        2026-07-28 basic/patterns/cancellation: closing the stream cancels the call; in
        earlier revisions only a notification does.
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
                reason = TOO_MANY_REASON
            elif isinstance(error, TimeoutError):
                reason = "timeout"
            else:
                return
        else:
            reason = "the caller cancelled"
        if reply.what not in NEVER_CANCELLED:
            params = {"requestId": reply.id, "reason": reason}
            body = encode(jsonrpc.notification("notifications/cancelled", params))
            self._queue_post("cancelling", body, reply.headers)

    def _end_call(self, call: Reply, error: MCPError, reason: str) -> bool:
        del reason  # the error tells it to `_send_cancellation`
        return self._abort(call, error)

    def _time_out(self, call: Reply, now: float) -> None:
        self._abort(call, call.timeout_error(now))

    def _closed_error(self, *, sent: bool) -> TransportError:
        lost = self._lost
        if isinstance(lost, SessionExpired) and not sent:  # else the call may have run
            return SessionExpired(str(lost), target=self.target)
        reason = "closed by this side"
        if lost is not None and not self._closed_by_us:
            reason = str(lost.args[0])
        return ConnectionClosed(
            f"the connection to {self.target} is closed: {reason}",
            target=self.target,
            sent=sent,
        )

    # Notifications and responses of ours

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification; wait until the server has accepted it."""
        if self._lost is not None or asyncio.get_running_loop() is not self._loop:
            raise self._refusal()
        body = encode(jsonrpc.notification(method, params))
        error = await self._post(method, body, headers)
        if error is not None:
            raise error

    async def _post(
        self, label: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> MCPError | None:
        """Send a message without a response; return the error if it is not accepted.

        Without a body it is the DELETE of the session.
        """
        deadline = Deadline(self._time(), NOTIFY_TIMEOUT_S)
        reply = Reply(self, "notification", label, deadline)
        key = -next(self._notification_ids)
        self._calls[key] = reply
        self._timeouts.arm(deadline.at)
        try:
            reply.headers = headers
            fields = await self._user_fields(reply)
            head = self._heads.delete if body is None else self._heads.post
            start = head(fields)
            if self._era is Era.STATELESS:
                start += self._mirror.lines(label, None)
            await self._exchange(reply, Request(start, body))
        finally:
            self.remove_exchange(key, reply)
        if reply.error is None or body is None:
            return reply.error
        return self._session_error(reply, reply.error)

    def _queue_post(
        self, label: str, body: bytes, headers: Mapping[str, str] | None
    ) -> None:
        """Queue a message without a caller; at most `Limits.inbound` are sent at once.

        If the server sends requests faster than it accepts the responses, further
        responses are dropped.
        """
        if len(self._tasks) < MAX_OUTBOX:
            run_until_done(self.spawn(self._send_queued, label, body, headers))
        else:
            logger.debug(
                "%s: dropped, as the server accepts messages too slowly", label
            )

    async def _send_queued(self, *post: Any) -> None:
        async with self._post_slots:
            await self._send_and_log(*post)

    async def _send_and_log(
        self, label: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> None:
        """Send a message without a caller, and log its error."""
        try:
            error = await self._post(label, body, headers)
        except MCPError as raised:
            error = raised
        except Exception:  # a function for headers may raise anything
            logger.exception("%s: the function for the headers failed", label)
            return
        if error is not None:
            logger.debug("%s: %s", label, error)

    def _queue_answer(
        self, id: RequestId, reply: Reply, answer: dict[str, Any] | RPCError
    ) -> None:
        """Queue the response to a server request, with the fields of its call."""
        try:
            if isinstance(answer, RPCError):
                body = encode(jsonrpc.failure(id, answer))
            else:
                body = encode(jsonrpc.success(id, answer))
        except LocalProtocolError as error:
            refusal = InternalError(f"the answer could not be encoded: {error}")
            body = encode(jsonrpc.failure(id, refusal))
        self._queue_post("answering", body, reply.headers)

    # Closing

    def _mark_lost(self, error: TransportError) -> None:
        """Accept no more calls; open calls continue."""
        if self._lost is None:
            self._lost = error
            if not self._closed_by_us:
                self._inbound.lost(error)
                # No more responses are sent, so deadlines no longer wait for them.
                for id in list(self._server_requests):
                    self._remove_server_request(id)
                # The next channel opens the subscriptions again.
                for reply in list(self._calls.values()):
                    if reply.what == LISTEN:
                        self._abort(reply, self._closed_error(sent=True))

    def give_up(self, error: TransportError) -> None:
        """Treat the session as lost and end all calls, although it has not ended."""
        self._mark_lost(error)
        self._abort_all()

    def _abort_all(self) -> None:
        """End calls and the GET stream, but not notifications and `tasks/cancel`."""
        calls = [
            reply
            for id, reply in list(self._calls.items())
            if id > 0 and reply.what not in SENT_WHEN_CLOSING
        ]
        for reply in (*calls, *list(self._streams)):
            self._abort(reply, self._closed_error(sent=True))

    async def drain(self) -> None:
        """Close the channel as soon as no call is open."""
        try:
            if self._calls:
                await self._when_calls_done()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End the session within two seconds; open calls raise `ConnectionClosed`."""
        if self._is_over:
            return
        self._is_over = True
        was_open = self._lost is None
        self._closed_by_us = True
        self._mark_lost(TransportError("closed by this side", target=self.target))
        until = self._time() + CLOSE_TIMEOUT_S
        try:
            # Send the last messages first, such as cancellations of calls.
            self._abort_all()
            await self._wait_tasks(until - CLOSE_TIMEOUT_S / 2)
            if was_open and self._era is Era.SESSION and self.session_id is not None:
                # 2025-11-25 basic/transports, "Session Management": the server may
                # respond with 405; 404 and 501 mean the same.
                self.spawn(self._send_and_log, "DELETE", None, None)
            await self._wait_tasks(until)
        finally:
            self._timeouts.stop()
            for reply in list(self._calls.values()):
                self._abort(reply, self._closed_error(sent=True))
            tasks = self._tasks - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            try:
                if tasks:
                    await asyncio.wait(tasks)
                authorizer = self._authorizer
                if self._calls and authorizer is not None and authorizer.is_running:
                    # Without waiting calls, the operation can be settled.
                    await asyncio.wait(
                        [self._when_calls_done()], timeout=CLOSE_TIMEOUT_S
                    )
            finally:
                await self._close_engine()

    # Background tasks, and waiting

    def spawn(
        self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any
    ) -> asyncio.Task[Any]:
        """Start a background task, which is cancelled when the channel closes."""
        name = f"mcpwire-http-{work.__name__}"
        task = _BackgroundTask(work(*args), loop=self._loop, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        # An `MCPError` results from closing the channel during the task.
        if error is not None and not isinstance(error, MCPError):
            logger.error("%s failed", task.get_name(), exc_info=error)

    async def _wait_tasks(self, until: float) -> None:
        """Wait for background tasks and last requests, at most until `until`."""
        tasks: set[asyncio.Future[Any]] = {*self._tasks}
        tasks.discard(asyncio.current_task())
        if any(reply.what in SENT_WHEN_CLOSING for reply in self._calls.values()):
            tasks.add(self._when_calls_done())
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, until - self._time()))

    def _when_calls_done(self) -> asyncio.Future[None]:
        """Return a future that is resolved when no call is open."""
        if self._all_calls_done is None or self._all_calls_done.done():
            self._all_calls_done = self._loop.create_future()
        return self._all_calls_done

    async def _pause(self, reply: Reply, seconds: float) -> None:
        """Wait between two requests of a call; an abort ends the wait."""
        async with self.abort_scope(reply):
            await asyncio.sleep(seconds)

    def abandon(self) -> None:
        """Close the connections at once, even without a running loop (finalizers)."""
        self._closed_by_us = self._is_over = True
        if self._lost is None:
            self._lost = TransportError("abandoned", target=self.target)
        self._timeouts.stop()
        self.engine.abandon()
        error = self._closed_error(sent=True)
        for reply in (*list(self._streams), *list(self._calls.values())):
            reply.aborted = reply.aborted or error
            if not self._loop.is_closed():
                self._end_pause(reply)

    def after_fork(self) -> None:
        """Refuse every use in a forked process, and close its copies of the sockets."""
        super().after_fork()
        self.engine.after_fork()
        self._is_over = True

    # Calls with more than one HTTP request

    async def _continue_call(
        self,
        reply: Reply,
        params: Mapping[str, Any] | None,
        disconnect: ConnectionClosed | None,
    ) -> dict[str, Any]:
        """Return the result of a call that needs further HTTP requests, or raise."""
        while reply.result is None:
            if reply.error is not None and not self._is_declined(reply):
                raise self._session_error(reply, reply.error)
            if reply.aborted is not None:
                raise reply.aborted
            if disconnect is not None:
                reply.save_position()
            if self._can_resume(reply):
                disconnect = await self._resume(reply, disconnect)
            elif self._can_listen_again(reply):
                disconnect = await self._listen_again(reply, params, disconnect)
            else:
                raise self._cut_off_error(reply, disconnect)
        return reply.result

    async def _exchange_again(
        self, reply: Reply, request: Request
    ) -> ConnectionClosed | None:
        """Send a further request of a call; return an error that may be temporary."""
        reply.url = None  # the last request may have been redirected
        try:
            await self._exchange(reply, request)
        except (AuthError, ConnectError, ConnectionClosed) as error:
            if isinstance(error, AuthError) and not error.is_passing:
                raise
            # The call was sent before, whether or not this request was.
            return self._stream_closed_error(str(error), error)
        return None

    def _delay(self, reply: Reply, backoff: StreamBackoff) -> float | None:
        """Return the seconds until a stream is opened again; ``None``: never."""
        now = self._time()
        backoff.record_end(now)
        resumption = reply.resumption
        return backoff.delay(
            now,
            random(),  # noqa: S311 - jitter
            retry_ms=None if resumption is None else resumption.retry_ms,
            retry_after=_retry_after(reply),
        )

    def _stream_closed_error(
        self, reason: str, cause: BaseException | None
    ) -> ConnectionClosed:
        """Return the error for a call that was sent and gets no response."""
        error = ConnectionClosed(reason, target=self.target, sent=True)
        error.__cause__ = cause
        return error

    def _cut_off_error(
        self, reply: Reply, disconnect: ConnectionClosed | None
    ) -> ConnectionClosed:
        """Return the error for a call that can no longer get a response."""
        if disconnect is not None and not reply.status:
            return disconnect
        reason = "the stream ended" if disconnect is None else str(disconnect)
        return self._stream_closed_error(
            f"{reply.what}: {reason} without the answer", disconnect
        )

    # Resumption in the session era

    def _can_resume(self, reply: Reply) -> bool:
        """Return whether a broken stream can be resumed.

        2025-11-25 basic/transports, "Resumability and Redelivery": from an event id.
        2026-07-28 has no resumption.
        """
        return (
            reply.can_resume
            and self.recovery.resume
            and self._era is not Era.STATELESS
            and not self._closed_by_us
        )

    async def _resume(
        self, reply: Reply, disconnect: ConnectionClosed | None
    ) -> ConnectionClosed | None:
        """Wait for the reconnection time, and request the rest of the stream."""
        resumption = reply.resumption
        assert resumption is not None
        now = self._time()
        resumption.record_end(
            now, failed=disconnect is not None, retry_after=_retry_after(reply)
        )
        delay = resumption.delay(now, random())  # noqa: S311 - jitter
        if delay is None:
            raise self._cut_off_error(reply, disconnect)
        await self._pause(reply, delay)
        if reply.what == "initialize":  # the rest is a stream of the new session
            self._store_session_id(reply)
        reply.restart()
        reply.is_resumed = True
        openings = reply.openings
        start = self._heads.get(resumption.cursor, await self._user_fields(reply))
        failure = await self._exchange_again(reply, Request(start))
        error = reply.error
        if failure is not None or error is None or reply.openings > openings:
            return failure  # `reply.error`, if any, is an error of the call
        reason = f"{reply.what}: the stream broke off and cannot be resumed: {error}"
        failure = self._stream_closed_error(reason, error)
        if reply.status in TEMPORARY_STATUSES:
            reply.error = None
            return failure
        reply.error = failure
        return None

    def _store_session_id(self, reply: Reply) -> None:
        """Store the session id of the response; a resumed response may have none."""
        session_id = http_reply.read_session_id(reply.fields)
        if session_id is not None or not reply.is_resumed:
            self._heads.session_id = session_id

    # Repeated `subscriptions/listen` in the stateless era

    def _can_listen_again(self, reply: Reply) -> bool:
        return (
            reply.what == LISTEN
            and self._era is Era.STATELESS
            and self._lost is None
            and (reply.backoff is not None or self._is_declined(reply))
        )

    def _is_declined(self, reply: Reply) -> bool:
        """Return whether a listen was declined, so that it may be sent again."""
        error = reply.error
        if reply.what != LISTEN or not isinstance(error, HTTPError):
            return False
        declined = DECLINING_STATUSES if reply.backoff is None else TEMPORARY_STATUSES
        return self._era is Era.STATELESS and error.status in declined

    async def _listen_again(
        self,
        reply: Reply,
        params: Mapping[str, Any] | None,
        disconnect: ConnectionClosed | None,
    ) -> ConnectionClosed | None:
        """Send a broken subscription again, with a new id.

        2026-07-28 basic/patterns/subscriptions: a server stores nothing of it, and does
        not report earlier changes.
        """
        if reply.backoff is None:
            reply.backoff = StreamBackoff(self.recovery)
        error = reply.error
        delay = self._delay(reply, reply.backoff)
        if delay is None:
            raise error or self._cut_off_error(reply, disconnect)
        await self._pause(reply, delay)
        self._calls.pop(reply.id, None)
        self.requests_sent = reply.id = self.requests_sent + 1
        self._calls[reply.id] = reply
        if reply.handle is not None:
            reply.handle.request_id = reply.id
        reply.restart()
        body = encode_call(reply, params)
        start = self._request_head(reply.what, params, await self._user_fields(reply))
        request = Request(start, body, is_background=True)
        return await self._exchange_again(reply, request)

    def on_stream_open(self, reply: Reply) -> None:
        """Record that a long-lived stream, or a resumed one, is open."""
        if reply.what == LISTEN and reply.openings > 1:
            self._inbound.missed()
        if self._stream_opening is not None and reply.kind == "stream":
            self._http.memory.streamless = False
            _resolve(self._stream_opening)
        if reply.backoff is None:
            reply.backoff = StreamBackoff(self.recovery)
        reply.backoff.record_open(self._time())

    # Errors of the session

    def _session_error(self, reply: Reply, error: MCPError) -> MCPError:
        """Return the error to raise; mark the session as lost if the error shows it."""
        if http_reply.is_expired(error, has_session=self._heads.session_id is not None):
            reason = f"{self.target} no longer knows the session"
        elif self._era is not None and http_reply.contradicts_era(
            error, self._era, reply.what
        ):
            reason = f"{self.target} no longer speaks {self._heads.revision}"
            self._http.memory.era = None
        elif getattr(error, "status", None) == 403:
            return missing_scope_error(self._http, error) or error
        else:
            return error
        self._mark_lost(SessionExpired(reason, target=self.target))
        status = getattr(error, "status", None)
        expired = SessionExpired(
            f"{reply.what}: {reason} (it answered {status})", target=self.target
        )
        expired.__cause__ = error
        return expired

    # The server's own stream

    def open_server_stream(self, *, needed: bool) -> None:
        """Open the GET stream for messages of the server, in the background.

        2025-11-25 basic/transports, "Listening for Messages from the Server". A broken
        stream is opened again. The server may send requests on it, at least `ping`: so
        the default is to open it even if it is not `needed` by a handler or
        subscription, unless this server has answered 405 before.
        """
        if self._stream_opening is not None or self._era is not Era.SESSION:
            return
        mode = self._http.server_stream
        if mode == "auto" and not needed:
            opens = not self._http.memory.streamless
        else:
            opens = mode != "never"
        if not opens:
            return
        self._stream_opening = self._loop.create_future()
        self._opening_deadline = self._time() + STREAM_OPEN_TIMEOUT_S
        self.spawn(self._run_server_stream, self._stream_opening)

    async def _run_server_stream(self, opening: asyncio.Future[None]) -> None:
        backoff = StreamBackoff(self.recovery)
        resumption: Resumption | None = None
        has_opened = False
        while True:
            reply = Reply(self, "stream", "GET")
            reply.resumption, reply.backoff = resumption, backoff
            self._streams = {reply}  # closing ends its pause, too
            if self._lost is not None:  # after this, closing finds the stream
                _resolve(opening)
                return
            await self._read_server_stream(reply, backoff)
            _resolve(opening)
            has_opened = has_opened or reply.openings > 0
            if has_opened and reply.error is not None:
                # After a stream was open, a 404 means a lost session; there may be no
                # other request that would show it.
                self._session_error(reply, reply.error)
            if reply.openings and not reply.can_resume:
                self._inbound.missed()  # messages until the stream is open again
            resumption = reply.resumption
            if resumption is not None:
                # Events of the next response do not inherit the last event id.
                resumption.record_end(self._time())
            delay = self._delay(reply, backoff)
            if delay is None:
                return
            await self._pause(reply, delay)

    async def _read_server_stream(self, reply: Reply, backoff: StreamBackoff) -> None:
        """Open the stream and wait for its end."""
        resumption = reply.resumption
        try:
            extra = await self._user_fields(reply)
            start = self._heads.get(resumption.cursor if resumption else None, extra)
            await self._exchange(reply, Request(start, is_background=True))
        except (ConnectError, ConnectionClosed):
            reply.save_position()
        except MCPError as error:
            logger.debug("the server's stream: %s", error)
            # Retry if the stream was open before the error, or the error is temporary.
            if not (reply.openings or getattr(error, "is_passing", False)):
                backoff.record_refusal()
        except Exception:  # a function for headers may raise anything
            logger.exception("the server's stream: the function for the headers failed")
        if reply.messages:
            backoff.record_message()
        if reply.error is not None and _is_final(reply.error):
            # The server has no such stream: do not request it again.
            backoff.record_refusal()
            if reply.status == 405:
                self._http.memory.streamless = True

    # Messages of the server

    def watch_server_stream(self, callback: Callable[[], object]) -> float:
        """Call `callback` when the server's own stream is open, or known not to exist.

        Returns the maximum seconds to wait for that. 0: this is known, the stream was
        not requested, or the request was too long ago.
        """
        opening, left = self._stream_opening, self._opening_deadline - self._time()
        if self._lost is not None or opening is None or opening.done() or left <= 0.0:
            return 0.0
        opening.add_done_callback(lambda _: callback())
        return left

    # Notifications

    def on_notification(
        self, reply: Reply, method: str, params: dict[str, Any] | None
    ) -> None:
        """Pass a notification to its call, otherwise to the `Inbound`."""
        if method == "notifications/cancelled":
            id = (params or {}).get("requestId")
            if jsonrpc.is_request_id(id) and id in self._server_requests:
                self._remove_server_request(id)
                self._inbound.cancelled(id)
            return
        call = self._find_call(reply, method, params)
        if call is None or not self._notify_call(method, params, call):
            self._inbound.notification(method, params, reply.handle)

    def _find_call(
        self, reply: Reply, method: str, params: dict[str, Any] | None
    ) -> Reply | None:
        if method == "notifications/progress" and params is not None:
            call: Reply | None = self._open_call(params.get("progressToken"))
            return call
        # 2026-07-28 basic/patterns/subscriptions: the stream is the subscription.
        if reply.what == LISTEN:
            # An acknowledgement does not prove that the stream is stable.
            if reply.backoff is not None and method != ACKNOWLEDGED:
                reply.backoff.record_message()
            return reply
        return None

    # Requests

    def on_request(
        self, reply: Reply, id: RequestId, method: str, params: dict[str, Any] | None
    ) -> None:
        """Pass a server request to the `Inbound`, with a function for the response."""
        # 2026-07-28: servers send no requests. An id in use would get the response to
        # another request (2025-11-25 basic, Requests). A lost session cannot receive
        # a response, and the next session may use the same id.
        if (
            self._era is Era.STATELESS
            or id in self._server_requests
            or self._lost is not None
        ):
            self.stats.invalid += 1
            return
        self._server_requests[id] = reply
        answer = partial(self._reply_once, id, reply)
        # The call of the stream; for the server's own stream, all open calls.
        replies = [reply] if reply.kind == "call" else self._calls.values()
        calls = [each for each in replies if each.kind == "call"]
        self._pass_request(id, method, params, answer, reply.handle, calls)

    def _reply_once(
        self, id: RequestId, reply: Reply, answer: dict[str, Any] | RPCError
    ) -> None:
        """Send the response to a server request, unless it was sent or cancelled."""
        if self._server_requests.get(id) is not reply:
            return
        self._remove_server_request(id)
        self._queue_answer(id, reply, answer)

    def _remove_server_request(self, id: RequestId) -> None:
        """Remove a server request, and resume the deadlines that it paused."""
        if self._server_requests.pop(id, None) is not None:
            self._timeouts.resume(id)

    # Tracing

    def set_trace(self, trace: Trace) -> None:
        """Set the hook that traces heads and messages."""
        self._trace = trace
        self.is_traced = True

    def _trace_request(self, request: Request) -> None:
        super()._trace_request(request)
        if self._trace is not None and request.body is not None:
            self._trace("send", request.body)

    def trace_message(self, data: bytes) -> None:
        """Trace a received message."""
        if self._trace is not None:
            self._trace("receive", data)


def _version_in(params: Mapping[str, Any] | None) -> str | None:
    """Return the protocol version in the ``_meta`` of a handshake request, if any."""
    meta = params.get("_meta") if params is not None else None
    version = meta.get(PROTOCOL_VERSION) if type(meta) is dict else None
    return version if type(version) is str else None


def encode_call(reply: Reply, params: Mapping[str, Any] | None) -> bytes:
    """Return the JSON body of a request."""
    if reply.on_notification is not None:
        params = dict(params or {})
        params["_meta"] = {**(params.get("_meta") or {}), "progressToken": reply.id}
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": reply.id, "method": reply.what}
    if params is not None:
        message["params"] = params
    return encode(message)


def _retry_after(reply: Reply) -> float | None:
    if reply.status < 300:
        return None
    return parse_retry_after(field(reply, b"retry-after"), wall_time())


def _is_final(error: MCPError) -> bool:
    return not isinstance(error, HTTPError) or error.status not in TEMPORARY_STATUSES


def _resolve(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
