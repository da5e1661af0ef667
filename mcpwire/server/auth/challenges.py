"""How a server says that it wants a token, another one, or one that allows more.

RFC 6750 section 3 and RFC 9728 section 5.1. What is said is the same for everybody: why
a token was refused helps nobody but who forges one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcpwire.auth.records import OFFLINE_ACCESS
from mcpwire.auth.resource_server import format_challenge
from mcpwire.errors import AuthError, InvalidRequest
from mcpwire.server.dispatcher import HttpRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from mcpwire.server.auth.principal import Principal

__all__ = [
    "AuthenticationRefused",
    "HttpRefusal",
    "Realm",
    "ScopeRequired",
    "check_scopes",
]


_DESCRIPTIONS: Final = {
    "invalid_request": "The credentials are malformed",
    "invalid_token": "The access token is not valid here",
    "insufficient_scope": "The access token does not allow this",
    "invalid_dpop_proof": "The DPoP proof is not valid here",
}
"""What is said beside a code: always the same."""


@attrs.frozen(kw_only=True)
class Realm:
    """What each challenge of one server says."""

    metadata_url: str | None = None
    """Where the server describes itself; ``None``: nobody else gives out its tokens."""

    required: tuple[str, ...] = ()
    """The scopes that every request needs."""

    schemes: tuple[str, ...] = ("Bearer",)
    """How tokens may be sent: ``Bearer``, ``DPoP``."""

    proof_algorithms: tuple[str, ...] = ()
    """How proofs for ``DPoP`` may be signed."""

    def scopes_for(self, needed: Iterable[str] = ()) -> tuple[str, ...]:
        """Return all that a request needs, always in the same order.

        2026-07-28 basic/authorization, "Runtime Insufficient Scope Errors": all scopes
        of the operation in one challenge, consistently. Refresh tokens are nothing that
        a resource needs ("Refresh Tokens").
        """
        scopes = dict.fromkeys((*self.required, *sorted(needed)))
        scopes.pop(OFFLINE_ACCESS, None)
        return tuple(scopes)

    def challenge(self, error: str | None = None, needed: Iterable[str] = ()) -> str:
        """Return the value of a ``WWW-Authenticate`` field.

        Args:
            error: The code of RFC 6750 section 3.1 or RFC 9449 section 7.1; without
                one nothing was shown (RFC 6750: then there is no code).
            needed: The scopes that the request needs beside the server's.
        """
        params = {
            "error": error,
            "error_description": _DESCRIPTIONS.get(error or ""),
            "scope": " ".join(self.scopes_for(needed)),
            "resource_metadata": self.metadata_url,
        }
        return ", ".join(
            format_challenge(scheme, params | self._extras(scheme))
            for scheme in self.schemes
        )

    def _extras(self, scheme: str) -> dict[str, str | None]:
        return {"algs": " ".join(self.proof_algorithms)} if scheme == "DPoP" else {}


class AuthenticationRefused(AuthError, HttpRefusal):
    """A request shows no credentials, or none that are believed.

    Attributes:
        error: The code that the client is told; ``None``: nothing was shown.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        error: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.error = error
        self.http_status = status
        self.http_headers = headers


class ScopeRequired(InvalidRequest, HttpRefusal):
    """The token is good and does not allow this: the client may ask for more.

    Attributes:
        scopes: All that the request needs.
    """

    http_status = 403

    def __init__(self, scopes: Iterable[str], *, realm: Realm | None = None) -> None:
        super().__init__("the access token does not allow this")
        realm = realm or Realm()
        self.scopes = realm.scopes_for(scopes)
        challenge = realm.challenge("insufficient_scope", scopes)
        self.http_headers = (("www-authenticate", challenge),)


def check_scopes(principal: Principal | None, needed: AbstractSet[str]) -> None:
    """Check that somebody may do what needs these scopes.

    Args:
        principal: Who asks; nobody may do only what needs nothing.
        needed: What it needs.

    Raises:
        ScopeRequired: A scope is missing; names all of them.
    """
    if not needed or (principal is not None and needed <= principal.scopes):
        return
    raise ScopeRequired(needed, realm=None if principal is None else principal.realm)
