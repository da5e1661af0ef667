"""The four formats of text in a form, each checked strictly and in linear time.

- ``email``: ``local@domain`` in ASCII; the local part is dot-separated atoms, at most
  64 characters; the domain is host labels. Neither quoted local parts nor addresses in
  brackets.
- ``uri``: a scheme, a colon and RFC 3986's characters, percent signs in pairs of hex
  digits; not what the scheme asks for beyond that.
- ``date``: RFC 3339 full-date, a day that exists.
- ``date-time``: RFC 3339 date-time with its offset; second 60 only where a leap second
  can be.

A format that is none of these says nothing.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["misfit"]

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL: Final = re.compile(
    rf"(?=[^@]{{1,64}}@.{{1,253}}\Z){_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*"
)
_URI: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]*:(?:[!$&-;=?-Z\[\]_a-z~#]|%[0-9A-Fa-f]{2})*"
)
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATE_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]"
    r"([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_DAY_MINUTES: Final = 24 * 60


def misfit(text: str, format: str | None) -> str | None:
    """Say what a text should be and is not, or ``None`` where it fits its format."""
    check, name = _FORMATS.get(format or "", (None, ""))
    return None if check is None or check(text) else name


def _is_email(text: str) -> bool:
    return _EMAIL.fullmatch(text) is not None


def _is_uri(text: str) -> bool:
    return _URI.fullmatch(text) is not None and text.count("#") <= 1


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


_FORMATS: Final[Mapping[str, tuple[Callable[[str], bool], str]]] = {
    "email": (_is_email, "an email address"),
    "uri": (_is_uri, "an absolute URI"),
    "date": (_is_date, "a date such as 2026-07-28"),
    "date-time": (_is_date_time, "a time such as 2026-07-28T12:00:00Z"),
}
