"""A protected resource: metadata, challenges, tokens, proofs, and a cache of both.

They do no I/O: the time and all fetched documents are arguments.
"""

from __future__ import annotations

import binascii
import re
from hashlib import sha256
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import attrs

from mcpwire.auth.jwt import import_verification_jwk, is_signature_valid, token_hash
from mcpwire.auth.records import OFFLINE_ACCESS, is_scope, masked
from mcpwire.wire.json import loads_object
from mcpwire.wire.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mcpwire.auth.jwt import VerificationKey
    from mcpwire.wire.urls import Url

T = TypeVar("T")


class TtlCache(Generic[T]):
    """Values by secret text, each until its expiry; at most the newest `maximum`."""

    def __init__(self, maximum: int) -> None:
        self._values: dict[bytes, tuple[T, float, float]] = {}
        self._maximum = maximum

    def __len__(self) -> int:
        return len(self._values)

    def get(self, text: str, now: float) -> T | None:
        """Return the value of a text; ``None``: not cached, or expired."""
        entry = self._values.get(_digest(text))
        # Before the beginning: the clock was set back.
        return entry[0] if entry and entry[1] <= now < entry[2] else None

    def put(self, text: str, value: T, begin: float, until: float) -> None:
        """Store a value from `begin` on; remove one that ended before, if oldest."""
        digest = _digest(text)
        self._values.pop(digest, None)
        # The oldest are first, and all are valid for about the same time.
        for oldest in list(islice(self._values, 2)):
            if self._values[oldest][2] <= begin or len(self) >= self._maximum:
                del self._values[oldest]
        self._values[digest] = value, begin, until

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


# Metadata (RFC 9728)

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


def well_known_paths(resource: Url) -> tuple[str, ...]:
    """Return the paths of a resource's metadata on its host, its own path first."""
    # 2026-07-28 basic/authorization, "Protected Resource Metadata Discovery".
    path = "" if resource.path == "/" else resource.path
    return tuple(dict.fromkeys((_WELL_KNOWN + path, _WELL_KNOWN)))


def resource_document(
    resource: str,
    authorization_servers: Sequence[str],
    *,
    scopes: Iterable[str],
    texts: Mapping[str, str | None],
    proof_algorithms: Sequence[str] = (),
    are_proofs_required: bool = False,
) -> dict[str, Any]:
    """Return the metadata of a resource; None values of `texts` are omitted."""
    document: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": list(authorization_servers),
        "bearer_methods_supported": ["header"],
    }
    # 2026-07-28 basic/authorization, "Refresh Tokens": not in a resource's scopes.
    listed = [scope for scope in dict.fromkeys(scopes) if scope != OFFLINE_ACCESS]
    if listed:
        document["scopes_supported"] = listed
    document |= {name: text for name, text in texts.items() if text is not None}
    if proof_algorithms:
        document["dpop_signing_alg_values_supported"] = list(proof_algorithms)
    if are_proofs_required:
        document["dpop_bound_access_tokens_required"] = True
    return document


