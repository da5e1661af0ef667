"""The sets of connections to servers that a gateway has open, divided by client.

::

    unopened ──first request──► opening ──► open ──► closed: its session ends, it was
                 │                          idle     unused for too long, or another
                 └─ the pool is full        or busy  client's takes its place

There is one bound on all sets. At the bound, the client with the most loses its longest
idle set, then a busy one; a client with no more than the newcomer loses none.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from mcpwire.errors import InternalError
from mcpwire.server.dispatcher import HttpRefusal
from mcpwire.server.fair_pool import FairPool

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.request import Owner

__all__ = ["CLOSED", "UpstreamPool", "UpstreamsBusy"]

RETRY_AFTER_S: Final = 5

FULL: Final = "too many connections to servers are in use: try again later"

CLOSED: Final = "the connections to servers were closed as they opened: try again later"


class UpstreamsBusy(HttpRefusal, InternalError):
    """No more connections to servers can be opened now; over HTTP a 503."""

    http_status = 503
    http_headers = (("retry-after", str(RETRY_AFTER_S)),)


class UpstreamPool:
    """The open sets, those of sessions and those that requests share; see the module.

    Args:
        maximum: How many sets are open at once.
        idle: How long a shared set stays open without use, in seconds.
        close: Begins to close a set, and calls `discard`.
    """

    def __init__(
        self, *, maximum: int, idle: float, close: Callable[[Upstreams], object]
    ) -> None:
        self._maximum = maximum
        self._idle = idle
        self._close = close
        self._sets: FairPool[Upstreams] = FairPool()
        self._shared: dict[Hashable, Upstreams] = {}
        self._opening: dict[Upstreams, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.touch = self._sets.touch  # for each request of a session

    def __len__(self) -> int:
        return len(self._sets)

    @property
    def shared(self) -> list[Upstreams]:
        """The shared sets, also those that are being opened."""
        return list(self._shared.values())

    def find(self, identity: Hashable) -> Upstreams | None:
        """Return the shared set of an identity if it is open."""
        found = self._shared.get(identity)
        return found if found is not None and found.is_open else None

    async def open_shared(
        self, identity: Hashable, owner: Owner, make: Callable[[], Upstreams]
    ) -> Upstreams:
        """Return the shared set of an identity; open it if it is not open.

        Raises:
            RPCError: It cannot be opened; the next caller tries again.
        """
        upstreams = self._shared.get(identity)
        if upstreams is None:
            self._make_room(owner)
            upstreams = self._shared[identity] = make()
        await self.open(upstreams, owner)
        return upstreams

    async def open(self, upstreams: Upstreams, owner: Owner) -> None:
        """Open a set if it is not open; callers at the same time share one attempt.

        Cancelling it cancels the attempt for no other caller.

        Raises:
            RPCError: It cannot be opened.
        """
        opening = self._opening.get(upstreams)
        if opening is None:
            if upstreams.is_open:
                self.touch(upstreams)
                return
            self._make_room(owner)
            self._sets.add(upstreams, owner)
            opening = asyncio.get_running_loop().create_task(
                upstreams.open(), name="mcpwire-upstreams"
            )
            self._opening[upstreams] = opening
            opening.add_done_callback(partial(self._opened, upstreams))
        # Its callers use it already: it must not end for another set in between.
        upstreams.users += 1
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():
                raise UpstreamsBusy(CLOSED) from None
            raise
        finally:
            upstreams.users -= 1
        if not upstreams.is_open:  # it ended before its callers came to use it
            raise UpstreamsBusy(CLOSED)

    def _opened(self, upstreams: Upstreams, opening: asyncio.Task[None]) -> None:
        if self._opening.pop(upstreams, None) is None:
            return
        if opening.cancelled() or opening.exception() is not None:
            self._close(upstreams)
            return
        upstreams.is_open = True
        if upstreams in self._shared.values():
            self.left(upstreams)

    def left(self, upstreams: Upstreams) -> None:
        """Count the idle time of a shared set from now on."""
        self.touch(upstreams)
        loop = asyncio.get_running_loop()
        upstreams.used_at = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._idle, self._sweep)

    # The end...

    def _make_room(self, owner: Owner) -> None:
        """Have room for one more set of a client.

        Raises:
            UpstreamsBusy: No set may end for it.
        """
        if len(self._sets) < self._maximum:
            return
        found = self._sets.to_displace(owner, self._is_idle, _may_end)
        if found is None:
            raise UpstreamsBusy(FULL)
        self._end(found)

    def _is_idle(self, upstreams: Upstreams) -> bool:
        return not upstreams.is_busy and upstreams not in self._opening

    def _end(self, upstreams: Upstreams) -> None:
        """End a set, with the sessions that it belongs to."""
        self.discard(upstreams)
        session = upstreams.downstream.session
        for each in upstreams.sessions.copy() if session is None else (session,):
            if each.end is not None:
                each.end()
        if not upstreams.is_closed:
            self._close(upstreams)

    def discard(self, upstreams: Upstreams) -> None:
        """Take a set out; an attempt to open it is cancelled."""
        self._sets.discard(upstreams)
        upstreams.is_open = False
        for identity, each in self._shared.items():
            if each is upstreams:
                del self._shared[identity]
                break
        opening = self._opening.pop(upstreams, None)
        if opening is not None:
            opening.cancel()

    def _sweep(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for upstreams in self.shared:
            if not self._is_idle(upstreams):
                upstreams.used_at = now
            elif upstreams.used_at + self._idle <= now:
                self._end(upstreams)
        if self._shared:
            first = min(each.used_at for each in self._shared.values())
            self._timer = loop.call_at(first + self._idle, self._sweep)

    def close(self) -> None:
        """Begin to close all shared sets."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for upstreams in self.shared:
            self._end(upstreams)


def _may_end(upstreams: Upstreams) -> bool:
    # A session without `end` could not go on, nor be opened again.
    shared_by = upstreams.sessions
    return upstreams.may_end and all(each.end is not None for each in shared_by)
