"""One line of log per request: who asked what, what came of it, how long it took.

No query, header or argument is in it, but what the reason of a refusal quotes. What a
client chose is quoted and cut.
"""

from __future__ import annotations

import contextlib
import logging
import select
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from mcpwire.wire.json import JSONDecodeError, loads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwire.server.http.exchange import Exchange

__all__ = ["Access", "is_read", "told_on_stderr"]

logger = logging.getLogger("mcpwire.access")

SHOWN: Final = 80
REASON_SHOWN: Final = 200

LINE_SHOWN: Final = 2_000
"""Characters: what a pipe takes without blocking is longer (`PIPE_BUF`)."""

_NOT_ANSWERED: Final = 499  # as web servers log a client that did not wait

_NAMES: Final = ("name", "uri", "taskId")
"""The params that say what a method is about."""


def is_read() -> bool:
    """Tell whether anybody reads the lines."""
    return logger.isEnabledFor(logging.INFO)


@contextlib.contextmanager
def told_on_stderr() -> Iterator[None]:
    """Write the lines to stderr, unless the program's own logging reads them."""
    if is_read() or sys.stderr is None:
        yield
        return
    handler = _OnStderr()
    handler.setFormatter(logging.Formatter("mcpwire: %(message)s"))
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


class _OnStderr(logging.StreamHandler[Any]):
    """Leaves lines out while stderr is a full pipe: writing would stop the server."""

    _left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, if it can be written at once."""
        if not _takes_more(self.stream):
            self._left_out += 1
            return
        super().emit(record)
        self._left_out = 0

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and how many before it were not written."""
        line = super().format(record)[:LINE_SHOWN]
        if self._left_out:
            line += f" ({self._left_out} more were not written)"
        return line


def _takes_more(stream: Any) -> bool:
    """Tell whether a line can be written without waiting for its reader."""
    if not hasattr(select, "poll"):
        return True  # Windows
    poll = select.poll()
    try:
        poll.register(stream.fileno(), select.POLLOUT)
    except (AttributeError, OSError, ValueError):
        return True  # it is no file
    return bool(poll.poll(0))


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
            "%s %s %s%s %d %.1f ms%s",
            _show(client[0]) if client else "-",
            exchange.verb,
            _show(exchange.path),
            self._about,
            exchange.status or _NOT_ANSWERED,
            (time.perf_counter() - self._started) * 1000,
            _reason(exchange.refusal),
        )


def _reason(refusal: bytes | None) -> str:
    """Return why a request was refused, as the end of its line."""
    try:
        said = loads(refusal) if refusal else None
    except JSONDecodeError:
        return ""
    error = said.get("error") if type(said) is dict else None
    message = error.get("message") if type(error) is dict else None
    if type(message) is not str:
        return ""
    shown = message[:REASON_SHOWN] + ("..." if len(message) > REASON_SHOWN else "")
    return f": {shown if shown.isascii() and shown.isprintable() else ascii(shown)}"


def _without_query(text: str) -> str:
    # A URI may carry credentials there.
    return text.partition("?")[0].partition("#")[0]


def _show(text: str) -> str:
    shown = text[:SHOWN] + ("..." if len(text) > SHOWN else "")
    is_plain = shown.isascii() and shown.isprintable() and " " not in shown
    return shown if is_plain else ascii(shown)
