"""HTTP header names and values: what may stand in one, and what MCP mirrors into them.

At 2026-07-28 selected parts of a request's body are mirrored into headers, so that
intermediaries can route without parsing it, and the server compares both. A value that
is no plain header text travels as ``=?base64?...?=``.
"""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import InvalidMessage, LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mcpwire.wire.json import Json

__all__ = [
    "LAST_EVENT_ID",
    "METHOD",
    "NAME",
    "PARAM_PREFIX",
    "PROTOCOL_VERSION",
    "SESSION_ID",
    "ParamHeader",
    "decode_value",
    "encode_value",
    "find_param_headers",
    "is_field_value",
    "is_session_id",
    "is_token",
    "media_type",
    "mirror_params",
    "mirrors",
    "parse_retry_after",
]

# 2026-07-28 streamable-http, "Case Sensitivity": names in any case, values exactly.
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

_OPENING: Final = "=?base64?"
_CLOSING: Final = "?="
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=")  # the marks do not overlap

_SAFE_INTEGER: Final = 2**53 - 1  # the largest integer that JavaScript counts to


def is_token(text: str) -> bool:
    """Tell whether the text can be a header's name, or the variable part of one."""
    return _TOKEN.fullmatch(text) is not None


def is_field_value(text: str) -> bool:
    """Tell whether the text can be a header's value exactly as it stands."""
    return _FIELD_VALUE.fullmatch(text) is not None


def is_session_id(text: str) -> bool:
    """Tell whether the text can be a session id: visible ASCII, at least one of it."""
    # 2025-11-25 basic/transports, "Session Management": 0x21 to 0x7E only.
    return _VISIBLE.fullmatch(text) is not None


def media_type(content_type: str | None) -> str:
    """Return a Content-Type's media type in lower case, without its parameters."""
    return (content_type or "").partition(";")[0].strip(" \t").lower()


def encode_value(text: str) -> str:
    """Return the text as a header's value, in the Base64 form where it needs one."""
    is_plain = text.isascii() and text.isprintable() and text == text.strip(" ")
    if is_plain and not (text.startswith(_OPENING) and text.endswith(_CLOSING)):
        return text
    try:
        encoded = binascii.b2a_base64(text.encode(), newline=False)
    except UnicodeEncodeError as error:
        raise LocalProtocolError(
            f"a header's value must be Unicode, got {text!r}"
        ) from error
    return _OPENING + encoded.decode("ascii") + _CLOSING


def decode_value(value: str, *, header: str = "header") -> str:
    """Return the text that a header's value stands for, or raise `InvalidMessage`."""
    # RFC 9110, 5.5: optional white space around it is not part of the value.
    value = value.strip(" \t")
    if not is_field_value(value):
        raise InvalidMessage(header, expected="visible ASCII", got=repr(value[:80]))
    match = _ENCODED.fullmatch(value)
    if match is None:
        return value
    try:
        return binascii.a2b_base64(match[1], strict_mode=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidMessage(
            header, expected="Base64 of UTF-8 text", got=repr(value[:80])
        ) from error


@attrs.frozen
class ParamHeader:
    """A tool's argument that is mirrored into a header."""

    name: str
    """The header's whole name."""

    path: tuple[str, ...]
    """Where the argument stands: one property name per level."""


_ANNOTATION: Final = "x-mcp-header"
_MIRRORED_TYPES: Final = frozenset({"string", "integer", "boolean"})

_HEADERS_MAX: Final = 256  # of one tool; servers refuse heads long before that

# What stands under these keywords of JSON Schema is data, or a map from free names.
_DATA_KEYWORDS: Final = frozenset({"const", "default", "enum", "example", "examples"})
_MAP_KEYWORDS: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)


@attrs.frozen(eq=False)
class _Place:
    """The position of a subschema; linked, so a hostile schema costs linear memory."""

    parent: _Place | None
    keyword: str
    name: str | None
    is_on_chain: bool
    """Whether nothing but ``properties`` leads here."""

    def trace(self) -> list[_Place]:
        """Return the steps from the root to here."""
        steps = []
        place: _Place | None = self
        while place is not None:
            steps.append(place)
            place = place.parent
        return steps[::-1]

    def spell(self) -> str:
        """Return the steps as text of a length that suits an error message."""
        names = (n for step in self.trace() for n in (step.keyword, step.name) if n)
        return ".".join(name[:40] for name in names)[:400]


def find_param_headers(input_schema: Json) -> tuple[ParamHeader, ...]:
    """Return which arguments of a tool are mirrored, in the schema's order.

    Only properties that are reached through nothing but ``properties`` can be; their
    type must be string, integer or boolean, or a list of those and null (our reading).
    An invalid annotation makes the tool invalid: `InvalidMessage` with its path.
    """
    found: dict[str, ParamHeader] = {}
    pending = [(input_schema, _Place(None, "inputSchema", None, is_on_chain=True))]
    while pending:
        schema, place = pending.pop()
        if isinstance(schema, dict):
            if _ANNOTATION in schema:
                header = _read_annotation(schema, place)
                if header.name.lower() in found:
                    raise _invalid(place, "unique name", schema[_ANNOTATION])
                if len(found) == _HEADERS_MAX:
                    raise _invalid(place, f"at most {_HEADERS_MAX} of them", "more")
                found[header.name.lower()] = header
            # The last one is taken first.
            pending += reversed(list(_subschemas(schema, place)))
        elif isinstance(schema, list):
            element = _Place(place, "[]", None, is_on_chain=False)
            pending += [(item, element) for item in schema]
    return tuple(found.values())


