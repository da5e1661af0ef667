"""One HTTP request while it is answered, over ASGI.

It hides what ASGI asks for: the body in pieces, the answer in two or more events, the
client that may be gone at any of them. It knows nothing of JSON-RPC but its encoding.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidRequest
from mcpwire.server.auth.credentials import CREDENTIALS
from mcpwire.server.http.receiving.first_step import first_step
from mcpwire.server.http.receiving.headers import Headers, ShownFields
from mcpwire.server.http.timers import Clocks
from mcpwire.server.http.unread import EXTENSION
from mcpwire.server.request import RequestInfo
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Iterable,
        MutableMapping,
    )

    from mcpwire.errors import RPCError
    from mcpwire.limits import Limits
    from mcpwire.server.auth.principal import Principal
    from mcpwire.server.http.unread import Unread
    from mcpwire.server.request import Owner

    Scope = MutableMapping[str, Any]
    Event = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Event]]
    Send = Callable[[Event], Awaitable[None]]
    Fields = Iterable[tuple[str, str]]

__all__ = ["JSON", "ClientGone", "Exchange", "Headers", "HttpProblem"]

JSON: Final = "application/json"
JSON_FIELD: Final = (b"content-type", JSON.encode())

# 2026-07-28 streamable-http, "Receiving Messages": proxies must not hold it back.
STREAM_FIELDS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)

_LENGTH_DIGITS_MAX: Final = 15  # beyond, a length is over every limit


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class HttpProblem(Exception):
    """The request is refused with a status of HTTP.

    Attributes:
        status: The status.
        error: What the body says, as a JSON-RPC error.
        headers: Fields that go with it.
    """

    def __init__(
        self, status: int, error: str | RPCError, headers: Fields = ()
    ) -> None:
        if isinstance(error, str):
            error = InvalidRequest(error)
        super().__init__(f"{status}: {error.message}")
        self.status = status
        self.error = error
        self.headers = tuple(headers)


class Exchange:
    """One request and its answer, which is sent once.

    Args:
        scope: The request's head, as ASGI has it.
        receive: Gives the body, and says when the client is gone.
        send: Takes the answer.
        limits: Bounds on the body.
        clocks: Those of the application.
        headers: The head's fields, where they were read already.

    Attributes:
        verb: The request's method, of HTTP.
        path: Its path, below where the application is mounted.
        headers: Its header fields.
        principal: Who asks, where that was proved; set once it is known.
        credentials: The names of the fields that prove it, which handlers do not see.
        limits: As given.
        clocks: As given.
        extra: Fields that go with every answer, in the form of ASGI.
        refusal: The JSON that was answered with a status from 400 on; else ``None``.
        size: How many bytes the body had, once it was read.
        status: What was answered; ``None`` before.
        is_gone: Whether the client is known to be gone.
    """

    __slots__ = (
        "_gone",
        "_problem",
        "_reader",
        "_receive",
        "_request_info",
        "_send",
        "clocks",
        "credentials",
        "extra",
        "headers",
        "is_gone",
        "limits",
        "path",
        "principal",
        "refusal",
        "scope",
        "size",
        "status",
        "verb",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        limits: Limits,
        clocks: Clocks | None = None,
        *,
        headers: Headers | None = None,
    ) -> None:
        self.scope = scope
        self.verb: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = Headers(scope["headers"]) if headers is None else headers
        self.extra: list[tuple[bytes, bytes]] = []
        self.principal: Principal | None = None
        self.credentials: Collection[str] = CREDENTIALS
        self._request_info: RequestInfo | None = None
        self.size = 0
        self.status: int | None = None
        self.refusal: bytes | None = None
        self.is_gone = False
        self._receive = receive
        self._send = send
        self.limits = limits
        self.clocks = clocks or Clocks(reading=limits.body_timeout)
        self._reader: asyncio.Task[Any] | None = None
        self._problem: HttpProblem | None = None
        self._gone: asyncio.Event | None = None

    # What came...

    def check_framing(self) -> None:
        """Check that everybody on the way sees the body end at the same place.

        Raises:
            HttpProblem: They may not, so that what follows could be taken for another
                request; the connection is closed.
        """
        named = self.headers.joined
        encoding = named.get("transfer-encoding")
        # RFC 9112, 6.1 and 6.3: some parsers pass both lengths on, others pass over
        # codings that they do not know.
        if encoding is not None and (
            encoding.lower() != "chunked" or "content-length" in named
        ):
            raise HttpProblem(
                400, "the length of the body is ambiguous", self._closing()
            )

    @property
    def info(self) -> RequestInfo:
        """What handlers may know of it, once it is known who asks."""
        if self._request_info is None:
            self._request_info = self.facts_with()
        return self._request_info

    @info.setter
    def info(self, info: RequestInfo) -> None:
        self._request_info, self.principal = info, info.principal

    def facts_with(
        self, close_stream: Callable[[float | None], None] | None = None
    ) -> RequestInfo:
        """Return what handlers may know, with what ends the stream that answers."""
        return RequestInfo(
            transport="http",
            headers=ShownFields(self.headers, self.credentials),
            principal=self.principal,
            scope=self.scope,
            close_stream=close_stream,
        )

    @property
    def owner(self) -> Owner:
        """The client that this counts to; see `RequestInfo.owner`."""
        return self.info.owner

    @property
    def account(self) -> Unread:
        """Where what clients have not read is counted."""
        extensions = self.scope.get("extensions") or {}
        account: Unread = extensions.get(EXTENSION, self.clocks.unread)
        return account

    async def body(self) -> bytes:
        """Return the whole body.

        Raises:
            HttpProblem: It is too large, or comes too slowly.
            ClientGone: The client went away in the middle.
        """
        limits = self.limits
        limit = min(limits.message, limits.body)
        length = self.headers.get("content-length")
        if (
            length is not None
            and length.isdecimal()
            and (len(length) > _LENGTH_DIGITS_MAX or int(length) > limit)
        ):
            raise self._too_large(limit)
        try:
            event = await first_step(self._receive(), self._begin_to_wait)
            if event["type"] == "http.request" and not event.get("more_body"):
                body: bytes = event.get("body", b"")
                self.size = len(body)
            else:
                body = await first_step(self._rest(event, limit), self._begin_to_wait)
        except asyncio.CancelledError:
            if self._problem is None or not self._reader or self._reader.uncancel():
                raise
            raise self._taken_problem() from None
        finally:
            if self._reader is not None:
                self.clocks.reading.discard(self._give_up)
                self._reader = None
        if self.size > limit:
            raise self._too_large(limit)
        return body

    def _begin_to_wait(self) -> None:
        """The body is not all there: give it its time."""
        if self._reader is None:
            self._reader = asyncio.current_task()
            if self._reader is not None:  # a server may run us without a task
                self.clocks.reading.add(self._give_up)

    async def _rest(self, event: Event, limit: int) -> bytes:
        """Return a body that comes in pieces, of which this is the first."""
        chunks: list[bytes] = []
        size = 0
        while event["type"] == "http.request":
            chunk = event.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise self._too_large(limit)
            chunks.append(chunk)
            if not event.get("more_body"):
                self.size = size
                return b"".join(chunks)
            event = await self._receive()
        self._note_gone()
        raise ClientGone

    def _give_up(self) -> None:
        """Stop reading: the body takes too long."""
        seconds = self.limits.body_timeout
        self.stop_reading(408, f"the body did not come within {seconds:g} s")

    def stop_reading(
        self, status: int, error: str | RPCError, headers: Fields = ()
    ) -> None:
        """Refuse the request, if its body is still to come."""
        if self._reader is not None and self._problem is None:
            headers = (*headers, *self._closing())
            self._problem = HttpProblem(status, error, headers)
            self._reader.cancel()

    def _taken_problem(self) -> HttpProblem:
        # In a variable of the frame that raises it, or here, it would keep the body
        # until the garbage collector comes.
        problem = self._problem
        self._problem = None
        assert problem is not None  # there is one to be taken
        return problem

    def _too_large(self, limit: int) -> HttpProblem:
        return HttpProblem(
            413, f"the body must not be over {limit} bytes", self._closing()
        )

    def _closing(self) -> Fields:
        """Return what says that the rest of the body will not be read."""
        # HTTP/2 and 3 have no such field: RFC 9113, 8.2.2.
        is_http_1 = self.scope.get("http_version", "1.1").startswith("1")
        return (("connection", "close"),) if is_http_1 else ()

    # Whether anybody waits...

    @property
    def gone(self) -> asyncio.Event:
        """Is set when the client is known to be gone; `watch` finds out."""
        if self._gone is None:
            self._gone = asyncio.Event()
            if self.is_gone:
                self._gone.set()
        return self._gone

    def _note_gone(self) -> None:
        self.is_gone = True
        if self._gone is not None:
            self._gone.set()

    async def watch(self) -> None:
        """Wait until the client is gone; only after the body, and once at a time."""
        while not self.is_gone:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                self._note_gone()

    # The answer...

    async def reply(
        self,
        status: int,
        message: dict[str, Any] | None = None,
        headers: Fields = (),
    ) -> None:
        """Answer with one message as JSON, or with no body at all.

        Raises:
            LocalProtocolError: The message has no JSON form; nothing was sent.
            ClientGone: Nobody takes it.
        """
        if message is None:
            await self.reply_bytes(status, b"", None, headers)
        else:
            await self.reply_bytes(status, encode(message), JSON, headers)

    async def reply_bytes(
        self,
        status: int,
        body: bytes,
        content_type: str | None,
        headers: Fields = (),
    ) -> None:
        """Answer with these bytes.

        Raises:
            ClientGone: Nobody takes them.
        """
        # ASGI, "Response Start": names in lower case; HTTP/2 knows no others.
        fields: list[tuple[bytes, bytes]] = (
            [(k.lower().encode(), v.encode("latin-1")) for k, v in headers]
            if headers
            else []
        )
        if content_type == JSON:
            fields.append(JSON_FIELD)
            if status >= 400:
                self.refusal = body
        elif content_type is not None:
            fields.append((b"content-type", content_type.encode("latin-1")))
        # RFC 9110, 8.6: with neither of these statuses goes a length.
        if status not in {204, 304}:
            fields.append((b"content-length", b"%d" % len(body)))
        if self.verb == "HEAD":
            body = b""  # RFC 9110, 9.3.2: its answer has no content
        # As `start_stream` and `end`, without their calls for each request.
        start = self._begin(status, fields)
        try:
            await self._send(start)
            await self._send(
                {"type": "http.response.body", "body": body, "more_body": False}
            )
        except OSError as error:
            self._note_gone()
            raise ClientGone from error

    async def start_stream(self, headers: Fields = ()) -> None:
        """Begin to answer with an event stream.

        A server may keep the head until the first bytes follow.

        Raises:
            ClientGone: Nobody takes it.
        """
        fields = [(k.lower().encode(), v.encode("latin-1")) for k, v in headers]
        await self._tell(self._begin(200, [*STREAM_FIELDS, *fields]))

    async def write(self, data: bytes) -> None:
        """Send the next bytes of the stream, as fast as the client takes them.

        Raises:
            ClientGone: Nobody takes them.
        """
        await self._put(data, is_last=False)

    async def end(self, data: bytes = b"") -> None:
        """End the stream, with these last bytes.

        Raises:
            ClientGone: Nobody takes them.
        """
        await self._put(data, is_last=True)

    def _begin(self, status: int, fields: list[tuple[bytes, bytes]]) -> Event:
        """Return what starts the answer; nothing else may."""
        if self.is_gone:
            raise ClientGone
        assert self.status is None
        self.status = status
        return {
            "type": "http.response.start",
            "status": status,
            "headers": [*fields, *self.extra],
        }

    async def _put(self, data: bytes, *, is_last: bool) -> None:
        await self._tell(
            {"type": "http.response.body", "body": data, "more_body": not is_last}
        )

    async def _tell(self, event: Event) -> None:
        if self.is_gone:
            raise ClientGone
        try:
            await self._send(event)
        except OSError as error:
            # ASGI, "Disconnected Client": since 2.4 a server may raise this.
            self._note_gone()
            raise ClientGone from error
