"""What a token endpoint answers (RFC 6749 section 5, RFC 8693 section 2.2).

What is forgiven: an expiry that is a string or a fraction, scopes as a list, a blank
where nothing is meant. What is not: a token without a type, of a type that is unknown
or another than was asked for, or one that cannot stand in a header.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from mcpwire.auth.errors import AuthTemporarilyUnavailable, TokenError
from mcpwire.auth.exchange.answers import (
    check_available,
    describe,
    read_code,
    read_description,
    read_object,
)
from mcpwire.auth.model import Tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwire.auth.steps import Answer

__all__ = ["ID_JAG", "WHAT", "read_exchange", "read_tokens"]

WHAT: Final = "the token endpoint"

ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
"""An identity assertion for another domain's authorization server."""

_TYPES: Final[Mapping[str, Literal["Bearer", "DPoP"]]] = {
    "bearer": "Bearer",
    "dpop": "DPoP",
}
_VISIBLE: Final = re.compile(r"[!-~]+")
_SECONDS: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,9})?")
_LONGEST_S: Final = 10.0 * 365 * 86_400
"""What is good for longer is as good as for ever, and its expiry stays a date."""


def read_tokens(
    answer: Answer,
    *,
    now: float,
    asked: Sequence[str] = (),
    previous: Tokens | None = None,
    is_bound: bool = False,
    secrets: Iterable[str] = (),
) -> Tokens:
    """Return the tokens that an answer gives.

    Args:
        answer: What came back.
        now: When it was asked, in seconds since 1970.
        asked: The scopes that were asked for.
        previous: What is refreshed: what the answer leaves out stays as it was.
        is_bound: Whether a proof went along, to which the token has to be bound.
        secrets: What was sent and must not come back in a text.

    Raises:
        TokenError: The server refused, or this is no token; never shows one.
        AuthTemporarilyUnavailable: The server cannot answer now.
    """
    document = _read(answer, now, secrets)
    kind = document.get("token_type")
    token_type = _TYPES.get(kind.lower()) if isinstance(kind, str) else None
    # RFC 6749 section 7.1: a token of a type one does not understand is not used.
    if token_type is None:
        raise TokenError(
            f"{WHAT} gave a token of no type"
            if kind is None
            else f"{WHAT} gave a token of an unknown type, {read_code(kind)!r}",
            status=answer.status,
        )
    # RFC 9449 section 5: a token that is not bound although it should be is discarded.
    if (token_type == "DPoP") != is_bound:  # noqa: S105 - a type of token
        raise TokenError(
            f"{WHAT} gave a token of type {token_type!r}, and a proof of possession "
            f"{'went' if is_bound else 'did not go'} along",
            status=answer.status,
        )
    refreshed = document.get("refresh_token")
    if not isinstance(refreshed, str) or not refreshed.strip():
        refreshed = previous.refresh_token if previous is not None else None
    return Tokens(
        _access_token(document, answer.status),
        token_type,
        _expiry(document.get("expires_in"), now),
        refreshed,
        _granted(document.get("scope"), asked, previous),
    )


def read_exchange(answer: Answer, *, now: float, secrets: Iterable[str] = ()) -> str:
    """Return the assertion that an identity provider gives (RFC 8693 section 2.2.1).

    Raises:
        TokenError: It refused, or gave something else.
        AuthTemporarilyUnavailable: It cannot answer now.
    """
    document = _read(answer, now, secrets)
    issued = document.get("issued_token_type")
    if issued != ID_JAG:
        raise TokenError(
            f"the identity provider gave a token of type {read_code(issued)!r} "
            f"instead of {ID_JAG!r}",
            status=answer.status,
        )
    return _access_token(document, answer.status)


def _read(answer: Answer, now: float, secrets: Iterable[str]) -> dict[str, Any]:
    check_available(answer, WHAT, now)
    document = read_object(answer)
    # Some say 200 to a request that they refuse.
    error = document.get("error") if document is not None else None
    if 200 <= answer.status < 300 and error is None:
        if document is None:
            raise TokenError(
                f"{WHAT} answered with no JSON object: {describe(answer)}",
                status=answer.status,
            )
        return document
    code = read_code(error)
    if code == "temporarily_unavailable":
        raise AuthTemporarilyUnavailable(
            f"{WHAT} cannot answer now", status=answer.status
        )
    described = (document or {}).get("error_description")
    raise TokenError(
        f"{WHAT} refused: {code or describe(answer)}",
        error=code,
        description=read_description(described, secrets),
        status=answer.status,
    )


def _access_token(document: Mapping[str, Any], status: int) -> str:
    token = document.get("access_token")
    # It travels in a header: what could end one there is no token.
    if not isinstance(token, str) or not _VISIBLE.fullmatch(token):
        reason = "without an access_token" if token is None else "with no access_token"
        raise TokenError(f"{WHAT} answered {reason} that can be sent", status=status)
    return token


def _expiry(value: object, now: float) -> float | None:
    """Return when a token expires; ``None``: nobody said so in a number."""
    if isinstance(value, str) and _SECONDS.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Zero and less cannot be meant: such a token would never be of use.
    return now + min(float(value), _LONGEST_S) if value > 0 else None


def _granted(
    value: object, asked: Sequence[str], previous: Tokens | None
) -> tuple[str, ...] | None:
    # RFC 6749 section 5.1: left out where it is what was asked for; section 6: and what
    # was granted before where nothing was asked for.
    if isinstance(value, list):
        value = " ".join(item for item in value if isinstance(item, str))
    if isinstance(value, str) and value.strip():
        return tuple(dict.fromkeys(value.split()))
    if asked:
        return tuple(asked)
    return previous.scopes if previous is not None else None
