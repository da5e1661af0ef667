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
`ORDER_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ConnectError, ConnectionClosed, MCPError, TransportError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol.http_headers import RequestHeaders, resolve_endpoint
from mcpwire.protocol.http_reply import MAX_ERROR_BODY, Reply, Request
from mcpwire.transports.duplex import Duplex
from mcpwire.transports.handlers import run_until_done
from mcpwire.transports.http.credentials import missing_scope
from mcpwire.transports.http.sender import Sender
from mcpwire.wire.json import loads

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Mapping

    from mcpwire.protocol.deadline import Deadline
    from mcpwire.transports.base import CallHandle, Inbound, NotifyFn, Trace
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.authorizer import DeadlinePauser
    from mcpwire.wire.jsonrpc import Line
    from mcpwire.wire.sse import SSEEvent

    Fields = tuple[tuple[str, str], ...]

logger = logging.getLogger("mcpwire")

ENDPOINT_S: Final = 10.0
"""Maximum seconds between the start of the stream and its endpoint event."""

ORDER_S: Final = 5.0
"""Maximum seconds that a message waits for one that must come first."""

ACCEPT_S: Final = 30.0
"""Maximum seconds for the response to a POST without a waiting caller."""

CLOSE_S: Final = 2.0
"""Maximum seconds that closing waits for cancelled exchanges."""

REQUESTS_AT_ONCE: Final = 64
"""Maximum concurrent POSTs of requests; each uses a connection until its response."""

INITIALIZED: Final = "notifications/initialized"

CANCELLED: Final = "notifications/cancelled"

OWN_FIELDS_KEPT: Final = 1_024
"""Maximum calls with own header fields that are kept for their cancellation."""


class LegacyChannel(Sender, Duplex):
    """A `Channel` over HTTP+SSE.

    Calls may be made at once; `ready` waits for the connection. Messages are sent as
    soon as the endpoint event has arrived. An HTTP error to a request fails only its
    call; the end of the stream fails all calls and closes the engine.
    """

    def __init__(
        self,
        target: Http,
        engine: Engine,
        inbound: Inbound,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        Duplex.__init__(self, inbound, limits=limits, target=str(target))
        Sender.__init__(self, target, engine, asyncio.get_running_loop())
        self._pauser: DeadlinePauser | None = getattr(engine, "pauser", None)
        self._heads = RequestHeaders(target.parsed, dict(target.static_headers))
        self._taken = 0
        # Header fields of single messages: of calls by id, as a cancellation uses them
        # too; of notifications by their line.
        self._call_fields: dict[int, Fields] = {}
        self._line_fields: dict[bytes, Fields] = {}
        self._stream = Stream(self)
        self._endpoint = target.parsed
        self._is_known = asyncio.Event()
        self._is_settled = asyncio.Event()
        self._is_over = False
        self._room = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._posts: set[Post] = set()
        self._requests: dict[int, Post] = {}
        self._barrier: Post | None = None
        self._refused: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        if target.connect_timeout is not None:
            self._expect_endpoint(target.connect_timeout + ENDPOINT_S)
        # Not `create_task`: an eager task factory would start it before `watch`.
        self._listening = asyncio.Task(
            self._listen(), loop=self._loop, name="mcpwire-sse-stream"
        )

    async def ready(self) -> None:
        """Wait for the endpoint event of the server; safe to cancel."""
        await self._is_settled.wait()
        if self._refused is not None:
            raise self._refused
        if self._dead is not None:
            raise self._closed_error(sent=False)

    # Outgoing messages

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
        id = 0
        if headers:
            fields = self._http.check(headers)
            # No other code runs before the peer assigns its next id.
            id = self._peer.requests_sent + 1
            self._call_fields[id] = fields
            if len(self._call_fields) > OWN_FIELDS_KEPT:
                del self._call_fields[next(iter(self._call_fields))]
        try:
            with self._pausable(deadline):
                return await super().call(
                    method,
                    params,
                    deadline=deadline,
                    handle=handle,
                    on_notification=on_notification,
                )
        finally:
            if self._peer.requests_sent < id:  # it was not sent: the next gets its id
                self._call_fields.pop(id, None)

    def _pausable(
        self, deadline: Deadline | None
    ) -> contextlib.AbstractContextManager[None]:
        """Pause the deadline of a call in the block while a user logs in."""
        if self._pauser is None:
            return contextlib.nullcontext()
        return self._pauser.deadline(deadline, self._timeouts.arm)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification; see `Channel.notify`."""
        if headers:
            line = self._peer.notify(method, params).rstrip(b"\n")
            self._line_fields[line] = self._http.check(headers)
        try:
            self.notify_nowait(method, params)
        except BaseException:
            if headers:
                self._line_fields.pop(line, None)
            raise

    def _write(self, data: bytes) -> None:
        """Send each line as a POST."""
        self._taken += len(data)
        for line in data.split(b"\n"):
            if line and not self._is_over:
                self._post(Post(self, line))

    def _left(self, size: int) -> None:
        """Count bytes that are no longer queued."""
        self._written += size
        if self._written == self._queued:
            self._writing_done()

    def _fail(self, id: int, error: Exception) -> None:
        """Fail one call: its request was not accepted."""
        call = self._peer.outstanding.get(id)
        if call is not None:
            self._peer.forget(id)
            self._timeouts.release(call)
            if not call.future.done():
                call.future.set_exception(error)

    # Tracing

    def watch(self, trace: Trace) -> None:
        """Set the trace hook."""
        super().watch(trace)
        self.is_traced = True

    # The event stream

    async def _listen(self) -> None:
        stream = self._stream
        error: Exception
        try:
            start = self._heads.get(None, await self._own_fields(stream))
            await self._exchange(stream, Request(start))
            error = self._stream_error(stream)
        except Exception as raised:  # noqa: BLE001 - also a user's function for headers
            error = raised
        self._stream_over(error)

    def _expect_endpoint(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        error = ConnectError(
            f"{self.target}: no endpoint event within {ENDPOINT_S:g} s",
            target=self.target,
        )
        self._timer = self._loop.call_later(seconds, self._stream_over, error)

    def stream_opened(self, stream: Reply) -> None:
        """Start the timeout of the endpoint event when the stream is open."""
        del stream
        self._expect_endpoint(ENDPOINT_S)

    def _stream_error(self, stream: Stream) -> MCPError:
        """Return the error for the end of the event stream."""
        target = self.target
        if stream.error is None:
            why = "the server ended its event stream"
            if self._is_known.is_set():
                return TransportError(why, target=target)
            return ConnectError(f"{target}: {why} before it named its endpoint")
        fault = missing_scope(self._http, stream.error) or stream.error
        error = ConnectError(f"{fault}: no event stream", target=target)
        error.__cause__ = fault
        return error

    def take_event(self, event: str, data: bytes) -> None:
        """Process an event of the stream."""
        if self._is_over:
            return
        if not self._is_known.is_set():
            self._take_endpoint(event, data)
        elif event == "message" and self._dead is None:
            # The data may have several lines; JSON allows a space for each newline.
            self.receive(data.replace(b"\n", b" ") + b"\n")

    def _take_endpoint(self, event: str, data: bytes) -> None:
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
        allow = getattr(self._engine, "allow", None)
        if allow is not None:  # otherwise, tokens are sent to the stream's URL only
            allow(endpoint.target)
        if self._timer is not None:
            self._timer.cancel()
        self._is_known.set()
        self._is_settled.set()

    # POSTs

    def _post(self, post: Post) -> None:
        named = self._requests.get(post.names)
        if named is not None and post.what == CANCELLED:
            if named.begun is None:
                # Neither of the two needs to be sent.
                named.task.cancel()
                self._end(named)  # its task may not have started
                self._left(named.size + post.size)
                return
            post.after.append(named)
        if self._barrier is not None:
            post.after.append(self._barrier)
        if post.what == INITIALIZED:
            self._barrier = post
        elif post.id:
            self._requests[post.id] = post
        fields = self._line_fields.pop(post.line, None)
        if fields is None and post.names:
            fields = self._call_fields.get(post.names)
        post.own_fields = fields or ()
        # Not `create_task`: an eager task factory would start the task at once.
        name = f"mcpwire-sse-{post.what}"
        post.task = asyncio.Task(self._deliver(post), loop=self._loop, name=name)
        self._posts.add(post)  # only now: an interrupt may call `_tasks`
        if not post.id:
            run_until_done(post.task)

    async def _deliver(self, post: Post) -> None:
        try:
            await self._is_known.wait()
            for other in post.after:
                await self._wait_for(other)
            if not post.id:
                await self._perform(post)
            else:
                async with self._room:
                    await self._perform(post)
            if post.error is not None:
                self._failed(post, missing_scope(self._http, post.error) or post.error)
        except Exception as raised:  # noqa: BLE001 - also a user's function for headers
            self._failed(post, raised)
        finally:
            self._end(post)

    async def _wait_for(self, other: Post) -> None:
        """Wait for an earlier POST, but no longer than `ORDER_S` after its start."""
        left = ORDER_S
        if other.begun is not None:
            left += other.begun - self._loop.time()
        if left > 0:
            await asyncio.wait([other.task], timeout=left)

    async def _perform(self, post: Post) -> None:
        fields = (*await self._own_fields(post), *post.own_fields)
        request = Request(self._heads.post(fields), post.line)
        post.url = self._endpoint
        post.begun = self._loop.time()
        post.acceptance = self._loop.call_later(ACCEPT_S, self._abort_unaccepted, post)
        self._left(post.size)
        await self._exchange(post, request)

    def _end(self, post: Post) -> None:
        for timer in (post.acceptance, post.timer):
            if timer is not None:
                timer.cancel()
        if post.id:
            self._requests.pop(post.id, None)
        if self._barrier is post:
            self._barrier = None
        self._posts.discard(post)

    def _abort_unaccepted(self, post: Post) -> None:
        """Abort a POST without a response, unless its caller is still waiting."""
        if post.id and post.id in self._peer.outstanding:
            # The server may respond to the POST after the result of the call.
            post.acceptance = self._loop.call_later(
                ACCEPT_S, self._abort_unaccepted, post
            )
            return
        why = f"{post.what}: not accepted within {ACCEPT_S:g} s"
        self._engine.abort(post, TransportError(why, target=self.target))

    def _failed(self, post: Post, error: Exception) -> None:
        if post.id and not self._is_over:
            self._fail(post.id, error)
        else:
            logger.debug("%s: %s", post.what, error)

    # Closing

    def _stream_over(self, error: Exception) -> None:
        """Handle the end of the event stream: fail all calls and close."""
        if self._is_over:
            return
        self._is_over = True
        target = self.target
        if self._is_known.is_set():
            if type(error) is TransportError:
                self._mark_lost(error)
            else:
                why = f"the event stream broke: {error}"
                self._mark_lost(TransportError(why, target=target), error)
            return
        self._refused = error
        if isinstance(error, ConnectError):
            self._mark_lost(error, error.__cause__)
            return
        refused = ConnectError(str(error), target=target)
        if isinstance(error, TransportError):
            refused.__cause__ = error
            self._refused = refused
        self._mark_lost(refused, error)

    def _mark_lost(
        self, error: TransportError, cause: BaseException | None = None
    ) -> None:
        if self._dead is not None:
            return
        # POSTs may start out of order, so the byte count does not show the unsent ones.
        unsent = {id for id, post in self._requests.items() if post.begun is None}
        for id, call in list(self._peer.outstanding.items()):
            if id in unsent or call.end > self._taken:
                self._fail(id, self._unsent_error(error))
        self._written = self._queued
        super()._mark_lost(error, cause)
        self._is_settled.set()
        self._stop()
        self._closing = self._loop.create_task(self._close(), name="mcpwire-sse-close")

    def _unsent_error(self, error: TransportError) -> ConnectionClosed:
        if self._closed_by_us:
            return self._closed_error(sent=False)
        return ConnectionClosed(str(error.args[0]), target=self.target, sent=False)

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
            await asyncio.wait(self._tasks(), timeout=CLOSE_S)
            await self._engine.aclose()
        except asyncio.CancelledError:  # the loop ends
            self._engine.abandon()
            raise

    def forked(self) -> None:
        """Refuse every use in a forked process, and close its copies of the sockets."""
        super().forked()
        self._engine.forked()

    def abandon(self) -> None:
        """Close the connections at once, even without a running loop."""
        super().abandon()
        if not self._loop.is_closed():
            self._stop()
        self._engine.abandon()


class Stream(Reply):
    """The response to the GET."""

    def __init__(self, channel: Any) -> None:
        super().__init__(channel, "stream", "GET")
        self._channel: LegacyChannel = channel

    def _judge_head(self) -> None:
        """Collect the body of a response that is not a stream, for the error."""
        if 300 <= self.status < 400:
            super()._judge_head()
            return
        self._room = MAX_ERROR_BODY
        self._channel.error_body_began(self)

    def save_position(self) -> None:
        """Do nothing: the stream cannot be resumed."""

    def _take_event(self, event: SSEEvent) -> None:
        self._channel.take_event(event.event, event.data)

    def _take_message(self, data: Line) -> None:
        self._channel.take_event("message", bytes(data))


class Post(Reply):
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
        self.names = self.id  # id of this request, or of the cancelled one
        if method == CANCELLED:
            named = (message.get("params") or {}).get("requestId")
            self.names = named if type(named) is int else 0
        self.own_fields: Fields = ()
        self.after: list[Post] = []  # the POSTs that it must not overtake
        self.begun: float | None = None  # the time of its start
        self.acceptance: TimerHandle | None = None  # aborts a POST that is not accepted

    def data(self, chunk: bytes) -> None:
        """Process only the body of an error: messages arrive on the stream."""
        if not self.is_over:
            super().data(chunk)
