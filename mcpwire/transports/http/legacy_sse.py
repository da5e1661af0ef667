"""MCP over HTTP+SSE, the transport of 2024-11-05: one stream down, POSTs up.

2026-07-28 basic/transports/streamable-http, "HTTP+SSE Transport (2024-11-05)": nothing
new should be built on it, and servers that speak nothing else are still met. It is one
duplex connection like a pipe::

    GET ─► endpoint event ─► message event ... message event ─► the end: all is lost
                 │
                 └─► each message of ours is a POST of its own, answered 202 or the like

What belongs together arrives on different connections, so order is ours to keep. Every
POST is begun in the order of writing and waits for no other, with two exceptions:
nothing overtakes ``notifications/initialized``, and no cancellation overtakes the
request it names. A server that does not answer those holds the others up for `ORDER_S`
and no longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    ConnectError,
    ConnectionClosed,
    MCPError,
    MessageTooLarge,
    RemoteProtocolError,
    TransportError,
)
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol import http_reply
from mcpwire.protocol.http_headers import (
    RequestHeaders,
    resolve_endpoint,
)
from mcpwire.protocol.http_reply import MAX_REDIRECTS, Request, resolve_redirect
from mcpwire.transports.duplex import Duplex
from mcpwire.transports.handlers import stay_for
from mcpwire.transports.http.credentials import describe_request, describe_response
from mcpwire.wire.json import loads
from mcpwire.wire.sse import SSEDecoder

if TYPE_CHECKING:
    from asyncio import Future, TimerHandle
    from collections.abc import Mapping

    from mcpwire.protocol.deadline import Deadline
    from mcpwire.transports.base import CallHandle, Inbound, NotifyFn, Trace
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.authorizer import DeadlinePauser
    from mcpwire.wire.sse import SSEEvent
    from mcpwire.wire.urls import Url

    Fields = tuple[tuple[str, str], ...]

__all__ = ["LegacyChannel"]

logger = logging.getLogger("mcpwire")

ENDPOINT_S: Final = 10.0
"""How long a connected server may take to name its endpoint."""

ORDER_S: Final = 5.0
"""How long one message waits for another that must not come after it."""

ACCEPT_S: Final = 30.0
"""How long a server may take to accept what nobody waits for an answer to."""

BODY_S: Final = 0.2
"""How long the rest of an answer that is an error may take: it only tells more."""

CLOSE_S: Final = 2.0
"""How long closing waits for exchanges that were cancelled."""

REQUESTS_AT_ONCE: Final = 64
"""POSTs of requests; each takes a connection for as long as it is not accepted."""

INITIALIZED: Final = "notifications/initialized"

CANCELLED: Final = "notifications/cancelled"

MAX_ERROR_BODY: Final = 64 * 1024

OWN_FIELDS_KEPT: Final = 1_024
"""Calls with own fields that are remembered, in case they are cancelled."""


class LegacyChannel(Duplex):
    """A connection to a server that speaks HTTP+SSE.

    Calls may be made at once; `ready` waits for the connection. A message is handed to
    the engine as soon as the server has named its endpoint. An HTTP error to a request
    ends that call alone; the end of the stream ends all. With `owns_engine` the engine
    is closed with the channel.
    """

    def __init__(
        self,
        target: Http,
        engine: Engine,
        inbound: Inbound,
        limits: Limits = DEFAULT_LIMITS,
        *,
        owns_engine: bool = False,
    ) -> None:
        super().__init__(inbound, limits=limits, target=str(target))
        self._http = target
        self._engine = engine
        self._owns_engine = owns_engine
        self._pauser: DeadlinePauser | None = getattr(engine, "pauser", None)
        self._heads = RequestHeaders(target.parsed, dict(target.static_headers))
        self._taken = 0
        # The fields of single messages: of calls by id, for they go with its
        # cancelling too; of notifications by their line.
        self._call_fields: dict[int, Fields] = {}
        self._line_fields: dict[bytes, Fields] = {}
        self._stream = Stream(self, target.parsed)
        self._endpoint = target.parsed
        self._is_known = asyncio.Event()
        self._is_settled = asyncio.Event()
        self._is_over = False
        self._room = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._posts: dict[Post, asyncio.Task[None]] = {}
        self._requests: dict[int, Post] = {}
        self._gate: Post | None = None
        self._refused: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asked: Request | None = None
        self._ending: asyncio.Task[None] | None = None
        if target.connect_timeout is not None:
            self._expect_endpoint(target.connect_timeout + ENDPOINT_S)
        self._listening = self._loop.create_task(
            self._listen(), name="mcpwire-sse-stream"
        )

    async def ready(self) -> None:
        """Wait until the server has named its endpoint; safe to cancel."""
        await self._is_settled.wait()
        if self._refused is not None:
            raise self._refused
        if self._dead is not None:
            raise self._closed_error(sent=False)

    # What is sent...

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
            # Nothing runs between here and where the peer takes its next id.
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
            if self._peer.requests_sent < id:  # it did not leave: another gets its id
                self._call_fields.pop(id, None)

    def _pausable(
        self, deadline: Deadline | None
    ) -> contextlib.AbstractContextManager[None]:
        """Let no time pass for a call in there while a user logs in."""
        if self._pauser is None:
            return contextlib.nullcontext()
        return self._pauser.deadline(deadline, self._timeouts.arm)

    def notify_nowait(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification without suspending; see `Duplex.notify_nowait`."""
        if not headers:
            super().notify_nowait(method, params)
            return
        fields = self._http.check(headers)
        line = self._peer.notify(method, params).rstrip(b"\n")
        self._line_fields[line] = fields
        try:
            super().notify_nowait(method, params)
        except BaseException:
            self._line_fields.pop(line, None)
            raise

    def _write(self, data: bytes) -> None:
        """Post each of these lines."""
        self._taken += len(data)
        for line in data.split(b"\n"):
            if line and not self._is_over:
                self._post(Post(self, self._endpoint, line, self._loop.create_future()))

    def _left(self, size: int) -> None:
        """Count bytes that do not wait any more."""
        self._written += size
        if self._written == self._queued:
            self._writing_done()

    def _fail(self, id: int, error: Exception) -> None:
        """End a call, and no other: its request was not accepted."""
        call = self._peer.outstanding.get(id)
        if call is not None:
            self._peer.forget(id)
            self._timeouts.release(call)
            if not call.future.done():
                call.future.set_exception(error)

    # Tracing...

    def watch(self, trace: Trace) -> None:
        """Tell a hook from now on, and of the heads that came before it."""
        super().watch(trace)
        if self._asked is not None:
            trace("request", describe_request(self._asked))
        if self._stream.status:
            self.head_came(self._stream)

    def head_came(self, answer: Answer) -> None:
        """Tell of the head of an answer."""
        if self._trace is not None:
            fields = answer.fields_came
            self._trace("response", describe_response(answer.status, fields))

    # HTTP...

    async def _own_fields(self) -> Fields:
        """Return the user's fields for one request beside those that never change."""
        given = self._http.headers
        if not callable(given):
            return ()
        headers: Any = given()
        if hasattr(headers, "__await__"):
            headers = await headers
        return self._http.check(headers)

    async def _exchange(self, request: Request, answer: Answer) -> None:
        """Send a request; follow redirects where the target allows that."""
        for _ in range(MAX_REDIRECTS + 1):
            if self._trace is not None:
                self._trace("request", describe_request(request))
            elif answer is self._stream:
                self._asked = request
            await self._engine.exchange(request, answer, None)
            there = answer.there
            if there is None:
                return
            from mcpwire.transports.http.credentials import redirected

            request = redirected(self._http, request, there.target)
            answer.ask(there)
        raise RemoteProtocolError(f"{answer.what}: more than {MAX_REDIRECTS} redirects")

    @property
    def message_limit(self) -> int:
        """How long a message may be, in bytes."""
        return self._limits.message

    def leads_to(self, answer: Answer) -> Url | None:
        """Return where else to ask, if a redirect says so and may be followed."""
        there = self._redirect(answer)
        return None if isinstance(there, str) else there

    def _redirect(self, answer: Answer) -> Url | str:
        return resolve_redirect(
            answer.url,
            answer.status,
            _location(answer),
            allowed=self._http.follow_redirects,
        )

    def _fault(self, answer: Answer) -> MCPError:
        """Build the error for an answer that is of no use."""
        why = self._redirect(answer) if 300 <= answer.status < 400 else None
        fault = http_reply.unusable_answer(
            answer.what,
            answer.status,
            answer.fields_came,
            answer.body,
            target=str(self.target),
            detail=f"; {why}" if isinstance(why, str) else "",
        )
        from mcpwire.transports.http.credentials import missing_scope

        return missing_scope(self._http, fault) or fault

    # The stream...

    async def _listen(self) -> None:
        stream = self._stream
        error: Exception
        try:
            start = self._heads.get(None, await self._own_fields())
            await self._exchange(Request(start), stream)
            error = self._verdict(stream)
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

    def stream_began(self, stream: Stream) -> None:
        """Judge the head of the stream."""
        if stream.decoder is not None:
            self._expect_endpoint(ENDPOINT_S)
        else:
            self._loop.call_later(
                BODY_S, lambda: self._stream_over(self._verdict(stream))
            )

    def _verdict(self, stream: Stream) -> MCPError:
        """Say what it means that the answer to the GET is over."""
        target = self.target
        if stream.decoder is not None:
            why = "the server ended its event stream"
            if self._is_known.is_set():
                return TransportError(why, target=target)
            return ConnectError(f"{target}: {why} before it named its endpoint")
        fault = self._fault(stream)
        error = ConnectError(f"{fault}: no event stream", target=target)
        error.__cause__ = fault
        return error

    def take_events(self, events: list[SSEEvent]) -> None:
        """Take what came on the stream."""
        if self._is_over:
            return
        if events and not self._is_known.is_set():
            self._take_endpoint(events.pop(0))
        # A message may be told in several lines of data; a newline in it is a space.
        lines = [
            event.data.replace(b"\n", b" ") + b"\n"
            for event in events
            if event.event == "message"
        ]
        if lines and self._dead is None:
            self.receive(b"".join(lines))

    def _take_endpoint(self, first: SSEEvent) -> None:
        # 2024-11-05 basic/transports, "HTTP with SSE": it is the first event.
        if first.event != "endpoint":
            raise ConnectError(
                f"{self.target}: no event stream of MCP 2024-11-05: its first event is "
                f"{first.event[:40]!r}, not 'endpoint'",
                target=self.target,
            )
        endpoint = resolve_endpoint(self._stream.url, first.data)
        self._endpoint = endpoint
        self._heads = self._heads.with_target(endpoint.target)
        allow = getattr(self._engine, "allow", None)
        if allow is not None:  # its tokens go to the stream's URL alone
            allow(endpoint.target)
        if self._timer is not None:
            self._timer.cancel()
        self._is_known.set()
        self._is_settled.set()

    # Messages of ours...

    def _post(self, post: Post) -> None:
        named = self._requests.get(post.names) if post.names is not None else None
        if named is not None and post.method == CANCELLED:
            if named.begun is None:
                # The server need not hear of either.
                self._posts[named].cancel()
                self._end(named)  # its task may not even have begun
                self._left(named.size + post.size)
                return
            post.after.append(named)
        if self._gate is not None:
            post.after.append(self._gate)
        if post.method == INITIALIZED:
            self._gate = post
        elif post.id is not None:
            self._requests[post.id] = post
        fields = self._line_fields.pop(post.line, None)
        if fields is None and post.names is not None:
            fields = self._call_fields.get(post.names)
        post.fields = fields or ()
        self._posts[post] = self._loop.create_task(
            self._deliver(post), name=f"mcpwire-sse-{post.what}"
        )
        if post.id is None:
            stay_for(self._posts[post])

    async def _deliver(self, post: Post) -> None:
        try:
            await self._is_known.wait()
            for other in post.after:
                await self._wait_for(other)
            if post.id is None:
                await self._perform(post)
            else:
                async with self._room:
                    await self._perform(post)
            if not http_reply.is_success(post.status):
                self._failed(post, self._fault(post))
        except Exception as raised:  # noqa: BLE001 - also a user's function for headers
            self._failed(post, raised)
        finally:
            self._end(post)

    async def _wait_for(self, other: Post) -> None:
        """Let another POST go first, for a while."""
        left = ORDER_S
        if other.begun is not None:
            left += other.begun - self._loop.time()
        if left > 0:
            await asyncio.wait([other.is_through], timeout=left)

    async def _perform(self, post: Post) -> None:
        fields = (*await self._own_fields(), *post.fields)
        request = Request(self._heads.post(fields), post.line)
        post.ask(self._endpoint)
        post.begun = self._loop.time()
        post.timer = self._loop.call_later(ACCEPT_S, self._look_after, post)
        self._left(post.size)
        await self._exchange(request, post)

    def _end(self, post: Post) -> None:
        if post.timer is not None:
            post.timer.cancel()
        if post.id is not None:
            self._requests.pop(post.id, None)
        if self._gate is post:
            self._gate = None
        self._posts.pop(post, None)
        if not post.is_through.done():
            post.is_through.set_result(None)

    def post_refused(self, post: Post) -> None:
        """Wait for the rest of an answer that is no success, but not for long."""
        self._loop.call_later(
            BODY_S, lambda: self._engine.abort(post, self._fault(post))
        )

    def _look_after(self, post: Post) -> None:
        """End a POST that no caller waits for: the server keeps it open for nothing."""
        if post.id is not None and post.id in self._peer.outstanding:
            # It may answer its POST once the call is done.
            post.timer = self._loop.call_later(ACCEPT_S, self._look_after, post)
            return
        why = f"{post.what}: not accepted within {ACCEPT_S:g} s"
        self._engine.abort(post, TransportError(why, target=self.target))

    def _failed(self, post: Post, error: Exception) -> None:
        if post.id is not None and not self._is_over:
            self._fail(post.id, error)
        else:
            logger.debug("%s: %s", post.what, error)

    # The end...

    def _stream_over(self, error: Exception) -> None:
        """Take note that nothing more will come."""
        if self._is_over:
            return
        self._is_over = True
        target = self.target
        if self._is_known.is_set():
            if type(error) is TransportError:
                self._lose(error)
            else:
                why = f"the event stream broke: {error}"
                self._lose(TransportError(why, target=target), error)
            return
        self._refused = error
        if isinstance(error, ConnectError):
            self._lose(error, error.__cause__)
            return
        refused = ConnectError(str(error), target=target)
        if isinstance(error, TransportError):
            refused.__cause__ = error
            self._refused = refused
        self._lose(refused, error)

    def _lose(self, error: TransportError, cause: BaseException | None = None) -> None:
        if self._dead is not None:
            return
        # In what order POSTs leave says nothing about a count of bytes.
        unsent = {id for id, post in self._requests.items() if post.begun is None}
        for id, call in list(self._peer.outstanding.items()):
            if id in unsent or call.end > self._taken:
                self._fail(id, self._unsent_error(error))
        self._written = self._queued
        super()._lose(error, cause)
        self._is_settled.set()
        self._stop()
        self._ending = self._loop.create_task(self._close(), name="mcpwire-sse-close")

    def _unsent_error(self, error: TransportError) -> ConnectionClosed:
        if self._closed_by_us:
            return self._closed_error(sent=False)
        return ConnectionClosed(str(error.args[0]), target=self.target, sent=False)

    def _stop(self) -> None:
        """End every exchange."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for task in (self._listening, *self._posts.values()):
            task.cancel()

    async def _close(self) -> None:
        """Wait for the end of every exchange; bounded in time."""
        try:
            await asyncio.wait(
                {self._listening, *self._posts.values()}, timeout=CLOSE_S
            )
            if self._owns_engine:
                await self._engine.aclose()
        except asyncio.CancelledError:  # the loop ends
            if self._owns_engine:
                self._engine.abandon()
            raise

    async def aclose(self) -> None:
        """End the stream and every POST; bounded in time.

        Cancelling it leaves that running; call it again to wait for its end.
        """
        await super().aclose()
        if self._ending is not None:
            await asyncio.shield(self._ending)

    def forked(self) -> None:
        """Leave the connections to the parent."""
        super().forked()
        if self._owns_engine:
            # An engine that abandons otherwise than in a forked process says so.
            getattr(self._engine, "forked", self._engine.abandon)()

    def abandon(self) -> None:
        """Let go of the connections now, from anywhere, without a loop to wait on."""
        super().abandon()
        if not self._loop.is_closed():
            self._stop()
        if self._owns_engine:
            self._engine.abandon()


def _location(answer: Answer) -> str | None:
    given = answer.fields_came.get(b"location")
    return None if given is None else given.decode("latin-1")


class Answer:
    """What an engine feeds; keeps the beginning of a body that tells of an error.

    Attributes:
        url: What was asked.
        there: Where to ask next; ``None`` where this is the answer.
        status: The status; 0 before the head.
        fields_came: The head's fields, names in lower case.
        body: What came of a body that is of no use.
        is_over: Whether nothing more is waited for.
    """

    __slots__ = ("body", "channel", "fields_came", "is_over", "status", "there", "url")

    what: str

    def __init__(self, channel: LegacyChannel, url: Url) -> None:
        self.channel = channel
        self.ask(url)

    def ask(self, url: Url) -> None:
        """Wait for what comes from there."""
        self.url = url
        self.there: Url | None = None
        self.status = 0
        self.fields_came: dict[bytes, bytes] = {}
        self.body = b""
        self.is_over = False

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Take the final head."""
        self.status = status
        self.fields_came = fields
        self.channel.head_came(self)
        if 300 <= status < 400:
            self.there = self.channel.leads_to(self)
        # A redirect that is followed is over with its body: what is fed after this
        # would be taken for a part of the next answer.
        if self.there is None:
            self.judge()

    def judge(self) -> None:
        """Say what the head means."""
        raise NotImplementedError

    def data(self, chunk: bytes) -> None:
        """Keep as much of the body as tells what is wrong."""
        if not self.is_over:
            self.body += chunk
            self.is_over = len(self.body) >= MAX_ERROR_BODY

    def end(self) -> None:
        """Take note that the body is complete."""
        self.is_over = True

    def out_of_time(self, now: float) -> MCPError:
        """Say that it took too long; asyncio's engines do not ask."""
        del now
        return TransportError("no answer in time", target=self.channel.target)


