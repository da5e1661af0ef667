"""Who a request comes from, once its token has been believed.

It is made by a verifier and handed to handlers. It never holds the token: what a
handler can see of it can be logged, compared and kept.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.server.auth.challenges import Realm

__all__ = ["Principal", "PrincipalKey", "client_address"]

client_address: Final[ContextVar[str]] = ContextVar("client_address", default="")
"""The IP address of the client while its credentials are checked, if it is known."""

PrincipalKey: TypeAlias = tuple[str | None, str | None, str | None]
"""Issuer, client id and subject: what tells one principal from another."""


def _words(values: Iterable[str]) -> frozenset[str]:
    # A text would become its letters.
    if isinstance(values, str):
        raise ValueError(
            f"scopes and audience are collections, got the text {values!r}"
        )
    return frozenset(values)


def _read_only(claims: Mapping[str, Any]) -> Mapping[str, Any]:
    # What is read-only already is not copied with each request.
    is_ours = isinstance(claims, MappingProxyType)
    return claims if is_ours else MappingProxyType(dict(claims))


@attrs.frozen(kw_only=True)
class Principal:
    """Who asks, and what they may; shows no claims as text."""

    issuer: str | None = None
    """Who gave the token."""

    client_id: str | None = None
    """The program that asks."""

    subject: str | None = None
    """Whom it asks for: a user, or the program itself."""

    scopes: frozenset[str] = attrs.field(default=frozenset(), converter=_words)
    """What it may; of a `ResourceServer` also what those scopes include."""

    audience: frozenset[str] = attrs.field(default=frozenset(), converter=_words)
    """Whom the token is for; a `ResourceServer` takes only what is for itself."""

    expires_at: float | None = None
    """Seconds since 1970; ``None``: nobody said."""

    claims: Mapping[str, Any] = attrs.field(
        factory=dict, converter=_read_only, repr=False, eq=False
    )
    """What else the issuer says, as it stands there."""

    realm: Realm | None = attrs.field(default=None, repr=False, eq=False)
    """The server that believed it: knows how more is asked for."""

    def known_to(self, realm: Realm, scopes: frozenset[str]) -> Principal:
        """Return it as a server knows it, with what its scopes include."""
        # `attrs.evolve` takes as long as all else that a request is asked.
        return Principal(
            issuer=self.issuer,
            client_id=self.client_id,
            subject=self.subject,
            scopes=scopes,
            audience=self.audience,
            expires_at=self.expires_at,
            claims=self.claims,
            realm=realm,
        )

    @property
    def key(self) -> PrincipalKey:
        """What tells it from all others, whatever its token allows.

        State that belongs to somebody is bound to this (2026-07-28 security best
        practices, "State Handle Hijacking"): an issuer's subjects are its own, and so
        are what its clients do for one subject.
        """
        return self.issuer, self.client_id, self.subject
