"""One HTTP request and its response over ASGI, below JSON-RPC.

`Exchange` reads the body within limits, detects that the client has disconnected, and
sends one response. `UnreadAccount` limits the unread bytes of all clients together.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from contextvars import Context
from functools import cached_property
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import attrs

from mcpwire.errors import InternalError, InvalidRequest, LocalProtocolError, RPCError
from mcpwire.server.auth.resource_server import CREDENTIALS, Principal
from mcpwire.server.dispatcher import HttpRefusal
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.server.notifications import schedule
from mcpwire.server.request import RequestInfo
from mcpwire.wire.json import encode
from mcpwire.wire.jsonrpc import RequestId, failure, success

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Hashable,
        Iterable,
        MutableMapping,
    )

    from mcpwire.limits import Limits
    from mcpwire.server.http.app import AccessRecord
    from mcpwire.server.http.streams import SseWriter
    from mcpwire.server.http.uvicorn import HttpConnection
    from mcpwire.server.request import Owner

    Scope = MutableMapping[str, Any]
    Event = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Event]]
    Send = Callable[[Event], Awaitable[None]]
    Fields = Iterable[tuple[str, str]]

    UnreadHolder: TypeAlias = HttpConnection | SseWriter
    """Has bytes of its `owner` that are `unread`; `abort` discards them."""

logger = LimitedLogger("mcpwire")

JSON: Final = "application/json"

# 2026-07-28 streamable-http, "Receiving Messages": proxies must not buffer the stream.
# Compressing proxies do, without `no-transform` (RFC 9111, 5.2.2.6).
STREAM_FIELDS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)

UNREAD: Final = "mcpwire.unread"
"""The ASGI extension by which our web server passes its `UnreadAccount`."""

CLIENT_CLOSED: Final = 499
"""The status for a client that disconnected, as in the logs of other web servers."""

_MAX_LENGTH_DIGITS: Final = 15  # a longer number exceeds every limit


class ClientGone(Exception):
    """The client has disconnected and gets no response."""


class HttpProblem(Exception):
    """The request is refused with an HTTP status, a JSON-RPC error and headers."""

    def __init__(
        self,
        status: int,
        error: str | RPCError,
        headers: Fields = (),
        *,
        id: RequestId | None = None,
    ) -> None:
        if isinstance(error, str):
            error = InvalidRequest(error)
        super().__init__(f"{status}: {error.message}")
        self.status = status
        self.error = error
        self.headers = tuple(headers)
        self.id = id


def as_problem(error: RPCError | HttpRefusal) -> HttpProblem:
    """Return an error as the response to a POST; an `HttpRefusal` sets the status."""
    rpc_error = error if isinstance(error, RPCError) else InvalidRequest(str(error))
    if isinstance(error, HttpRefusal):
        return HttpProblem(error.http_status, rpc_error, error.http_headers)
    return HttpProblem(200, rpc_error)


class TimerQueue:
    """Calls callbacks after a fixed number of seconds, with one timer of the loop.

    A timer for each would take a tenth of a plain call.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        # By loop, as an application may run on several; the earliest is first.
        self._due: dict[AbstractEventLoop, dict[Callable[[], object], float]] = {}
        self._armed: dict[AbstractEventLoop, TimerHandle] = {}

    def add(self, callback: Callable[[], object]) -> None:
        """Call a callback once after the set time, unless it is discarded."""
        loop = asyncio.get_running_loop()
        if loop not in self._due:
            for closed in [other for other in list(self._due) if other.is_closed()]:
                self._due.pop(closed, None)
                self._armed.pop(closed, None)
            self._due[loop] = {}
        due = self._due[loop]
        if callback in due:
            del due[callback]  # to move it to the end
        due[callback] = at = loop.time() + self.seconds
        if loop not in self._armed:
            self._arm(loop, at)

    def discard(self, callback: Callable[[], object]) -> None:
        """Cancel a callback."""
        for due in list(self._due.values()):
            if callback in due:
                del due[callback]

    def clear(self) -> None:
        """Cancel all callbacks and timers."""
        for timer in self._armed.values():
            timer.cancel()
        self._armed.clear()
        self._due.clear()

    def _arm(self, loop: AbstractEventLoop, at: float) -> None:
        # An empty context: the timer would keep the context of a request alive.
        timer = loop.call_at(at, self._expire, loop, context=Context())
        self._armed[loop] = timer

    def _expire(self, loop: AbstractEventLoop) -> None:
        now, times = loop.time(), self._due[loop]
        due = list(takewhile(lambda each: times[each] <= now, times))
        others = [
            due
            for other, due in list(self._due.items())
            if other is not loop and not other.is_closed()
        ]
        try:
            for callback in due:
                if times.get(callback, inf) <= now:  # no other callback discarded it
                    at = times.pop(callback)
                    # A loop on which it was added later calls it.
                    if all(other.get(callback, at) <= at for other in others):
                        callback()
        finally:
            # Last: otherwise each callback that adds itself again would set a timer.
            self._armed.pop(loop, None)
            for at in times.values():
                self._arm(loop, at)
                break


