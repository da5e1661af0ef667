"""An issuer for tests: its keys, its tokens and its website."""

import hmac
import json
from base64 import urlsafe_b64encode
from typing import Any

from joserfc import jwk
from joserfc.jws import JWSRegistry
from resources import ISSUER, NOW, RESOURCE

from mcpwire.auth.steps import Answer

EC = jwk.ECKey.generate_key("P-256")
OTHER_EC = jwk.ECKey.generate_key("P-256")
P384 = jwk.ECKey.generate_key("P-384")
ED = jwk.OKPKey.generate_key("Ed25519")
RSA = jwk.RSAKey.generate_key(2048)
SECRET = b"s" * 32


def public(key: Any, **members: Any) -> dict[str, Any]:
    return {**key.as_dict(private=False), **members}


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(header: Any, payload: Any, key: Any, *, by: str | None = None) -> str:
    """Sign anything unchecked; `by`: another algorithm than the header names."""
    parts = [
        encoded(part if isinstance(part, bytes) else json.dumps(part).encode())
        for part in (header, payload)
    ]
    text = ".".join(parts)
    if key is None:
        return text + "."
    if isinstance(key, bytes):
        return f"{text}.{encoded(hmac.digest(key, text.encode(), 'sha256'))}"
    algorithm = JWSRegistry.algorithms[by or header["alg"]]
    return f"{text}.{encoded(algorithm.sign(text.encode(), key))}"


def claims(**members: Any) -> dict[str, Any]:
    defaults = {
        "iss": ISSUER,
        "sub": "ann",
        "client_id": "cli",
        "aud": RESOURCE,
        "exp": NOW + 600,
        "scope": "read write",
    }
    return {k: v for k, v in (defaults | members).items() if v is not None}


def token(key: Any = EC, algorithm: str = "ES256", /, **members: Any) -> str:
    return sign({"alg": algorithm, "typ": "at+jwt"}, claims(**members), key)


class Website:
    """Answers fetches, and records them."""

    def __init__(self, pages: dict[str, Any]) -> None:
        self.pages = pages
        self.requests: list[Any] = []

    async def __call__(self, step: Any) -> Answer:
        self.requests.append(step)
        page = self.pages.get(step.url, 404)
        if isinstance(page, Exception):
            raise page
        if isinstance(page, int):
            return Answer(page, {}, b"")
        return Answer(200, {}, json.dumps(page).encode())

    @property
    def urls(self) -> list[str]:
        return [step.url for step in self.requests]
