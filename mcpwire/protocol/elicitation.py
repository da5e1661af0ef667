"""Elicitation: the values that fit a form, and the URLs that a user may be shown.

A form is a flat JSON Schema of few kinds of fields (client/elicitation, "Requested
Schema"). Where JSON Schema or the specification leaves something open:

- A field that the form does not have is refused, unless the form allows it by
  ``additionalProperties``: nobody was shown it.
- An integral float is an integer, as in JSON Schema, and is sent as one.
- ``True`` and ``False`` are no numbers, and no text is ever taken for a number.
- Lengths count code points. Keywords beyond those of the specification (``pattern``,
  ``multipleOf``, ...) are not checked here: the server has the last word.
- Of a field of a kind that no revision knows, only its presence is checked, and that
  its value is one that an answer may hold at all.

Formats of text are checked strictly and in linear time:

- ``email``: ``local@domain`` in ASCII; the local part is dot-separated atoms, at most
  64 characters; the domain is host labels. Neither quoted local parts nor addresses in
  brackets.
- ``uri``: a scheme, a colon and the characters of RFC 3986, percent signs in pairs of
  hex digits; not what the scheme asks for beyond that.
- ``date``: RFC 3339 full-date, a day that exists.
- ``date-time``: RFC 3339 date-time with its offset; second 60 only where a leap second
  can be.

Nothing here opens or fetches a URL (2025-11-25 client/elicitation, "Safe URL Handling":
clients MUST NOT prefetch, and MUST NOT open without consent). A URL that reaches a
handler is one that every program reads alike; `describe_url` says what is odd about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from math import isfinite
from typing import TYPE_CHECKING, Final, TypeAlias
from unicodedata import category
from unicodedata import name as name_of_character

import attrs

from mcpwire._text import excerpt
from mcpwire.errors import LocalProtocolError
from mcpwire.types.elicitation import (
    BooleanSchema,
    LegacyTitledEnumSchema,
    NumberSchema,
    StringSchema,
    TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema,
    UnknownSchema,
    UntitledMultiSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
)
from mcpwire.versions import REVISIONS
from mcpwire.wire.urls import address_class, is_loopback, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.types import PrimitiveSchemaDefinition, RequestedSchema
    from mcpwire.versions import Revision
    from mcpwire.wire.urls import Url


__all__ = [
    "UrlDescription",
    "Value",
    "check_value",
    "choices_of",
    "describe_url",
    "fill_form",
    "form_defaults",
    "format_problem",
    "url_problem",
]


# --- formats of text


_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL: Final = re.compile(
    rf"(?=[^@]{{1,64}}@.{{1,253}}\Z){_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*"
)
_URI_PART: Final = r"(?:[!$&-;=?-Z\[\]_a-z~]|%[0-9A-Fa-f]{2})*"
_URI: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*:{_URI_PART}(?:#{_URI_PART})?")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATE_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]"
    r"([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_DAY_MINUTES: Final = 24 * 60


def format_problem(text: str, format: str | None) -> str | None:
    """Say what a text should be and is not, or ``None`` where it fits its format."""
    check, name = _FORMATS.get(format or "", (None, ""))
    return None if check is None or check(text) else name


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    try:
        date(*map(int, match.groups()))
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    if match is None or not _is_date(match[1]):
        return False
    if match[4] != "60":
        return True
    # RFC 3339, 5.6: leap seconds end a day of UTC.
    minute = int(match[2]) * 60 + int(match[3])
    offset = int(match[6]) * 60 + int(match[7]) if match[5] else 0
    minute -= -offset if match[5] == "-" else offset
    return minute % _DAY_MINUTES == _DAY_MINUTES - 1


_FORMATS: Final[Mapping[str, tuple[Callable[[str], object], str]]] = {
    "email": (_EMAIL.fullmatch, "an email address"),
    "uri": (_URI.fullmatch, "an absolute URI"),
    "date": (_is_date, "a date such as 2026-07-28"),
    "date-time": (_is_date_time, "a time such as 2026-07-28T12:00:00Z"),
}


# --- forms


Value: TypeAlias = str | int | float | bool | list[str]
"""What a field may hold."""

_LISTS_SINCE: Final = REVISIONS[3]
_EXACT_FLOATS: Final = 2**53
_CHOICES_SHOWN: Final = 8


def check_value(field: PrimitiveSchemaDefinition, value: object) -> Value:
    """Return a field's value in the plain type that JSON has for it."""
    match field:
        case StringSchema():
            return _string(field, value)
        case NumberSchema():
            return _number(field, value)
        case BooleanSchema():
            if not isinstance(value, bool):
                raise ValueError(f"expected True or False, got {excerpt(value)}")
            return value
        case UntitledMultiSelectEnumSchema() | TitledMultiSelectEnumSchema():
            chosen = _texts(value)
            _check_choices(chosen, choices_of(field))
            _check_count(len(chosen), "chosen", field.min_items, field.max_items)
            return chosen
        case UnknownSchema():
            return _anything(value)
    text = _text(value)
    _check_choices([text], choices_of(field))
    return text


