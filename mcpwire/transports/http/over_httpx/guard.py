"""Reading along: whether a connection may be trusted with the next request.

httpcore takes what is left over behind one response for the beginning of the next, and
reads forgivingly. So the bytes of HTTP/1 also go through the strict reader of the
direct engines: what that refuses is refused here, and a connection on which more or
less came than one response is not used again (RFC 9112 section 11).
"""

from __future__ import annotations

from importlib.util import find_spec
from math import inf
from typing import TYPE_CHECKING

from mcpwire.errors import MCPError

if TYPE_CHECKING:
    from mcpwire.limits import Limits
    from mcpwire.protocol.http.framing import ResponseReader

__all__ = ["Guard", "StaleError", "UnwantedError"]


class StaleError(Exception):
    """The connection must not be used again; nothing was written to it."""


class UnwantedError(Exception):
    """Nobody waits for the exchange any more."""


class _Sink:
    """Takes what httpx feeds to the reply."""

    is_over = False

    def __init__(self) -> None:
        self.has_body = False

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Leave it to httpx."""

    def data(self, chunk: bytes) -> None:
        """Take note that an answer may have been read already."""
        self.has_body = True

    def end(self) -> None:
        """Leave it to httpx."""


class Guard:
    """Reads along on one connection.

    Args:
        limits: `Limits.head` counts here.
        is_strict: Whether to refuse what is no acceptable HTTP; else it only ends the
            use of the connection. A user's client may read more than we do.
    """

    def __init__(self, limits: Limits, *, is_strict: bool) -> None:
        self._is_strict = is_strict
        self._reader = _reader(limits)
        self._sink = _Sink()
        self._was_used = self._is_spoilt = False
        self._error: MCPError | None = None
        self._until = inf

    def begin(self, now: float) -> None:
        """Take note that a request is about to be written.

        Raises:
            StaleError: It must not be.
        """
        if self._was_used and not self.may_reuse(now):
            raise StaleError
        self._was_used = True
        self._sink = _Sink()
        if self._reader is not None:
            self._reader.expect(self._sink)

    def check(self) -> None:
        """Raise what was found in the last bytes, behind what may be the answer."""
        if self._error is not None:
            raise self._error

    def feed(self, data: bytes, now: float) -> None:
        """Read what came.

        Raises:
            RemoteProtocolError: It is not acceptable HTTP.
            MessageTooLarge: The head is over its limit.
        """
        reader = self._reader
        if reader is None or not self._was_used:
            return
        try:
            reader.feed(data)
        except MCPError as error:
            self._reader = None
            self._is_spoilt = True
            if self._is_strict and not self._sink.has_body:
                raise
            if self._is_strict:
                self._error = error
            return
        if reader.is_complete:
            self._until = now + reader.keep_alive_s

    @property
    def has_all(self) -> bool | None:
        """Whether all of the response has come; ``None`` where nobody reads along."""
        return None if self._reader is None else self._reader.is_complete

    def may_reuse(self, now: float) -> bool:
        """Tell whether another request may follow."""
        reader = self._reader
        if reader is None:
            return not self._is_spoilt
        return reader.is_complete and reader.may_reuse and now < self._until


def _reader(limits: Limits) -> ResponseReader | None:
    if find_spec("httptools") is None:
        return None
    from mcpwire.protocol.http.framing import ResponseReader

    return ResponseReader(limits)
