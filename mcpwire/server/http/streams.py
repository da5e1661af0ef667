"""Event streams: the writer of one HTTP response, and the streams of a session.

::

               send                    attach          client disconnected, pause
      message ─────► sequence ─► journal  ▼                        ▲
                          └───────────► writer ──► HTTP response ──┘
                                          └─ no writer: backlog, or only the journal

A GET with `Last-Event-ID` is answered from the event store (`event_store`). A session's
stream outlives its responses, which write the stream one after another (2025-11-25
basic/transports, "Multiple Connections", "Resumability and Redelivery").
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from mcpwire.server.http.event_store import Event
from mcpwire.server.http.exchange import JSON, ClientGone, end_task
from mcpwire.wire.json import compact
from mcpwire.wire.sse import encode_event

if TYPE_CHECKING:
    from collections.abc import Coroutine, Hashable, Iterable

    from mcpwire.server.http.exchange import Exchange, Fields
    from mcpwire.server.http.sessions import HttpSession
    from mcpwire.wire.jsonrpc import RequestId

STANDALONE: Final = 0
"""The number of the stream that a GET opens; streams of POSTs count from 1."""

CHUNK: Final = 65_536
"""The maximum size of one write; a queue counts as unread if it is larger."""

UNNUMBERED: Final = 0
DROPPABLE: Final = -1
"""In place of a sequence number: an event without one; an event that may be dropped."""

HEARTBEAT: Final = b": \n\n"


def as_event(data: bytes) -> bytes:
    """Return a JSON message, which is one line, as an event.

    ``message`` is the default event type, but some clients ignore events without type.
    """
    return b"event: message\ndata: " + data + b"\n\n"


class SseWriter:
    """Writes an event stream to one response, with comments as heartbeats.

    At most `room` bytes wait for the client to read. Over that, droppable events are
    dropped; if that does not suffice, the stream ends.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        # Each event with its sequence number.
        self._queue: deque[tuple[int, bytes]] = deque()
        self._writing: list[tuple[int, bytes]] = []
        self._size = 0  # of the queue
        self._exchange: Exchange | None = None
        self._wake = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None
        self._write_timeout: asyncio.Timeout | None = None
        self._is_ending = False
        self.is_over = False  # no further events are written
        self.is_complete = False  # all events were written

    @property
    def owner(self) -> Hashable:
        """The client that the unread bytes are attributed to."""
        assert self._exchange is not None  # set while the account counts this writer
        return self._exchange.owner

    @property
    def unread(self) -> int:
        """The number of bytes that wait for the client to read."""
        return self._size + sum(len(data) for _, data in self._writing)

    # The queue; none of these methods waits

    def put(self, data: bytes, sequence: int = UNNUMBERED) -> None:
        """Queue an event."""
        if self.is_over or self._is_ending:
            return
        self._queue.append((sequence, data))
        self._size += len(data)
        if self._size > self._room:
            self._drop_droppable()
        if self._size > self._room:
            self.stop()
            return
        self._count_unread()
        self._wake.set()

    def _drop_droppable(self) -> None:
        kept: list[tuple[int, bytes]] = []
        while self._queue and self._size > self._room:
            event = self._queue.popleft()
            if event[0] == DROPPABLE:
                self._size -= len(event[1])
            else:
                kept.append(event)
        self._queue.extendleft(reversed(kept))

    def put_before(self, events: Iterable[tuple[int, bytes]]) -> None:
        """Queue events in front of the queued ones."""
        earlier = list(events)
        self._queue.extendleft(reversed(earlier))
        self._size += sum(len(data) for _, data in earlier)

    def heartbeat(self) -> None:
        """Queue a comment that keeps the connection open."""
        self.put(HEARTBEAT)

    def end(self) -> None:
        """End the stream when all queued events are written."""
        self._is_ending = True
        self._wake.set()

    def stop(self) -> None:
        """Stop writing; `unwritten` returns the remaining events."""
        self.is_over = True
        self._wake.set()

    def abort(self) -> None:
        """End the stream at once and discard the queue: the client does not read."""
        self._queue.clear()
        self._writing.clear()
        self._size = 0
        self.stop()
        timeout, self._write_timeout = self._write_timeout, None
        if timeout is not None and not timeout.expired():
            timeout.reschedule(0.0)

    def unwritten(self) -> list[tuple[int, bytes]]:
        """Return the numbered events that may not have been sent."""
        return [item for item in (*self._writing, *self._queue) if item[0] > UNNUMBERED]

    def _count_unread(self) -> None:
        if self._size > CHUNK and self._exchange is not None:
            self._exchange.unread.count(self)

    # Writing

    async def run(self, exchange: Exchange) -> None:
        """Write until the stream ends or the client disconnects, which is no error."""
        self._exchange = exchange
        self._count_unread()
        try:
            await self._write(exchange.start_stream())
            if not self._queue:
                self.heartbeat()  # some web servers send the head with the first bytes
            while not self.is_over:
                if self._queue or self._is_ending:
                    await self._write_chunk(exchange)
                else:
                    await self._sleep(exchange)
            if not (self.is_complete or exchange.is_gone):
                await self._write(exchange.write(b"", is_last=True))
        except ClientGone:
            pass
        finally:
            self.is_over = True
            exchange.unread.discard(self)
            self._exchange = None
            if self._watcher is not None:
                await end_task(self._watcher)

    async def _write_chunk(self, exchange: Exchange) -> None:
        """Write queued events; if the stream is to end after them, end it."""
        data = self._take_chunk()
        is_last = self._is_ending and not self._queue
        await self._write(exchange.write(data, is_last=is_last))
        self._writing.clear()
        if self._size <= CHUNK:
            exchange.unread.discard(self)
        if is_last:
            self.is_complete = self.is_over = True

    async def _write(self, step: Coroutine[Any, Any, None]) -> None:
        assert self._exchange is not None
        try:
            async with asyncio.timeout(self._exchange.timeouts.stall) as timeout:
                self._write_timeout = timeout
                await step
        except TimeoutError:  # the client read nothing for too long, or `abort`
            raise ClientGone from None
        finally:
            self._write_timeout = None

    def _take_chunk(self) -> bytes:
        """Remove the first event from the queue, or more up to `CHUNK`; return them."""
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
        """Wait for the next event, with heartbeats; stop if the client disconnects."""
        loop = asyncio.get_running_loop()
        if self._watcher is None:
            self._watcher = loop.create_task(
                exchange.watch(), name="mcpwire-http-watch"
            )
            self._watcher.add_done_callback(lambda _: self.stop())
        self._wake.clear()
        timer = loop.call_later(exchange.timeouts.heartbeat, self.heartbeat)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()