def choices_of(field: PrimitiveSchemaDefinition) -> dict[str, str]:
    """Return the values that may be chosen, each with its title."""
    match field:
        case TitledSingleSelectEnumSchema():
            return {option.const: option.title for option in field.one_of}
        case TitledMultiSelectEnumSchema():
            return {option.const: option.title for option in field.items.any_of}
        case UntitledMultiSelectEnumSchema():
            return {value: value for value in field.items.enum}
        case UntitledSingleSelectEnumSchema():
            return {value: value for value in field.enum}
        case LegacyTitledEnumSchema():
            titles = dict(zip(field.enum, field.enum_names or (), strict=False))
            return {value: titles.get(value, value) for value in field.enum}
    return {}


def form_defaults(schema: RequestedSchema) -> dict[str, Value]:
    """Return the fields' defaults that fit them, to fill a form in advance."""
    found = {}
    for name, field in schema.properties.items():
        value = getattr(field, "default", None)
        if value is not None:
            try:
                found[name] = check_value(field, value)
            except ValueError:
                continue
    return found


def fill_form(
    schema: RequestedSchema, content: Mapping[str, object], revision: Revision
) -> dict[str, Value]:
    """Return the content of an accepted form, with the defaults of what it leaves out.

    A field that is ``None`` stays out and does not get its default.
    """
    if not isinstance(content, Mapping):
        raise LocalProtocolError(
            f"elicitation content: expected a mapping, got {type(content).__name__}"
        )
    required = dict.fromkeys(schema.required or ())
    fields = dict.fromkeys(required, _ANYTHING) | schema.properties
    filled: dict[str, Value] = {
        name: value
        for name, value in form_defaults(schema).items()
        if name not in content and not _is_early(value, revision)
    }
    for name, value in content.items():
        if value is None:
            continue
        field = fields.get(name) or _additional(schema, name)
        try:
            filled[name] = check_value(field, value)
        except ValueError as error:
            raise _refused(name, str(error)) from error
        if _is_early(filled[name], revision):
            raise _refused(name, f"lists exist since {_LISTS_SINCE}, not at {revision}")
    for name in required:
        if name not in filled:
            raise _refused(name, "it is required")
    order = (*schema.properties, *filled)
    return {name: filled[name] for name in order if name in filled}


def _additional(schema: RequestedSchema, name: object) -> PrimitiveSchemaDefinition:
    allowed = (schema.extra or {}).get("additionalProperties", False)
    if type(name) is not str or allowed is False or allowed is None:
        raise _refused(name, "the form has no such field")
    return _ANYTHING


def _is_early(value: Value, revision: Revision) -> bool:
    return isinstance(value, list) and revision < _LISTS_SINCE


def _refused(name: object, reason: str) -> LocalProtocolError:
    plain = isinstance(name, str) and name.isidentifier() and len(name) <= 40
    path = f".{name}" if plain else f"[{excerpt(name)}]"
    return LocalProtocolError(f"elicitation content{path}: {reason}")


# --- the kinds of fields


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {excerpt(value)}")
    # A member of an enum is sent as the text that it is.
    return str.__str__(value)


def _string(field: StringSchema, value: object) -> str:
    text = _text(value)
    _check_count(len(text), "characters", field.min_length, field.max_length)
    expected = format_problem(text, field.format)
    if expected is not None:
        raise ValueError(f"{excerpt(text)} is not {expected}")
    return text


def _check_count(count: int, what: str, low: int | None, high: int | None) -> None:
    if low is not None and count < low:
        raise ValueError(f"{count} {what}, the minimum is {low}")
    if high is not None and count > high:
        raise ValueError(f"{count} {what}, the maximum is {high}")


def _number(field: NumberSchema, value: object) -> int | float:
    number = _finite(value)
    if field.type == "integer" and type(number) is float:
        if not number.is_integer():
            raise ValueError(f"{number} is not an integer")
        if abs(number) <= _EXACT_FLOATS:
            number = int(number)
    if field.minimum is not None and number < field.minimum:
        raise ValueError(f"{excerpt(number)} is below the minimum {field.minimum}")
    if field.maximum is not None and number > field.maximum:
        raise ValueError(f"{excerpt(number)} is above the maximum {field.maximum}")
    return number


