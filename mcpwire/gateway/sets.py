"""The sets that requests share which stand alone (2026-07-28): one for each identity.

A set is opened once, by whoever comes first; it is closed when it was not used for a
while, or when there are too many and it is the one unused for the longest time. One in
use is left alone: where all of them are, there is no room for another.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from mcpwire.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from mcpwire.gateway.upstreams import Upstreams

__all__ = ["Sets"]


class Sets:
    """The shared sets by identity.

    Args:
        maximum: How many there may be; those in use are never closed for others.
        idle: How long one is kept that is not used, in seconds.
        close: Begins to close a set.
    """

    def __init__(
        self, *, maximum: int, idle: float, close: Callable[[Upstreams], object]
    ) -> None:
        self._maximum = maximum
        self._idle = idle
        self._close = close
        self._sets: OrderedDict[Hashable, Upstreams] = OrderedDict()
        self._opening: dict[Hashable, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._sets)

    def all(self) -> list[Upstreams]:
        """Return the sets there are, those that open included."""
        return list(self._sets.values())

    def find(self, identity: Hashable) -> Upstreams | None:
        """Return an identity's set, if it is there and open."""
        if identity in self._opening:
            return None
        found = self._sets.get(identity)
        if found is not None:
            self._sets.move_to_end(identity)
        return found

    async def open(
        self, identity: Hashable, make: Callable[[], Upstreams]
    ) -> Upstreams:
        """Return an identity's set, opened by whoever comes first.

        Whoever stops waiting leaves it to the others.

        Raises:
            RPCError: It cannot be opened, or there are too many in use; the next one
                tries again.
        """
        upstreams = self._sets.get(identity)
        if upstreams is None:
            self._make_room()
            upstreams = self._sets[identity] = make()
            opening = asyncio.get_running_loop().create_task(
                upstreams.open(), name="mcpwire-upstreams"
            )
            self._opening[identity] = opening
            opening.add_done_callback(lambda task: self._opened(identity, task))
        self._sets.move_to_end(identity)
        task = self._opening.get(identity)
        if task is not None:
            # Whoever waits uses it already: it must not go for another just before.
            upstreams.users += 1
            try:
                await asyncio.shield(task)
            finally:
                upstreams.users -= 1
        return upstreams

    def _opened(self, identity: Hashable, opening: asyncio.Task[None]) -> None:
        has_failed = opening.cancelled() or opening.exception() is not None
        if self._opening.get(identity) is opening:
            del self._opening[identity]
            if has_failed:
                del self._sets[identity]
            else:
                self.left(self._sets[identity])

    def left(self, upstreams: Upstreams) -> None:
        """Take note that a set is not used any more, for now."""
        loop = asyncio.get_running_loop()
        upstreams.used_at = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._idle, self._sweep)

    # The end...

    def _make_room(self) -> None:
        """Have room for one more.

        Raises:
            InternalError: All there may be are in use.
        """
        if len(self._sets) < self._maximum:
            return
        for identity, upstreams in self._sets.items():
            if not upstreams.is_busy and identity not in self._opening:
                self._drop(identity)
                return
        raise InternalError("too many connections to servers are in use already")

    def _sweep(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for identity, upstreams in list(self._sets.items()):
            if upstreams.is_busy or identity in self._opening:
                upstreams.used_at = now
            elif upstreams.used_at + self._idle <= now:
                self._drop(identity)
        if self._sets:
            first = min(each.used_at for each in self._sets.values())
            self._timer = loop.call_at(first + self._idle, self._sweep)

    def _drop(self, identity: Hashable) -> None:
        opening = self._opening.pop(identity, None)
        if opening is not None:
            opening.cancel()
        self._close(self._sets.pop(identity))

    def close(self) -> None:
        """Begin to close all of them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for identity in list(self._sets):
            self._drop(identity)
