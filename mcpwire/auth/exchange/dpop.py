"""Proofs that whoever shows a token has the key it is bound to (RFC 9449).

A proof is for one request: method, URL, time and a fresh id, and with a token its hash.
A server may want its own nonce in there; the newest one of each origin is remembered,
those of authorization server and resource apart.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth.exchange.jwt import generate_jwk, import_jwk, sign
from mcpwire.wire.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ALGORITHM", "Prover", "new_key"]

ALGORITHM: Final = "ES256"

_NONCE: Final = re.compile(r"[!#-\[\]-~]{1,1024}")  # RFC 9449 section 8.1: 1*NQCHAR
_ORIGINS: Final = 16
"""There are two: an authorization server and a resource."""


def new_key() -> dict[str, Any]:
    """Return a new private key to bind tokens to, as a JWK.

    It draws from the system's randomness, so only a shell calls it.

    Raises:
        LocalProtocolError: joserfc is not installed.
    """
    return generate_jwk()


class Prover:
    """Makes proofs with one key, and remembers the nonces that servers want in them."""

    def __init__(self, key: Mapping[str, Any]) -> None:
        """Take the private key.

        Raises:
            ValueError: It is no private key for ES256; shows nothing of it.
            LocalProtocolError: joserfc is not installed.
        """
        self._key = import_jwk(key)
        public = self._key.as_dict(private=False)
        self._header = {
            "typ": "dpop+jwt",
            "alg": ALGORITHM,
            # Its members and no others: nothing private, and no name of ours.
            "jwk": {name: public[name] for name in ("kty", "crv", "x", "y")},
        }
        self._nonces: dict[str, str] = {}

    def __repr__(self) -> str:
        """Show nothing of the key."""
        return "<Prover>"

    def proof(
        self,
        method: str,
        url: str,
        *,
        now: float,
        jti: str,
        access_token: str | None = None,
        nonce: str | None = None,
    ) -> str:
        """Return the value of the field ``DPoP`` for one request.

        Args:
            method: Its HTTP method.
            url: Where it goes.
            now: Seconds since 1970.
            jti: By which the proof is told from all others.
            access_token: The token that goes along.
            nonce: The server's; otherwise the newest that `remember` was shown.
        """
        target = parse_url(url)
        claims = {
            "jti": jti,
            "htm": method,
            "htu": target.origin + target.path,  # section 4.2: no query, no fragment
            "iat": int(now),
        }
        if access_token is not None:
            digest = sha256(access_token.encode()).digest()
            claims["ath"] = urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
        nonce = nonce or self._nonces.get(target.origin)
        if nonce is not None:
            claims["nonce"] = nonce
        return sign(self._header, claims, self._key)

    def remember(self, url: str, fields: Mapping[str, str]) -> bool:
        """Take a nonce out of an answer's fields; return whether there was a new one.

        Each answer may bring the next nonce, whatever its status (section 8.2).
        """
        nonce = fields.get("dpop-nonce", "")
        origin = parse_url(url).origin
        if not _NONCE.fullmatch(nonce) or self._nonces.get(origin) == nonce:
            return False
        if origin not in self._nonces and len(self._nonces) >= _ORIGINS:
            self._nonces.clear()
        self._nonces[origin] = nonce
        return True
