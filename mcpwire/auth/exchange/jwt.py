"""Signs what a client proves itself with (RFC 7523), and checks what others signed.

joserfc does both; it is optional, imported where something is signed or
checked and nowhere else. No message holds a key.
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
    "CHECKED_ALGORITHMS",
    "SHARED_ALGORITHMS",
    "CheckingKey",
    "SigningKey",
    "check_crypto",
    "check_signing_key",
    "client_assertion",
    "generate_jwk",
    "import_checking_jwk",
    "import_checking_pem",
    "import_jwk",
    "import_secret",
    "is_signed",
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

CHECKED_ALGORITHMS: Final[Mapping[str, str]] = {
    **ALGORITHMS,
    "EdDSA": "Ed25519",
    "Ed25519": "Ed25519",
}
"""What a signature of somebody else's may be made with, and with what kind of key: who
can check it cannot make one. RFC 9864 calls the last one by its own name."""

SHARED_ALGORITHMS: Final[Mapping[str, str]] = {
    "HS256": "oct",
    "HS384": "oct",
    "HS512": "oct",
}
"""Those by which whoever can check can sign as well."""

SHORTEST_RSA: Final = 2_048  # bits; RFC 7518 section 3.3

LONGEST_RSA: Final = 8_192
"""Checking one signature takes longer with each bit; nobody issues longer ones."""

SHORTEST_SECRET: Final = 32  # bytes

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


@attrs.frozen
class CheckingKey:
    """What tells whether somebody's signature is theirs."""

    kind: str
    """``RSA``, ``oct``, or the name of its curve."""

    kid: str | None
    """What its owner calls it."""

    algorithm: str | None
    """The only one that it is for; ``None``: all that its kind can."""

    key: Any = attrs.field(repr=_masked, eq=False)


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


_PUBLIC: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": ("n", "e"),
    "EC": ("crv", "x", "y"),
    "OKP": ("crv", "x"),
}
"""The members that check signatures, by type of key (RFC 7518 section 6)."""


def check_crypto() -> None:
    """Check that signatures can be checked at all.

    Raises:
        LocalProtocolError: joserfc is not installed.
    """
    _load("checking a signature")


def import_checking_jwk(jwk: Mapping[str, Any]) -> CheckingKey:
    """Return a key that is ready to check signatures.

    Raises:
        ValueError: It is none that can; shows nothing of it.
        LocalProtocolError: joserfc is not installed.
    """
    kind = str(jwk.get("kty"))
    members = _PUBLIC.get(kind)
    operations = jwk.get("key_ops", ["verify"])
    if (
        members is None
        or jwk.get("use", "sig") != "sig"
        or not isinstance(operations, list)
        # Private halves may stand where public ones should.
        or not {"verify", "sign"} & {str(name) for name in operations}
    ):
        raise ValueError("the key is none that checks signatures")
    loaded = _load("checking a signature")
    from joserfc.errors import JoseError

    if kind == "RSA":
        _check_length(jwk.get("n"))
    public = {name: jwk[name] for name in members if name in jwk}
    try:
        key = loaded.JWKRegistry.import_key({"kty": kind, **public})
    except (JoseError, LookupError, TypeError, ValueError):
        raise ValueError(f"the key is no valid key of type {kind}") from None
    kid, algorithm = jwk.get("kid"), jwk.get("alg")
    return CheckingKey(
        getattr(key, "curve_name", kind),
        kid if isinstance(kid, str) else None,
        algorithm if isinstance(algorithm, str) else None,
        key,
    )


def import_checking_pem(pem: str) -> CheckingKey:
    """Return the public key of a PEM, ready to check signatures.

    Raises:
        ValueError: It holds none that can; shows nothing of it.
        LocalProtocolError: joserfc is not installed.
    """
    loaded = _load("checking a signature")
    from joserfc.errors import JoseError

    for kind in (loaded.RSAKey, loaded.ECKey, loaded.OKPKey):
        try:
            found = kind.import_key(pem).as_dict(private=False)
        except (JoseError, LookupError, TypeError, ValueError):
            continue
        return import_checking_jwk(found)
    raise ValueError("the key must be a public key of type RSA, EC or OKP as PEM")


def import_secret(secret: bytes) -> CheckingKey:
    """Return a shared secret, ready to check signatures.

    Raises:
        ValueError: It is so short that it could be guessed.
        LocalProtocolError: joserfc is not installed.
    """
    # RFC 7518, 3.2: as long as the hash; what is shorter is somebody's password.
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(
            f"a shared secret must have {SHORTEST_SECRET} bytes or more, it has "
            f"{len(secret)}"
        )
    key = _load("checking a signature").OctKey.import_key(secret)
    return CheckingKey("oct", None, None, key)


def _check_length(modulus: object) -> None:
    # Before it is imported: joserfc warns of short ones, and long ones take long.
    bits = len(modulus) * 6 if isinstance(modulus, str) else 0
    if not SHORTEST_RSA <= bits <= LONGEST_RSA + 8:
        raise ValueError(
            f"an RSA key must have {SHORTEST_RSA} to {LONGEST_RSA} bits, it has {bits}"
        )


def is_signed(
    key: CheckingKey, algorithm: str, signed: bytes, signature: bytes
) -> bool:
    """Tell whether the signature is of the key's owner, by that algorithm.

    Never raises: whatever a signature is, it is none if it is not right.

    Args:
        key: The key.
        algorithm: One of `CHECKED_ALGORITHMS` or `SHARED_ALGORITHMS`.
        signed: The text that was signed.
        signature: The signature.
    """
    kind = CHECKED_ALGORITHMS.get(algorithm) or SHARED_ALGORITHMS.get(algorithm)
    # The kind of key goes with the algorithm: an RSA key's text is nobody's secret.
    if kind != key.kind or key.algorithm not in {None, algorithm}:
        return False
    from joserfc import jws
    from joserfc.errors import JoseError

    # By any name: joserfc of 1.0 knows one of them only.
    name = "EdDSA" if kind == "Ed25519" else algorithm
    try:
        return jws.JWSRegistry.algorithms[name].verify(signed, signature, key.key)
    except (JoseError, TypeError, ValueError):
        return False


def _load(what: str = "signing with a key") -> ModuleType:
    try:
        from joserfc import jwk
    except ImportError as error:
        text = f"{what} needs joserfc: pip install joserfc"
        raise LocalProtocolError(text) from error
    return jwk
