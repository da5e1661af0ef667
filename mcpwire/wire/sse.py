"""Server-sent events: decoder and encoder according to the HTML standard.

The decoder works on bytes. A line ends at LF, CR or CRLF, also across chunks. Only an
empty line ends an event: an event that the end of the stream cuts off is discarded, as
the standard requires, because its data may be incomplete.

::

    bytes ──▶ lines ──▶ field buffers ──empty line──▶ event, if it has a data line
                         data, event     are reset
                         id              is kept
"""

from __future__ import annotations

from typing import Final

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.wire.jsonrpc import LineDecoder

_CARRIAGE_RETURN: Final = 0x0D  # `int in bytes` is far faster than `bytes in bytes`
_DATA_PREFIX_LENGTH: Final = len(b"data: ")
_MAX_RETRY_MS: Final = 10**12  # about thirty years; larger values are capped


@attrs.frozen
class SSEEvent:
    """One event of a stream."""

    event: str
    """The event type; ``message`` if the stream named none."""

    data: bytes
    """The data lines, joined by LF; empty in a priming event."""

    id: str
    """The last event id of the stream as of this event; ``""`` means none."""

    retry: int | None = None
    """The reconnection time in milliseconds that this event set."""


class SSEDecoder:
    """Splits a byte stream into events of at most `limit` bytes of data each.

    A byte order mark at the start is dropped, unless the stream `has_started` already.

    Attributes:
        overflow: Whether an event or a line exceeded the limit. The events before it
            are returned, and no further ones.
        last_event_id: The id to resume from: the last id that a complete event or a
            complete block without data has set; ``""`` means none.
        retry: The last reconnection time of the stream, in milliseconds.
    """

    def __init__(self, limit: int, *, has_started: bool = False) -> None:
        self.overflow = False
        self.last_event_id = ""
        self.retry: int | None = None
        self._limit = limit
        self._lines = LineDecoder(limit + _DATA_PREFIX_LENGTH)
        if has_started:
            self._lines.feed(b"\n")  # leaves the start, where a mark is dropped
        self._after_cr = False
        self._data: bytes | bytearray | None = None
        self._event = ""
        self._id = ""
        self._event_retry: int | None = None

    def feed(self, data: bytes) -> list[SSEEvent]:
        """Add received bytes and return the events that they complete."""
        events: list[SSEEvent] = []
        if self._after_cr or _CARRIAGE_RETURN in data:
            data = self._unify_newlines(data)
        for line in self._lines.feed(data):
            if line:
                self._process_line(line)
            else:
                self._end_event(events)
            if self.overflow:
                return events
        if self._lines.overflow:
            self._stop()
        return events

    def _unify_newlines(self, data: bytes) -> bytes:
        if self._after_cr and data:
            # The LF of a split CRLF: its CR has already ended the line.
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if _CARRIAGE_RETURN in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _process_line(self, line: bytes | bytearray) -> None:
        if line.startswith(b"data: "):
            if type(line) is bytes:
                self._add_data(line[_DATA_PREFIX_LENGTH:])
            else:  # a memoryview avoids a second copy of a large line
                self._add_data(bytes(memoryview(line)[_DATA_PREFIX_LENGTH:]))
            return
        # A comment has an empty field name; unknown fields are ignored.
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._add_data(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():  # bytes.isdigit: ASCII only
            digits = value.lstrip(b"0") or b"0"
            is_long = len(digits) > len(str(_MAX_RETRY_MS))
            milliseconds = _MAX_RETRY_MS if is_long else int(digits)
            self.retry = self._event_retry = min(milliseconds, _MAX_RETRY_MS)

    def _add_data(self, value: bytes | bytearray) -> None:
        if self._data is None:
            self._data = value
        else:
            # A list of lines would use eight bytes per empty line.
            if isinstance(self._data, bytes):
                self._data = bytearray(self._data)
            self._data += b"\n"
            self._data += value
        if len(self._data) > self._limit:
            self._stop()

    def _end_event(self, events: list[SSEEvent]) -> None:
        self.last_event_id = self._id
        if self._data is not None:
            events.append(
                SSEEvent(
                    self._event or "message",
                    bytes(self._data),
                    self._id,
                    self._event_retry,
                )
            )
        self._data = None
        self._event = ""
        self._event_retry = None

    def _stop(self) -> None:
        self.overflow = True
        self._data = None
        self._lines.close()


def encode_event(
    data: bytes,
    *,
    event: str | None = None,
    id: str | None = None,
    retry: int | None = None,
) -> bytes:
    """Return an event as bytes; with empty data it is a priming event."""
    if b"\r" in data:
        raise LocalProtocolError("an event's data cannot contain a carriage return")
    lines = []
    if event:
        lines.append(b"event: " + _encode_field("type", event))
    if id is not None:
        lines.append(b"id: " + _encode_field("id", id))
    if retry is not None:
        if retry < 0:
            raise LocalProtocolError(f"retry must not be negative, got {retry!r}")
        lines.append(b"retry: %d" % retry)
    lines.append(b"data: " + data.replace(b"\n", b"\ndata: "))
    return b"\n".join(lines) + b"\n\n"


def _encode_field(what: str, text: str) -> bytes:
    if any(character in text for character in "\r\n\0"):
        raise LocalProtocolError(f"an event's {what} must be one line, got {text!r}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(
            f"an event's {what} must be Unicode, got {text!r}"
        ) from error
