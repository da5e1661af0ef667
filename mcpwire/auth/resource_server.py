"""Checks that whoever shows a token has the key it is bound to (RFC 9449).

A proof is for one request: its method, its URL, its token, one moment. Each is taken
once; those that were taken are remembered until they would be too old anyway.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.auth.jwt import import_checking_jwk, is_signed
from mcpwire.auth.scopes import OFFLINE_ACCESS, is_scope
from mcpwire.wire.json import JSONDecodeError, loads
from mcpwire.wire.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mcpwire.auth.jwt import CheckingKey
    from mcpwire.wire.urls import Url

__all__ = [
    "LONGEST_PROOF",
    "PROOF_ALGORITHMS",
    "ClaimsError",
    "Replays",
    "SignedToken",
    "TokenFacts",
    "UnsoundToken",
    "binding_of",
    "check_proof",
    "check_times",
    "close_scopes",
    "format_challenge",
    "parse_resource",
    "read_claims",
    "read_object",
    "read_signed",
    "resource_document",
    "well_known_paths",
]

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


def parse_resource(
    text: str, *, allow_insecure: bool = False, what: str = "resource"
) -> Url:
    """Return the parts of the URI by which a resource, or an issuer, is known.

    Raises:
        ValueError: No token can be for it, or of it.
    """
    url = parse_url(text)
    # RFC 9728, 1.2 and RFC 8414, 2; 2026-07-28 basic/authorization, "Canonical Server
    # URI".
    if (url.query, url.fragment) != (None, None):
        raise ValueError(f"the {what} '{url}' must have no query and no fragment")
    if not (url.is_secure or allow_insecure):
        raise ValueError(
            f"the {what} '{url}' must be https: tokens would travel unencrypted"
        )
    return url


def well_known_paths(resource: Url) -> tuple[str, ...]:
    """Return where a resource describes itself on its host: its own place first."""
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
    """Return what a resource says of itself.

    Args:
        resource: The URI that tokens are for.
        authorization_servers: The issuers of its tokens; at least one.
        scopes: What its tokens can allow.
        texts: Further members that are texts; those without one are left out.
        proof_algorithms: How proofs of possession may be signed.
        are_proofs_required: Whether only tokens that are bound to a key are taken.
    """
    document: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": list(authorization_servers),
        "bearer_methods_supported": ["header"],
    }
    # 2026-07-28 basic/authorization, "Refresh Tokens": nothing that a resource needs.
    named = [scope for scope in dict.fromkeys(scopes) if scope != OFFLINE_ACCESS]
    if named:
        document["scopes_supported"] = named
    document |= {name: text for name, text in texts.items() if text is not None}
    if proof_algorithms:
        document["dpop_signing_alg_values_supported"] = list(proof_algorithms)
    if are_proofs_required:
        document["dpop_bound_access_tokens_required"] = True
    return document


def close_scopes(includes: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Return all that each scope includes, also by way of others, and itself.

    Args:
        includes: What a scope includes directly; may go in circles.
    """
    direct = {scope: tuple(others) for scope, others in includes.items()}
    closed: dict[str, frozenset[str]] = {}
    for scope in direct:
        found = {scope}
        waiting = [scope]
        while waiting:
            new = [s for s in direct.get(waiting.pop(), ()) if s not in found]
            found.update(new)
            waiting += new
        closed[scope] = frozenset(found)
    return closed


_UNQUOTABLE: Final = re.compile(r"[^ -~]")
_ESCAPED: Final = re.compile(r'(["\\])')


def format_challenge(scheme: str, params: Mapping[str, str | None]) -> str:
    """Return one challenge; parameters without a value are left out.

    Whatever the values are, the field stays one field: characters that cannot stand
    between quotation marks become question marks.
    """
    written = [f'{name}="{_quote(value)}"' for name, value in params.items() if value]
    return f"{scheme} {', '.join(written)}" if written else scheme


def _quote(value: str) -> str:
    return _ESCAPED.sub(r"\\\1", _UNQUOTABLE.sub("?", value))


_COMPACT: Final = re.compile(r"([A-Za-z0-9_-]++)\.([A-Za-z0-9_-]++)\.([A-Za-z0-9_-]++)")
_TO_STANDARD: Final = bytes.maketrans(b"-_", b"+/")


class UnsoundToken(ValueError):
    """The text is no such token, or one that must not be believed; never quotes it."""


