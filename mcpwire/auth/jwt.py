"""JSON web tokens: signed assertions and proofs, signature checks, sealed texts.

joserfc is optional and imported on first use: without it, functions that need it raise
`LocalProtocolError`. No message contains a key.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire._package import import_optional
from mcpwire.auth.records import masked
from mcpwire.wire.json import encode
from mcpwire.wire.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from joserfc.jwk import ECKey, RSAKey

    from mcpwire.auth.config import ClientCredentials

# Algorithms to sign with, and their kind of key (RFC 7518 section 3.1). ``none`` has no
# signature, and with ``HS256`` the server could sign as well as the client.
ALGORITHMS: Final[Mapping[str, str]] = {
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
}
# Algorithms of received signatures. RFC 9864 added the name Ed25519 for EdDSA with it.
VERIFICATION_ALGORITHMS: Final[Mapping[str, str]] = {
    **ALGORITHMS,
    "EdDSA": "Ed25519",
    "Ed25519": "Ed25519",
}
# Algorithms with a shared secret: a resource that can verify can sign as well.
HMAC_ALGORITHMS: Final = dict.fromkeys(("HS256", "HS384", "HS512"), "oct")

MIN_RSA_BITS: Final = 2_048  # bits; RFC 7518 section 3.3
MAX_RSA_BITS: Final = 8_192  # bits; no issuer uses more, and long keys are slow
MIN_SECRET_BYTES: Final = 32  # bytes
ASSERTION_LIFETIME_S: Final = 300  # of an assertion; tolerates clock skew


def base64url(data: bytes) -> str:
    """Return bytes as Base64 in the URL-safe alphabet, without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _import_joserfc(what: str = "signing with a key") -> Any:
    import_optional("joserfc", "joserfc", what)
    return import_optional("joserfc.jwk", "joserfc", what)


def _import_key(kind: Any, value: Any) -> Any:
    """Return a key, or ``None`` instead of an error: its text may show the key."""
    from joserfc.errors import JoseError

    try:
        return kind.import_key(value)
    except (JoseError, LookupError, TypeError, ValueError):
        return None


# Signing


def client_assertion(
    grant: ClientCredentials, *, audience: str, now: float, jti: str
) -> str:
    """Return a JWT that authenticates a client (RFC 7523) to the issuer `audience`."""
    claims = {
        "iss": grant.client_id,
        "sub": grant.client_id,
        "aud": audience,
        "jti": jti,
        "iat": int(now),
        "exp": int(now) + ASSERTION_LIFETIME_S,
    }
    algorithm = grant.signing_algorithm
    key = import_signing_key(grant.private_key_pem, algorithm)
    return sign({"typ": "JWT", "alg": algorithm}, claims, key)


def sign(header: Mapping[str, Any], claims: Mapping[str, Any], key: Any) -> str:
    """Return claims as a signed JWT; the header names the algorithm."""
    from joserfc import jwt

    return jwt.encode(dict(header), dict(claims), key, algorithms=[header["alg"]])


def import_signing_key(pem: str | None, algorithm: str) -> ECKey | RSAKey:
    """Return the private key of a PEM for an algorithm, or raise `ValueError`.

    The PEM is PKCS #8 or that of the key type, not encrypted.
    """
    kind = ALGORITHMS.get(algorithm)
    if kind is None:
        raise ValueError(
            f"cannot sign with {algorithm!r}: use one of {', '.join(ALGORITHMS)}"
        )
    jwk = _import_joserfc()
    key: ECKey | RSAKey | None = _import_key(
        jwk.RSAKey if kind == "RSA" else jwk.ECKey, pem
    )
    if key is None or not key.is_private:
        raise ValueError(
            f"{algorithm} cannot sign with this key: it must be a private key of type "
            f"{kind} as PEM, not encrypted"
        )
    if kind == "RSA":
        bits = key.raw_value.key_size
        if bits < MIN_RSA_BITS:
            raise ValueError(
                f"the private key must have {MIN_RSA_BITS} bits, it has {bits}"
            )
    elif key.curve_name != kind:  # type: ignore[union-attr] # no RSA key gets here
        raise ValueError(f"{algorithm} signs with the curve {kind}, not with the key's")
    return key


# Proofs of possession (RFC 9449)

