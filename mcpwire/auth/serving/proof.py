"""Checks that whoever shows a token has the key it is bound to (RFC 9449).

A proof is for one request: its method, its URL, its token, one moment. Each is taken
once; those that were taken are remembered until they would be too old anyway.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth.exchange.jwt import import_checking_jwk, is_signed
from mcpwire.auth.serving.compact import (
    SignedToken,
    UnsoundToken,
    read_object,
    read_signed,
)
from mcpwire.wire.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mcpwire.auth.exchange.jwt import CheckingKey

__all__ = ["LONGEST_PROOF", "PROOF_ALGORITHMS", "Replays", "binding_of", "check_proof"]

PROOF_ALGORITHMS: Final = ("ES256", "ES384", "ES512", "EdDSA", "RS256", "PS256")
"""What proofs may be signed with; the key is the client's own choice."""

LONGEST_PROOF: Final = 4_096
"""With an RSA key of 4,096 bits it is less than half as long. A key that somebody
unknown chose should not take long to check."""

MAX_AGE_S: Final = 60.0
"""How old a proof may be, and by how much clocks may differ."""

LONGEST_ID: Final = 1_024

_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


class Replays:
    """Remembers proofs that were taken, for as long as they could come again.

    Args:
        most: How many; of more than those the oldest can come again.
    """

    def __init__(self, most: int = 100_000) -> None:
        self._until: dict[bytes, float] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._until)

    def is_first(self, id: str, owner: str, *, now: float, until: float) -> bool:
        """Take note of a proof; tell whether it has not been there before."""
        key = sha256(f"{owner} {id}".encode("utf-8", "surrogatepass")).digest()
        if self._until.get(key, now) > now:
            return False
        # The oldest stand first; they are good about as long as each other.
        for oldest in list(_first(self._until, 2)):
            if self._until[oldest] <= now or len(self._until) >= self._most:
                del self._until[oldest]
        self._until[key] = until
        return True


def _first(mapping: Mapping[bytes, float], count: int) -> Collection[bytes]:
    return [key for key, _ in zip(mapping, range(count), strict=False)]


def binding_of(claims: Mapping[str, Any]) -> str | None:
    """Return the thumbprint of the key that a token is bound to; ``None``: to none.

    Raises:
        UnsoundToken: It is bound to what cannot be checked here.
    """
    # RFC 7800, 3.1; RFC 9449, 6.1. Who shows a token that is bound to a certificate has
    # proved nothing to us.
    if "cnf" not in claims:
        return None
    bound = claims["cnf"]
    if type(bound) is not dict or list(bound) != ["jkt"]:
        raise UnsoundToken("it is bound to a key in a way that is not known")
    thumbprint = bound["jkt"]
    if not isinstance(thumbprint, str):
        raise UnsoundToken("it is bound to a key that is not named by text")
    return thumbprint


def check_proof(
    values: Sequence[str],
    *,
    token: str,
    thumbprint: str,
    verb: str,
    urls: Collection[str],
    now: float,
    replays: Replays,
) -> None:
    """Check the proof of one request.

    Args:
        values: Each ``DPoP`` field of the request.
        token: The access token.
        thumbprint: Of the key that the token is bound to.
        verb: The request's HTTP method.
        urls: What the request's URL may be, without query.
        now: Seconds since 1970.
        replays: The proofs that were taken.

    Raises:
        UnsoundToken: It proves nothing.
        LocalProtocolError: joserfc is not installed.
    """
    if len(values) != 1 or len(values[0]) > LONGEST_PROOF:
        raise UnsoundToken("there is no proof, or more than one")
    proof = read_signed(values[0].strip(" \t"))
    key = _key_of(proof)
    if not is_signed(key, proof.algorithm, proof.signed, proof.signature):
        raise UnsoundToken("its signature is wrong")
    if key.key.thumbprint() != thumbprint:
        raise UnsoundToken("it is of another key")
    claims = read_object(proof.payload, "payload")
    issued_at, id = _time(claims.get("iat")), claims.get("jti")
    digest = sha256(token.encode("ascii")).digest()
    # RFC 9449, 4.3.
    if claims.get("htm") != verb or _target(claims.get("htu")) not in urls:
        raise UnsoundToken("it is for another request")
    if claims.get("ath") != urlsafe_b64encode(digest).rstrip(b"=").decode("ascii"):
        raise UnsoundToken("it is for another token")
    if issued_at is None or abs(now - issued_at) > MAX_AGE_S:
        raise UnsoundToken("it is not of this moment")
    if not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID:
        raise UnsoundToken("it cannot be told from others")
    until = issued_at + MAX_AGE_S + 1  # whole seconds, on both sides
    if not replays.is_first(id, thumbprint, now=now, until=until):
        raise UnsoundToken("it has been here before")


def _key_of(proof: SignedToken) -> CheckingKey:
    jwk = proof.header.get("jwk")
    if (
        proof.header.get("typ") != "dpop+jwt"
        or proof.algorithm not in PROOF_ALGORITHMS
        or type(jwk) is not dict
        or _PRIVATE & jwk.keys()
    ):
        raise UnsoundToken("it is no proof")
    try:
        return import_checking_jwk(jwk)
    except ValueError:
        raise UnsoundToken("it shows no key") from None


def _time(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _target(url: object) -> str | None:
    """Return a URL without its query and fragment, in the one spelling."""
    if not isinstance(url, str):
        return None
    try:
        parsed = parse_url(url)
    except ValueError:
        return None
    return parsed.origin + parsed.path
