"""Newline framing of a byte stream: one message, one line.

A line ends at byte 0x0A and nowhere else: U+2028, U+2029 and U+0085 are legal inside
JSON strings, and so is a carriage return between JSON tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Line", "LineDecoder"]

Line: TypeAlias = bytes | bytearray

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class LineDecoder:
    """Cuts a byte stream into lines, each at most `limit` bytes before its newline.

    Each byte is looked at and copied a bounded number of times, however the stream is
    cut into chunks. A line comes without its newline and may be blank; a carriage
    return before the newline is left on, as JSON counts it as white space. A byte order
    mark at the start of the stream is dropped. What came in several chunks is given
    away as the bytearray that it was gathered in, which spares a copy.

    Attributes:
        overflow: Whether a line passed the limit. Lines before it have been returned;
            the decoder returns nothing more.
    """

    __slots__ = ("_at_start", "_limit", "_limit_at_once", "_partial", "overflow")

    def __init__(self, limit: int) -> None:
        self.overflow = False
        self._limit = limit
        self._partial = bytearray()
        self._at_start = True
        self._limit_at_once = -1  # for a chunk that is one line, in the state we are in

    def feed(self, data: bytes) -> Sequence[Line]:
        """Take the next bytes and return the lines that they complete."""
        # Nearly every read of a request-response peer is exactly one line.
        line, newline, rest = data.partition(b"\n")
        if newline and not rest and len(line) <= self._limit_at_once:
            return (line,)
        if self.overflow:
            return ()
        if not (newline or self._at_start):
            # A part of a long line. Splitting looks at each byte by itself, which for
            # large messages takes as long as all the rest.
            self._partial += data
            self._limit_at_once = -1
            return self._stop_at_overflow([])
        if self._at_start:
            data = self._skip_mark(data)
        # No line can be longer than this: mostly it proves that none is over the limit.
        longest = len(self._partial) + len(data)
        lines: list[Line] = []
        lines += data.split(b"\n")
        tail = lines.pop()
        if lines and self._partial:
            self._partial += lines[0]
            lines[0] = self._partial
            self._partial = bytearray()
        self._partial += tail
        if longest > self._limit:
            lines = self._stop_at_overflow(lines)
        is_waiting = self._partial or self._at_start or self.overflow
        self._limit_at_once = -1 if is_waiting else self._limit
        return lines

    def finish(self) -> Sequence[Line]:
        """Return the last line, at the end of the stream, if it lacks its newline."""
        line, self._partial = self._partial, bytearray()
        return (line,) if line else ()

    def _skip_mark(self, data: bytes) -> bytes:
        """Return the stream so far without its mark; nothing while that is open."""
        data = bytes(self._partial) + data
        self._partial.clear()
        if len(data) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(data):
            return data
        self._at_start = False
        return data.removeprefix(_BYTE_ORDER_MARK)

    def _stop_at_overflow(self, lines: list[Line]) -> list[Line]:
        for index, line in enumerate(lines):
            if len(line) > self._limit:
                return self._stop(lines[:index])
        if len(self._partial) > self._limit:
            return self._stop(lines)
        return lines

    def _stop(self, lines: list[Line]) -> list[Line]:
        self.overflow = True
        self._partial = bytearray()
        return lines
