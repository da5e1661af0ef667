"""The answer to one POST: JSON while there is nothing else to say, else a stream.

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

from mcpwire.server.http.exchange import ClientGone
from mcpwire.server.http.unread import CHUNK, UnreadQueue
from mcpwire.wire.json import encode
from mcpwire.wire.jsonrpc import notification
from mcpwire.wire.sse import encode_comment

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.server.http.exchange import Exchange, Fields

__all__ = ["Reply", "as_event"]

JSON: Final = "application/json"

BEAT: Final = encode_comment()


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
        exchange.clocks.upgrade.add(self._take_time)

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
        self._exchange.clocks.upgrade.discard(self._take_time)
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
        clocks = self._exchange.clocks
        clocks.upgrade.discard(self._take_time)
        clocks.beat.discard(self._beat)
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
        beats, stalls = exchange.clocks.beat, exchange.clocks.stall
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
