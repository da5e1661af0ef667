"""Content in front of a tool's result, between texts with a token to confirm it.

::

    [text: opening(token)] [the rows' blocks] [text: closing(token)] [original content]

This module both writes the tokens and finds them again, so that the two always agree. A
token is opaque; `tokens_in` finds only UUIDs in lower case, which have one spelling.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Block = Mapping[str, Any]
    """A content block, as a plain dict."""

NOTIFICATIONS: Final = "org.pypi.pymcpwire/notifications"
"""Key of a result's `_meta` for the token and the count of the added blocks."""

DEFAULT_TAG: Final = "system-reminder"

STYLES: Final = ("flat", "separated")
"""Rows one after the other, or with an empty line between them."""

_SEPARATOR: Final = {"type": "text", "text": "\n\n"}

_TAG: Final = re.compile(r"[a-z][a-z0-9-]*")
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


@attrs.frozen
class PendingBatch:
    """Content to deliver, and the token that confirms its delivery."""

    token: str

    rows: Sequence[Sequence[Block]]
    """Rows of content blocks, the oldest first."""


def check_tag(tag: object) -> str:
    """Return a tag; raise `ValueError` if it is invalid."""
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise ValueError(f"a tag must be lower-case letters, 0-9 and -, got {tag!r}")
    return tag


def opening(token: str, tag: str = DEFAULT_TAG) -> str:
    """Return the text before the content of a token."""
    return f"<{tag}-{token}>\n"


def closing(token: str, tag: str = DEFAULT_TAG) -> str:
    """Return the text after the content of a token."""
    return f"\n</{tag}-{token}>\n\n"


def tokens_in(text: str, tag: str = DEFAULT_TAG) -> list[str]:
    """Return the tokens in the openings of a text, in order; closings are ignored."""
    return re.findall(rf"<{re.escape(tag)}-({_UUID})>", text)


def token_of(result: Mapping[str, Any]) -> str | None:
    """Return the token in a result's `_meta`, which no text can forge, if any."""
    meta = result.get("_meta")
    notifications = meta.get(NOTIFICATIONS) if type(meta) is dict else None
    token = notifications.get("token") if type(notifications) is dict else None
    return token if type(token) is str else None


def can_splice(result: Mapping[str, Any]) -> bool:
    """Return whether a result is complete and has a list of content."""
    is_complete = result.get("resultType", "complete") == "complete"
    return is_complete and type(result.get("content")) is list


def splice(
    result: Mapping[str, Any],
    batch: PendingBatch,
    *,
    style: str = "flat",
    tag: str = DEFAULT_TAG,
) -> dict[str, Any]:
    """Return a result with a batch in front of its content."""
    rows = [row for row in batch.rows if row]
    if not rows:
        return dict(result)
    blocks: list[Block] = []
    for row in rows:
        if blocks and style == "separated":
            blocks.append(_SEPARATOR)
        blocks.extend(row)
    token = batch.token
    content = [
        {"type": "text", "text": opening(token, tag)},
        *blocks,
        {"type": "text", "text": closing(token, tag)},
        *result["content"],
    ]
    notifications = {"token": token, "count": sum(map(len, rows))}
    meta = {**(result.get("_meta") or {}), NOTIFICATIONS: notifications}
    return {**result, "content": content, "_meta": meta}