def _finite(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"expected a number, got {excerpt(value)}")
    if isinstance(value, int):
        return int(value)
    if not isfinite(value):
        raise ValueError(f"{value} is not a number that can be sent")
    return float(value)


def _texts(value: object) -> list[str]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"expected a list of texts, got {excerpt(value)}")
    return [_text(item) for item in value]


def _check_choices(chosen: list[str], choices: Mapping[str, str]) -> None:
    for text in chosen:
        if text not in choices:
            shown = ", ".join(excerpt(each) for each in [*choices][:_CHOICES_SHOWN])
            more = ", ..." if len(choices) > _CHOICES_SHOWN else ""
            raise ValueError(f"{excerpt(text)} is not one of {shown}{more}")


def _anything(value: object) -> Value:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    return _texts(value) if isinstance(value, (list, tuple)) else _finite(value)


_ANYTHING: Final = UnknownSchema({})


# --- URLs to visit


URL_MAX: Final = 8 * 1024
"""Characters; as much of a request line as RFC 9112, section 3, has everybody read."""

_PUNYCODE: Final = "xn--"
_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_LOOKALIKES: Final = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"})
"""Scripts with letters that look like those of another one."""


@attrs.frozen
class UrlDescription:
    """What a user should see of a URL before agreeing to visit it."""

    host: str
    """Where it leads, in ASCII; to be highlighted."""

    unicode_host: str
    """The same as a browser may show it; equal to `host` where that is plain."""

    port: int
    is_https: bool

    is_punycode: bool
    """Whether the host has letters beyond ASCII, which may pass for others."""

    warnings: tuple[str, ...]
    """What to point out, a clause each; in lower case, without a full stop."""


def url_problem(url: str, *, plain_http: bool = False) -> str | None:
    """Return the field and why its URL may not be shown to a user, or ``None``.

    It must be one that `parse_url` reads, so http or https, printable ASCII without
    white space, without a user name or password; at most 8 KiB; and https unless it
    leads to this machine or `plain_http` is set.
    """
    if len(url) > URL_MAX:
        return f"url: it must have at most {URL_MAX} characters, got {len(url)}"
    try:
        parts = parse_url(url)
    except ValueError as error:
        return f"url: {error}"
    if parts.is_secure or plain_http:
        return None
    return f"url: {parts.origin} must be https, as it is not this machine"


def describe_url(url: str) -> UrlDescription:
    """Return what to show of a URL beside the URL itself.

    Raises:
        ValueError: It must not be shown at all.
    """
    parts = parse_url(url)
    labels = [_shown_label(label) for label in parts.host.split(".")]
    is_punycode = any(label.startswith(_PUNYCODE) for label in parts.host.split("."))
    return UrlDescription(
        host=parts.host,
        unicode_host=".".join(labels),
        port=parts.port,
        is_https=parts.scheme == "https",
        is_punycode=is_punycode,
        warnings=tuple(_warnings(parts, labels, is_punycode=is_punycode)),
    )


def _warnings(parts: Url, labels: list[str], *, is_punycode: bool) -> list[str]:
    found = []
    if not parts.is_secure:
        found.append("plain http: everybody in between can read and change everything")
    if is_punycode:
        found.append("the host has letters that may pass for others")
    if any(_mixes_scripts(label) for label in labels):
        found.append("the host mixes letters of different scripts")
    if is_loopback(parts.host):
        found.append("it leads to this machine")
    elif address_class(parts.host) != "name":
        found.append("the host is a bare address")
    if parts.port != _DEFAULT_PORTS[parts.scheme]:
        found.append(f"the port is {parts.port}, which is unusual")
    return found


def _shown_label(label: str) -> str:
    """Return a label of a host as a browser may show it."""
    if not label.startswith(_PUNYCODE):
        return label
    try:
        shown = label.removeprefix(_PUNYCODE).encode("ascii").decode("punycode")
    except (UnicodeError, OverflowError):
        return label
    # What looks like a dot or slash, or turns the direction, would let a host lie.
    is_name = all(
        letter.isalnum() or category(letter)[0] == "M" or letter == "-"
        for letter in shown
    )
    return shown if is_name else label


def _mixes_scripts(label: str) -> bool:
    if label.isascii():
        return False
    scripts = {name_of_character(letter, "").partition(" ")[0] for letter in label}
    return len(scripts & _LOOKALIKES) > 1
