"""Takes a signed token apart: RFC 7515 section 7.1, and no other form.

Everything is read once, and strictly: what is checked is what is used.
"""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.wire.json import JSONDecodeError, loads

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SignedToken", "UnsoundToken", "read_object", "read_signed"]

_COMPACT: Final = re.compile(r"([A-Za-z0-9_-]++)\.([A-Za-z0-9_-]++)\.([A-Za-z0-9_-]++)")
_TO_STANDARD: Final = bytes.maketrans(b"-_", b"+/")


class UnsoundToken(ValueError):
    """The text is no such token, or one that must not be believed; never quotes it."""


def _masked(_: object) -> str:
    return "'***'"


@attrs.frozen
class SignedToken:
    """The parts of a token, none of them believed yet."""

    header: Mapping[str, Any] = attrs.field(repr=_masked)
    algorithm: str
    kid: str | None
    payload: bytes = attrs.field(repr=_masked)
    signed: bytes = attrs.field(repr=_masked)
    signature: bytes = attrs.field(repr=_masked)


def read_signed(token: str) -> SignedToken:
    """Return the parts of a signed token.

    Raises:
        UnsoundToken: It is none, or needs to be understood in a way that nobody here
            knows.
    """
    match = _COMPACT.fullmatch(token)
    if match is None:
        raise UnsoundToken("it is no signed token")
    header = read_object(_decode(match[1]), "header")
    # RFC 7515, 4.1.11: what must be understood and is not makes it invalid; nothing is
    # understood here that would have to be listed.
    if "crit" in header or "b64" in header:
        raise UnsoundToken("its header needs an extension")
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str):
        raise UnsoundToken("its header names no algorithm")
    if kid is not None and not isinstance(kid, str):
        raise UnsoundToken("its header names no key by text")
    signed = token.encode("ascii")[: match.end(2)]
    return SignedToken(
        header, algorithm, kid, _decode(match[2]), signed, _decode(match[3])
    )


def read_object(data: bytes, what: str) -> dict[str, Any]:
    """Return a part that is a JSON object.

    Raises:
        UnsoundToken: It is none.
    """
    try:
        found = loads(data)
    except JSONDecodeError:
        raise UnsoundToken(f"its {what} is not JSON") from None
    if type(found) is not dict:
        raise UnsoundToken(f"its {what} is no object")
    return found


def _decode(part: str) -> bytes:
    padded = part.encode("ascii").translate(_TO_STANDARD) + b"=" * (-len(part) % 4)
    try:
        return binascii.a2b_base64(padded, strict_mode=True)
    except binascii.Error:
        raise UnsoundToken("a part of it is no Base64") from None
