"""Who hears what the servers of a blocking group tell: a callback, streams of events.

Whoever reads a connection hands over what it heard and goes on: what a consumer has not
taken yet waits in a buffer of its own (`protocol.many.events`).
"""

from __future__ import annotations

import threading
import weakref
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidMessage
from mcpwire.group.logs import relay, warn
from mcpwire.limits import check_timeout
from mcpwire.protocol.many.events import GroupBuffer
from mcpwire.protocol.many.reports import GroupEvent
from mcpwire.protocol.notifications import typed_notification
from mcpwire.sync._shell.callbacks import Delivery, check_plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from mcpwire.limits import Limits

__all__ = ["GroupEvents", "Hearing"]

CALLBACK_END_S: Final = 2.0
"""How long a callback may take to end when the group is closed."""


def _event(server: str, method: str, params: dict[str, Any] | None) -> Any:
    """Return an event as users see it; ``None`` for one against the rules."""
    try:
        return GroupEvent(server, typed_notification(method, params))
    except InvalidMessage as error:
        warn("reading a notification", server, error)
        return None


class GroupEvents:
    """Every notification of every server that belongs to no call, as it comes.

    Of each server `Limits.notifications` wait at most: beyond them progress and log
    messages that were not taken yet are dropped, the oldest first, and counted. That a
    list or a resource that was subscribed to changed is never dropped: while one such
    notification waits, further ones about the same are one with it. What one server
    said comes in its order.

    It hears from being made, and ends when the group is closed. Any number of threads
    may take from it.
    """

    def __init__(self, hearing: Hearing) -> None:
        self._hearing = hearing
        self._buffer = hearing.buffer()
        # A signal handler may close the group in the middle of any step.
        self._changed = threading.Condition(threading.RLock())
        self._is_closed = False
        hearing.streams.add(self)

    @property
    def dropped(self) -> int:
        """Notifications lost because they were not taken in time."""
        with self._changed:
            return self._buffer.dropped

    def dropped_of(self, server: str) -> int:
        """Return how many of one server's were."""
        with self._changed:
            return self._buffer.dropped_of(server)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more will come."""
        return self._is_closed and not self._buffer

    def take(self, *item: Any) -> None:
        """Hear a notification."""
        with self._changed:
            if self._buffer.put(*item):
                self._changed.notify()

    def end(self) -> None:
        """Let what waits be taken, and nothing more come."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> GroupEvent:
        event = self._next(None)
        if event is None:
            raise StopIteration
        return event

    def next(self, timeout: float | None = None) -> GroupEvent | None:
        """Return the next event, waiting so many seconds for it.

        Returns ``None`` when the time is over, or the stream: `is_closed` tells. Ctrl-C
        ends the waiting, and nothing is lost.

        Raises:
            ValueError: The timeout is zero, negative or NaN.
        """
        seconds = check_timeout(timeout)
        return self._next(None if seconds is None else monotonic() + seconds)

    def _next(self, until: float | None) -> GroupEvent | None:
        while True:
            with self._changed:
                while not self._buffer:
                    left = None if until is None else until - monotonic()
                    if self._is_closed or (left is not None and left <= 0):
                        return None
                    self._changed.wait(left)
                server, method, params, _ = self._buffer.pop()
            event: GroupEvent | None = _event(server, method, params)
            if event is not None:
                return event

    def close(self) -> None:
        """Hear no more, and forget what waits. Never raises."""
        self._hearing.streams.discard(self)
        with self._changed:
            self._buffer.clear()
        self.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Hearing:
    """All who hear.

    Args:
        limits: How much may wait for each.
        is_kept: Tells of a server and a URI whether no update of it may get lost.
        on_notification: Called with each `GroupEvent`; a plain function.

    Raises:
        ValueError: The function is an async one.
    """

    def __init__(
        self,
        limits: Limits,
        is_kept: Callable[[str, str], bool],
        on_notification: Callable[[GroupEvent], Any] | None,
    ) -> None:
        self._limits = limits
        self._is_kept = is_kept
        self._callback = on_notification
        self._buffer: GroupBuffer | None = None
        self._delivery: Delivery | None = None
        self.streams: weakref.WeakSet[GroupEvents] = weakref.WeakSet()
        if on_notification is not None:
            check_plain(on_notification, "on_notification")
            self._buffer = self.buffer()
            waiting: Any = self._buffer  # its counter is only read
            self._delivery = Delivery(self._tell, waiting)

    def buffer(self) -> GroupBuffer:
        """Make a buffer for one more consumer."""
        return GroupBuffer(
            self._limits.notifications,
            room=self._limits.message,
            is_kept=self._is_kept,
        )

    @property
    def dropped(self) -> int:
        """Notifications that the callback was too slow for."""
        return 0 if self._buffer is None else self._buffer.dropped

    def heard(
        self, server: str, method: str, params: dict[str, Any] | None, size: int
    ) -> None:
        """Hand a notification to all who hear; never waits, never raises."""
        streams = self._current()
        for stream in streams:
            stream.take(server, method, params, size)
        if self._delivery is not None:
            self._delivery.put(server, method, params, size)
        elif method == "notifications/message" and not streams:
            relay(server, params or {})

    def _current(self) -> tuple[GroupEvents, ...]:
        # Another thread may add one, or forget one, in the middle of the iteration.
        while True:
            try:
                return tuple(self.streams)
            except RuntimeError:
                continue

    def _tell(
        self, server: str, method: str, params: dict[str, Any] | None, _: int
    ) -> Any:
        assert self._callback is not None
        event = _event(server, method, params)
        return None if event is None else self._callback(event)

    def close(self) -> None:
        """End every stream and a callback that runs; bounded in time."""
        for stream in self._current():
            stream.end()
        running = None if self._delivery is None else self._delivery.close()
        if running is not None:
            running.join(CALLBACK_END_S)
