"""One HTTP request while it is answered, over ASGI.

It hides what ASGI asks for: the body in pieces, the answer in two or more events, the
client that may be gone at any of them. It knows nothing of JSON-RPC but its encoding.

The header fields of a request, decoded when somebody looks at them.

Most requests of a client have the head of the one before, of which two or three fields
are looked at: to decode all of them would be most of what a head costs.

One timer for many things that all wait equally long.

A server sets a time limit for each request, and hardly any of them runs out. So what
waits stands in line, in the order in which it came, which is also the order in which
its time is up: one timer of the loop, set for the first in line, serves all of them.

Bytes that clients have not read, bounded for all of them together.

::

    put ─► UnreadQueue ─► write ─► transport of a connection ─► client
               └────── more than 64 KiB ──────┘
                             ▼
                          Unread       over the bound, one of them ends

Under our own server both are counted in one account, which is in each request's scope.
Under another one the application has an account of its own, and counts its queues.

Runs a coroutine and says so when it has to wait for the first time.

What is only needed while something waits (a time limit, somebody who watches the
client) need not be made for what has its answer at once, as most has.
"""

from __future__ import annotations

import asyncio
import types
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from mcpwire.errors import InvalidRequest
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.server.auth.resource_server import CREDENTIALS
from mcpwire.server.request import Facts
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Generator,
        Hashable,
        Iterable,
        Iterator,
        MutableMapping,
    )

    from mcpwire.errors import RPCError
    from mcpwire.limits import Limits
    from mcpwire.server.auth.resource_server import Principal
    from mcpwire.server.request import Owner

    Scope = MutableMapping[str, Any]
    Event = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Event]]
    Send = Callable[[Event], Awaitable[None]]
    Fields = Iterable[tuple[str, str]]
    Action = Callable[[], object]
    """What is done when its time is up. Neither awaits nor raises."""

__all__ = [
    "EXTENSION",
    "JSON",
    "ClientGone",
    "Exchange",
    "Headers",
    "HttpProblem",
    "ShownFields",
    "TimeoutQueue",
    "Timeouts",
    "Unread",
    "UnreadQueue",
    "first_step",
]


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
        timeouts: Those of the application.

    Attributes:
        verb: The request's method, of HTTP.
        path: Its path, below where the application is mounted.
        headers: Its header fields.
        principal: Who asks, where that was proved; set once it is known.
        credentials: The names of the fields that prove it, which handlers do not see.
        limits: As given.
        timeouts: As given.
        extra: Fields that go with every answer, in the form of ASGI.
        refusal: The JSON that was answered with a status from 400 on; else ``None``.
        size: How many bytes the body had, once it was read.
        status: What was answered; ``None`` before.
        is_gone: Whether the client is known to be gone.
    """

    __slots__ = (
        "_facts",
        "_gone",
        "_problem",
        "_reader",
        "_receive",
        "_send",
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
        "timeouts",
        "verb",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        limits: Limits,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.scope = scope
        self.verb: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = Headers(scope["headers"])
        self.extra: list[tuple[bytes, bytes]] = []
        self.principal: Principal | None = None
        self.credentials: Collection[str] = CREDENTIALS
        self._facts: Facts | None = None
        self.size = 0
        self.status: int | None = None
        self.refusal: bytes | None = None
        self.is_gone = False
        self._receive = receive
        self._send = send
        self.limits = limits
        self.timeouts = timeouts or Timeouts(reading=limits.body_timeout)
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
    def facts(self) -> Facts:
        """What handlers may know of it, once it is known who asks."""
        if self._facts is None:
            self._facts = self.facts_with()
        return self._facts

    @facts.setter
    def facts(self, facts: Facts) -> None:
        self._facts, self.principal = facts, facts.principal

    def facts_with(
        self, close_stream: Callable[[float | None], None] | None = None
    ) -> Facts:
        """Return what handlers may know, with what ends the stream that answers."""
        return Facts(
            transport="http",
            headers=ShownFields(self.headers, self.credentials),
            principal=self.principal,
            scope=self.scope,
            close_stream=close_stream,
        )

    @property
    def owner(self) -> Owner:
        """The client that this counts to, where clients share a pool: `Facts.owner`."""
        return self.facts.owner

    @property
    def account(self) -> Unread:
        """Where what clients have not read is counted."""
        extensions = self.scope.get("extensions") or {}
        account: Unread = extensions.get(EXTENSION, self.timeouts.unread)
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
                self.timeouts.reading.discard(self._give_up)
                self._reader = None
        if self.size > limit:
            raise self._too_large(limit)
        return body

    def _begin_to_wait(self) -> None:
        """The body is not all there: give it its time."""
        if self._reader is None:
            self._reader = asyncio.current_task()
            if self._reader is not None:  # a server may run us without a task
                self.timeouts.reading.add(self._give_up)

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


_PADDING = " \t"


class Headers:
    """The header fields of a request; names in lower case.

    Attributes:
        joined: Each field's value; those of one that came repeatedly are joined by
            ``", "`` (RFC 9110, 5.3).
    """

    __slots__ = ("_repeated", "joined")

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self.joined: dict[str, str] = {}
        self._repeated: dict[str, list[str]] = {}
        joined = self.joined
        for raw_name, raw_value in raw:
            name = raw_name.decode("latin-1").lower()
            value = raw_value.decode("latin-1").strip(_PADDING)
            if name in joined:
                self._repeated.setdefault(name, [joined[name]]).append(value)
                value = f"{joined[name]}, {value}"
            joined[name] = value

    def get(self, name: str) -> str | None:
        """Return a field's value, or ``None`` where it did not come."""
        return self.joined.get(name)

    def all(self, name: str) -> list[str]:
        """Return each value of a field that may have come several times."""
        value = self.joined.get(name)
        return [] if value is None else list(self._repeated.get(name, (value,)))

    def repeats(self, name: str) -> bool:
        """Tell whether a field came more than once."""
        return name in self._repeated


