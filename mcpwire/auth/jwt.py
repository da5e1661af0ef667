"""Signs what a client proves itself with (RFC 7523), and checks what others signed.

joserfc does both; it is optional, imported where something is signed or
checked and nowhere else. No message holds a key.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.wire.json import encode
from mcpwire.wire.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from joserfc.jwk import ECKey, RSAKey

__all__ = [
    "ALGORITHMS",
    "CHECKED_ALGORITHMS",
    "KEY_BYTES",
    "SHARED_ALGORITHMS",
    "CheckingKey",
    "Prover",
    "SigningKey",
    "check_crypto",
    "check_signing_key",
    "client_assertion",
    "generate_jwk",
    "import_checking_jwk",
    "import_checking_pem",
    "import_jwk",
    "import_sealing_key",
    "import_secret",
    "is_signed",
    "new_key",
    "seal",
    "sign",
    "unseal",
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


_PROOF_ALGORITHM: Final = "ES256"

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
            "alg": _PROOF_ALGORITHM,
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


KEY_BYTES: Final = 32
"""What A256GCM takes (RFC 7518 section 5.3)."""

_PART: Final = re.compile(r"[A-Za-z0-9_-]*")


def import_sealing_key(key: object) -> Any:
    """Return a key, ready to seal and to open.

    Raises:
        ValueError: It is not 32 bytes; shows nothing of it.
        LocalProtocolError: joserfc is not installed.
    """
    if type(key) is not bytes or len(key) != KEY_BYTES:
        raise ValueError(
            f"a sealing key must be {KEY_BYTES} random bytes, such as "
            f"secrets.token_bytes({KEY_BYTES}) makes"
        )
    return _load_for_sealing().OctKey.import_key(key)


def seal(plaintext: bytes, key: Any, *, kind: str) -> str:
    """Return a text that only who has the key can read; each time another one.

    Args:
        plaintext: What it says.
        key: One of `import_sealing_key`.
        kind: What it is for and how it is written; goes along, readable.
    """
    from joserfc import jwe

    return jwe.encrypt_compact(_sealing_header(kind), plaintext, key)


def unseal(sealed: str, keys: Sequence[Any], *, kind: str) -> bytes | None:
    """Return what a text says; ``None``: none of the keys sealed it for that.

    There is one spelling of each: what differs in a single character is not sealed by
    us, also where base64 would read it alike. Never raises.
    """
    start = f"{_spell(encode(_sealing_header(kind)))}.."
    parts = sealed.removeprefix(start).split(".")
    if (
        not sealed.startswith(start)
        or len(parts) != 3
        or not all(map(_is_canonical, parts))
    ):
        return None
    from joserfc import jwe
    from joserfc.errors import JoseError

    for key in keys:
        try:
            opened = jwe.decrypt_compact(sealed, key, algorithms=["dir", "A256GCM"])
        except (JoseError, ValueError):
            continue
        return opened.plaintext
    return None


def _sealing_header(kind: str) -> dict[str, Any]:
    return {"alg": "dir", "enc": "A256GCM", "typ": kind}


def _is_canonical(part: str) -> bool:
    """Tell whether a part is spelled as we do: its last character may say too much."""
    if _PART.fullmatch(part) is None or len(part) % 4 == 1:
        return False
    return _spell(urlsafe_b64decode(part + "=" * (-len(part) % 4))) == part


def _spell(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _load_for_sealing() -> ModuleType:
    try:
        from joserfc import jwk
    except ImportError as error:
        raise LocalProtocolError(
            "sealing session ids needs joserfc: pip install joserfc"
        ) from error
    return jwk
