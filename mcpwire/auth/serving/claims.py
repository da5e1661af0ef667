"""What an issuer says of a token, whether in the token or asked for it.

The claims of RFC 7519, RFC 9068 and RFC 7662 are the same; authorization servers differ
in how they spell scopes and clients.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.auth.discovery.scopes import is_scope

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ClaimsError", "TokenFacts", "check_times", "read_claims"]


class ClaimsError(ValueError):
    """What is said of a token does not make it good now; never quotes it."""


@attrs.frozen(kw_only=True)
class TokenFacts:
    """What matters of the claims, in one spelling."""

    issuer: str | None
    client_id: str | None
    subject: str | None
    audience: frozenset[str]
    scopes: frozenset[str]
    expires_at: float | None


def read_claims(claims: Mapping[str, Any]) -> TokenFacts:
    """Return what matters of the claims.

    Raises:
        ClaimsError: One of them is of another type than its own.
    """
    return TokenFacts(
        issuer=_text(claims, "iss"),
        # RFC 9068, 2.2; OpenID Connect's name for it comes second.
        client_id=_text(claims, "client_id") or _text(claims, "azp"),
        subject=_text(claims, "sub"),
        audience=_texts(claims, "aud"),
        scopes=_scopes(claims),
        expires_at=_date(claims, "exp"),
    )


def check_times(claims: Mapping[str, Any], *, now: float, leeway: float) -> None:
    """Check that a token is good at this time; what nobody said is no bound.

    Args:
        claims: What its issuer says.
        now: Seconds since 1970.
        leeway: By how much clocks may differ, in seconds.

    Raises:
        ClaimsError: It is not good any more, or not yet.
    """
    # RFC 7519, 4.1.4 and 4.1.5: before the one, and not before the other.
    expires_at, begins_at = _date(claims, "exp"), _date(claims, "nbf")
    if expires_at is not None and now - leeway >= expires_at:
        raise ClaimsError("it is good no more")
    if begins_at is not None and now + leeway < begins_at:
        raise ClaimsError("it is not good yet")


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is not None and not isinstance(value, str):
        raise ClaimsError(f"its {name} is no text")
    return value


def _texts(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    value = claims.get(name)
    items = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(items, list) or any(not isinstance(item, str) for item in items):
        raise ClaimsError(f"its {name} is neither a text nor a list of texts")
    return frozenset(items)


def _date(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if type(value) not in {int, float} or not isfinite(value):
        raise ClaimsError(f"its {name} is no time")
    return float(value)


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    # RFC 9068, 2.2.3 has words in one text; Okta and Entra have `scp`, as a list or so.
    name = "scope" if claims.get("scope") is not None else "scp"
    words = (word for text in _texts(claims, name) for word in text.split(" "))
    return frozenset(filter(is_scope, words))
