"""The event streams of a session: each gives its messages places, and has an outlet.

::

               send                    attach           the client is gone, pause
      message ─────► place ──► journal    ▼                        ▲
                       └──────────────► outlet ──► HTTP response ──┘
                                          └─ none: waits, or is in the journal

2025-11-25 basic/transports, "Multiple Connections" and "Resumability and Redelivery".

One HTTP response that carries an event stream for a while.

A stream of a session outlives the connections that carry it, one after the other. An
outlet is such a connection: what it is given it writes, and when it is silent it says
so. It does not know what the events mean.

The answer to one POST of a session: JSON while that is all there is, else a stream.

::

      waits ──all answers──────────────────────► JSON (a batch: an array)
        │ something is to be said before, or it takes too long
        ▼
      stream: what is said, the answers, its end    by any number of outlets

The handlers run whether or not anybody waits here (2025-11-25 basic/transports: a
disconnection is no cancellation).

The answer to one POST: JSON while there is nothing else to say, else a stream.

::

      waits ──answer──────────────────────────────► JSON
        │ something to say, or it takes too long
        ▼
      stream: what was said, comments when silent ──answer──► its last event

Who answers runs in the request's own task. A writer is made only for a stream, and a
task that watches the client only when the answer takes its time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.server.http.event_store import Event, EventId
from mcpwire.server.http.exchange import CHUNK, JSON, ClientGone, UnreadQueue
from mcpwire.wire.json import encode
from mcpwire.wire.jsonrpc import notification
from mcpwire.wire.sse import encode_comment, encode_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcpwire.server.http.event_store import Journal
    from mcpwire.server.http.exchange import Exchange, Fields


__all__ = [
    "STANDALONE",
    "Answers",
    "Reply",
    "ServerStream",
    "SseWriter",
    "Stream",
    "StreamStyle",
    "as_event",
]


STANDALONE: Final = 0
"""The number of the stream that a GET opens; those that answer POSTs count from 1."""


@attrs.frozen
class StreamStyle:
    """What all streams of a session have in common."""

    mark: str
    """What their ids begin with."""

    journal: Journal | None
    """Where they are kept; ``None``: their events have no ids."""

    has_priming: bool
    """Whether they begin with an event that has an id and nothing else."""

    retry: float
    """How long a client should wait before it comes back, in seconds."""


class Stream:
    """One stream; see the module's text.

    Attributes:
        number: What tells it from the session's others.
        last: The place of the newest message.
        outlet: What carries it now.
    """

    __slots__ = ("_style", "last", "number", "outlet")

    def __init__(self, number: int, style: StreamStyle) -> None:
        self.number = number
        self.last = 0
        self.outlet: SseWriter | None = None
        self._style = style

    def send(self, data: bytes) -> None:
        """Send a message, which is JSON on one line."""
        self.last += 1
        journal = self._style.journal
        if journal is not None:
            journal.append(self.number, Event(self.last, data))
        encoded = self.encode(self.last, data)
        if self.outlet is not None and not self.outlet.is_over:
            self.outlet.put(encoded, self.last)
        else:
            self._keep(self.last, encoded)

    def _keep(self, sequence: int, encoded: bytes) -> None:
        """Take what nothing carries at the moment; the journal has it."""

    def encode(self, sequence: int, data: bytes) -> bytes:
        """Return a message as an event with its id."""
        if self._style.journal is None:
            return as_event(data)
        id = f"{self._style.mark}.{self.number}.{sequence}"
        return b"id: " + id.encode() + b"\n" + as_event(data)

    def encode_all(self, events: Iterable[Event]) -> list[tuple[int, bytes]]:
        """Return messages that were sent before as events."""
        return [
            (event.sequence, self.encode(event.sequence, event.data))
            for event in events
        ]

    def prime(self, outlet: SseWriter, sequence: int = 0) -> None:
        """Tell the client its place before anything is sent."""
        # 2025-11-25 basic/transports, "Sending Messages to the Server".
        style = self._style
        if style.has_priming:
            id = str(EventId(style.mark, self.number, sequence))
            outlet.put(encode_event(b"", id=id, retry=_milliseconds(style.retry)))

    def attach(self, outlet: SseWriter) -> None:
        """Let this carry it from here on, and nothing else."""
        if self.outlet is not None:
            self.outlet.cut()
        self.outlet = outlet

    def detach(self, outlet: SseWriter) -> None:
        """Take note that this carries it no longer."""
        if self.outlet is outlet:
            self.outlet = None

    def pause(self, retry: float | None = None) -> None:
        """End the connection and not the stream; the client comes back for the rest."""
        outlet, self.outlet = self.outlet, None
        if outlet is not None:
            if retry is not None:
                outlet.put(b"retry: %d\n\n" % _milliseconds(retry))
            outlet.end()

    def end(self) -> None:
        """End the stream after what was sent."""
        if self.outlet is not None:
            self.outlet.end()


class ServerStream(Stream):
    """The stream for what belongs to no call; what nothing carries waits here.

    Args:
        style: That of the session.
        backlog: How many messages may wait; beyond them the oldest are lost.
        room: How many bytes of them.
    """

    __slots__ = ("_backlog", "_most", "_room", "_size")

    def __init__(self, style: StreamStyle, *, backlog: int, room: int) -> None:
        super().__init__(STANDALONE, style)
        self._most = backlog
        self._room = room
        self._size = 0
        # A deque takes 600 bytes, and most sessions have nothing that waits.
        self._backlog: deque[tuple[int, bytes]] | tuple[()] = ()

    def _keep(self, sequence: int, encoded: bytes) -> None:
        if not self._backlog:
            self._backlog = deque()
        self._backlog.append((sequence, encoded))
        self._size += len(encoded)
        self._trim()

    def _trim(self) -> None:
        while self._backlog and (
            len(self._backlog) > self._most or self._size > self._room
        ):
            self._size -= len(self._backlog.popleft()[1])

    def open(self, outlet: SseWriter) -> None:
        """Let this carry it, from the first message that nobody has seen."""
        first = self._backlog[0][0] if self._backlog else self.last + 1
        self.attach(outlet)
        self.prime(outlet, first - 1)
        for sequence, encoded in self.take_backlog():
            outlet.put(encoded, sequence)

    def take_backlog(self) -> list[tuple[int, bytes]]:
        """Return what waits, from now on for nobody."""
        waiting = list(self._backlog)
        self._backlog = ()
        self._size = 0
        return waiting

    def detach(self, outlet: SseWriter) -> None:
        """Take note that this carries it no longer; keep what it has not written."""
        if self.outlet is outlet:
            self.outlet = None
            unwritten = outlet.unwritten()
            if unwritten:
                self._backlog = deque(sorted((*self._backlog, *unwritten)))
                self._size += sum(len(encoded) for _, encoded in unwritten)
                self._trim()


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1_000))


BEAT: Final = encode_comment()

_NO_PLACE: Final = 0


class SseWriter(UnreadQueue):
    """Carries a stream until one of its ends wants no more; see the module's text.

    Args:
        room: How many bytes may wait for the client to read; beyond, it counts as gone.

    Attributes:
        is_over: Whether it writes nothing any more.
    """

    __slots__ = (
        "_carrier",
        "_is_ending",
        "_is_stalled",
        "_wake",
        "_writing",
        "is_over",
    )

    def __init__(self, room: int) -> None:
        self._room = room
        # Each event with its place; marks and comments have none.
        self._queue: deque[tuple[int, bytes]] = deque()
        self._writing: deque[tuple[int, bytes]] = deque()
        self._size = self._writing_size = 0
        self._mark = room if room < CHUNK else CHUNK  # noqa: FURB136 - a call
        self._account = self._exchange = None
        self._is_ending = self._is_stalled = False
        self._carrier: asyncio.Task[object] | None = None
        self._wake: asyncio.Future[None] | None = None
        self.is_over = False

    # What it is given; nothing here waits...

    def put(self, data: bytes, sequence: int = _NO_PLACE) -> None:
        """Write this next."""
        if self.is_over or self._is_ending:
            return
        self._queue.append((sequence, data))
        self._size += len(data)
        if self._size > self._mark and not self._has_room():
            self.cut()
        else:
            self._rouse()

    def put_before(self, events: Iterable[tuple[int, bytes]]) -> None:
        """Write these before what waits already."""
        earlier = list(events)
        self._queue.extendleft(reversed(earlier))
        self._size += sum(len(data) for _, data in earlier)

    def end(self) -> None:
        """Write what waits and then end."""
        self._is_ending = True
        self._rouse()

    def cut(self) -> None:
        """Write nothing more, not even what waits."""
        self.is_over = True
        self._rouse()

    def beat(self) -> None:
        """Say that the stream is still there."""
        self.put(BEAT)

    def unwritten(self) -> list[tuple[int, bytes]]:
        """Return the events that the client was not sent, as far as is known."""
        return [item for item in (*self._writing, *self._queue) if item[0] != _NO_PLACE]

    def _rouse(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # Writing...

    async def run(self, exchange: Exchange, fields: Fields = ()) -> None:
        """Write until it ends, or until the client is gone. Raises neither."""
        timeouts = exchange.timeouts
        self._exchange = exchange
        if self._size > CHUNK:
            self._has_room()
        self._carrier = asyncio.current_task()
        timeouts.stall.add(self._stall)
        try:
            await self._write(exchange, fields)
        except ClientGone:
            pass
        except asyncio.CancelledError:
            if not self._is_stalled or self._has_been_cancelled():
                raise
        finally:
            self.is_over = True
            self._uncount()
            self._carrier = self._exchange = None
            timeouts.stall.discard(self._stall)
            timeouts.beat.discard(self.beat)

    async def _write(self, exchange: Exchange, fields: Fields) -> None:
        beats, stalls = exchange.timeouts.beat, exchange.timeouts.stall
        watcher: asyncio.Task[None] | None = None
        try:
            await exchange.start_stream(fields)
            if not self._queue:
                # Some servers keep the head until there is a body.
                self._queue.append((_NO_PLACE, BEAT))
            while not self.is_over:
                data = self._take()
                if self._is_ending and not self._queue:
                    await exchange.end(data)
                    self._writing.clear()
                    return
                if data:
                    await exchange.write(data)
                self._writing.clear()
                if self._writing_size:
                    self._note_written()
                stalls.discard(self._stall)
                if not (self._queue or self._is_ending):
                    if watcher is None:
                        watcher = self._watch(exchange)
                    beats.add(self.beat)
                    await self._sleep()
                    beats.discard(self.beat)
                stalls.add(self._stall)
            if not exchange.is_gone:
                await exchange.end()
        finally:
            if watcher is not None:
                await _stop(watcher)

    def _stall(self) -> None:
        """The client does not read what it is sent: it counts as gone."""
        self.cut()
        if self._carrier is not None:  # a server may run us without a task
            self._is_stalled = True
            self._carrier.cancel()

    def abort(self) -> None:
        """End at once, and let go of what waits: all clients have too much unread."""
        self._clear()
        self._writing.clear()
        self._stall()

    def _has_been_cancelled(self) -> bool:
        """Take back our own cancellation; tell whether there was another one."""
        assert self._carrier is not None  # whose cancellation it was
        return self._carrier.uncancel() > 0

    def _take(self) -> bytes:
        if self._size > CHUNK:
            self._writing.extend(self._take_chunk())
        else:
            self._writing, self._queue = self._queue, self._writing
            self._size = 0
        return b"".join([data for _, data in self._writing])

    async def _sleep(self) -> None:
        if self.is_over:  # while something was written
            return
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    def _watch(self, exchange: Exchange) -> asyncio.Task[None]:
        watcher = asyncio.get_running_loop().create_task(
            exchange.watch(), name="mcpwire-http-watch"
        )
        watcher.add_done_callback(self._left)
        return watcher

    def _left(self, watcher: asyncio.Task[None]) -> None:
        # A web server that raises instead of saying so means the same.
        if not watcher.cancelled():
            watcher.exception()
        self.cut()


async def _stop(task: asyncio.Task[None]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait([task])


class Answers:
    """What one POST is owed; see the module's text.

    Args:
        open_stream: Makes the stream when it is needed.
        finished: Told when nothing is to come any more.
        room: How many bytes may wait for the client to read.
        is_batch: Whether the answers are an array.

    Attributes:
        stream: What answers; ``None`` as long as it is to be JSON.
        status: That of a single answer, and the fields that go with it.
        has_answer: Whether there has been one.
        has_owed: Whether any was ever owed.
    """

    __slots__ = (
        "_answers",
        "_decided",
        "_finished",
        "_is_left",
        "_is_sealed",
        "_open_stream",
        "_outlet",
        "_owed",
        "_room",
        "has_answer",
        "has_owed",
        "is_batch",
        "status",
        "stream",
    )

    def __init__(
        self,
        open_stream: Callable[[], Stream],
        finished: Callable[[Answers], None],
        *,
        room: int,
        is_batch: bool = False,
    ) -> None:
        self._open_stream = open_stream
        self._finished = finished
        self._room = room
        self.is_batch = is_batch
        self._answers: list[bytes] = []
        self._owed = 0
        self._is_sealed = False
        self._is_left = False
        self.has_answer = False
        self.has_owed = False
        self._decided: asyncio.Future[None] | None = None
        self._outlet: SseWriter | None = None
        self.stream: Stream | None = None
        self.status: tuple[int, Fields] = (200, ())

    # What is said...

    def expect_response(self) -> None:
        """One more answer is to come."""
        self._owed += 1
        self.has_owed = True

    def send(self, data: bytes) -> None:
        """Send something before the answers."""
        if not self.is_over:
            self.begin().send(data)

    def answer(self, data: bytes, status: tuple[int, Fields] | None = None) -> None:
        """Send one answer; its status counts where it is alone and no stream."""
        if status is not None and not self.is_batch:
            self.status = status
        self.has_answer = True
        if self.stream is not None:
            self.stream.send(data)
        else:
            self._answers.append(data)
        self.withdraw()

    def withdraw(self) -> None:
        """One answer fewer is to come."""
        self._owed -= 1
        self._settle()

    def seal(self) -> None:
        """All that was posted has been taken: what is owed now is all."""
        self._is_sealed = True
        self._settle()

    @property
    def is_over(self) -> bool:
        """Whether nothing is to come any more."""
        return self._is_sealed and not self._owed

    def _settle(self) -> None:
        if not self.is_over:
            return
        self._decide()
        if self.stream is not None:
            self.stream.end()
        self._finished(self)

    def begin(self) -> Stream:
        """Answer with a stream from here on."""
        if self.stream is None:
            stream = self.stream = self._open_stream()
            if not self._is_left:
                outlet = self._outlet = SseWriter(self._room)
                stream.attach(outlet)
                stream.prime(outlet)
            for data in self._answers:
                stream.send(data)
            self._answers.clear()
            self._decide()
        return self.stream

    def _decide(self) -> None:
        if self._decided is not None and not self._decided.done():
            self._decided.set_result(None)

    def pause(self, retry: float | None = None) -> None:
        """End the connection and not the stream; the client comes back for the rest."""
        if not self.is_over:
            self.begin().pause(retry)

    # The response...

    def as_json(self) -> bytes | None:
        """Return all of it, where that is JSON; ``None``: not yet, or it is not."""
        if self._owed or self.stream is not None or not self._answers:
            return None
        if self.is_batch:
            return b"[" + b",".join(self._answers) + b"]"
        return self._answers[0]

    async def respond(self, exchange: Exchange, fields: Fields = ()) -> None:
        """Answer the POST.

        Raises:
            ClientGone: Nobody takes the answer.
        """
        if not self.is_over and self.stream is None:
            await self._wait(exchange)
        outlet, stream = self._outlet, self.stream
        if outlet is not None and stream is not None:
            try:
                await outlet.run(exchange, fields)
            finally:
                stream.detach(outlet)
        elif (data := self.as_json()) is not None:
            status, more = self.status
            await exchange.reply_bytes(status, data, JSON, (*fields, *more))
        else:
            # All of it was withdrawn: a stream without answers says so.
            await exchange.start_stream(fields)
            await exchange.end()

    async def _wait(self, exchange: Exchange) -> None:
        self._decided = asyncio.get_running_loop().create_future()
        exchange.timeouts.upgrade.add(self._take_time)
        try:
            await self._decided
        except asyncio.CancelledError:
            self._is_left = True
            if self.stream is not None and self._outlet is not None:
                self.stream.detach(self._outlet)
            raise
        finally:
            exchange.timeouts.upgrade.discard(self._take_time)
            self._decided = None

    def _take_time(self) -> None:
        if not self.is_over:
            self.begin()


def as_event(data: bytes) -> bytes:
    """Return a message as an event; JSON as we write it is always one line.

    The type is the default of event streams, but some clients pass over events without.
    """
    return b"event: message\ndata: " + data + b"\n\n"


class Reply(UnreadQueue):
    """Answers one request; see the module's text.

    Args:
        exchange: What it answers, with its body read.
        stop: Called once when the client is found to be gone.
        is_json_only: Whether there is never to be a stream, so that what is said before
            the answer is lost.
        fields: What goes with the answer, of either form; may still be set while no
            stream has begun.
    """

    __slots__ = (
        "_is_ended",
        "_is_json_only",
        "_stop",
        "_wake",
        "_watcher",
        "_writer",
        "fields",
        "is_lost",
    )

    _exchange: Exchange

    def __init__(
        self,
        exchange: Exchange,
        stop: Callable[[], object],
        *,
        is_json_only: bool = False,
        fields: Fields = (),
    ) -> None:
        self._exchange = exchange
        self._stop = stop
        self._is_json_only = is_json_only
        self.fields = fields
        # Each event, and whether it may be lost.
        self._queue: deque[tuple[bool, bytes]] = deque()
        self._size = self._writing_size = 0
        self._room = room = exchange.limits.unwritten
        self._mark = room if room < CHUNK else CHUNK  # noqa: FURB136 - a call
        self._account = None
        self._wake: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._is_ended = False
        self.is_lost = False
        exchange.timeouts.upgrade.add(self._take_time)

    # What is said before the answer...

    @property
    def is_stream(self) -> bool:
        """Whether an event stream answers."""
        return self._writer is not None

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification before the answer; never waits.

        Raises:
            LocalProtocolError: It has no JSON form.
        """
        if not self._is_json_only:
            self.push(as_event(encode(notification(method, params))))

    def push(self, event: bytes, *, may_be_lost: bool = True) -> None:
        """Send an event before the answer; never waits.

        Where the client does not read, the oldest of those that may be lost give way.
        If that is not enough, the client counts as gone.
        """
        if self._is_ended or self.is_lost:
            return
        self._queue.append((may_be_lost, event))
        self._size += len(event)
        self.begin()
        if self._size > self._mark and not (self._has_room() or self._make_room()):
            self._lose()
            return
        self._wake_writer()

    def _make_room(self) -> bool:
        kept: deque[tuple[bool, bytes]] = deque()
        for may_be_lost, event in self._queue:
            if may_be_lost and self._size > self._room:
                self._size -= len(event)
            else:
                kept.append((may_be_lost, event))
        self._queue = kept
        return self._size <= self._room

    def begin(self) -> None:
        """Answer with a stream from here on."""
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(
                self._write(), name="mcpwire-http-stream"
            )

    # The end...

    async def finish(self, data: bytes, status: int = 200) -> None:
        """Send the answer, a message as JSON text; its status counts before a stream.

        Raises:
            ClientGone: Nobody takes it.
        """
        self._exchange.timeouts.upgrade.discard(self._take_time)
        if self.is_lost:
            raise ClientGone
        if self._writer is None:
            self._is_ended = True
            await self._exchange.reply_bytes(status, data, JSON, self.fields)
        else:
            await self.end(as_event(data))

    async def end(self, event: bytes = b"") -> None:
        """End the stream with this, when everything before it is written.

        Raises:
            ClientGone: Nobody takes it.
        """
        self.end_nowait(event)
        assert self._writer is not None
        # The writer is this reply's own: whoever stops us stops it, in `aclose`.
        await asyncio.wait([self._writer])
        if self._writer.cancelled():
            raise ClientGone
        self._writer.result()
        if self.is_lost:
            raise ClientGone

    def end_nowait(self, event: bytes = b"") -> None:
        """Let the stream end with this; `aclose` would cut it off."""
        self.begin()
        if not (self._is_ended or self.is_lost):
            self._queue.append((False, event))
            self._size += len(event)
            self._is_ended = True
            if self._size > self._mark:
                self._has_room()
        self._wake_writer()

    async def aclose(self) -> None:
        """Leave nothing behind, whatever came between."""
        if self._is_ended and self._writer is None and self._watcher is None:
            return  # as nearly always
        timeouts = self._exchange.timeouts
        timeouts.upgrade.discard(self._take_time)
        timeouts.beat.discard(self._beat)
        self._is_ended = True
        self._uncount()
        tasks = [each for each in (self._writer, self._watcher) if each is not None]
        running = [task for task in tasks if not task.done()]
        if running:
            for task in running:
                task.cancel()
            await asyncio.wait(running)

    # The client...

    def _take_time(self) -> None:
        """The answer takes its time: tell the client so, and see if it still waits."""
        self._watcher = asyncio.get_running_loop().create_task(
            self._watch(), name="mcpwire-http-watch"
        )
        if not self._is_json_only:
            self.begin()

    async def _watch(self) -> None:
        await self._exchange.watch()
        self._lose()

    def _lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._clear()
            self._wake_writer()
            self._stop()

    # The stream...

    async def _write(self) -> None:
        """Write what is queued until the end; says something when all is silent."""
        exchange = self._exchange
        beats, stalls = exchange.timeouts.beat, exchange.timeouts.stall
        stalls.add(self.abort)
        try:
            await exchange.start_stream(self.fields)
            if not self._queue:
                self._beat()  # some servers keep the head until there is a body
            while not self.is_lost:
                taken = self._take_chunk() if self._size > CHUNK else self._queue
                data = b"".join([event for _, event in taken])
                taken.clear()
                if taken is self._queue:
                    self._size = 0
                beats.discard(self._beat)
                if self._is_ended and not self._queue:
                    await exchange.end(data)
                    return
                if data:
                    await exchange.write(data)
                if self._writing_size:
                    self._note_written()
                stalls.discard(self.abort)
                if not self._queue and not self._is_ended:
                    beats.add(self._beat)
                    await self._sleep()
                stalls.add(self.abort)
        except ClientGone:
            self._lose()
        finally:
            self._writing_size = 0
            stalls.discard(self.abort)

    def abort(self) -> None:
        """The client does not read what it is sent: it must not keep all that here."""
        self._lose()
        assert self._writer is not None  # whose write it is
        self._writer.cancel()

    def _beat(self) -> None:
        self._queue.append((True, BEAT))
        self._size += len(BEAT)
        self._wake_writer()

    async def _sleep(self) -> None:
        if self.is_lost:
            return
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    def _wake_writer(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
