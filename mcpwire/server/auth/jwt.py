"""Tokens that say themselves who they are of: JWTs, signed by their issuer (RFC 9068).

Which algorithms are taken is decided here and never by the token (RFC 8725): none that
signs nothing, and none by which everybody who can check can sign, unless that is what
was asked for with a secret.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth.jwt import (
    CHECKED_ALGORITHMS,
    SHARED_ALGORITHMS,
    check_crypto,
    import_checking_jwk,
    import_checking_pem,
    import_secret,
    is_signed,
)
from mcpwire.auth.resource_server import (
    ClaimsError,
    UnsoundToken,
    check_times,
    read_claims,
    read_part,
    read_signed,
)
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.server.auth.keys import GivenKeys, IssuerKeys, read_keys
from mcpwire.server.auth.principal import Principal
from mcpwire.server.auth.recent import Recent
from mcpwire.server.auth.verifiers import InvalidToken, check_leeway, check_place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from mcpwire.auth.resource_server import SignedToken
    from mcpwire.server.auth.keys import Keys
    from mcpwire.transports.http.target import Http

__all__ = ["JwtVerifier"]

# RFC 9068, 2.1, and what most issuers say instead; RFC 7515, 4.1.9: with or without the
# first half. A token that says to be something else, such as an ID-JAG, is that.
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})

REMEMBERED_S: Final = 60.0
"""How long a signature is not checked again: that takes longer than most calls."""


class JwtVerifier:
    """Believes JWTs of one issuer.

    Its keys are where `jwks_uri` says, or given as `jwks` or `key`, or else where the
    metadata of the issuer says.

    Args:
        issuer: Who signs; the claim ``iss`` must be this, byte for byte.
        jwks_uri: Where its keys are; an `Http` where that needs options of TLS or a
            proxy.
        jwks: Its keys as a JWK set.
        key: Its only key: PEM as text, a JWK as a dict, or a shared secret as bytes.
        algorithms: What it signs with; by default whatever its keys are for, and none
            that works with a shared secret.
        audience: Whom tokens must be for, beside what the server itself checks.
        leeway: By how much clocks may differ, in seconds; at most five minutes.
        clock: Gives the seconds since 1970.
        limits: What fetching the keys may cost.

    Raises:
        ValueError: There is more than one source of keys, or a key cannot check what
            the algorithms sign.
        LocalProtocolError: joserfc is not installed.
    """

    def __init__(
        self,
        issuer: str,
        *,
        jwks_uri: str | Http | None = None,
        jwks: Mapping[str, Any] | None = None,
        key: str | bytes | Mapping[str, Any] | None = None,
        algorithms: Collection[str] | None = None,
        audience: str | Collection[str] | None = None,
        leeway: float = 30.0,
        clock: Callable[[], float] = time.time,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        check_crypto()
        if sum(source is not None for source in (jwks_uri, jwks, key)) > 1:
            raise ValueError("keys come from one of jwks_uri, jwks and key")
        self.issuer = issuer
        self._algorithms = _check_algorithms(algorithms, is_secret=type(key) is bytes)
        self._keys: Keys = (
            IssuerKeys(issuer, _check_place(jwks_uri, issuer), limits=limits)
            if jwks is None and key is None
            else GivenKeys(read_keys(jwks) if jwks is not None else [_read_key(key)])
        )
        self._audience = _audience(audience)
        self._leeway = check_leeway(leeway)
        self._clock = clock
        self._recent: Recent[Principal] = Recent()
        self._generation = 0

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<{type(self).__name__} of {self.issuer!r}>"

    async def verify(self, token: str) -> Principal:
        """Return who the token is of.

        Raises:
            InvalidToken: It is not signed by the issuer, or not good now.
            AuthError: The issuer's keys cannot be had now.
        """
        now = self._clock()
        if self._generation != self._keys.generation:
            # Keys that are taken back take back what they have signed.
            self._recent.clear()
            self._generation = self._keys.generation
        known = self._recent.get(token, now)
        if known is not None:
            return known
        try:
            found = await self._read(token, now)
        except (UnsoundToken, ClaimsError) as error:
            raise InvalidToken(str(error)) from None
        until = (found.expires_at or now) + self._leeway
        self._recent.put(token, found, min(until, now + REMEMBERED_S))
        return found

    async def _read(self, token: str, now: float) -> Principal:
        parts = read_signed(token)
        kind = parts.header.get("typ", "jwt")
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise UnsoundToken("it is of another type")
        if parts.algorithm not in self._algorithms:
            raise UnsoundToken("it is signed in a way that is not taken")
        if not await self._is_signed(parts, now):
            raise UnsoundToken("its signature is of none of the issuer's keys")
        return self._believe(read_part(parts.payload, "payload"), now)

    async def _is_signed(self, parts: SignedToken, now: float) -> bool:
        if await self._fits(parts, now):
            return True
        # The issuer may have a new key.
        return await self._keys.renew(now) and await self._fits(parts, now)

    async def _fits(self, parts: SignedToken, now: float) -> bool:
        keys = await self._keys.find(parts.kid, parts.algorithm, now)
        return any(
            is_signed(key, parts.algorithm, parts.signed, parts.signature)
            for key in keys
        )

    def _believe(self, claims: Mapping[str, Any], now: float) -> Principal:
        facts = read_claims(claims)
        if facts.issuer != self.issuer:
            raise ClaimsError("it is of another issuer")
        if facts.expires_at is None:
            raise ClaimsError("it never expires")
        if not facts.audience:
            raise ClaimsError("it is for nobody")
        if self._audience is not None and not facts.audience & self._audience:
            raise ClaimsError("it is for somebody else")
        check_times(claims, now=now, leeway=self._leeway)
        return Principal(
            issuer=facts.issuer,
            client_id=facts.client_id,
            subject=facts.subject,
            scopes=facts.scopes,
            audience=facts.audience,
            expires_at=facts.expires_at,
            claims=claims,
        )


def _check_algorithms(
    algorithms: Collection[str] | None, *, is_secret: bool
) -> frozenset[str]:
    possible = SHARED_ALGORITHMS if is_secret else CHECKED_ALGORITHMS
    if algorithms is None:
        return frozenset({"HS256"} if is_secret else possible)
    # Both at once is how a public key becomes a secret that everybody knows.
    named = [algorithms] if isinstance(algorithms, str) else algorithms
    for name in named:
        if name not in possible:
            raise ValueError(
                f"cannot check {name!r} with such a key: use {', '.join(possible)}"
            )
    if not named:
        raise ValueError("at least one algorithm must be taken")
    return frozenset(named)


def _check_place(place: str | Http | None, issuer: str) -> Http | None:
    if place is None:
        check_place(issuer, "the issuer")
        return None
    return check_place(place, "the keys")


def _read_key(key: str | bytes | Mapping[str, Any] | None) -> Any:
    if isinstance(key, bytes):
        return import_secret(key)
    if isinstance(key, str):
        return import_checking_pem(key)
    assert key is not None, "the caller has looked"
    return import_checking_jwk(key)


def _audience(audience: str | Collection[str] | None) -> frozenset[str] | None:
    if audience is None:
        return None
    found = frozenset([audience] if isinstance(audience, str) else audience)
    if not found:
        raise ValueError("tokens must be for somebody: an empty audience is nobody")
    return found