def expand_scopes(includes: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Map each scope to itself and all scopes that it includes, also indirectly."""
    expanded = {scope: frozenset({scope, *includes[scope]}) for scope in includes}
    for scope, included in expanded.items():  # all ways that lead through this scope
        for other, reachable in expanded.items():
            if scope in reachable:
                expanded[other] = reachable | included
    return expanded


# The field ``WWW-Authenticate`` (RFC 9110 section 11.6.1)

_UNQUOTABLE: Final = re.compile(r"[^ -~]")
_ESCAPED: Final = re.compile(r'(["\\])')


def format_challenge(scheme: str, params: Mapping[str, str | None]) -> str:
    """Return one challenge; parameters without a value are omitted."""
    pairs = []
    for name, value in params.items():
        if value:
            quoted = _ESCAPED.sub(r"\\\1", _UNQUOTABLE.sub("?", value))
            pairs.append(f'{name}="{quoted}"')
    return f"{scheme} {', '.join(pairs)}" if pairs else scheme


# Signed tokens (RFC 7515 section 7.1), parsed once and strictly, so that the verified
# bytes are the used ones

_COMPACT: Final = re.compile(r"([A-Za-z0-9_-]++)\.([A-Za-z0-9_-]++)\.([A-Za-z0-9_-]++)")
_TO_STANDARD: Final = bytes.maketrans(b"-_", b"+/")


class RejectedToken(ValueError):
    """The token, or its claims, are not valid now; the message never quotes them."""


@attrs.frozen
class SignedToken:
    """The parts of a signed token, not verified."""

    header: Mapping[str, Any] = attrs.field(repr=masked)
    algorithm: str
    kid: str | None
    payload: bytes = attrs.field(repr=masked)
    signed: bytes = attrs.field(repr=masked)
    signature: bytes = attrs.field(repr=masked)


def read_signed_token(token: str) -> SignedToken:
    """Return the parts of a signed token; raise `RejectedToken` if it is malformed."""
    match = _COMPACT.fullmatch(token)
    if match is None:
        raise RejectedToken("it is not a signed token")
    header = read_json_part(_decode(match[1]), "header")
    # RFC 7515, 4.1.11: an unknown critical extension makes a token invalid. No
    # extension is supported here.
    if "crit" in header or "b64" in header:
        raise RejectedToken("its header needs an extension")
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str):
        raise RejectedToken("its header names no algorithm")
    if kid is not None and not isinstance(kid, str):
        raise RejectedToken("its header names no key by text")
    signed = token.encode("ascii")[: match.end(2)]
    return SignedToken(
        header, algorithm, kid, _decode(match[2]), signed, _decode(match[3])
    )


def read_json_part(data: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object in a part; raise `RejectedToken` for anything else."""
    value = loads_object(data)
    if value is None:
        raise RejectedToken(f"its {what} is not a JSON object")
    return value


def _decode(part: str) -> bytes:
    padded = part.encode("ascii").translate(_TO_STANDARD) + b"=" * (-len(part) % 4)
    try:
        return binascii.a2b_base64(padded, strict_mode=True)
    except binascii.Error:
        raise RejectedToken("a part of it is not Base64") from None


# Claims of a token or of introspection: RFC 7519, RFC 9068 and RFC 7662 share their
# names, but issuers differ in the names of scopes and clients


def read_claims(claims: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a `Principal`; raise `RejectedToken` for a wrong type."""
    return {
        "issuer": _text(claims, "iss"),
        # RFC 9068, 2.2; OpenID Connect calls it azp.
        "client_id": _text(claims, "client_id") or _text(claims, "azp"),
        "subject": _text(claims, "sub"),
        "audience": _texts(claims, "aud"),
        "scopes": _scopes(claims),
        "expires_at": _date(claims, "exp"),
        "claims": claims,
    }


def check_times(claims: Mapping[str, Any], *, now: float, leeway: float) -> None:
    """Raise `RejectedToken` if a token has expired or is not valid yet."""
    # RFC 7519, 4.1.4 and 4.1.5: valid before exp, and not before nbf.
    expires_at, begins_at = _date(claims, "exp"), _date(claims, "nbf")
    if expires_at is not None and now - leeway >= expires_at:
        raise RejectedToken("it has expired")
    if begins_at is not None and now + leeway < begins_at:
        raise RejectedToken("it is not valid yet")


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is not None and not isinstance(value, str):
        raise RejectedToken(f"its {name} is not text")
    return value


def _texts(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    value = claims.get(name)
    items = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(items, list) or any(not isinstance(item, str) for item in items):
        raise RejectedToken(f"its {name} is neither a text nor a list of texts")
    return frozenset(items)


def _date(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if type(value) not in {int, float} or not isfinite(value):
        raise RejectedToken(f"its {name} is not a time")
    return float(value)


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    # RFC 9068, 2.2.3: one string with spaces; Okta and Entra use `scp`, also as a list.
    name = "scope" if claims.get("scope") is not None else "scp"
    words = (word for text in _texts(claims, name) for word in text.split(" "))
    return frozenset(filter(is_scope, words))


# Proofs of possession (RFC 9449) for one request: its method, URL, token and time. Each
# proof is accepted once and remembered until its age alone would refuse it

# Several algorithms, because the client chooses the key.
PROOF_ALGORITHMS: Final = ("ES256", "ES384", "ES512", "EdDSA", "RS256", "PS256")
# Twice the length of a proof with an RSA key of 4,096 bits: an unknown client chooses
# the key, and the check must not take long.
MAX_PROOF_CHARS: Final = 4_096
MAX_PROOF_AGE_S: Final = 60.0  # also the tolerated clock skew
MAX_PROOF_ID_CHARS: Final = 1_024
MAX_PROOFS: Final = 100_000  # accepted ones that could be replayed

_PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


def bound_thumbprint(claims: Mapping[str, Any]) -> str | None:
    """Return the thumbprint of the key that a token is bound to, or ``None``."""
    # RFC 7800, 3.1; RFC 9449, 6.1. The binding to a certificate cannot be verified
    # here.
    if "cnf" not in claims:
        return None
    confirmation = claims["cnf"]
    if type(confirmation) is not dict or list(confirmation) != ["jkt"]:
        raise RejectedToken("it is bound to a key by an unknown method")
    thumbprint = confirmation["jkt"]
    if not isinstance(thumbprint, str):
        raise RejectedToken("it is bound to a key that is not named by text")
    return thumbprint


def check_proof(
    values: Sequence[str],
    *,
    token: str,
    thumbprint: str,
    verb: str,
    urls: Collection[str],
    now: float,
    replays: TtlCache[bool],
) -> None:
    """Raise `RejectedToken` unless a request has a valid proof for its bound token."""
    if len(values) != 1 or len(values[0]) > MAX_PROOF_CHARS:
        raise RejectedToken("it must have exactly one proof")
    proof = read_signed_token(values[0].strip(" \t"))
    key = _proof_key(proof)
    if not is_signature_valid(key, proof.algorithm, proof.signed, proof.signature):
        raise RejectedToken("its signature is wrong")
    if key.key.thumbprint() != thumbprint:
        raise RejectedToken("it is signed with another key")
    claims = read_json_part(proof.payload, "payload")
    issued_at, id = claims.get("iat"), claims.get("jti")
    # RFC 9449, 4.3.
    if claims.get("htm") != verb or _normalize_url(claims.get("htu")) not in urls:
        raise RejectedToken("it is for another request")
    if claims.get("ath") != token_hash(token):
        raise RejectedToken("it is for another token")
    if (
        not isinstance(issued_at, (int, float))
        or abs(now - issued_at) > MAX_PROOF_AGE_S
    ):
        raise RejectedToken("its time (iat) is too old or in the future")
    if not isinstance(id, str) or not 0 < len(id) <= MAX_PROOF_ID_CHARS:
        raise RejectedToken("it has no usable id")
    proof_id = f"{thumbprint} {id}"
    if replays.get(proof_id, now):
        raise RejectedToken("it was used before")
    until = issued_at + MAX_PROOF_AGE_S + 1  # one more: times may be rounded to seconds
    replays.put(proof_id, True, issued_at - MAX_PROOF_AGE_S, until)


def _proof_key(proof: SignedToken) -> VerificationKey:
    jwk = proof.header.get("jwk")
    if (
        proof.header.get("typ") != "dpop+jwt"
        or proof.algorithm not in PROOF_ALGORITHMS
        or type(jwk) is not dict
        or _PRIVATE_MEMBERS & jwk.keys()
    ):
        raise RejectedToken("it is not a proof")
    try:
        return import_verification_jwk(jwk)
    except ValueError:
        raise RejectedToken("it shows no key") from None


def _normalize_url(url: object) -> str | None:
    """Return a URL without query and fragment, normalized; ``None`` if it is none."""
    if not isinstance(url, str):
        return None
    try:
        parsed = parse_url(url)
    except ValueError:
        return None
    return parsed.origin + parsed.path