def _masked(_: object) -> str:
    return "'***'"


@attrs.frozen
class SignedToken:
    """The parts of a token, none of them believed yet."""

    header: Mapping[str, Any] = attrs.field(repr=_masked)
    algorithm: str
    kid: str | None
    payload: bytes = attrs.field(repr=_masked)
    signed: bytes = attrs.field(repr=_masked)
    signature: bytes = attrs.field(repr=_masked)


def read_signed(token: str) -> SignedToken:
    """Return the parts of a signed token.

    Raises:
        UnsoundToken: It is none, or needs to be understood in a way that nobody here
            knows.
    """
    match = _COMPACT.fullmatch(token)
    if match is None:
        raise UnsoundToken("it is no signed token")
    header = read_object(_decode(match[1]), "header")
    # RFC 7515, 4.1.11: what must be understood and is not makes it invalid; nothing is
    # understood here that would have to be listed.
    if "crit" in header or "b64" in header:
        raise UnsoundToken("its header needs an extension")
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str):
        raise UnsoundToken("its header names no algorithm")
    if kid is not None and not isinstance(kid, str):
        raise UnsoundToken("its header names no key by text")
    signed = token.encode("ascii")[: match.end(2)]
    return SignedToken(
        header, algorithm, kid, _decode(match[2]), signed, _decode(match[3])
    )


def read_object(data: bytes, what: str) -> dict[str, Any]:
    """Return a part that is a JSON object.

    Raises:
        UnsoundToken: It is none.
    """
    try:
        found = loads(data)
    except JSONDecodeError:
        raise UnsoundToken(f"its {what} is not JSON") from None
    if type(found) is not dict:
        raise UnsoundToken(f"its {what} is no object")
    return found


def _decode(part: str) -> bytes:
    padded = part.encode("ascii").translate(_TO_STANDARD) + b"=" * (-len(part) % 4)
    try:
        return binascii.a2b_base64(padded, strict_mode=True)
    except binascii.Error:
        raise UnsoundToken("a part of it is no Base64") from None


class ClaimsError(ValueError):
    """What is said of a token does not make it good now; never quotes it."""


@attrs.frozen(kw_only=True)
class TokenFacts:
    """What matters of the claims, in one spelling."""

    issuer: str | None
    client_id: str | None
    subject: str | None
    audience: frozenset[str]
    scopes: frozenset[str]
    expires_at: float | None


def read_claims(claims: Mapping[str, Any]) -> TokenFacts:
    """Return what matters of the claims.

    Raises:
        ClaimsError: One of them is of another type than its own.
    """
    return TokenFacts(
        issuer=_text(claims, "iss"),
        # RFC 9068, 2.2; OpenID Connect's name for it comes second.
        client_id=_text(claims, "client_id") or _text(claims, "azp"),
        subject=_text(claims, "sub"),
        audience=_texts(claims, "aud"),
        scopes=_scopes(claims),
        expires_at=_date(claims, "exp"),
    )


def check_times(claims: Mapping[str, Any], *, now: float, leeway: float) -> None:
    """Check that a token is good at this time; what nobody said is no bound.

    Args:
        claims: What its issuer says.
        now: Seconds since 1970.
        leeway: By how much clocks may differ, in seconds.

    Raises:
        ClaimsError: It is not good any more, or not yet.
    """
    # RFC 7519, 4.1.4 and 4.1.5: before the one, and not before the other.
    expires_at, begins_at = _date(claims, "exp"), _date(claims, "nbf")
    if expires_at is not None and now - leeway >= expires_at:
        raise ClaimsError("it is good no more")
    if begins_at is not None and now + leeway < begins_at:
        raise ClaimsError("it is not good yet")


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is not None and not isinstance(value, str):
        raise ClaimsError(f"its {name} is no text")
    return value


def _texts(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    value = claims.get(name)
    items = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(items, list) or any(not isinstance(item, str) for item in items):
        raise ClaimsError(f"its {name} is neither a text nor a list of texts")
    return frozenset(items)


def _date(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if type(value) not in {int, float} or not isfinite(value):
        raise ClaimsError(f"its {name} is no time")
    return float(value)


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    # RFC 9068, 2.2.3 has words in one text; Okta and Entra have `scp`, as a list or so.
    name = "scope" if claims.get("scope") is not None else "scp"
    words = (word for text in _texts(claims, name) for word in text.split(" "))
    return frozenset(filter(is_scope, words))


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
