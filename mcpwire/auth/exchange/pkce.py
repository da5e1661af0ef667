"""Proof Key for Code Exchange (RFC 7636): a code is good only for who asked for it.

S256 and nothing else: with ``plain`` whoever reads the request has the proof.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Final

__all__ = ["METHOD", "challenge", "verifier"]

METHOD: Final = "S256"

_ENTROPY: Final = range(32, 97)
"""Bytes: RFC 7636 section 7.1 asks for 32, and its section 4.1 for at most 128
characters."""


def verifier(entropy: bytes) -> str:
    """Return the secret half, made of 32 to 96 random bytes."""
    assert len(entropy) in _ENTROPY, "a code verifier has 43 to 128 characters"
    return _encode(entropy)


def challenge(verifier: str) -> str:
    """Return the public half of a verifier (RFC 7636 section 4.2)."""
    return _encode(sha256(verifier.encode("ascii")).digest())


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
