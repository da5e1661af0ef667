"""A client proves with its key who it is (RFC 7523 section 2.2).

joserfc signs; it is the extra ``crypto``, imported where something is signed and
nowhere else. No message holds a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from joserfc.jwk import ECKey, RSAKey

__all__ = [
    "ALGORITHMS",
    "SigningKey",
    "check_signing_key",
    "client_assertion",
    "generate_jwk",
    "import_jwk",
    "sign",
]

ALGORITHMS: Final[Mapping[str, str]] = {
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    "RS256": "RSA",
    "RS384": "RSA",
    "RS512": "RSA",
    "PS256": "RSA",
    "PS384": "RSA",
    "PS512": "RSA",
}
"""What may sign, and with what kind of key (RFC 7518 section 3.1). ``none`` signs
nothing, and with ``HS256`` the server could sign as well as the client."""

SHORTEST_RSA: Final = 2_048  # bits; RFC 7518 section 3.3

LIFETIME_S: Final = 300
"""How long an assertion is good: long enough for clocks that disagree a little."""


def _masked(_: object) -> str:
    return "'***'"


@attrs.frozen
class SigningKey:
    """A private key, and how it signs."""

    pem: str = attrs.field(repr=_masked)
    """PKCS #8, or what its type has of its own; not encrypted."""

    algorithm: str = "ES256"


def check_signing_key(pem: str, algorithm: str) -> None:
    """Check that a key can sign with an algorithm.

    Raises:
        ValueError: It cannot, or is no private key; says why and shows nothing of it.
        LocalProtocolError: joserfc is not installed.
    """
    _import_pem(pem, algorithm)


def client_assertion(
    pem: str,
    algorithm: str,
    *,
    client_id: str,
    audience: str,
    now: float,
    jti: str,
) -> str:
    """Return a JWT by which a client authenticates.

    Args:
        pem: Its private key.
        algorithm: How it signs.
        client_id: Who it is.
        audience: The issuer that it is for: nobody else can use it.
        now: Seconds since 1970.
        jti: By which it is told from all others.

    Raises:
        ValueError: The key cannot sign with the algorithm.
        LocalProtocolError: joserfc is not installed.
    """
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "jti": jti,
        "iat": int(now),
        "exp": int(now) + LIFETIME_S,
    }
    key = _import_pem(pem, algorithm)
    return sign({"typ": "JWT", "alg": algorithm}, claims, key)


def sign(header: Mapping[str, Any], claims: Mapping[str, Any], key: Any) -> str:
    """Return claims as a signed JWT; the header names the algorithm."""
    from joserfc import jwt

    return jwt.encode(dict(header), dict(claims), key, algorithms=[header["alg"]])


def generate_jwk() -> dict[str, Any]:
    """Return a new private key for ES256, made of the system's own randomness.

    Raises:
        LocalProtocolError: joserfc is not installed.
    """
    return dict(_load().ECKey.generate_key("P-256").as_dict(private=True))


def import_jwk(key: Mapping[str, Any]) -> ECKey:
    """Return a private key for ES256, ready to sign.

    Raises:
        ValueError: It is none; shows nothing of it.
        LocalProtocolError: joserfc is not installed.
    """
    jwk = _load()
    from joserfc.errors import JoseError

    try:
        found: ECKey = jwk.ECKey.import_key(dict(key))
    except (JoseError, KeyError, TypeError, ValueError):
        raise ValueError("the key is no elliptic curve key") from None
    if not found.is_private or found.curve_name != "P-256":
        raise ValueError("the key is no private key of the curve P-256")
    return found


def _import_pem(pem: str, algorithm: str) -> ECKey | RSAKey:
    kind = ALGORITHMS.get(algorithm)
    if kind is None:
        raise ValueError(
            f"cannot sign with {algorithm!r}: use one of {', '.join(ALGORITHMS)}"
        )
    jwk = _load()
    from joserfc.errors import JoseError

    try:
        key: ECKey | RSAKey = (jwk.RSAKey if kind == "RSA" else jwk.ECKey).import_key(
            pem
        )
    # What went wrong is not chained: nobody promises that it shows nothing of the key.
    except (JoseError, TypeError, ValueError):
        raise _no_key(algorithm, kind) from None
    if not key.is_private:
        raise _no_key(algorithm, kind)
    if kind == "RSA":
        bits = key.raw_value.key_size
        if bits < SHORTEST_RSA:
            raise ValueError(
                f"the private key must have {SHORTEST_RSA} bits, it has {bits}"
            )
    elif key.curve_name != kind:  # type: ignore[union-attr] # no RSA key gets here
        raise ValueError(f"{algorithm} signs with the curve {kind}, not with the key's")
    return key


def _no_key(algorithm: str, kind: str) -> ValueError:
    return ValueError(
        f"{algorithm} cannot sign with this key: it must be a private key of type "
        f"{kind} as PEM, not encrypted"
    )


def _load() -> ModuleType:
    try:
        from joserfc import jwk
    except ImportError as error:
        raise LocalProtocolError(
            "signing with a key needs joserfc: pip install 'mcpwire[crypto]'"
        ) from error
    return jwk
