"""Bounds how many ``subscriptions/listen`` requests are open, divided by client."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcpwire.errors import InternalError
from mcpwire.protocol.serving.shares import Shares

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
        self._shares: Shares[asyncio.Event] = Shares()

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._shares)

    @contextmanager
    def entered(self, owner: Owner) -> Iterator[asyncio.Event]:
        """Count a request as open; what is returned is set when it has to end.

        At the limit the oldest request of the client with the most ends, as long as
        that client has more than this one.

        Raises:
            InternalError: No other client has more.
        """
        shares = self._shares
        if len(shares) >= self._limit:
            oldest = shares.leaver(owner)
            if oldest is None or shares.owner(oldest) == owner:
                raise InternalError("too many subscriptions are open already")
            shares.discard(oldest)
            oldest.set()
        ended = asyncio.Event()
        shares.add(ended, owner)
        try:
            yield ended
        finally:
            shares.discard(ended)