_NONCE: Final = re.compile(r"[!#-\[\]-~]{1,1024}")  # RFC 9449 section 8.1: 1*NQCHAR


def generate_proof_key() -> dict[str, Any]:
    """Return a new private key for proofs as a JWK, from the system's random source."""
    return dict(_import_joserfc().ECKey.generate_key("P-256").as_dict(private=True))


def read_nonce(value: str | None) -> str | None:
    """Return the value of a ``DPoP-Nonce`` field, or ``None`` if it is no nonce."""
    return value if value is not None and _NONCE.fullmatch(value) else None


def token_hash(token: str) -> str:
    """Return the hash that binds a proof to a token (RFC 9449 section 4.2, ``ath``)."""
    return base64url(sha256(token.encode()).digest())


class Prover:
    """A signer of proofs with one key; raises `ValueError` if the key cannot sign them.

    A proof is for one request: method, URL, time, a fresh id, and the hash of a token.
    """

    def __init__(self, key: Mapping[str, Any]) -> None:
        self._key = _import_key(_import_joserfc().ECKey, dict(key))
        if self._key is None:
            raise ValueError("the key is not an elliptic curve key")
        if not self._key.is_private or self._key.curve_name != "P-256":
            raise ValueError("the key is not a private key of the curve P-256")
        public = self._key.as_dict(private=False)
        self._header = {
            "typ": "dpop+jwt",
            "alg": "ES256",
            # Only these members: no private ones, and no key id.
            "jwk": {name: public[name] for name in ("kty", "crv", "x", "y")},
        }

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
        """Return the value of the ``DPoP`` field for one request."""
        target = parse_url(url)
        claims = {
            "jti": jti,
            "htm": method,
            "htu": target.origin + target.path,  # section 4.2: no query, no fragment
            "iat": int(now),
        }
        if access_token is not None:
            claims["ath"] = token_hash(access_token)
        if nonce is not None:
            claims["nonce"] = nonce
        return sign(self._header, claims, self._key)


# Signature checks


@attrs.frozen
class VerificationKey:
    """A key that checks signatures."""

    kind: str  # "RSA", "oct", or the name of its curve
    kid: str | None  # the key id
    algorithm: str | None  # the only permitted algorithm; None: any of this kind
    key: Any = attrs.field(repr=masked, eq=False)


# The public members by type of key (RFC 7518 section 6).
_PUBLIC_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": ("n", "e"),
    "EC": ("crv", "x", "y"),
    "OKP": ("crv", "x"),
}
_PURPOSE: Final = "checking a signature"


def check_crypto() -> None:
    """Raise `LocalProtocolError` if joserfc is not installed."""
    _import_joserfc(_PURPOSE)


def import_verification_jwk(jwk: Mapping[str, Any]) -> VerificationKey:
    """Return a public key that checks signatures, or raise `ValueError`."""
    kind = str(jwk.get("kty"))
    members = _PUBLIC_MEMBERS.get(kind)
    operations = jwk.get("key_ops", ["verify"])
    if (
        members is None
        or jwk.get("use", "sig") != "sig"
        or not isinstance(operations, list)
        # Some issuers publish "sig" keys with the operation of the private key.
        or not {"verify", "sign"} & {str(name) for name in operations}
    ):
        raise ValueError("the key is not for checking signatures")
    module = _import_joserfc(_PURPOSE)
    if kind == "RSA":
        # Check the size first: joserfc warns of short keys and is slow with long ones.
        modulus = jwk.get("n")
        bits = len(modulus) * 6 if isinstance(modulus, str) else 0
        if not MIN_RSA_BITS <= bits <= MAX_RSA_BITS + 8:
            raise ValueError(
                f"an RSA key must have {MIN_RSA_BITS} to {MAX_RSA_BITS} bits, "
                f"it has {bits}"
            )
    public = {name: jwk[name] for name in members if name in jwk}
    key = _import_key(module.JWKRegistry, {"kty": kind, **public})
    if key is None:
        raise ValueError(f"the key is not a valid key of type {kind}")
    kid, algorithm = jwk.get("kid"), jwk.get("alg")
    return VerificationKey(
        getattr(key, "curve_name", kind),
        kid if isinstance(kid, str) else None,
        algorithm if isinstance(algorithm, str) else None,
        key,
    )