@attrs.frozen(kw_only=True, eq=False)
class Timeouts:
    """Time limits, in seconds."""

    body: TimerQueue = attrs.field(converter=TimerQueue)
    """Of a body, from its first byte to its last."""

    stream_after: TimerQueue = attrs.field(converter=TimerQueue)
    """Of a call without a stream."""

    heartbeat: float = 15.0
    """Of the silence of a stream, before a comment is sent."""

    stall: float = 60.0
    """Of one write to a stream; then the client counts as gone."""


class Stoppable:
    """A block of a task that `stop` ends by a `TimeoutError`.

    `asyncio.timeout` without a time would take a thirtieth of a plain call.
    """

    is_stopped = False
    _task: asyncio.Task[Any] | None = None  # while it runs the block

    def __enter__(self) -> Self:
        self._task = task = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        task, self._task = self._task, None
        if self.is_stopped and task is not None:
            is_alone = task.uncancel() <= self._cancelling  # no other cancellation
            if is_alone and isinstance(error, asyncio.CancelledError):
                raise TimeoutError from error

    def stop(self) -> None:
        """Cancel what the block waits for, in the next iteration of its loop."""
        if self._task is not None:
            schedule(self._task.get_loop(), self._cancel)

    def _cancel(self) -> None:
        if self._task is not None and not self.is_stopped:
            self.is_stopped = True
            self._task.cancel()


class Headers(dict[str, str]):
    """The header fields of a request, by lower-case name.

    The values of a repeated field are joined by ``", "`` (RFC 9110, 5.3).
    """

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        super().__init__()
        self._repeated: dict[str, list[str]] = {}
        for raw_name, raw_value in raw:
            name = raw_name.decode("latin-1").lower()
            value = raw_value.decode("latin-1").strip(" \t")
            if name in self:
                self._repeated.setdefault(name, [self[name]]).append(value)
            else:
                self[name] = value
        for name in self._repeated:
            self[name] = ", ".join(self._repeated[name])

    def all(self, name: str) -> list[str]:
        """Return the separate values of a field."""
        value = self.get(name)
        return [] if value is None else list(self._repeated.get(name, (value,)))

    def repeats(self, name: str) -> bool:
        """Return whether a field occurred more than once."""
        return name in self._repeated