# The streams of a session


class Stream:
    """One stream; `last` is its newest sequence number, `writer` its current writer."""

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
            self._store(self.last, encoded)

    def _store(self, sequence: int, encoded: bytes) -> None:
        """Keep a message while no response is open; here the journal suffices."""

    def _id(self, sequence: int) -> str:
        return f"{self._session.mark}.{self.number}.{sequence}"

    def encode(self, sequence: int, data: bytes) -> bytes:
        """Return a message as an event with its id."""
        if self._session.journal is None:
            return as_event(data)
        return b"id: " + self._id(sequence).encode() + b"\n" + as_event(data)

    def prime(self, writer: SseWriter, sequence: int = 0) -> None:
        """Send an event without data; the client can resume from its id."""
        # 2025-11-25 basic/transports, "Sending Messages to the Server".
        if self._session.can_pause:
            retry = _milliseconds(self._session.retry)
            writer.put(encode_event(b"", id=self._id(sequence), retry=retry))

    def attach(self, writer: SseWriter) -> None:
        """Make this the stream's only writer from the next message."""
        if self.writer is not None:
            self.writer.stop()
            self.detach(self.writer)  # the resumption may yet be refused
        self.writer = writer

    def detach(self, writer: SseWriter) -> None:
        """Stop writing the stream with this writer."""
        if self.writer is writer:
            self.writer = None

    def pause(self, retry: float | None = None) -> None:
        """End the response but not the stream; the client reconnects for the rest."""
        writer, self.writer = self.writer, None
        if writer is not None:
            if retry is not None:
                writer.put(b"retry: %d\n\n" % _milliseconds(retry))
            writer.end()

    def end(self) -> None:
        """End the stream after the messages sent so far."""
        if self.writer is not None:
            self.writer.end()


class ServerStream(Stream):
    """The stream for messages of no call; it keeps a backlog while no GET is open.

    At most `backlog` messages and `room` bytes are kept; the oldest are lost first.
    """

    def __init__(self, session: HttpSession, *, backlog: int, room: int) -> None:
        super().__init__(STANDALONE, session)
        self._max_messages = backlog
        self._room = room
        self._size = 0
        # An empty deque takes 600 bytes, and most sessions have no backlog.
        self._backlog: deque[tuple[int, bytes]] | tuple[()] = ()

    def _store(self, sequence: int, encoded: bytes) -> None:
        backlog = self._backlog or deque()
        backlog.append((sequence, encoded))
        self._set_backlog(backlog, len(encoded))

    def _put_back(self, events: list[tuple[int, bytes]]) -> None:
        backlog = deque(sorted((*self._backlog, *events)))
        self._set_backlog(backlog, sum(len(encoded) for _, encoded in events))

    def _set_backlog(self, backlog: deque[tuple[int, bytes]], added: int) -> None:
        """Store a backlog that has grown by this many bytes, within its limits."""
        self._backlog = backlog
        self._size += added
        while len(backlog) > self._max_messages or self._size > self._room:
            self._size -= len(backlog.popleft()[1])

    def open(self, writer: SseWriter) -> None:
        """Attach a writer, which starts with the first unsent message."""
        first = self._backlog[0][0] if self._backlog else self.last + 1
        self.attach(writer)
        self.prime(writer, first - 1)
        for sequence, encoded in self.take_backlog():
            writer.put(encoded, sequence)

    def take_backlog(self) -> list[tuple[int, bytes]]:
        """Return the backlog and clear it."""
        messages = list(self._backlog)
        self._backlog = ()
        self._size = 0
        return messages

    def detach(self, writer: SseWriter) -> None:
        """Detach a writer; keep its unwritten messages in the backlog."""
        if self.writer is writer:
            self.writer = None
            if unwritten := writer.unwritten():
                self._put_back(unwritten)


