"""What an answer of an authorization server says, before any RFC's own rules.

Whatever it says is somebody else's text: it may hold what was sent there, and it may be
meant for a terminal. Only codes, short and printable, get into messages.
"""

from __future__ import annotations

import re
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.wire.json import JSONDecodeError, loads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.auth.steps import Answer

__all__ = [
    "check_available",
    "describe",
    "read_code",
    "read_description",
    "read_object",
    "retry_after",
]

# RFC 6749 section 5.2 allows more; these are what codes are made of, extensions that
# are URIs included, and they cannot hold a sentence.
_CODE: Final = re.compile(r"[A-Za-z0-9_.:/\-]{1,64}")
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_LONGEST_DESCRIPTION: Final = 200
_SHORTEST_SECRET: Final = 6
"""Shorter ones are also parts of words."""

_SECONDS: Final = re.compile(r"[0-9]{1,9}")
_DATE: Final = re.compile(r"[A-Z][a-z]{2}[A-Za-z0-9,: -]{10,30}")

_UNAVAILABLE: Final = frozenset({408, 425, 429})
"""Statuses below 500 that say: not now (RFC 9110, RFC 8470, RFC 6585)."""


def check_available(answer: Answer, what: str, now: float) -> None:
    """Check that an answer is one: that whoever gave it could.

    Raises:
        AuthTemporarilyUnavailable: It could not, and may be able to later.
    """
    if answer.status >= 500 or answer.status in _UNAVAILABLE:
        raise AuthTemporarilyUnavailable(
            f"{what} cannot answer now (HTTP {answer.status})",
            retry_after=retry_after(answer, now),
            status=answer.status,
        )


def retry_after(answer: Answer, now: float) -> float | None:
    """Return the seconds that an answer asks to wait (RFC 9110 section 10.2.3)."""
    text = answer.fields.get("retry-after", "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    if not _DATE.fullmatch(text):
        return None
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
    except (IndexError, TypeError, ValueError):  # its parser is not sure how to fail
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(date.timestamp() - now, 0.0)


def read_object(answer: Answer) -> dict[str, Any] | None:
    """Return the JSON object that an answer holds; ``None``: it holds none."""
    try:
        value = loads(answer.body)
    except JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def describe(answer: Answer) -> str:
    """Say in a few words what an answer was that holds no JSON object."""
    kind = answer.fields.get("content-type", "").partition(";")[0].strip().lower()
    kind = kind if _CODE.fullmatch(kind) else "no content type"
    return f"HTTP {answer.status}, {len(answer.body)} bytes, {kind}"


def read_code(value: object) -> str | None:
    """Return an error code as messages may show it; ``None``: it is none."""
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def read_description(value: object, secrets: Iterable[str] = ()) -> str | None:
    """Return what an error adds for people, in printable characters, without secrets.

    Args:
        value: The member that holds it.
        secrets: What was sent there and must not come back in a text.
    """
    if not isinstance(value, str) or not value.strip():
        return None
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            value = value.replace(secret, "***")
    text = _UNPRINTABLE.sub("?", value).strip()
    is_long = len(text) > _LONGEST_DESCRIPTION
    return f"{text[:_LONGEST_DESCRIPTION]}..." if is_long else text
