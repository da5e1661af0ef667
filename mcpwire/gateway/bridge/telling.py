"""Says that something changed, seldom enough: many changes at once are one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcpwire.server.notifications import Hub

__all__ = ["Teller"]

WINDOW_S: Final = 0.05
"""How long after one notification the next one of its kind waits for more."""


class Teller:
    """Tells a hub of changes: the first at once, those that follow it soon as one.

    None is ever lost: what comes within the window is told when that ends. A hub makes
    one of what happens in one turn of the loop anyway.

    Args:
        hub: Who is told.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._is_closed = False
        self._waiting: dict[tuple[str, str | None], asyncio.TimerHandle] = {}
        self._again: set[tuple[str, str | None]] = set()

    def tell(self, method: str, uri: str | None = None) -> None:
        """Say that something changed; on the loop's thread."""
        what = method, uri
        if what in self._waiting:
            self._again.add(what)
            return
        if self._is_closed:
            return
        self._hub.tell(method, uri)
        loop = asyncio.get_running_loop()
        self._waiting[what] = loop.call_later(WINDOW_S, self._due, what)

    def _due(self, what: tuple[str, str | None]) -> None:
        del self._waiting[what]
        if what in self._again:
            self._again.discard(what)
            self.tell(*what)

    def close(self) -> None:
        """Say nothing more."""
        self._is_closed = True
        for timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()
        self._again.clear()
