"""Delivery of a group's notifications to one callback and to streams.

No consumer can block the reading of a connection or another consumer: pending
notifications wait in a buffer per consumer (`GroupBuffer`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from mcpwire.errors import InvalidMessage
from mcpwire.group.reports import GroupEvent, warn
from mcpwire.limits import check_timeout
from mcpwire.protocol.subscriptions import EventBuffer, decode_notification

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from mcpwire.group.group import Group


def parse_event(server: str, method: str, params: dict[str, Any] | None) -> Any:
    """Return a notification as a `GroupEvent`; ``None`` if it is invalid."""
    try:
        return GroupEvent(server, decode_notification(method, params))
    except InvalidMessage as error:
        warn("reading a notification", server, error)
        return None


class GroupEvents:
    """Stream of all servers' notifications that belong to no call.

    At most `Limits.notifications` of each server are buffered: beyond that the oldest
    progress and log messages are dropped, and counted. Changes of a list or of a
    subscribed resource are never dropped: while such a notification is buffered, later
    ones about the same list or resource are merged with it. The notifications of one
    server keep their order.

    The stream starts when it is created, and ends when the group is closed.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._buffer = group.new_buffer()
        self._wake = asyncio.Event()
        self._is_closed = False
        group.streams.add(self)

    @property
    def dropped(self) -> int:
        """The number of notifications lost because they were not read in time."""
        return self._buffer.dropped

    def dropped_of(self, server: str) -> int:
        """Return how many notifications of one server were lost."""
        return self._buffer.dropped_of(server)

    @property
    def is_closed(self) -> bool:
        """Whether the stream has ended and is read to the end."""
        return self._is_closed and not self._buffer

    def put(self, *item: Any) -> None:
        """Add a notification."""
        if self._buffer.put(*item):
            self._wake.set()

    def end(self) -> None:
        """End the stream; buffered notifications can still be read."""
        self._is_closed = True
        self._wake.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GroupEvent:
        event = await self.next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def next(self, timeout: float | None = None) -> GroupEvent | None:
        """Wait for the next event, for at most `timeout` seconds, and return it.

        Returns ``None`` at the timeout, or at the end of the stream: see `is_closed`.
        Safe to cancel: nothing is lost.

        Raises:
            ValueError: The timeout is zero, negative or NaN.
        """
        seconds = check_timeout(timeout)
        deadline = None if seconds is None else monotonic() + seconds
        while True:
            self._wake.clear()
            while self._buffer:
                event: GroupEvent | None = parse_event(*self._buffer.pop())
                if event is not None:
                    if self._buffer:  # wakes other tasks that iterate
                        self._wake.set()
                    return event
            if self._is_closed:
                self._wake.set()  # wakes every waiting task
                return None
            remaining = None if deadline is None else deadline - monotonic()
            if remaining is not None and remaining <= 0:
                return None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await self._wake.wait()

    async def aclose(self) -> None:
        """End the stream and discard buffered notifications. Never raises."""
        self._group.streams.discard(self)
        self._buffer.clear()
        self.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class GroupBuffer:
    """Buffers of all servers' notifications, at most `limit` droppable ones each."""

    def __init__(
        self, limit: int, *, max_bytes: float, is_subscribed: Callable[[str, str], bool]
    ) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._is_subscribed = is_subscribed
        self._buffers: dict[str, EventBuffer] = {}
        self._ready: deque[str] = deque()  # servers with notifications, each once
        self._lost = 0

    def put(
        self, server: str, method: str, params: dict[str, Any] | None, size: int = 0
    ) -> bool:
        """Add a notification; return whether one was added, not merged or dropped."""
        buffer = self._buffers.get(server)
        if buffer is None:
            buffer = self._buffers[server] = EventBuffer(
                self._limit,
                partial(self._is_subscribed, server),
                max_bytes=self._max_bytes,
            )
        was_ready = bool(buffer)
        is_new = buffer.put(method, params, size)
        if not was_ready:
            if buffer:
                self._ready.append(server)
        elif not buffer:  # too large: it was dropped, and all before it
            self._ready.remove(server)
        return is_new and bool(buffer)

    def pop(self) -> tuple[str, str, dict[str, Any] | None]:
        """Remove and return the oldest notification of the next server, in turn."""
        server = self._ready.popleft()
        buffer = self._buffers[server]
        method, params = buffer.pop()
        if buffer:
            self._ready.append(server)
        elif not buffer.dropped:  # else it is kept for the count of losses
            del self._buffers[server]
        return server, method, params

    def clear(self) -> None:
        """Discard all notifications; the losses stay in the total."""
        self._lost = self.dropped
        self._buffers.clear()
        self._ready.clear()

    @property
    def dropped(self) -> int:
        """The number of lost notifications."""
        return self._lost + sum(each.dropped for each in self._buffers.values())

    def dropped_of(self, server: str) -> int:
        """Return the number of a server's lost notifications since its first one."""
        buffer = self._buffers.get(server)
        return 0 if buffer is None else buffer.dropped

    def __bool__(self) -> bool:
        return bool(self._ready)