def _read_annotation(schema: dict[str, Any], place: _Place) -> ParamHeader:
    name = schema[_ANNOTATION]
    if not isinstance(name, str) or not is_token(name):
        raise _invalid(place, "RFC 9110 token", name)
    if not place.is_on_chain or place.parent is None:
        raise _invalid(place, "no annotation outside a chain of properties", name)
    kind = schema.get("type")
    if not _is_mirrored_type(kind):
        raise _invalid(place, "type string, integer or boolean", kind)
    path = tuple(step.name for step in place.trace() if step.name is not None)
    return ParamHeader(PARAM_PREFIX + name, path)


def _is_mirrored_type(kind: Json) -> bool:
    kinds = [each for each in kind if each != "null"] if type(kind) is list else [kind]
    names = [each for each in kinds if isinstance(each, str)]
    return kinds == names != [] and _MIRRORED_TYPES.issuperset(names)


def _invalid(place: _Place, expected: str, got: Json) -> InvalidMessage:
    shown = repr(got[:40]) if isinstance(got, str) else type(got).__name__
    return InvalidMessage(
        f"{place.spell()}.{_ANNOTATION}", expected=expected, got=shown
    )


def _subschemas(schema: dict[str, Any], place: _Place) -> Iterator[tuple[Json, _Place]]:
    for keyword, value in schema.items():
        if keyword in _DATA_KEYWORDS:
            continue
        if keyword in _MAP_KEYWORDS and isinstance(value, dict):
            on_chain = place.is_on_chain and keyword == "properties"
            for name, subschema in value.items():
                yield subschema, _Place(place, keyword, name, is_on_chain=on_chain)
        else:
            yield value, _Place(place, keyword, None, is_on_chain=False)


def mirror_params(
    headers: Iterable[ParamHeader], arguments: Mapping[str, Json]
) -> list[tuple[str, str]]:
    """Return the names and encoded values that go with a call's arguments."""
    mirrored = []
    for header in headers:
        value = _value_at(arguments, header.path)
        if value is not None:
            mirrored.append((header.name, encode_value(_spell(value, header))))
    return mirrored


def _value_at(arguments: Json, path: tuple[str, ...]) -> Json:
    for name in path:
        if not isinstance(arguments, dict):
            return None
        arguments = arguments.get(name)
    return arguments


def _spell(value: Json, header: ParamHeader) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    # To JSON Schema, 42.0 is an integer.
    is_integer = isinstance(value, int) or (
        isinstance(value, float) and value.is_integer()
    )
    if is_integer and -_SAFE_INTEGER <= value <= _SAFE_INTEGER:
        return str(int(value))
    raise LocalProtocolError(
        f"argument {'.'.join(header.path)} is mirrored into {header.name}: it must be "
        "a string, a boolean or an integer within 2**53 - 1, "
        f"got {type(value).__name__}"
    )


def mirrors(value: str | None, body: Json, *, header: str = "header") -> bool:
    """Tell whether a header as received (``None``: absent) says what the body says.

    Values are compared exactly, integers by number. A body without the value asks for
    no header: one that came all the same may have routed the request elsewhere.
    """
    if value is None or body is None:
        return value is None and body is None
    text = decode_value(value, header=header)
    if isinstance(body, bool):
        return text == ("true" if body else "false")
    if isinstance(body, (int, float)):
        return _NUMBER.fullmatch(text) is not None and float(text) == body
    return bool(text == body)


# Some thirty years: a harmless number in place of a larger one.
RETRY_AFTER_MAX_S: Final = 1e9

_SECONDS: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?")
# RFC 9110, 5.6.7, in its three forms: a date, and a time in hours, minutes, seconds.
_DATE: Final = re.compile(r"[A-Z][a-z]{2}[A-Za-z0-9,: -]*:[0-9]{2}:[A-Za-z0-9 ]*")
_RETRY_AFTER_LENGTH: Final = 40


def parse_retry_after(value: str | None, now_wall: float) -> float | None:
    """Return the seconds that a `Retry-After` asks to wait, or ``None``: it says none.

    It holds seconds or a date (RFC 9110, 10.2.3), which is compared with `now_wall`, a
    Unix time; a date in the past is no wait. A fraction of a second is accepted.
    """
    text = (value or "").strip(" \t")
    if _SECONDS.fullmatch(text):
        return min(float(text), RETRY_AFTER_MAX_S)
    if len(text) > _RETRY_AFTER_LENGTH or not _DATE.fullmatch(text):
        return None
    from datetime import UTC
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
    except (IndexError, TypeError, ValueError):  # its parser is not sure how to fail
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return min(max(date.timestamp() - now_wall, 0.0), RETRY_AFTER_MAX_S)