class Exchange:
    """One request and its response, which is sent once."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        limits: Limits,
        timeouts: Timeouts | None = None,
        *,
        unread: UnreadAccount | None = None,
    ) -> None:
        self.scope = scope
        self.verb: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = Headers(scope["headers"])
        self.limits = limits
        self.timeouts = timeouts or Timeouts(body=limits.body_timeout, stream_after=0.1)
        self.extra: list[tuple[bytes, bytes]] = []  # fields of every response
        self.principal: Principal | None = None  # set by the authentication
        self.credentials: Collection[str] = CREDENTIALS  # fields hidden from handlers
        self.size = 0  # of the body
        self.status: int | None = None  # until the response starts
        self.reason = ""  # of a status from 400, for the log
        self.is_gone = False
        self.access: AccessRecord | None = None  # its log line, if it has one
        self._receive = receive
        self._send = send
        self._unread = unread
        self._reading: Stoppable | None = None
        self._problem: HttpProblem | None = None

    @cached_property
    def info(self) -> RequestInfo:
        """The request as handlers see it; valid after the authentication."""
        return self.info_with(None)

    def info_with(self, close: Callable[[float | None], None] | None) -> RequestInfo:
        """Return the request as handlers see it, with a function to end the stream."""
        hidden, headers = self.credentials, dict(self.headers)
        if not headers.keys().isdisjoint(hidden):
            headers = {k: v for k, v in headers.items() if k not in hidden}
        return RequestInfo(
            transport="http",
            headers=headers,
            principal=self.principal,
            scope=self.scope,
            close_stream=close,
        )

    @property
    def owner(self) -> Owner:
        """The client that the request counts for in shared pools."""
        return self.info.owner

    @property
    def unread(self) -> UnreadAccount:
        """The account of unread bytes: the web server's, or the application's."""
        extensions = self.scope.get("extensions") or {}
        if UNREAD in extensions:
            account: UnreadAccount = extensions[UNREAD]
            return account
        if self._unread is None:
            self._unread = UnreadAccount(self.limits.unwritten_total)
        return self._unread

    # The body

    def check_framing(self) -> None:
        """Refuse a request that proxies and servers could frame differently."""
        headers = self.headers
        encoding = headers.get("transfer-encoding")
        # RFC 9112, 6.1 and 6.3: some parsers pass on both lengths; others ignore
        # unknown codings.
        if encoding is not None and (
            encoding.lower() != "chunked" or "content-length" in headers
        ):
            raise HttpProblem(
                400, "the length of the body is ambiguous", self._close_field()
            )

    async def body(self) -> bytes:
        """Return the whole body; refuse one that is too large or too slow."""
        limit = min(self.limits.message, self.limits.body)
        length = self.headers.get("content-length")
        if (
            length is not None
            and length.isdecimal()
            and (len(length) > _MAX_LENGTH_DIGITS or int(length) > limit)
        ):
            raise self._too_large(limit)
        timers = self.timeouts.body
        chunks: list[bytes] = []
        try:
            with Stoppable() as self._reading:
                timers.add(self._stop_reading)
                while True:
                    event = await self._receive()
                    if event["type"] != "http.request":
                        self.is_gone = True
                        raise ClientGone
                    chunk: bytes = event.get("body", b"")
                    self.size += len(chunk)
                    if self.size > limit:
                        raise self._too_large(limit)
                    chunks.append(chunk)
                    if not event.get("more_body"):
                        return b"".join(chunks)
        except TimeoutError:
            raise self._take_problem() from None
        finally:
            timers.discard(self._stop_reading)
            self._reading = None

    def stop_reading(self, problem: HttpProblem) -> None:
        """Refuse the request, if its body is still being read."""
        if self._reading is not None and self._problem is None:
            problem.headers = (*problem.headers, *self._close_field())
            self._problem = problem
            self._stop_reading()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.stop()

    def _take_problem(self) -> HttpProblem:
        # A reference in the raising frame, or here, would keep the body alive until the
        # garbage collector runs.
        problem, self._problem = self._problem, None
        reason = f"the body was not received within {self.timeouts.body.seconds:g} s"
        return problem or HttpProblem(408, reason, self._close_field())

    def _too_large(self, limit: int) -> HttpProblem:
        return HttpProblem(
            413, f"the body must not be over {limit} bytes", self._close_field()
        )

    def _close_field(self) -> Fields:
        """Return the field that announces the end of the connection."""
        # HTTP/2 and 3 have no such field: RFC 9113, 8.2.2.
        is_http_1 = self.scope.get("http_version", "1.1").startswith("1")
        return (("connection", "close"),) if is_http_1 else ()

    async def watch(self) -> None:
        """Wait for a disconnect; only after the body, and one call at a time.

        Some web servers raise an error in place of a disconnect event.
        """
        while not self.is_gone:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                self.is_gone = True

    # The response; all of it raises `ClientGone`

    async def reply(
        self, status: int, message: dict[str, Any] | None = None, headers: Fields = ()
    ) -> None:
        """Reply with one message as JSON, or with an empty body."""
        if message is None:
            await self.reply_bytes(status, b"", None, headers)
        else:
            await self.reply_bytes(status, encode(message), JSON, headers)

    async def reply_bytes(
        self, status: int, body: bytes, content_type: str | None, headers: Fields = ()
    ) -> None:
        """Reply with a body of bytes."""
        fields = _to_bytes(headers) if headers else []
        if content_type is not None:
            fields += ((b"content-type", content_type.encode("latin-1")),)
        # RFC 9110, 8.6: a response with one of these statuses has no Content-Length.
        if status not in {204, 304}:
            fields += ((b"content-length", b"%d" % len(body)),)
        if self.verb == "HEAD":
            body = b""  # RFC 9110, 9.3.2: a response to HEAD has no content
        await self._send_events(
            self._start(status, fields),
            {"type": "http.response.body", "body": body, "more_body": False},
        )

    async def start_stream(self) -> None:
        """Start an event stream; a server may send the head with the first bytes."""
        await self._send_events(self._start(200, [*STREAM_FIELDS]))

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Send the next bytes of the stream; wait while the client does not read."""
        await self._send_events(
            {"type": "http.response.body", "body": data, "more_body": not is_last}
        )

    async def end_unanswered(self) -> None:
        """Answer a client that has left: middleware around this waits for an answer."""
        if self.status is None:
            self.status = CLIENT_CLOSED
            start = {"type": "http.response.start", "status": CLIENT_CLOSED}
            with suppress(OSError):
                await self._send({**start, "headers": []})
                await self._send({"type": "http.response.body", "body": b""})

    def _start(self, status: int, fields: list[tuple[bytes, bytes]]) -> Event:
        assert self.status is None
        if not self.is_gone:
            self.status = status
        return {
            "type": "http.response.start",
            "status": status,
            "headers": [*fields, *self.extra],
        }

    async def _send_events(self, *events: Event) -> None:
        if self.is_gone:
            raise ClientGone
        try:
            for event in events:
                await self._send(event)
        except OSError as error:
            # ASGI, "Disconnected Client": since 2.4 a server may raise this.
            self.is_gone = True
            raise ClientGone from error