def import_verification_pem(pem: str) -> VerificationKey:
    """Return the public key of a PEM, or raise `ValueError`."""
    module = _import_joserfc(_PURPOSE)
    for kind in (module.RSAKey, module.ECKey, module.OKPKey):
        key = _import_key(kind, pem)
        if key is not None:
            return import_verification_jwk(key.as_dict(private=False))
    raise ValueError("the key must be a public key of type RSA, EC or OKP as PEM")


def import_secret(secret: bytes) -> VerificationKey:
    """Return a key from a shared secret; raise `ValueError` if that is too short."""
    # RFC 7518 section 3.2: as long as the hash; a shorter secret may be a password.
    if len(secret) < MIN_SECRET_BYTES:
        raise ValueError(
            f"a shared secret must have {MIN_SECRET_BYTES} bytes or more, it has "
            f"{len(secret)}"
        )
    return VerificationKey(
        "oct", None, None, _import_joserfc(_PURPOSE).OctKey.import_key(secret)
    )


def is_signature_valid(
    key: VerificationKey, algorithm: str, signed: bytes, signature: bytes
) -> bool:
    """Return whether the key made the signature with the algorithm; never raises."""
    kind = VERIFICATION_ALGORITHMS.get(algorithm) or HMAC_ALGORITHMS.get(algorithm)
    # The algorithm must fit the key: a public RSA key must not become a shared secret.
    if kind != key.kind or key.algorithm not in {None, algorithm}:
        return False
    from joserfc import jws
    from joserfc.errors import JoseError

    # joserfc 1.0 knows one of the two names only.
    name = "EdDSA" if kind == "Ed25519" else algorithm
    try:
        return jws.JWSRegistry.algorithms[name].verify(signed, signature, key.key)
    except (JoseError, TypeError, ValueError):
        return False


# Sealing (RFC 7516) in one form only: compact, ``dir`` and ``A256GCM``, so that a
# sealed text cannot choose the algorithm that opens it.

SEALING_KEY_BYTES: Final = 32  # of A256GCM (RFC 7518 section 5.3)
_PART: Final = re.compile(r"[A-Za-z0-9_-]*")


def import_sealing_key(key: object) -> Any:
    """Return a sealing key of 32 bytes, or raise `ValueError`, which never shows it."""
    if type(key) is not bytes or len(key) != SEALING_KEY_BYTES:
        raise ValueError(
            f"a sealing key must be {SEALING_KEY_BYTES} random bytes, such as "
            f"secrets.token_bytes({SEALING_KEY_BYTES}) makes"
        )
    return _import_joserfc("sealing session ids").OctKey.import_key(key)


def seal(plaintext: bytes, key: Any, *, kind: str) -> str:
    """Return the encrypted plaintext, different each time; its kind is not secret."""
    from joserfc import jwe

    return jwe.encrypt_compact(_sealing_header(kind), plaintext, key)


def unseal(sealed: str, keys: Sequence[Any], *, kind: str) -> bytes | None:
    """Return the plaintext; ``None`` if no key has sealed such a text of this kind.

    Only the canonical Base64 is accepted, no other text that decodes to the same bytes.
    Never raises.
    """
    prefix = f"{base64url(encode(_sealing_header(kind)))}.."
    parts = sealed.removeprefix(prefix).split(".")
    if (
        not sealed.startswith(prefix)
        or len(parts) != 3
        or not all(map(_is_canonical, parts))
    ):
        return None
    from joserfc import jwe
    from joserfc.errors import JoseError

    for key in keys:
        try:
            decrypted = jwe.decrypt_compact(sealed, key, algorithms=["dir", "A256GCM"])
        except (JoseError, ValueError):
            continue
        return decrypted.plaintext
    return None


def _sealing_header(kind: str) -> dict[str, Any]:
    return {"alg": "dir", "enc": "A256GCM", "typ": kind}


def _is_canonical(part: str) -> bool:
    """Return whether a part is canonical Base64: unused bits at its end are zero."""
    if _PART.fullmatch(part) is None or len(part) % 4 == 1:
        return False
    return base64url(urlsafe_b64decode(part + "=" * (-len(part) % 4))) == part
