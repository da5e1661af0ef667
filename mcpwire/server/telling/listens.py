"""Bounds how many ``subscriptions/listen`` requests are open, divided by client."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcpwire.errors import InternalError
from mcpwire.server.fair_pool import FairPool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwire.server.request import Owner

__all__ = ["Listens"]


class Listens:
    """The open requests of one server.

    Args:
        limit: How many may be open at once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pool: FairPool[asyncio.Event] = FairPool()

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._pool)

    @contextmanager
    def entered(self, owner: Owner) -> Iterator[asyncio.Event]:
        """Count a request as open; what is returned is set when it has to end.

        At the limit the oldest request of the client with the most ends, as long as
        that client has more than this one.

        Raises:
            InternalError: No other client has more.
        """
        pool = self._pool
        if len(pool) >= self._limit:
            oldest = pool.to_evict(owner)
            if oldest is None or pool.owner(oldest) == owner:
                raise InternalError("too many subscriptions are open already")
            pool.discard(oldest)
            oldest.set()
        ended = asyncio.Event()
        pool.add(ended, owner)
        try:
            yield ended
        finally:
            pool.discard(ended)