async def end_task(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.exception()


def encode_answer(id: RequestId | None, answer: dict[str, Any] | RPCError) -> bytes:
    """Return the response to a request as JSON; an unencodable one as an error."""
    try:
        if isinstance(answer, RPCError):
            return encode(failure(id, answer))
        assert id is not None  # a result has a request
        return encode(success(id, answer))
    except LocalProtocolError:
        logger.exception("the answer to %.100r cannot be sent", id)
        return encode(failure(id, InternalError("the handler failed")))


def _to_bytes(fields: Fields) -> list[tuple[bytes, bytes]]:
    # ASGI, "Response Start": lower-case names; HTTP/2 allows no others.
    return [(k.lower().encode(), v.encode("latin-1")) for k, v in fields]


class UnreadAccount:
    """Limits the bytes that all clients together have not read.

    Under our web server, connections and event streams share one account, which is in
    each request's scope. Under another server the application has its own account.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[UnreadHolder, int] = {}
        self._total = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def count(self, holder: UnreadHolder) -> None:
        """Update a holder's size; over the limit, abort the greediest client's."""
        self.discard(holder)
        self._sizes[holder] = size = holder.unread
        self._total += size
        if self._total > self._limit:
            self._make_room()

    def discard(self, holder: UnreadHolder) -> None:
        """Remove a holder."""
        self._total -= self._sizes.pop(holder, 0)
        if not self._sizes:
            # The table, allocated when memory was full, would keep the heap large.
            self._sizes.clear()

    def _make_room(self) -> None:
        sizes = self._sizes
        totals: Counter[Hashable] = Counter()
        for holder in sizes:
            sizes[holder] = holder.unread
            totals[holder.owner] += sizes[holder]
        while totals.total() > self._limit:
            largest = max(totals, key=totals.__getitem__)
            holders = [holder for holder in sizes if holder.owner == largest]
            aborted = max(holders, key=sizes.__getitem__)
            totals[largest] -= sizes.pop(aborted)
            aborted.abort()
        self._total = totals.total()
