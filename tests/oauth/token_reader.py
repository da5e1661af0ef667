"""Reading signed tokens as a server does, without the library under test."""

import base64
import hashlib
import json
from typing import Any

from joserfc import jws
from joserfc.jwk import import_key


def claims_of(token: str) -> dict[str, Any]:
    """Return the claims of a JWT, without verifying it."""
    return _part(token, 1)


def verified(token: str, key: Any) -> dict[str, Any]:
    """Return the claims of a JWT, verified with this key (PEM or JWK)."""
    if isinstance(key, str):
        key = import_key(key, "EC" if "EC" in _kind(token) else "RSA")
    algorithm = _part(token, 0)["alg"]
    found = jws.deserialize_compact(token, key, algorithms=[algorithm])
    return json.loads(found.payload)


def read(proof: str) -> tuple[str, dict[str, Any]]:
    """Return the thumbprint of the key of a proof of possession, and its claims."""
    head = _part(proof, 0)
    assert head["typ"] == "dpop+jwt"
    assert "d" not in head["jwk"], "a proof shows its private key"
    key = import_key(head["jwk"], head["jwk"]["kty"])
    return key.thumbprint(), verified(proof, key)


def token_hash(token: str) -> str:
    return _encoded(hashlib.sha256(token.encode()).digest())


def _kind(token: str) -> str:
    return "EC" if _part(token, 0)["alg"].startswith("ES") else "RSA"


def _part(token: str, number: int) -> dict[str, Any]:
    text = token.split(".")[number]
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
