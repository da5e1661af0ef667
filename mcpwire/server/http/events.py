"""Where the messages of streams are kept, so that a client can ask for them again.

`EventStore` is what a store has to do, in memory, in a file or on another machine.
Places are given out by the session that sends, so a store only keeps and finds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from mcpwire.server.http.event_store import History

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpwire.server.http.event_store import Event

__all__ = ["EventStore", "MemoryEventStore", "check_bounds"]


class EventStore(Protocol):
    """Keeps the messages of streams for a while.

    What is appended to one session comes in order and one at a time; the rest may come
    at any time. A store that need not wait may have ``append_nowait``, with the same
    parameters as `append`, which is called instead.

    A session is named by a key that is no secret. What stands behind its full stop is
    the same for all sessions of one client, so that a store can divide its room.
    """

    async def append(self, session: str, stream: int, event: Event) -> None:
        """Keep an event; one that is kept already is kept once."""

    async def replay(self, session: str, stream: int, after: int) -> Sequence[Event]:
        """Return what is kept of a stream with a sequence above `after`, in order."""

    async def drop_stream(self, session: str, stream: int) -> None:
        """Forget one stream: nobody may ask for it any more."""

    async def drop_session(self, session: str) -> None:
        """Forget all streams of a session."""

    async def aclose(self) -> None:
        """Let go of what the store holds open."""


class MemoryEventStore:
    """Keeps events in this process; the oldest go when a bound is reached.

    Args:
        events: How many are kept of one session.
        size: How many bytes of messages are kept of one session.
        total_size: How many bytes of all sessions together; beyond them the oldest of
            the client with the most bytes go.
        age: For how long, in seconds.
        clock: Gives the time in seconds; never goes back.

    Raises:
        ValueError: A bound is not above zero.
    """

    def __init__(
        self,
        *,
        events: int = 1_000,
        size: int = 4 * 1024 * 1024,
        total_size: int = 64 * 1024 * 1024,
        age: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_bounds(events=events, size=size, total_size=total_size, age=age)
        self._history = History(
            events=events, size=size, total_size=total_size, age=age
        )
        self._clock = clock

    def __len__(self) -> int:
        """Return how many events are kept."""
        return len(self._history)

    def append_nowait(self, session: str, stream: int, event: Event) -> None:
        """Keep an event; never waits."""
        self._history.append(session, stream, event, self._clock())

    async def append(self, session: str, stream: int, event: Event) -> None:
        """Keep an event."""
        self.append_nowait(session, stream, event)

    async def replay(self, session: str, stream: int, after: int) -> Sequence[Event]:
        """Return what is kept of a stream with a sequence above `after`, in order."""
        return self._history.replay(session, stream, after, self._clock())

    async def drop_stream(self, session: str, stream: int) -> None:
        """Forget one stream."""
        self._history.drop_stream(session, stream)

    async def drop_session(self, session: str) -> None:
        """Forget all streams of a session."""
        self._history.drop_session(session)

    async def aclose(self) -> None:
        """Do nothing: what is kept goes with the store."""


def check_bounds(**bounds: float) -> None:
    """Check numbers that somebody has given.

    Raises:
        ValueError: One is not above zero; names it.
    """
    for name, value in bounds.items():
        if not value > 0:
            raise ValueError(f"{name} must be above zero, got {value!r}")