class Answers:
    """The responses to one POST of a session.

    ::

        waits ──all responses────────────────────► JSON (a batch: an array)
          │ a message precedes the responses, or they take too long
          ▼
        stream: messages, the responses, its end      over any number of connections

    The handlers run on if the client disconnects (2025-11-25 basic/transports: a
    disconnection is no cancellation).
    """

    def __init__(self, session: HttpSession, *, is_batch: bool = False) -> None:
        self._session = session
        self.is_batch = is_batch
        self.ids: set[RequestId] = set()  # of a batch so far
        self._answers: list[bytes] = []
        self._open = 1  # pending responses, and one for the POST itself until `seal`
        self._is_disconnected = False
        self._decided: asyncio.Future[None] | None = None
        self._writer: SseWriter | None = None
        self.stream: Stream | None = None  # ``None`` while a JSON reply is possible
        # Of a single response, with the reason if it is an error.
        self.status: tuple[int, Fields, str] = (200, (), "")
        self.has_answer = False
        self.expects_any = False

    # Messages

    def expect_response(self) -> None:
        """Expect one more response."""
        self._open += 1
        self.expects_any = True

    def send(self, data: bytes) -> None:
        """Send a message before the responses; drop it if these must be JSON."""
        if not (self.is_over or self._session.is_json_only):
            self.open_stream().send(data)

    def answer(
        self, data: bytes, status: tuple[int, Fields, str] | None = None
    ) -> None:
        """Send one response; its status applies to a single JSON reply only."""
        if status is not None and not self.is_batch:
            self.status = status
        self.has_answer = True
        if self.stream is not None:
            self.stream.send(data)
        else:
            self._answers.append(data)
        self.withdraw()

    def withdraw(self) -> None:
        """Expect one response fewer."""
        self._open -= 1
        if self._open:
            return
        self._set_decided()
        if self.stream is not None:
            self.stream.end()
        self._session.finish(self)

    seal = withdraw  # all messages of the POST have been handled

    @property
    def is_over(self) -> bool:
        """Whether all responses have been sent."""
        return not self._open

    def open_stream(self) -> Stream:
        """Switch the reply to a stream, unless it is one."""
        if self.stream is None:
            stream = self.stream = self._session.open_stream()
            if not self._is_disconnected:
                writer = self._writer = SseWriter(self._session.room)
                stream.attach(writer)
                stream.prime(writer)
            for data in self._answers:
                stream.send(data)
            self._answers.clear()
            self._set_decided()
        return self.stream

    def _set_decided(self) -> None:
        if self._decided is not None and not self._decided.done():
            self._decided.set_result(None)

    def pause(self, retry: float | None = None) -> None:
        """End the response but not the stream; the client reconnects for the rest."""
        if not self.is_over:
            self.open_stream().pause(retry)

    # The HTTP response

    async def respond(self, exchange: Exchange) -> None:
        """Reply to the POST. Raises `ClientGone`."""
        if self._open and self.stream is None:
            await self._wait(exchange)
        writer, stream = self._writer, self.stream
        if writer is not None and stream is not None:
            try:
                await writer.run(exchange)
            finally:
                stream.detach(writer)
        elif self._answers:
            data = b",".join(self._answers)
            status, fields, exchange.reason = self.status
            data = b"[" + data + b"]" if self.is_batch else data
            await exchange.reply_bytes(status, data, JSON, fields)
        else:
            # All requests were cancelled: reply with an empty stream.
            await exchange.start_stream()
            await exchange.write(b"", is_last=True)

    async def _wait(self, exchange: Exchange) -> None:
        self._decided = asyncio.get_running_loop().create_future()
        timers = exchange.timeouts.stream_after
        timers.add(self._start_late_stream)
        try:
            await self._decided
        except asyncio.CancelledError:
            self._is_disconnected = True
            if self.stream is not None and self._writer is not None:
                self.stream.detach(self._writer)
            raise
        finally:
            timers.discard(self._start_late_stream)
            self._decided = None

    def _start_late_stream(self) -> None:
        if not (self.is_over or self._session.is_json_only):
            self.open_stream()


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1_000))
