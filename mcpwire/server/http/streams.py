"""Event streams: one response that writes a stream, and the streams of a session.

::

               send                    attach           the client is gone, pause
      message ─────► place ──► journal    ▼                        ▲
                       └──────────────► writer ──► HTTP response ──┘
                                          └─ none: waits, or is in the journal

A GET with `Last-Event-ID` is answered from the event store (`event_store`). A stream of
a session outlives the responses that write it, one after the other (2025-11-25
basic/transports, "Multiple Connections", "Resumability and Redelivery").
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from mcpwire.server.http.event_store import Event
from mcpwire.server.http.exchange import JSON, ClientGone
from mcpwire.wire.json import compact
from mcpwire.wire.sse import encode_comment, encode_event

if TYPE_CHECKING:
    from collections.abc import Coroutine, Hashable, Iterable
    from typing import Any

    from mcpwire.server.http.exchange import Exchange, Fields
    from mcpwire.server.http.sessions import HttpSession
    from mcpwire.wire.jsonrpc import RequestId

__all__ = [
    "DROPPABLE",
    "STANDALONE",
    "Answers",
    "ServerStream",
    "SseWriter",
    "Stream",
    "as_event",
]

STANDALONE: Final = 0
"""The number of the stream that a GET opens; those that answer POSTs count from 1."""

CHUNK: Final = 65_536
"""The bytes that are written at once; a queue is counted as unread beyond them."""

NO_PLACE: Final = 0
DROPPABLE: Final = -1
"""In place of a sequence: an event that has none, and one that a slow client loses."""

HEARTBEAT: Final = encode_comment()


def as_event(data: bytes) -> bytes:
    """Return a message as an event; JSON as we write it is always one line.

    The type is the default of event streams, but some clients pass over events without.
    """
    return b"event: message\ndata: " + data + b"\n\n"


class SseWriter:
    """Writes an event stream to one response, with a comment when it is silent.

    At most `room` bytes wait for the client to read; beyond, droppable events go, and
    if that is not enough the stream ends.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        # Each event with its place in the stream.
        self._queue: deque[tuple[int, bytes]] = deque()
        self._writing: list[tuple[int, bytes]] = []
        self._size = 0  # of the queue
        self._exchange: Exchange | None = None
        self._wake: asyncio.Future[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._write_timeout: asyncio.Timeout | None = None
        self._is_ending = False
        self.is_over = False  # nothing is written any more
        self.is_complete = False  # everything was written

    @property
    def owner(self) -> Hashable:
        """The client that its bytes count to."""
        assert self._exchange is not None  # else it is not counted
        return self._exchange.owner

    @property
    def unread(self) -> int:
        """The number of bytes that wait for the client to read."""
        return self._size + sum(len(data) for _, data in self._writing)

    # What is to be written; nothing here waits...

    def put(self, data: bytes, sequence: int = NO_PLACE) -> None:
        """Write this event next."""
        if self.is_over or self._is_ending:
            return
        self._queue.append((sequence, data))
        self._size += len(data)
        if self._size > self._room:
            self._drop()
        if self._size > self._room:
            self.stop()
            return
        self._count()
        self._rouse()

    def _drop(self) -> None:
        kept: deque[tuple[int, bytes]] = deque()
        for sequence, data in self._queue:
            if sequence == DROPPABLE and self._size > self._room:
                self._size -= len(data)
            else:
                kept.append((sequence, data))
        self._queue = kept

    def put_before(self, events: Iterable[tuple[int, bytes]]) -> None:
        """Write these before what waits already."""
        earlier = list(events)
        self._queue.extendleft(reversed(earlier))
        self._size += sum(len(data) for _, data in earlier)

    def heartbeat(self) -> None:
        """Show that the stream is still there."""
        self.put(HEARTBEAT)

    def end(self) -> None:
        """End when everything is written."""
        self._is_ending = True
        self._rouse()

    def stop(self) -> None:
        """Write nothing more; `unwritten` has the rest."""
        self.is_over = True
        self._rouse()

    def abort(self) -> None:
        """End at once and drop what waits: the client does not read."""
        self._queue.clear()
        self._writing.clear()
        self._size = 0
        self.stop()
        timeout, self._write_timeout = self._write_timeout, None
        if timeout is not None and not timeout.expired():
            timeout.reschedule(0.0)

    def unwritten(self) -> list[tuple[int, bytes]]:
        """Return the events with places that may not have been sent."""
        return [item for item in (*self._writing, *self._queue) if item[0] > NO_PLACE]

    def _rouse(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _count(self) -> None:
        if self._size > CHUNK and self._exchange is not None:
            self._exchange.unread.count(self)

    # Writing...

    async def run(self, exchange: Exchange, fields: Fields = ()) -> None:
        """Write until the stream ends, or until the client is gone; raises neither."""
        self._exchange = exchange
        self._count()
        try:
            await self._write(exchange.start_stream(fields))
            if not self._queue:
                self.heartbeat()  # some servers keep the head until there is a body
            while not self.is_over:
                await self._write_queue(exchange)
                if not self._queue:
                    await self._sleep(exchange)
            if not (self.is_complete or exchange.is_gone):
                await self._write(exchange.write(b"", is_last=True))
        except ClientGone:
            pass
        finally:
            self.is_over = True
            exchange.unread.discard(self)
            self._exchange = None
            watcher, self._watcher = self._watcher, None
            if watcher is not None and not watcher.done():
                watcher.cancel()
                await asyncio.wait([watcher])

    async def _write_queue(self, exchange: Exchange) -> None:
        """Write what waits; if nothing follows, end."""
        while self._queue or self._is_ending:
            data = self._take()
            is_last = self._is_ending and not self._queue
            await self._write(exchange.write(data, is_last=is_last))
            self._writing.clear()
            if self._size <= CHUNK:
                exchange.unread.discard(self)
            if is_last:
                self.is_complete = self.is_over = True
            if self.is_over:
                return

    async def _write(self, step: Coroutine[Any, Any, None]) -> None:
        assert self._exchange is not None
        try:
            async with asyncio.timeout(self._exchange.timeouts.stall) as timeout:
                self._write_timeout = timeout
                await step
        except TimeoutError:  # nothing was read for too long, or it is aborted
            raise ClientGone from None
        finally:
            self._write_timeout = None

    def _take(self) -> bytes:
        """Take one event, or more up to `CHUNK` bytes, and return them."""
        size = 0
        while self._queue:
            length = len(self._queue[0][1])
            if self._writing and size + length > CHUNK:
                break
            self._writing.append(self._queue.popleft())
            size += length
        self._size -= size
        return b"".join([data for _, data in self._writing])

    async def _sleep(self, exchange: Exchange) -> None:
        """Wait for the next event, and watch the client meanwhile."""
        if self.is_over:
            return
        loop = asyncio.get_running_loop()
        if self._watcher is None:
            self._watcher = loop.create_task(
                exchange.watch(), name="mcpwire-http-watch"
            )
            self._watcher.add_done_callback(self._left)
        self._wake = loop.create_future()
        timer = loop.call_later(exchange.timeouts.heartbeat, self.heartbeat)
        try:
            await self._wake
        finally:
            timer.cancel()
            self._wake = None

    def _left(self, watcher: asyncio.Task[None]) -> None:
        # A web server that raises instead of saying so means the same.
        if not watcher.cancelled():
            watcher.exception()
        self.stop()


# The streams of a session


class Stream:
    """One stream. `last` is the place of its newest message, `writer` writes it now."""

    def __init__(self, number: int, session: HttpSession) -> None:
        self.number = number
        self.last = 0
        self.writer: SseWriter | None = None
        self._session = session

    def send(self, data: bytes) -> None:
        """Send a message, which is JSON on one line."""
        self.last += 1
        if self._session.journal is not None:
            event = Event(self.last, compact(data))
            self._session.journal.append(self.number, event)
        encoded = self.encode(self.last, data)
        if self.writer is not None and not self.writer.is_over:
            self.writer.put(encoded, self.last)
        else:
            self._keep(self.last, encoded)

    def _keep(self, sequence: int, encoded: bytes) -> None:
        """Keep a message that no response writes; here the journal has it."""

    def _id(self, sequence: int) -> str:
        return f"{self._session.mark}.{self.number}.{sequence}"

    def encode(self, sequence: int, data: bytes) -> bytes:
        """Return a message as an event with its id."""
        if self._session.journal is None:
            return as_event(data)
        return b"id: " + self._id(sequence).encode() + b"\n" + as_event(data)

    def prime(self, writer: SseWriter, sequence: int = 0) -> None:
        """Tell the client its place before anything is sent."""
        # 2025-11-25 basic/transports, "Sending Messages to the Server".
        if self._session.can_pause:
            retry = _milliseconds(self._session.retry)
            writer.put(encode_event(b"", id=self._id(sequence), retry=retry))

    def attach(self, writer: SseWriter) -> None:
        """Let this write the stream from here on, and nothing else."""
        if self.writer is not None:
            self.writer.stop()
        self.writer = writer

    def detach(self, writer: SseWriter) -> None:
        """Write the stream with this no longer."""
        if self.writer is writer:
            self.writer = None

    def pause(self, retry: float | None = None) -> None:
        """End the response and not the stream; the client comes back for the rest."""
        writer, self.writer = self.writer, None
        if writer is not None:
            if retry is not None:
                writer.put(b"retry: %d\n\n" % _milliseconds(retry))
            writer.end()

    def end(self) -> None:
        """End the stream after what was sent."""
        if self.writer is not None:
            self.writer.end()


class ServerStream(Stream):
    """The stream for messages of no call; while no response writes it, they wait.

    At most `backlog` messages and `room` bytes wait; beyond them the oldest are lost.
    """

    def __init__(self, session: HttpSession, *, backlog: int, room: int) -> None:
        super().__init__(STANDALONE, session)
        self._most = backlog
        self._room = room
        self._size = 0
        # A deque takes 600 bytes, and most sessions have nothing that waits.
        self._backlog: deque[tuple[int, bytes]] | tuple[()] = ()

    def _keep(self, sequence: int, encoded: bytes) -> None:
        backlog = self._backlog or deque()
        backlog.append((sequence, encoded))
        self._hold(backlog, len(encoded))

    def _put_back(self, events: list[tuple[int, bytes]]) -> None:
        backlog = deque(sorted((*self._backlog, *events)))
        self._hold(backlog, sum(len(encoded) for _, encoded in events))

    def _hold(self, backlog: deque[tuple[int, bytes]], more: int) -> None:
        """Keep a backlog that has grown by so many bytes, within the bounds."""
        self._backlog = backlog
        self._size += more
        while len(backlog) > self._most or self._size > self._room:
            self._size -= len(backlog.popleft()[1])

    def open(self, writer: SseWriter) -> None:
        """Let this write it, from the first message that was not sent."""
        first = self._backlog[0][0] if self._backlog else self.last + 1
        self.attach(writer)
        self.prime(writer, first - 1)
        for sequence, encoded in self.take_backlog():
            writer.put(encoded, sequence)

    def take_backlog(self) -> list[tuple[int, bytes]]:
        """Return the messages that wait, and keep them no longer."""
        waiting = list(self._backlog)
        self._backlog = ()
        self._size = 0
        return waiting

    def detach(self, writer: SseWriter) -> None:
        """Write it with this no longer; keep what was not written."""
        if self.writer is writer:
            self.writer = None
            if unwritten := writer.unwritten():
                self._put_back(unwritten)


class Answers:
    """The answer to one POST of a session.

    ::

        waits ──all answers──────────────────────► JSON (a batch: an array)
          │ something is to be said before, or it takes too long
          ▼
        stream: what is said, the answers, its end    by any number of responses

    The handlers run whether or not the client waits here (2025-11-25 basic/transports:
    a disconnection is no cancellation).
    """

    def __init__(self, session: HttpSession, *, is_batch: bool = False) -> None:
        self._session = session
        self.is_batch = is_batch
        self.ids: set[RequestId] = set()  # of a batch so far
        self._answers: list[bytes] = []
        self._open = 1  # what is still to come: answers, and until `seal` messages
        self._is_left = False
        self._decided: asyncio.Future[None] | None = None
        self._writer: SseWriter | None = None
        self.stream: Stream | None = None  # as long as it is to be JSON
        self.status: tuple[int, Fields] = (200, ())  # of a single answer
        self.has_answer = False
        self.expects_any = False

    # What is said...

    def expect_response(self) -> None:
        """Wait for one more answer."""
        self._open += 1
        self.expects_any = True

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
        """Wait for one answer fewer."""
        self._open -= 1
        if self._open:
            return
        self._decide()
        if self.stream is not None:
            self.stream.end()
        self._session.finish(self)

    seal = withdraw  # all that was posted has been taken

    @property
    def is_over(self) -> bool:
        """Whether nothing is to come any more."""
        return not self._open

    def begin(self) -> Stream:
        """Answer with a stream from here on."""
        if self.stream is None:
            stream = self.stream = self._session.open_stream()
            if not self._is_left:
                writer = self._writer = SseWriter(self._session.room)
                stream.attach(writer)
                stream.prime(writer)
            for data in self._answers:
                stream.send(data)
            self._answers.clear()
            self._decide()
        return self.stream

    def _decide(self) -> None:
        if self._decided is not None and not self._decided.done():
            self._decided.set_result(None)

    def pause(self, retry: float | None = None) -> None:
        """End the response and not the stream; the client comes back for the rest."""
        if not self.is_over:
            self.begin().pause(retry)

    # The response...

    async def respond(self, exchange: Exchange) -> None:
        """Answer the POST. Raises `ClientGone`."""
        if not self.is_over and self.stream is None:
            await self._wait(exchange)
        writer, stream = self._writer, self.stream
        if writer is not None and stream is not None:
            try:
                await writer.run(exchange)
            finally:
                stream.detach(writer)
        elif self._answers:
            data = b",".join(self._answers)
            status, fields = self.status
            data = b"[" + data + b"]" if self.is_batch else data
            await exchange.reply_bytes(status, data, JSON, fields)
        else:
            # All of it was withdrawn: a stream without answers says so.
            await exchange.start_stream()
            await exchange.write(b"", is_last=True)

    async def _wait(self, exchange: Exchange) -> None:
        self._decided = asyncio.get_running_loop().create_future()
        timers = exchange.timeouts.stream_after
        timers.add(self._take_time)
        try:
            await self._decided
        except asyncio.CancelledError:
            self._is_left = True
            if self.stream is not None and self._writer is not None:
                self.stream.detach(self._writer)
            raise
        finally:
            timers.discard(self._take_time)
            self._decided = None

    def _take_time(self) -> None:
        if not self.is_over:
            self.begin()


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1_000))
