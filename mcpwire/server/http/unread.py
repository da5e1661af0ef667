"""Bytes that clients have not read, bounded for all of them together.

::

    put ─► UnreadQueue ─► write ─► transport of a connection ─► client
               └────── more than 64 KiB ──────┘
                             ▼
                          Unread       over the bound, one of them ends

Under our own server both are counted in one account, which is in each request's scope.
Under another one the application has an account of its own, and counts its queues.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Hashable

    from mcpwire.server.http.exchange import Exchange

__all__ = ["EXTENSION", "Unread", "UnreadQueue"]

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
