"""Reads what a request shows to prove whom it comes from (RFC 6750 section 2)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_plus

import attrs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = [
    "LONGEST_TOKEN",
    "Credentials",
    "MalformedCredentials",
    "has_query_token",
    "is_bearer_token",
    "is_key",
    "read_credentials",
    "read_key",
    "safe_headers",
]

LONGEST_TOKEN: Final = 16_384
"""As much as usual servers take of one header field, or twice that; tokens that name
hundreds of groups come close."""

CREDENTIALS: Final = frozenset(
    {"authorization", "cookie", "dpop", "proxy-authorization"}
)
"""Fields that prove something to whoever they were sent to, and to nobody else."""

_SCHEMES: Final = frozenset({"bearer", "dpop"})

# RFC 9110, 11.4: a scheme, and what belongs to it after one space or more.
_FIELD: Final = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]++)(?: ++(.*))?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]++=*+")  # RFC 6750, 2.1: b64token
_KEY: Final = re.compile(r"[!-~]++")


class MalformedCredentials(ValueError):
    """What was shown is no credentials, or more than one; never quotes it."""


def _masked(_: object) -> str:
    return "'***'"


@attrs.frozen
class Credentials:
    """A token, and how it was sent; shows nothing of it."""

    scheme: str
    """``bearer`` or ``dpop``; of a key in a field of its own that field's name."""

    token: str = attrs.field(repr=_masked)


def is_bearer_token(text: str) -> bool:
    """Tell whether the text can be sent as a bearer token."""
    return len(text) <= LONGEST_TOKEN and _TOKEN.fullmatch(text) is not None


def is_key(text: str) -> bool:
    """Tell whether the text can be sent in a field of its own."""
    return len(text) <= LONGEST_TOKEN and _KEY.fullmatch(text) is not None


def read_credentials(values: Sequence[str]) -> Credentials | None:
    """Return the token of a request; ``None``: it shows none.

    What belongs to another scheme, such as ``Basic``, is nothing shown to us.

    Args:
        values: Each ``Authorization`` field of the request.

    Raises:
        MalformedCredentials: There is more than one, or no token where one should be.
    """
    if not values:
        return None
    if len(values) > 1:
        # RFC 9110, 5.3: no list, so it stands once. Whoever else read the request may
        # have read the other one.
        raise MalformedCredentials("there is more than one Authorization field")
    match = _FIELD.fullmatch(values[0].strip(" \t"))
    if match is None:
        raise MalformedCredentials("the Authorization field names no scheme")
    scheme = match[1].lower()  # RFC 9110, 11.1: in any case
    if scheme not in _SCHEMES:
        return None
    token = match[2] or ""
    if not is_bearer_token(token):
        raise MalformedCredentials("the Authorization field holds no token")
    return Credentials(scheme, token)


def read_key(name: str, values: Sequence[str]) -> Credentials | None:
    """Return the key that stands in a field of its own; ``None``: there is none.

    Raises:
        MalformedCredentials: There is more than one, or no key where one should be.
    """
    if not values:
        return None
    if len(values) > 1:
        raise MalformedCredentials(f"there is more than one field {name!r}")
    key = values[0].strip(" \t")
    if not is_key(key):
        raise MalformedCredentials(f"the field {name!r} holds no key")
    return Credentials(name, key)


def has_query_token(target: str) -> bool:
    """Tell whether a URL, or the target of a request, holds a token in its query.

    2026-07-28 basic/authorization, "Token Requirements": never there. What is in a URL
    is in logs.
    """
    query = target.partition("?")[2].partition("#")[0]
    return any(
        unquote_plus(pair.partition("=")[0]) == "access_token"
        for pair in query.split("&")
    )


def safe_headers(
    headers: Mapping[str, str], also: Collection[str] = ()
) -> dict[str, str]:
    """Return the fields of a request without its credentials.

    2026-07-28 basic/authorization, "Token Handling": a client's token must not be
    passed on. Who never sees it cannot.

    Args:
        headers: By name in lower case.
        also: More names of fields that hold credentials.
    """
    return {
        name: value
        for name, value in headers.items()
        if name not in CREDENTIALS and name not in also
    }
