"""One HTTP response that carries an event stream for a while.

A stream of a session outlives the connections that carry it, one after the other. An
outlet is such a connection: what it is given it writes, and when it is silent it says
so. It does not know what the events mean.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from mcpwire.server.http.exchange import ClientGone
from mcpwire.server.http.unread import CHUNK, UnreadQueue
from mcpwire.wire.sse import encode_comment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.server.http.exchange import Exchange, Fields

__all__ = ["Outlet"]

BEAT: Final = encode_comment()

_NO_PLACE: Final = 0


class Outlet(UnreadQueue):
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

    async def carry(self, exchange: Exchange, fields: Fields = ()) -> None:
        """Write until it ends, or until the client is gone. Raises neither."""
        clocks = exchange.clocks
        self._exchange = exchange
        if self._size > CHUNK:
            self._has_room()
        self._carrier = asyncio.current_task()
        clocks.stall.add(self._stall)
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
            clocks.stall.discard(self._stall)
            clocks.beat.discard(self.beat)

    async def _write(self, exchange: Exchange, fields: Fields) -> None:
        beats, stalls = exchange.clocks.beat, exchange.clocks.stall
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
