"""HTTP header names and values.

In revision 2026-07-28 a value that is not valid header text becomes ``=?base64?...?=``.
"""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING, Final

from mcpwire.errors import InvalidMessage, LocalProtocolError

if TYPE_CHECKING:
    from mcpwire.wire.json import Json

# 2026-07-28 streamable-http, "Case Sensitivity": only the values are case-sensitive.
PROTOCOL_VERSION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
SESSION_ID: Final = "Mcp-Session-Id"
LAST_EVENT_ID: Final = "Last-Event-ID"
PARAM_PREFIX: Final = "Mcp-Param-"

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, 5.6.2: 1*tchar
_FIELD_VALUE: Final = re.compile(r"(?:[!-~](?:[ \t!-~]*[!-~])?)?")  # RFC 9110, 5.5
_VISIBLE: Final = re.compile(r"[!-~]+")
_NUMBER: Final = re.compile(r"-?[0-9]{1,17}(?:\.[0-9]{0,17})?")

_ENCODED_PREFIX: Final = "=?base64?"
_ENCODED_SUFFIX: Final = "?="
_ENCODED_VALUE: Final = re.compile(r"=\?base64\?(.*)\?=")  # no match for "=?base64?="


def is_token(text: str) -> bool:
    """Return whether a text is a valid header name or a valid part of one."""
    return _TOKEN.fullmatch(text) is not None


def is_field_value(text: str) -> bool:
    """Return whether a text is a valid header value without encoding."""
    return _FIELD_VALUE.fullmatch(text) is not None


def is_visible_ascii(text: str) -> bool:
    """Return whether a text is one or more visible ASCII characters."""
    return _VISIBLE.fullmatch(text) is not None


def media_type(content_type: str | None) -> str:
    """Return the media type of a Content-Type in lower case, without parameters."""
    return (content_type or "").partition(";")[0].strip(" \t").lower()


def encode_value(text: str) -> str:
    """Return the header value for a text, Base64-encoded if necessary."""
    is_plain = text.isascii() and text.isprintable() and text == text.strip(" ")
    if is_plain and not (
        text.startswith(_ENCODED_PREFIX) and text.endswith(_ENCODED_SUFFIX)
    ):
        return text
    try:
        encoded = binascii.b2a_base64(text.encode(), newline=False)
    except UnicodeEncodeError as error:
        raise LocalProtocolError(
            f"a header's value must be Unicode, got {text!r}"
        ) from error
    return _ENCODED_PREFIX + encoded.decode("ascii") + _ENCODED_SUFFIX


def decode_value(value: str, *, header: str = "header") -> str:
    """Decode a header value; raise `InvalidMessage` if it is malformed."""
    # RFC 9110, 5.5: surrounding whitespace is not part of the value.
    value = value.strip(" \t")
    if not is_field_value(value):
        raise InvalidMessage(header, expected="visible ASCII", got=repr(value[:80]))
    match = _ENCODED_VALUE.fullmatch(value)
    if match is None:
        return value
    try:
        return binascii.a2b_base64(match[1], strict_mode=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidMessage(
            header, expected="Base64 of UTF-8 text", got=repr(value[:80])
        ) from error


def header_matches(value: str | None, body: Json, *, header: str = "header") -> bool:
    """Return whether a received header (``None``: absent) equals the value in the body.

    A header without a value in the body is a mismatch: it may have affected routing.
    """
    if value is None or body is None:
        return value is None and body is None
    text = decode_value(value, header=header)
    if isinstance(body, bool):
        return text == ("true" if body else "false")
    if isinstance(body, (int, float)):
        return _NUMBER.fullmatch(text) is not None and float(text) == body
    return bool(text == body)


# About thirty years; larger values are capped to avoid overflow.
MAX_RETRY_AFTER_S: Final = 1e9

_SECONDS: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?")
# RFC 9110, 5.6.7: any of the three formats, with a time in hours, minutes, seconds.
_DATE: Final = re.compile(r"[A-Z][a-z]{2}[A-Za-z0-9,: -]*:[0-9]{2}:[A-Za-z0-9 ]*")
_MAX_RETRY_AFTER_CHARS: Final = 40


def parse_retry_after(value: str | None, now_wall: float) -> float | None:
    """Return the delay of a `Retry-After` header in seconds; ``None`` if malformed.

    The header holds seconds or a date (RFC 9110, 10.2.3); a date is compared with
    `now_wall`, a Unix time. Fractional seconds are accepted.
    """
    text = (value or "").strip(" \t")
    if _SECONDS.fullmatch(text):
        return min(float(text), MAX_RETRY_AFTER_S)
    if len(text) > _MAX_RETRY_AFTER_CHARS or not _DATE.fullmatch(text):
        return None
    from datetime import UTC
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
    except (IndexError, OverflowError, TypeError, ValueError):  # not documented
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return min(max(date.timestamp() - now_wall, 0.0), MAX_RETRY_AFTER_S)