class Stream(Answer):
    """The answer to the GET.

    Attributes:
        decoder: Reads the events, where there are some.
    """

    __slots__ = ("decoder",)

    what = "GET"

    def __init__(self, channel: LegacyChannel, url: Url) -> None:
        super().__init__(channel, url)
        self.decoder: SSEDecoder | None = None

    def judge(self) -> None:
        """See whether this is an event stream."""
        if self.status == 200 and http_reply.body_kind(self.fields_came) == "stream":
            self.decoder = SSEDecoder(self.channel.message_limit)
        self.channel.stream_began(self)

    def data(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        decoder = self.decoder
        if decoder is None:
            super().data(chunk)
            return
        self.channel.take_events(decoder.feed(chunk))
        if decoder.overflow:
            limit = self.channel.message_limit
            raise MessageTooLarge(
                f"an event is longer than {limit} bytes (Limits.message)", limit=limit
            )


class Post(Answer):
    """One message of ours and what the server says to its POST.

    Attributes:
        line: The message.
        size: How many bytes it counts for, newline included.
        method: Its method; ``None``: it is an answer of ours.
        id: Its id, where it is a request.
        names: The request that it is, or cancels.
        fields: What its head has beside what all have.
        after: The POSTs that it must not overtake.
        begun: When it left; ``None`` while not a byte of it has.
        timer: Ends it.
        is_through: Done when it is over.
    """

    __slots__ = (
        "after",
        "begun",
        "fields",
        "id",
        "is_through",
        "line",
        "method",
        "names",
        "size",
        "timer",
        "what",
    )

    def __init__(
        self, channel: LegacyChannel, url: Url, line: bytes, is_through: Future[None]
    ) -> None:
        super().__init__(channel, url)
        message = loads(line)
        if type(message) is not dict:
            message = {}  # the answers to a batch
        id = message.get("id")
        self.line = line
        self.size = len(line) + 1
        self.method: str | None = message.get("method")
        self.what = self.method or "an answer"
        self.id = id if self.method is not None and type(id) is int else None
        self.names: int | None = self.id
        if self.method == CANCELLED:
            named = (message.get("params") or {}).get("requestId")
            self.names = named if type(named) is int else None
        self.fields: Fields = ()
        self.after: list[Post] = []
        self.begun: float | None = None
        self.timer: TimerHandle | None = None
        self.is_through = is_through

    def judge(self) -> None:
        """See whether the message was accepted."""
        if http_reply.is_success(self.status):
            self.is_over = True  # whatever else it says is no message
        else:
            self.channel.post_refused(self)
