"""Pages of a merged list, by cursors that say of which list they are.

A cursor holds a mark of the list and a place in it. So it works as long as the list
does not change, in every process, and is refused as soon as it does.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcpwire.errors import InvalidParams

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["mark_of", "page_of"]

T = TypeVar("T")

MARK_BYTES: Final = 9
PLACE_BYTES: Final = 4


def mark_of(texts: Iterable[bytes]) -> bytes:
    """Return what tells one list of texts from another."""
    digest = blake2b(digest_size=MARK_BYTES)
    for text in texts:
        digest.update(b"%d:" % len(text))
        digest.update(text)
    return digest.digest()


def page_of(
    items: Sequence[T], cursor: Any, *, size: int, mark: bytes
) -> tuple[Sequence[T], str | None]:
    """Return one page of a list, and the cursor of the next.

    Args:
        items: The whole list.
        cursor: Where the page begins; ``None``: at the list's beginning.
        size: How many items a page has.
        mark: What tells this list from others.

    Raises:
        InvalidParams: The cursor is none, or of another list (2025-11-25
            server/utilities/pagination, "Error Handling": -32602).
    """
    start = 0 if cursor is None else _place(cursor, mark, len(items))
    end = start + size
    following = None if end >= len(items) else _cursor(mark, end)
    return items[start:end], following


def _cursor(mark: bytes, place: int) -> str:
    return urlsafe_b64encode(mark + place.to_bytes(PLACE_BYTES, "big")).decode()


def _place(cursor: Any, mark: bytes, count: int) -> int:
    raw = b""
    if type(cursor) is str and cursor.isascii():
        try:
            raw = urlsafe_b64decode(cursor)
        except ValueError:
            raw = b""
    if len(raw) != MARK_BYTES + PLACE_BYTES:
        raise InvalidParams("params.cursor is no cursor of this server")
    if raw[:MARK_BYTES] != mark:
        raise InvalidParams("params.cursor is of a list that has changed since")
    place = int.from_bytes(raw[MARK_BYTES:], "big")
    if not 0 < place < count or _cursor(mark, place) != cursor:
        raise InvalidParams("params.cursor is no cursor of this server")
    return place
