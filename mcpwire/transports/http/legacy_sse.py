"""MCP over HTTP+SSE, the transport of 2024-11-05: one event stream, and POSTs.

2026-07-28 basic/transports/streamable-http, "HTTP+SSE Transport (2024-11-05)": new
software should not use it, but some servers support nothing else. It is one duplex
connection like a pipe::

    GET ─► endpoint event ─► message event ... message event ─► end of the connection
                 │
                 └─► each message of the client is a POST with a response such as 202

POSTs use different connections, so the client must keep their order. They start in the
order of writing and do not wait for each other, with two exceptions: no message
overtakes ``notifications/initialized``, and no cancellation overtakes the request that
it cancels. If the server does not respond to these, the later message is sent after
`ORDER_TIMEOUT_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ConnectError, MCPError, TransportError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol.http_headers import RequestHeaders, resolve_endpoint
from mcpwire.protocol.http_reply import MAX_ERROR_BODY, Reply, Request
from mcpwire.transports.base import wait_shared
from mcpwire.transports.duplex import Duplex
from mcpwire.transports.handlers import run_until_done
from mcpwire.transports.http.credentials import missing_scope_error
from mcpwire.transports.http.sender import Sender
from mcpwire.wire.json import loads

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Mapping

    from mcpwire.protocol.deadline import Deadline
    from mcpwire.transports.base import Inbound, Pending, Trace
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.authorizer import Authorizer
    from mcpwire.wire.jsonrpc import Line
    from mcpwire.wire.sse import SSEEvent

logger = logging.getLogger("mcpwire")

ENDPOINT_TIMEOUT_S: Final = 10.0
"""Maximum seconds between the start of the stream and its endpoint event."""

ORDER_TIMEOUT_S: Final = 5.0
"""Maximum seconds that a message waits for one that must come first."""

ACCEPT_TIMEOUT_S: Final = 30.0
"""Maximum seconds for the response to a POST without a waiting caller."""

CLOSE_TIMEOUT_S: Final = 2.0
"""Maximum seconds that closing waits for cancelled exchanges."""

MAX_CONCURRENT_REQUESTS: Final = 64
"""Maximum concurrent POSTs of requests; each uses a connection until its response."""

INITIALIZED: Final = "notifications/initialized"

CANCELLED: Final = "notifications/cancelled"


class LegacyChannel(Sender, Duplex):
    """A `Channel` over HTTP+SSE.

    Calls may be made at once; `ready` waits for the connection. Messages are sent as
    soon as the endpoint event has arrived. An HTTP error to a request fails only its
    call; the end of the stream fails all calls and closes the engine.
    """

    gathers = False

    def __init__(
        self,
        target: Http,
        engine: Engine,
        inbound: Inbound,
        limits: Limits = DEFAULT_LIMITS,
        authorizer: Authorizer | None = None,
    ) -> None:
        Duplex.__init__(self, inbound, limits=limits, target=str(target))
        Sender.__init__(self, target, engine, authorizer)
        self._heads = RequestHeaders(target.parsed, dict(target.static_headers))
        # The user's header fields of open calls, also for their cancellations, and of
        # the notification that is being sent.
        self._call_headers: dict[int, Mapping[str, str]] = {}
        self._notification_headers: dict[str, str] = {}
        self._stream = StreamReply(self)
        self._endpoint = target.parsed
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._is_over = False
        self._request_slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
        self._posts: set[PostReply] = set()
        self._requests: dict[int, PostReply] = {}
        self._barrier: PostReply | None = None
        self._timer: asyncio.TimerHandle | None = None
        if target.connect_timeout is not None:
            self._expect_endpoint(target.connect_timeout + ENDPOINT_TIMEOUT_S)
        # Not `create_task`: an eager task factory would start it before `set_trace`.
        self._listening = asyncio.Task(
            self._listen(), loop=self._loop, name="mcpwire-sse-stream"
        )

    async def ready(self) -> None:
        """Wait for the endpoint event of the server; safe to cancel."""
        await wait_shared(self._opened)
        if self._lost is not None:
            raise self._closed_error(sent=False)

    # Outgoing messages

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        deadline: Deadline | None,
        headers: Mapping[str, str] | None = None,
        **rest: Any,
    ) -> dict[str, Any]:
        """Perform a request; see `Channel.call`."""
        # No other code runs before the peer assigns its next id.
        id = self._peer.requests_sent + 1
        if headers:
            self._http.check(headers)
            self._call_headers[id] = dict(headers)
        pause: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if self._authorizer is not None:  # while a user logs in
            pauser, rearm = self._authorizer.pauser, self._timeouts.arm
            pause = pauser.register(deadline, rearm=rearm)
        try:
            with pause:
                return await super().call(method, params, deadline=deadline, **rest)
        finally:
            self._call_headers.pop(id, None)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification; see `Channel.notify`."""
        self._http.check(headers or {})
        self._notification_headers = dict(headers or {})
        try:
            self.notify_nowait(method, params)
        finally:
            self._notification_headers = {}

    def _write(self, data: bytes) -> None:
        """Send a line as a POST."""
        self._start_post(PostReply(self, data.rstrip(b"\n")))

    def _count_written(self, size: int) -> None:
        """Count bytes that are no longer queued."""
        self._written += size
        if self._written == self._queued:
            self._on_all_written()

    # Tracing

    def set_trace(self, trace: Trace) -> None:
        """Set the trace hook."""
        super().set_trace(trace)
        self.is_traced = True

    # The event stream

    async def _listen(self) -> None:
        stream = self._stream
        error: Exception
        try:
            start = self._heads.get(None, await self._user_fields(stream))
            await self._exchange(stream, Request(start))
            error = self._stream_error(stream)
        except Exception as raised:  # noqa: BLE001 - also a user's function for headers
            error = raised
        self._end_stream(error)

    def _expect_endpoint(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        error = ConnectError(
            f"{self.target}: no endpoint event within {ENDPOINT_TIMEOUT_S:g} s",
            target=self.target,
        )
        self._timer = self._loop.call_later(seconds, self._end_stream, error)

    def on_stream_open(self, stream: Reply) -> None:
        """Start the timeout of the endpoint event when the stream is open."""
        del stream
        self._expect_endpoint(ENDPOINT_TIMEOUT_S)

    def _stream_error(self, stream: StreamReply) -> MCPError:
        """Return the error for the end of the event stream."""
        target = self.target
        if stream.error is None:
            reason = "the server ended its event stream"
            if self._opened.done():
                return TransportError(reason, target=target)
            return ConnectError(f"{target}: {reason} before it named its endpoint")
        fault = missing_scope_error(self._http, stream.error) or stream.error
        error = ConnectError(f"{fault}: no event stream", target=target)
        error.__cause__ = fault
        return error

    def handle_event(self, event: str, data: bytes) -> None:
        """Process an event of the stream."""
        if self._is_over:
            return
        if not self._opened.done():
            self._handle_endpoint(event, data)
        elif event == "message" and self._lost is None:
            # The data may have several lines; JSON allows a space for each newline.
            self.receive(data.replace(b"\n", b" ") + b"\n")

    def _handle_endpoint(self, event: str, data: bytes) -> None:
        # 2024-11-05 basic/transports, "HTTP with SSE": the endpoint is the first event.
        if event != "endpoint":
            raise ConnectError(
                f"{self.target}: no event stream of MCP 2024-11-05: its first event is "
                f"{event[:40]!r}, not 'endpoint'",
                target=self.target,
            )
        endpoint = resolve_endpoint(self._stream.url or self._http.parsed, data)
        self._endpoint = endpoint
        self._heads = self._heads.with_target(endpoint.target)
        if self._authorizer is not None:
            self._authorizer.session.allow(endpoint.target)
        if self._timer is not None:
            self._timer.cancel()
        self._opened.set_result(None)

    # POSTs

    def _start_post(self, post: PostReply) -> None:
        cancelled = self._requests.get(post.call_id)
        if cancelled is not None and post.what == CANCELLED:
            if cancelled.started_at is None:
                # Neither of the two needs to be sent.
                cancelled.task.cancel()
                self._end(cancelled)  # its task may not have started
                self._count_written(cancelled.size + post.size)
                return
            post.predecessors.append(cancelled)
        if self._barrier is not None:
            post.predecessors.append(self._barrier)
        if post.what == INITIALIZED:
            self._barrier = post
        elif post.id:
            self._requests[post.id] = post
        own = self._notification_headers
        post.headers = own or self._call_headers.get(post.call_id)
        # Not `create_task`: an eager task factory would start the task at once.
        name = f"mcpwire-sse-{post.what}"
        post.task = asyncio.Task(self._deliver(post), loop=self._loop, name=name)
        self._posts.add(post)  # only now: an interrupt may call `_tasks`
        if not post.id:
            run_until_done(post.task)

    async def _deliver(self, post: PostReply) -> None:
        try:
            await wait_shared(self._opened)
            for earlier in post.predecessors:
                await self._wait_for_earlier(earlier)
            if not post.id:
                await self._perform(post)
            else:
                async with self._request_slots:
                    await self._perform(post)
            if post.error is not None:
                self._on_post_error(
                    post, missing_scope_error(self._http, post.error) or post.error
                )
        except Exception as raised:  # noqa: BLE001 - also a user's function for headers
            if post.started_at is None:
                self._count_written(post.size)
            self._on_post_error(post, raised)
        finally:
            self._end(post)

    async def _wait_for_earlier(self, earlier: PostReply) -> None:
        """Wait for an earlier POST, at most `ORDER_TIMEOUT_S` after its start."""
        left = ORDER_TIMEOUT_S
        if earlier.started_at is not None:
            left += earlier.started_at - self._loop.time()
        if left > 0:
            await asyncio.wait([earlier.task], timeout=left)

    async def _perform(self, post: PostReply) -> None:
        start = self._heads.post(await self._user_fields(post))
        request = Request(start, post.line)
        post.url = self._endpoint
        post.started_at = self._loop.time()
        post.accept_timer = self._loop.call_later(
            ACCEPT_TIMEOUT_S, self._abort_unaccepted, post
        )
        self._count_written(post.size)
        await self._exchange(post, request)

    def _end(self, post: PostReply) -> None:
        for timer in (post.accept_timer, post.timer):
            if timer is not None:
                timer.cancel()
        if post.id:
            self._requests.pop(post.id, None)
        if self._barrier is post:
            self._barrier = None
        self._posts.discard(post)

    def _abort_unaccepted(self, post: PostReply) -> None:
        """Abort a POST without a response, unless its caller is still waiting."""
        if post.id and post.id in self._peer.outstanding:
            # The server may respond to the POST after the result of the call.
            post.accept_timer = self._loop.call_later(
                ACCEPT_TIMEOUT_S, self._abort_unaccepted, post
            )
            return
        reason = f"{post.what}: not accepted within {ACCEPT_TIMEOUT_S:g} s"
        self._abort(post, TransportError(reason, target=self.target))

    def _on_post_error(self, post: PostReply, error: Exception) -> None:
        call = self._open_call(post.id)
        if call is not None:
            self._peer.drop_request(post.id)
            self.on_error(call, error)
        else:
            logger.debug("%s: %s", post.what, error)

    # Closing

    def _end_stream(self, error: Exception) -> None:
        """Handle the end of the event stream: fail all calls and close."""
        if self._is_over:
            return
        self._is_over = True
        failure: Any = error
        if not self._opened.done():
            if not isinstance(error, ConnectError):
                failure = ConnectError(str(error), target=self.target)
            is_ours = isinstance(error, TransportError)
            self._opened.set_exception(failure if is_ours else error)
            self._opened.exception()  # marks it as retrieved
        elif type(error) is not TransportError:
            reason = f"the event stream broke: {error}"
            failure = TransportError(reason, target=self.target)
        if failure is not error:
            failure.__cause__ = error
        self._mark_lost(failure)

    def _mark_lost(
        self, error: TransportError, cause: BaseException | None = None
    ) -> None:
        if self._lost is not None:
            return
        super()._mark_lost(error, cause)
        if not self._opened.done():
            self._opened.set_result(None)
        self._stop()
        self._closing = self._loop.create_task(self._close(), name="mcpwire-sse-close")

    def _was_sent(self, call: Pending) -> bool:
        # POSTs may start out of order, so the byte count does not show it.
        post = self._requests.get(call.id)
        return post is None or post.started_at is not None

    def _stop(self) -> None:
        """Cancel all exchanges."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks():
            task.cancel()

    def _tasks(self) -> set[asyncio.Task[None]]:
        return {self._listening, *(post.task for post in self._posts)}

    async def _close(self) -> None:
        """Wait for the end of all exchanges, within a time limit; close the engine."""
        try:
            await asyncio.wait(self._tasks(), timeout=CLOSE_TIMEOUT_S)
            await self._close_engine()
        except asyncio.CancelledError:  # the loop ends
            self.engine.abandon()
            raise

    def after_fork(self) -> None:
        """Refuse every use in a forked process, and close its copies of the sockets."""
        super().after_fork()
        self.engine.after_fork()

    def abandon(self) -> None:
        """Close the connections at once, even without a running loop."""
        super().abandon()
        if not self._loop.is_closed():
            self._stop()
        self.engine.abandon()


class StreamReply(Reply):
    """The response to the GET."""

    def __init__(self, channel: Any) -> None:
        super().__init__(channel, "stream", "GET")
        self._channel: LegacyChannel = channel

    def _process_head(self) -> None:
        """Collect the body of a response that is not a stream, for the error."""
        if 300 <= self.status < 400:
            super()._process_head()
            return
        self._bytes_left = MAX_ERROR_BODY
        self._channel.on_error_body(self)

    def save_position(self) -> None:
        """Do nothing: the stream cannot be resumed."""

    def _receive_event(self, event: SSEEvent) -> None:
        self._channel.handle_event(event.event, event.data)

    def _receive_message(self, data: Line) -> None:
        self._channel.handle_event("message", bytes(data))


class PostReply(Reply):
    """The POST of one message, and its response."""

    task: asyncio.Task[None]  # done when the POST is over

    def __init__(self, channel: Any, line: bytes) -> None:
        message = loads(line)
        if type(message) is not dict:
            message = {}  # the responses to a batch
        method: str | None = message.get("method")
        id = message.get("id") if method is not None else None
        super().__init__(channel, "notification", method or "an answer")
        self.line = line
        self.size = len(line) + 1
        self.id = id if type(id) is int else 0  # 0: not a request
        self.call_id = self.id  # id of this request, or of the cancelled one
        if method == CANCELLED:
            cancelled_id = (message.get("params") or {}).get("requestId")
            self.call_id = cancelled_id if type(cancelled_id) is int else 0
        self.predecessors: list[PostReply] = []  # the POSTs that it must not overtake
        self.started_at: float | None = None  # the time of its start
        self.accept_timer: TimerHandle | None = None  # aborts an unaccepted POST

    def data(self, chunk: bytes) -> None:
        """Process only the body of an error: messages arrive on the stream."""
        if not self.is_over:
            super().data(chunk)
