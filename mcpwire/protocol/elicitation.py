"""Elicitation: validation of form values, and of URLs before a user sees them.

A form is a flat JSON Schema with few kinds of fields (client/elicitation, "Requested
Schema"). Decisions where JSON Schema or the specification leaves a choice:

- A value without a field in the form is refused, because the user never saw such a
  field, unless the form allows it by ``additionalProperties``.
- An integral float is an integer, as in JSON Schema, and is sent as an integer.
- ``True``, ``False`` and strings are not numbers.
- Lengths count code points. Keywords that the specification does not define
  (``pattern``, ``multipleOf``, ...) are not checked; the server may check them.
- For a field of an unknown kind, only its presence and the general type of its value
  are checked.

Formats of strings are checked strictly and in linear time:

- ``email``: ``local@domain`` in ASCII; the local part is dot-separated atoms, at most
  64 characters; the domain is host labels. Quoted local parts and addresses in brackets
  are refused.
- ``uri``: a scheme, a colon and the characters of RFC 3986 with complete percent
  triplets; rules of the scheme are not checked.
- ``date``: RFC 3339 full-date, an existing day.
- ``date-time``: RFC 3339 date-time with its offset; second 60 only at a possible leap
  second.

No function opens or fetches a URL (2025-11-25 client/elicitation, "Safe URL Handling":
clients MUST NOT prefetch, and MUST NOT open without consent). Handlers only get URLs
that all programs parse alike; `describe_url` returns warnings about suspicious ones.
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

from mcpwire.errors import LocalProtocolError, excerpt
from mcpwire.types.client_features import (
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

# --- formats of text


_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL: Final = re.compile(
    rf"(?=[^@]{{1,64}}@.{{1,253}}\Z){_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*"
)
_URI_PART: Final = r"(?:[!$&-;=?-Z\[\]_a-z~]|%[0-9A-Fa-f]{2})*"
_URI: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*:{_URI_PART}(?:#{_URI_PART})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]"
    r"([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_DAY_MINUTES: Final = 24 * 60


def format_problem(text: str, format: str | None) -> str | None:
    """Return the expected format of a text that violates it, or ``None``."""
    check, name = _FORMATS.get(format or "", (None, ""))
    return None if check is None or check(text) else name


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    if match is None or not _is_date(match[1]):
        return False
    if match[4] != "60":
        return True
    # RFC 3339, 5.6: a leap second is the last second of a UTC day.
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
"""The value of a field."""

_LISTS_SINCE: Final = REVISIONS[3]
_EXACT_FLOATS: Final = 2**53
_MAX_CHOICES_SHOWN: Final = 8


def check_value(field: PrimitiveSchemaDefinition, value: object) -> Value:
    """Return the value of a field as a plain JSON type, or raise `ValueError`."""
    match field:
        case StringSchema():
            return _check_string(field, value)
        case NumberSchema():
            return _check_number(field, value)
        case BooleanSchema():
            if not isinstance(value, bool):
                raise ValueError(f"expected True or False, got {excerpt(value)}")
            return value
        case UntitledMultiSelectEnumSchema() | TitledMultiSelectEnumSchema():
            chosen = _check_texts(value)
            _check_choices(chosen, choice_titles(field))
            _check_count(len(chosen), "chosen", field.min_items, field.max_items)
            return chosen
        case UnknownSchema():
            return _check_unknown(value)
    text = _check_text(value)
    _check_choices([text], choice_titles(field))
    return text


def choice_titles(field: PrimitiveSchemaDefinition) -> dict[str, str]:
    """Return the titles of the values that may be chosen, by value."""
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
    """Return the valid defaults of the fields, to prefill a form."""
    defaults = {}
    for name, field in schema.properties.items():
        value = getattr(field, "default", None)
        if value is not None:
            try:
                defaults[name] = check_value(field, value)
            except ValueError:
                continue
    return defaults


def fill_form(
    schema: RequestedSchema, content: Mapping[str, object], revision: Revision
) -> dict[str, Value]:
    """Return the content of an accepted form, with defaults for missing fields.

    A field with the value ``None`` is omitted and does not get its default.
    """
    if not isinstance(content, Mapping):
        raise LocalProtocolError(
            f"elicitation content: expected a mapping, got {type(content).__name__}"
        )
    required = dict.fromkeys(schema.required or ())
    fields = dict.fromkeys(required, _UNKNOWN_FIELD) | schema.properties
    additional = (schema.extra or {}).get("additionalProperties", False)
    is_open = additional is not False and additional is not None
    filled: dict[str, Value] = {
        name: value
        for name, value in form_defaults(schema).items()
        if name not in content and not _is_unsupported_list(value, revision)
    }
    for name, value in content.items():
        if value is None:
            continue
        field = fields.get(name, _UNKNOWN_FIELD)
        if name not in fields and not (is_open and type(name) is str):
            raise _content_error(name, "the form has no such field")
        try:
            filled[name] = check_value(field, value)
        except ValueError as error:
            raise _content_error(name, str(error)) from error
        if _is_unsupported_list(filled[name], revision):
            raise _content_error(
                name, f"lists exist since {_LISTS_SINCE}, not at {revision}"
            )
    for name in required:
        if name not in filled:
            raise _content_error(name, "it is required")
    order = (*schema.properties, *filled)
    return {name: filled[name] for name in order if name in filled}


def _is_unsupported_list(value: Value, revision: Revision) -> bool:
    return isinstance(value, list) and revision < _LISTS_SINCE


def _content_error(name: object, reason: str) -> LocalProtocolError:
    is_plain = isinstance(name, str) and name.isidentifier() and len(name) <= 40
    path = f".{name}" if is_plain else f"[{excerpt(name)}]"
    return LocalProtocolError(f"elicitation content{path}: {reason}")


# --- the kinds of fields


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {excerpt(value)}")
    # Converts a member of a `str` enum to its plain text.
    return str.__str__(value)


def _check_string(field: StringSchema, value: object) -> str:
    text = _check_text(value)
    _check_count(len(text), "characters", field.min_length, field.max_length)
    expected = format_problem(text, field.format)
    if expected is not None:
        raise ValueError(f"{excerpt(text)} is not {expected}")
    return text


def _check_count(
    count: int, what: str, minimum: int | None, maximum: int | None
) -> None:
    if minimum is not None and count < minimum:
        raise ValueError(f"{count} {what}, the minimum is {minimum}")
    if maximum is not None and count > maximum:
        raise ValueError(f"{count} {what}, the maximum is {maximum}")


def _check_number(field: NumberSchema, value: object) -> int | float:
    number = _check_finite(value)
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


def _check_finite(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"expected a number, got {excerpt(value)}")
    if isinstance(value, int):
        return int(value)
    if not isfinite(value):
        raise ValueError(f"{value} is not a number that can be sent")
    return float(value)


def _check_texts(value: object) -> list[str]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"expected a list of texts, got {excerpt(value)}")
    return [_check_text(item) for item in value]


def _check_choices(chosen: list[str], choices: Mapping[str, str]) -> None:
    for text in chosen:
        if text not in choices:
            shown = ", ".join(
                excerpt(choice) for choice in [*choices][:_MAX_CHOICES_SHOWN]
            )
            rest = ", ..." if len(choices) > _MAX_CHOICES_SHOWN else ""
            raise ValueError(f"{excerpt(text)} is not one of {shown}{rest}")


def _check_unknown(value: object) -> Value:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _check_text(value)
    if isinstance(value, (list, tuple)):
        return _check_texts(value)
    return _check_finite(value)


_UNKNOWN_FIELD: Final = UnknownSchema({})


# --- URLs to visit


MAX_URL_CHARS: Final = 8 * 1024
"""Maximum length of a URL; RFC 9112, section 3: servers support 8,000 octets."""

_PUNYCODE: Final = "xn--"
_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_LOOKALIKES: Final = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"})
"""Scripts with letters that resemble letters of another script."""


@attrs.frozen
class UrlDescription:
    """The details of a URL that a user should see before the consent to visit it."""

    host: str
    """The host in ASCII; to be highlighted."""

    unicode_host: str
    """The host as a browser may show it; equal to `host` without Punycode."""

    port: int
    is_https: bool

    is_punycode: bool
    """Whether the host has non-ASCII letters, which may imitate others."""

    warnings: tuple[str, ...]
    """Warnings for the user; one clause each, in lower case, without a full stop."""


def url_problem(url: str, *, plain_http: bool = False) -> str | None:
    """Return why a URL must not be shown to a user, with its field, or ``None``.

    `parse_url` must accept the URL: http or https, printable ASCII without whitespace,
    without user name and password. It has at most 8 KiB, and is https unless its host
    is this machine or `plain_http` is set.
    """
    if len(url) > MAX_URL_CHARS:
        return f"url: it must have at most {MAX_URL_CHARS} characters, got {len(url)}"
    try:
        parts = parse_url(url)
    except ValueError as error:
        return f"url: {error}"
    if parts.is_secure or plain_http:
        return None
    return f"url: {parts.origin} must be https, as it is not this machine"


def describe_url(url: str) -> UrlDescription:
    """Return the details to show to the user together with a URL.

    Raises:
        ValueError: The URL is malformed and must not be shown.
    """
    parts = parse_url(url)
    labels = [_unicode_label(label) for label in parts.host.split(".")]
    is_punycode = any(label.startswith(_PUNYCODE) for label in parts.host.split("."))
    return UrlDescription(
        host=parts.host,
        unicode_host=".".join(labels),
        port=parts.port,
        is_https=parts.scheme == "https",
        is_punycode=is_punycode,
        warnings=tuple(_list_warnings(parts, labels, is_punycode=is_punycode)),
    )


def _list_warnings(parts: Url, labels: list[str], *, is_punycode: bool) -> list[str]:
    warnings = []
    if not parts.is_secure:
        warnings.append(
            "plain http: everyone on the network path can read and change all of it"
        )
    if is_punycode:
        warnings.append("the host has letters that look like others")
    if any(_mixes_scripts(label) for label in labels):
        warnings.append("the host mixes letters of different scripts")
    if is_loopback(parts.host):
        warnings.append("it points to this machine")
    elif address_class(parts.host) != "name":
        warnings.append("the host is a bare address")
    if parts.port != _DEFAULT_PORTS[parts.scheme]:
        warnings.append(f"the port is {parts.port}, which is unusual")
    return warnings


def _unicode_label(label: str) -> str:
    """Return a label of a host in the form that a browser may show."""
    if not label.startswith(_PUNYCODE):
        return label
    try:
        shown = label.removeprefix(_PUNYCODE).encode("ascii").decode("punycode")
    except (UnicodeError, OverflowError):
        return label
    # Characters that resemble a dot or slash, or change the direction, may deceive.
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
