"""The bytes of HTTP+SSE, the transport of 2024-11-05: one stream down, POSTs up.

::

    GET ─► endpoint event ─► message event ... message event ─► the end: all is lost
                 │
                 └─► each message of ours is a POST of its own, answered 202 or the like

What belongs together arrives on different connections, so order is ours to keep. Every
POST is begun in the order of writing and waits for no other, with two exceptions:
nothing overtakes ``notifications/initialized``, and no cancellation overtakes the
request it names. A server that does not answer those holds the others up for `ORDER_S`
and no longer.

Nothing here knows calls. It is run by an asyncio channel, and for the blocking client
by a thread.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.errors import ConnectError, MCPError, MessageTooLarge, TransportError
from mcpwire.protocol.http import exchange
from mcpwire.protocol.http.endpoint import resolve_endpoint
from mcpwire.protocol.http.heads import Heads
from mcpwire.protocol.http.request import Request
from mcpwire.wire.json import loads
from mcpwire.wire.sse import SSEDecoder

if TYPE_CHECKING:
    from asyncio import Future

    from mcpwire.limits import Limits
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.target import Http
    from mcpwire.wire.sse import SSEEvent

    Fields = tuple[tuple[str, str], ...]

__all__ = ["LegacyLink", "LinkOwner", "OwnFields"]

logger = logging.getLogger("mcpwire")

ENDPOINT_S: Final = 10.0
"""How long a connected server may take to name its endpoint."""

ORDER_S: Final = 5.0
"""How long one message waits for another that must not come after it."""

ACCEPT_S: Final = 30.0
"""How long a server may take to accept what nobody waits for an answer to."""

BODY_S: Final = 0.2
"""How long the rest of an answer that is an error may take: it only tells more."""

ERROR_BODY_BYTES: Final = 64 * 1024

CLOSE_S: Final = 2.0
"""How long closing waits for exchanges that were cancelled."""

REQUESTS_AT_ONCE: Final = 64
"""POSTs of requests; each takes a connection for as long as it is not accepted."""

OWN_FIELDS_KEPT: Final = 1_024
"""Calls whose own fields are remembered, in case they are cancelled."""

INITIALIZED: Final = "notifications/initialized"
CANCELLED: Final = "notifications/cancelled"


class LinkOwner(Protocol):
    """Who has calls, and is told. Nothing here awaits, blocks or raises."""

    def endpoint_known(self) -> None:
        """Messages can be sent."""

    def lines_came(self, lines: bytes) -> None:
        """Take messages, a line each."""

    def has_left(self, size: int) -> None:
        """Count bytes that do not wait any more."""

    def is_waiting(self, id: int) -> bool:
        """Tell whether an answer to that request is waited for."""

    def fields_of(self, line: bytes, id: int | None) -> Fields:
        """Return the fields that one message has for itself.

        The id is that of the request that it is, or cancels.
        """

    def post_failed(self, id: int, error: Exception) -> None:
        """End a call: its request was not accepted."""

    def link_lost(self, error: TransportError, cause: BaseException | None) -> None:
        """Nothing more will come."""


class OwnFields:
    """The fields of single messages; those of a call go with its cancelling too."""

    def __init__(self) -> None:
        self._of_lines: dict[bytes, Fields] = {}
        self._of_calls: dict[int, Fields] = {}

    def keep(self, key: int | bytes, fields: Fields) -> None:
        """Remember the fields of a request by its id, of anything else by its line."""
        if type(key) is bytes:
            self._of_lines[key] = fields
            return
        assert type(key) is int
        self._of_calls[key] = fields
        if len(self._of_calls) > OWN_FIELDS_KEPT:
            del self._of_calls[next(iter(self._of_calls))]

    def find(self, line: bytes, id: int | None) -> Fields:
        """Return the fields of a message that leaves."""
        if not self._of_lines and not self._of_calls:
            return ()
        fields = self._of_lines.pop(line, None)
        if fields is None and id is not None:
            fields = self._of_calls.get(id)
        return fields or ()


class LegacyLink:
    """The event stream and the POSTs of one connection; see the module's text.

    Attributes:
        target: The URL, without secrets.
        limits: What the server may cost.
        refused: Why no connection came about, where none did.
    """

    def __init__(
        self,
        target: Http,
        engine: Engine,
        owner: LinkOwner,
        limits: Limits,
        *,
        owns_engine: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._http = target
        self._engine = engine
        self._owns_engine = owns_engine
        self._owner = owner
        self.limits = limits
        self.target = str(target)
        self._heads = Heads(target.parsed, dict(target.static_headers))
        self._is_known = asyncio.Event()
        self._is_over = False
        self._room = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._posts: dict[_Post, asyncio.Task[None]] = {}
        self._requests: dict[int, _Post] = {}
        self._gate: _Post | None = None
        self.refused: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        if target.connect_timeout is not None:
            self._expect_endpoint(target.connect_timeout + ENDPOINT_S)
        self._listening = self._loop.create_task(
            self._listen(), name="mcpwire-sse-stream"
        )

    @property
    def unsent(self) -> set[int]:
        """The requests of which no byte has left."""
        return {id for id, post in self._requests.items() if post.begun is None}

    # The stream...

    async def _listen(self) -> None:
        stream = _Stream(self)
        error: Exception
        try:
            start = self._heads.get(None, await self._own_fields())
            await self._engine.exchange(Request(start), stream, None)
            error = self.stream_verdict(stream)
        except Exception as raised:  # noqa: BLE001 - also a user's function for headers
            error = raised
        self.over(error)

    async def _own_fields(self) -> Fields:
        """Return the user's fields for one request beside those that never change."""
        given = self._http.headers
        if not callable(given):
            return ()
        headers: Any = given()
        if hasattr(headers, "__await__"):
            headers = await headers
        return self._http.check(headers)

    def _expect_endpoint(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        self.over(
            ConnectError(
                f"{self.target}: no endpoint event within {ENDPOINT_S:g} s",
                target=self.target,
            )
        )

    def stream_began(self, stream: _Stream) -> None:
        """Judge the head of the stream."""
        if stream.decoder is not None:
            self._expect_endpoint(ENDPOINT_S)
        else:
            self._loop.call_later(BODY_S, self._judge, stream)

    def _judge(self, stream: _Stream) -> None:
        self.over(self.stream_verdict(stream))

    def stream_verdict(self, stream: _Stream) -> MCPError:
        """Say what it means that the answer to the GET is over."""
        target = self.target
        if stream.decoder is not None:
            why = "the server ended its event stream"
            if self._is_known.is_set():
                return TransportError(why, target=target)
            return ConnectError(f"{target}: {why} before it named its endpoint")
        fault = exchange.fault(
            "GET", stream.status, stream.fields_came, stream.body, target=target
        )
        error = ConnectError(f"{fault}: no event stream", target=target)
        error.__cause__ = fault
        return error

    def take_events(self, events: list[SSEEvent]) -> None:
        """Take what came on the stream.

        Raises:
            ConnectError: The first event names no endpoint.
            RemoteProtocolError: It names one that is refused.
        """
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
        if lines:
            self._owner.lines_came(b"".join(lines))

    def _take_endpoint(self, first: SSEEvent) -> None:
        # 2024-11-05 basic/transports, "HTTP with SSE": it is the first event.
        if first.event != "endpoint":
            raise ConnectError(
                f"{self.target}: no event stream of MCP 2024-11-05: its first event is "
                f"{first.event[:40]!r}, not 'endpoint'",
                target=self.target,
            )
        endpoint = resolve_endpoint(self._http.parsed, first.data)
        self._heads = self._heads.with_target(endpoint.target)
        if self._timer is not None:
            self._timer.cancel()
        self._is_known.set()
        self._owner.endpoint_known()

    # Messages of ours...

    def write(self, lines: bytes) -> None:
        """Post each of these lines."""
        for line in lines.split(b"\n"):
            if line and not self._is_over:
                self._post(_Post(self, line, self._loop.create_future()))

    def _post(self, post: _Post) -> None:
        named = self._requests.get(post.names) if post.names is not None else None
        if named is not None and post.method == CANCELLED:
            if named.begun is None:
                self._posts[named].cancel()  # the server need not hear of either
                self._owner.has_left(named.size + post.size)
                return
            post.after.append(named)
        if self._gate is not None:
            post.after.append(self._gate)
        if post.method == INITIALIZED:
            self._gate = post
        elif post.id is not None:
            self._requests[post.id] = post
        post.fields = self._owner.fields_of(post.line, post.names)
        self._posts[post] = self._loop.create_task(
            self._deliver(post), name=f"mcpwire-sse-{post.what}"
        )

    async def _deliver(self, post: _Post) -> None:
        try:
            await self._is_known.wait()
            for other in post.after:
                await self._wait_for(other)
            if post.id is None:
                await self._perform(post)
            else:
                async with self._room:
                    await self._perform(post)
            if not exchange.is_success(post.status):
                self._failed(post, self._fault(post))
        except Exception as raised:  # noqa: BLE001 - also a user's function for headers
            self._failed(post, raised)
        finally:
            self._end(post)

    async def _wait_for(self, other: _Post) -> None:
        """Let another POST go first, for a while."""
        left = ORDER_S
        if other.begun is not None:
            left += other.begun - self._loop.time()
        if left > 0:
            await asyncio.wait([other.is_through], timeout=left)

    async def _perform(self, post: _Post) -> None:
        fields = (*await self._own_fields(), *post.fields)
        request = Request(self._heads.post(fields), post.line)
        post.begun = self._loop.time()
        post.timer = self._loop.call_later(ACCEPT_S, self._look_after, post)
        self._owner.has_left(post.size)
        await self._engine.exchange(request, post, None)

    def _end(self, post: _Post) -> None:
        if post.timer is not None:
            post.timer.cancel()
        if post.id is not None:
            self._requests.pop(post.id, None)
        if self._gate is post:
            self._gate = None
        self._posts.pop(post, None)
        if not post.is_through.done():
            post.is_through.set_result(None)

    def post_refused(self, post: _Post) -> None:
        """Wait for the rest of an answer that is no success, but not for long."""
        self._loop.call_later(BODY_S, self._cut, post)

    def _cut(self, post: _Post) -> None:
        self._engine.abort(post, self._fault(post))

    def _look_after(self, post: _Post) -> None:
        """Let a POST go that nobody waits for: the server keeps it open for nothing."""
        if post.id is not None and self._owner.is_waiting(post.id):
            # It may answer its POST once the call is done.
            post.timer = self._loop.call_later(ACCEPT_S, self._look_after, post)
            return
        self._engine.abort(
            post,
            TransportError(
                f"{post.what}: not accepted within {ACCEPT_S:g} s",
                target=self.target,
            ),
        )

    def _fault(self, post: _Post) -> MCPError:
        return exchange.fault(
            post.what, post.status, post.fields_came, post.body, target=self.target
        )

    def _failed(self, post: _Post, error: Exception) -> None:
        if post.id is not None and not self._is_over:
            self._owner.post_failed(post.id, error)
        else:
            logger.debug("%s: %s", post.what, error)

    # The end...

    def over(self, error: Exception) -> None:
        """Tell the owner that nothing more will come; it stops this link."""
        if self._is_over:
            return
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        target = self.target
        if self._is_known.is_set():
            if type(error) is TransportError:
                self._owner.link_lost(error, None)
                return
            lost = TransportError(f"the event stream broke: {error}", target=target)
            self._owner.link_lost(lost, error)
            return
        if isinstance(error, ConnectError):
            self.refused = error
            self._owner.link_lost(error, error.__cause__)
            return
        self.refused = error
        refused = ConnectError(str(error), target=target)
        if isinstance(error, TransportError):
            refused.__cause__ = error
            self.refused = refused
        self._owner.link_lost(refused, error)

    def stop(self) -> None:
        """End every exchange."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for task in (self._listening, *self._posts.values()):
            task.cancel()

    async def aclose(self) -> None:
        """End every exchange, and wait for that; bounded in time."""
        self.stop()
        try:
            await asyncio.wait(
                {self._listening, *self._posts.values()}, timeout=CLOSE_S
            )
            if self._owns_engine:
                await self._engine.aclose()
        except asyncio.CancelledError:
            self.abandon()  # the loop ends
            raise

    def abandon(self) -> None:
        """Let go of the connections now, from anywhere."""
        if self._owns_engine:
            self._engine.abandon()


class _Answer:
    """What an engine feeds; keeps the beginning of a body that tells of an error."""

    __slots__ = ("body", "fields_came", "is_over", "link", "status")

    def __init__(self, link: LegacyLink) -> None:
        self.link = link
        self.status = 0
        self.fields_came: dict[bytes, bytes] = {}
        self.body = b""
        self.is_over = False

    def data(self, chunk: bytes) -> None:
        """Keep as much of the body as tells what is wrong."""
        if not self.is_over:
            self.body += chunk
            self.is_over = len(self.body) >= ERROR_BODY_BYTES

    def end(self) -> None:
        """Take note that the body is complete."""
        self.is_over = True

    def out_of_time(self, now: float) -> MCPError:
        """Say that it took too long; asyncio's engines do not ask."""
        del now
        return TransportError("no answer in time", target=self.link.target)


class _Stream(_Answer):
    """The answer to the GET."""

    __slots__ = ("decoder",)

    def __init__(self, link: LegacyLink) -> None:
        super().__init__(link)
        self.decoder: SSEDecoder | None = None

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """See whether this is an event stream."""
        self.status = status
        self.fields_came = fields
        if status == 200 and exchange.body_kind(fields) == "stream":
            self.decoder = SSEDecoder(self.link.limits.message)
        self.link.stream_began(self)

    def data(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        decoder = self.decoder
        if decoder is None:
            super().data(chunk)
            return
        self.link.take_events(decoder.feed(chunk))
        if decoder.overflow:
            limit = self.link.limits.message
            raise MessageTooLarge(
                f"an event is longer than {limit} bytes (Limits.message)", limit=limit
            )


class _Post(_Answer):
    """One message of ours and what the server says to its POST.

    Attributes:
        id: Its id, where it is a request.
        names: The request that it is, or cancels.
        begun: When it left; ``None`` while not a byte of it has.
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
    )

    def __init__(self, link: LegacyLink, line: bytes, through: Future[None]) -> None:
        super().__init__(link)
        message = loads(line)
        if type(message) is not dict:
            message = {}  # the answers to a batch
        id = message.get("id")
        self.line = line
        self.size = len(line) + 1
        self.method: str | None = message.get("method")
        self.id = id if self.method is not None and type(id) is int else None
        self.names = self.id
        if self.method == CANCELLED:
            self.names = message["params"].get("requestId")
        self.fields: Fields = ()
        self.after: list[_Post] = []
        self.begun: float | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.is_through = through

    @property
    def what(self) -> str:
        """What it is, for messages."""
        return self.method or "an answer"

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """See whether the message was accepted."""
        self.status = status
        self.fields_came = fields
        if exchange.is_success(status):
            self.is_over = True  # whatever else it says is no message
        else:
            self.link.post_refused(self)