class ShownFields(Mapping[str, str]):
    """What handlers may see of a request's head, decoded when one looks.

    Args:
        headers: All of it.
        hidden: The names of fields that prove something to us, and to nobody else.
    """

    __slots__ = ("_fields", "_headers", "_hidden")

    def __init__(self, headers: Headers, hidden: Collection[str]) -> None:
        self._headers = headers
        self._hidden = hidden
        self._fields: dict[str, str] | None = None

    def _shown(self) -> dict[str, str]:
        if self._fields is None:
            fields, hidden = self._headers.joined, self._hidden
            self._fields = {k: v for k, v in fields.items() if k not in hidden}
        return self._fields

    def __getitem__(self, name: str) -> str:
        """Return the value of a field by its name in lower case."""
        return self._shown()[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._shown())

    def __len__(self) -> int:
        """Return how many fields there are."""
        return len(self._shown())

    def __repr__(self) -> str:
        """Return them as those of a dict."""
        return repr(self._shown())


class TimeoutQueue:
    """Actions that wait `seconds` from when they were added; each at most once.

    It belongs to the loop of whoever added last: in another loop, those of the loop
    before are forgotten with it.
    """

    __slots__ = ("_due", "_loop", "_timer", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._due: dict[Action, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._due)

    def add(self, action: Action) -> None:
        """Put an action at the end of the line; it must not stand there already."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self.close()
            self._loop = loop
        due = loop.time() + self.seconds
        self._due[action] = due
        if self._timer is None:
            self._timer = loop.call_at(due, self._ring)

    def discard(self, action: Action) -> None:
        """Let an action wait no longer, if it still does."""
        self._due.pop(action, None)

    def close(self) -> None:
        """Forget all that waits."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        assert self._loop is not None
        self._timer = None
        now = self._loop.time()
        while self._due:
            action, due = next(iter(self._due.items()))
            if due > now:
                # Set anew only when it rings: those who leave the line leave it alone.
                self._timer = self._loop.call_at(due, self._ring)
                return
            del self._due[action]
            action()


class Timeouts:
    """The lines of one application, and its account of what clients have not read.

    Attributes:
        reading: For bodies to come.
        upgrade: For calls that an event stream is to answer when they take that long.
        beat: For streams that are to say something when they were silent that long.
        stall: For writes that wait for the client to read; then it counts as gone.
        unread: The account, where the web server has none.
    """

    def __init__(
        self,
        *,
        reading: float,
        upgrade: float = 0.1,
        beat: float = 15.0,
        stall: float = 60.0,
        unread: int = DEFAULT_LIMITS.unwritten_total,
    ) -> None:
        self.reading = TimeoutQueue(reading)
        self.upgrade = TimeoutQueue(upgrade)
        self.beat = TimeoutQueue(beat)
        self.stall = TimeoutQueue(stall)
        self.unread = Unread(unread)

    def close(self) -> None:
        """Forget all that waits."""
        for line in (self.reading, self.upgrade, self.beat, self.stall):
            line.close()


EXTENSION: Final = "mcpwire.unread"
"""The ASGI extension by which our own server hands out its account."""

CHUNK: Final = 65_536
"""How many bytes of a queue are not counted, and are written at once."""


class _Holder(Protocol):
    @property
    def owner(self) -> Hashable:
        """The client that it counts to."""

    @property
    def unread(self) -> int:
        """How many bytes wait for the client to read."""

    def abort(self) -> None:
        """End at once, and let go of the bytes; neither awaits nor raises."""


class Unread:
    """The account of what clients have not read.

    Args:
        limit: How many bytes that may be.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[_Holder, int] = {}
        self._total = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        """Return the number of holders that are counted."""
        return len(self._sizes)

    def note(self, holder: _Holder) -> None:
        """Count a holder, which has more than before.

        Over the bound, the largest holder of the client with the most is given up.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # a loop before has ended, and its holders with it
            self._loop, self._sizes, self._total = loop, {}, 0
        self.discard(holder)
        self._sizes[holder] = size = holder.unread
        self._total += size
        if self._total > self._limit:
            self._make_room()

    def discard(self, holder: _Holder) -> None:
        """Count a holder no longer, if it is counted."""
        self._total -= self._sizes.pop(holder, 0)
        if not self._sizes:
            # Its table was made when memory was full, and glibc's heap would stay so.
            self._sizes.clear()

    def _make_room(self) -> None:
        sizes = self._sizes
        totals: Counter[Hashable] = Counter()
        for each in sizes:
            sizes[each] = each.unread
            totals[each.owner] += sizes[each]
        while totals.total() > self._limit:
            greediest = max(totals, key=totals.__getitem__)
            own = [each for each in sizes if each.owner == greediest]
            leaver = max(own, key=sizes.__getitem__)
            totals[greediest] -= sizes.pop(leaver)
            leaver.abort()
        self._total = totals.total()


class UnreadQueue:
    """Events that wait to be written to one client; counted beyond `CHUNK` bytes.

    Attributes are set by subclasses: a call for that would be one for each request.
    """

    __slots__ = (
        "_account",
        "_exchange",
        "_mark",
        "_queue",
        "_room",
        "_size",
        "_writing_size",
    )

    _account: Unread | None  # where it is counted now
    _exchange: Exchange | None
    _mark: int  # the size beyond which `_has_room` is to be asked
    _queue: deque[tuple[Any, bytes]]
    _room: int
    _size: int  # of the queue
    _writing_size: int  # of what `_take_chunk` took

    @property
    def owner(self) -> Hashable:
        """The client that it counts to."""
        assert self._exchange is not None  # else it is not counted
        return self._exchange.owner

    @property
    def unread(self) -> int:
        """How many bytes wait for the client to read."""
        return self._size + self._writing_size

    def abort(self) -> None:
        """End at once, and let go of what waits."""
        raise NotImplementedError

    def _has_room(self) -> bool:
        """Count what waits; tell whether the queue is within its own bound."""
        self._mark = min(self._size + CHUNK, self._room)
        if self._exchange is not None:
            self._account = self._exchange.account
            self._account.note(self)
        return self._size <= self._room

    def _take_chunk(self) -> list[tuple[Any, bytes]]:
        """Take one event, or more up to `CHUNK` bytes; they count until written."""
        queue = self._queue
        taken = [queue.popleft()]
        size = len(taken[0][1])
        while queue and size + len(queue[0][1]) <= CHUNK:
            item = queue.popleft()
            taken.append(item)
            size += len(item[1])
        self._size -= size
        self._writing_size = size
        return taken

    def _note_written(self) -> None:
        """What was taken is written."""
        self._writing_size = 0
        self._mark = min(self._size + CHUNK, self._room)
        if self._size <= CHUNK:
            self._uncount()

    def _clear(self) -> None:
        self._queue.clear()
        self._size = self._writing_size = 0

    def _uncount(self) -> None:
        if self._account is not None:
            self._account.discard(self)
            self._account = None


T = TypeVar("T")


@types.coroutine
def first_step(
    work: Awaitable[T], waits: Callable[[], object]
) -> Generator[Any, Any, T]:
    """Return what a coroutine returns, as ``await`` does.

    Args:
        work: The coroutine, or something else that can be awaited.
        waits: Called when its first step has ended and it has not; must not raise.
    """
    coroutine: Any = work if type(work) is types.CoroutineType else _awaiting(work)
    try:
        awaited = coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    waits()
    while True:
        error: BaseException | None = None
        try:
            sent = yield awaited
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as thrown:  # noqa: BLE001 - it is the coroutine's
            error = thrown
        try:
            awaited = (
                coroutine.throw(error) if error is not None else coroutine.send(sent)
            )
        except StopIteration as end:
            result = end.value
            return result
        finally:
            # Its traceback has this frame, and those that hold what has come so far.
            error = None


async def _awaiting(work: Awaitable[T]) -> T:
    return await work
