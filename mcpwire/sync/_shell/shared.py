"""What the threads of one client share: a signal, and containers that take turns.

The containers are those of the asyncio client, whose one thread needs no locks. Each
method is one step here, whichever thread calls it; none of them waits for anything.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

from mcpwire.protocol.notices import events, interests
from mcpwire.protocol.notices.interests import Filter
from mcpwire.sync._lead import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["EventBuffer", "Filter", "Interests", "Listeners", "Signal"]

T = TypeVar("T")


class Signal(Waiter):
    """Set by whoever stores something; waited for by `Connection.wait`."""


class EventBuffer(events.EventBuffer):
    """Notifications that wait for their consumer."""

    __slots__ = ("_lock",)

    def __init__(
        self,
        limit: int,
        is_kept: Callable[[str], bool],
        *,
        room: float,
        size: Callable[[], int],
    ) -> None:
        super().__init__(limit, is_kept, room=room, size=size)
        self._lock = threading.RLock()  # as below

    def put(self, method: str, params: dict[str, Any] | None) -> bool:
        """Let a notification wait; tell whether something new waits now."""
        with self._lock:
            return super().put(method, params)

    def pop(self) -> events.Event:
        """Take the oldest notification out."""
        with self._lock:
            return super().pop()

    def take(self) -> events.Event | None:
        """Take the oldest notification out, where any waits."""
        with self._lock:
            return super().pop() if self else None

    def clear(self) -> None:
        """Forget what waits; the counters stay."""
        with self._lock:
            super().clear()


class Interests(interests.Interests):
    """Who wants what of the server."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        super().__init__()
        # A forgotten consumer is taken out by its finaliser, which may run in the
        # middle of any step of the same thread.
        self._lock = threading.RLock()

    @property
    def current(self) -> Filter:
        """All that somebody wants."""
        with self._lock:
            return super().current

    def add(self, wanted: Filter) -> Filter:
        """Count one more for each want; return those that nobody had before."""
        with self._lock:
            return super().add(wanted)

    def remove(self, wanted: Filter) -> Filter:
        """Count one less for each want; return those that nobody has any more.

        Raises:
            ValueError: Something of it was never added, or is removed already; then
                nothing is removed.
        """
        with self._lock:
            return super().remove(wanted)


class Listeners(Generic[T]):
    """A set that keeps nothing alive; iterating goes over those of that moment."""

    def __init__(self) -> None:
        self._items: WeakSet[T] = WeakSet()
        self._lock = threading.RLock()

    def add(self, item: T) -> None:
        """Have one more."""
        with self._lock:
            self._items.add(item)

    def discard(self, item: T) -> None:
        """Have one less, if it is there."""
        with self._lock:
            self._items.discard(item)

    def __iter__(self) -> Iterator[T]:
        with self._lock:
            return iter(list(self._items))

    def __len__(self) -> int:
        return len(self._items)
