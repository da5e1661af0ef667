"""One line of log per request: who asked what, what came of it, how long it took.

Nothing that could be a secret is in it: no query, no header, no argument. What a client
chose is quoted and cut.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.server.http.exchange import Exchange

__all__ = ["Access", "is_read"]

logger = logging.getLogger("mcpwire.access")

SHOWN: Final = 80

_NOT_ANSWERED: Final = 499  # as web servers log a client that did not wait

_NAMES: Final = ("name", "uri", "taskId")
"""The params that say what a method is about."""


def is_read() -> bool:
    """Tell whether anybody reads the lines."""
    return logger.isEnabledFor(logging.INFO)


class Access:
    """Writes the line of one request."""

    __slots__ = ("_about", "_started")

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._about = ""

    def note(self, value: Any) -> None:
        """Take note of what the body says: a decoded message, or anything else."""
        if type(value) is not dict:
            return
        method = value.get("method")
        if type(method) is not str:
            return
        self._about = f" {_show(method)}"
        params = value.get("params")
        if type(params) is dict:
            for key in _NAMES:
                if type(params.get(key)) is str:
                    self._about += f" {_show(_without_query(params[key]))}"
                    break

    def write(self, exchange: Exchange) -> None:
        """Write the line: it has been answered."""
        client = exchange.scope.get("client")
        logger.info(
            "%s %s %s%s %d %.1f ms",
            client[0] if client else "-",
            exchange.verb,
            _show(exchange.path),
            self._about,
            exchange.status or _NOT_ANSWERED,
            (time.perf_counter() - self._started) * 1000,
        )


def _without_query(text: str) -> str:
    # A URI may carry credentials there.
    return text.partition("?")[0].partition("#")[0]


def _show(text: str) -> str:
    shown = text[:SHOWN] + ("..." if len(text) > SHOWN else "")
    is_plain = shown.isascii() and shown.isprintable() and " " not in shown
    return shown if is_plain else ascii(shown)
