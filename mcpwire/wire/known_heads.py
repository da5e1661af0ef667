"""Responses whose head was read before, told by their bytes: servers repeat theirs.

What is remembered is what a parser made of a head and its user accepted. Only a whole
response is found here, of one body in one piece behind such a head; whatever else it
may be is left to the parser. A number counts where it is written as we would write it,
and so read by everybody as we read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    Fields = dict[bytes, bytes]

__all__ = ["KnownHeads"]

HEADS: Final = 16
"""How many are remembered: a server that dates its responses has one for each second.
"""

STRANGERS: Final = 64
"""After so many in a row that nobody had seen nothing is looked for any more: there are
servers that number their responses."""

HEAD_BYTES: Final = 2_048
"""How long a head is that is remembered, at most."""

RESPONSE_BYTES: Final = 16_384
"""How long a response is that is found, at most: it is copied for that."""

_LINE_END: Final = b"\r\n"
_END_OF_HEAD: Final = b"\r\n\r\n"
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"  # and the end of the chunk before it
_START: Final = b"HTTP/1.1 200 "


class KnownHeads:
    """Heads of responses with status 200 and a body, as one connection brings them."""

    __slots__ = ("_head", "_known", "_strangers_left")

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Fields, float, int | None] | None] = {}
        """Fields, for how long to keep the connection, the length (none of chunks), by
        the bytes before the empty line; ``None`` where these came once."""
        self._head = b""
        self._strangers_left = STRANGERS

    def find(self, view: bytes | memoryview) -> tuple[Fields, float, bytes] | None:
        """Return fields, seconds to keep the connection, and body of a response.

        ``None``: these bytes are something else, or something more, or new.
        """
        if not self._strangers_left or len(view) > RESPONSE_BYTES:
            self._head = b""
            return None
        head, _, body = bytes(view).partition(_END_OF_HEAD)
        known = self._known.get(head)
        if known is None:
            self._head = head
            return None
        self._head = b""
        self._strangers_left = STRANGERS
        fields, keep_alive_s, length = known
        if length is not None:
            return (fields, keep_alive_s, body) if len(body) == length else None
        size, _, rest = body.partition(_LINE_END)
        length = len(rest) - len(_LAST_CHUNK)
        if (
            length > 0
            and (size == b"%x" % length or size == b"%X" % length)
            and rest.endswith(_LAST_CHUNK)
        ):
            return fields, keep_alive_s, rest[:length]
        return None

    def learn(self, size: int, fields: Fields, keep_alive_s: float) -> None:
        """Take note that what was looked for last was a response of so many bytes.

        It was read to its end and accepted, and nothing stood behind it. That a head
        came twice shows that it is worth keeping.
        """
        head, known = self._head, self._known
        if not head.startswith(_START) or len(head) > HEAD_BYTES:
            return
        if head not in known:
            self._strangers_left -= 1
            if len(known) >= HEADS:
                known.clear()
            known[head] = None
            return
        length = None
        if b"transfer-encoding" not in fields:
            length = size - len(head) - len(_END_OF_HEAD)
            if not length or fields.get(b"content-length") != b"%d" % length:
                return
        # No line break that a parser may see or not: the head ends where it ends here.
        if head.count(_LINE_END) == head.count(b"\n") == head.count(b"\r"):
            known[head] = fields, keep_alive_s, length
