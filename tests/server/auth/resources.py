"""Resource servers for tests, and requests to them."""

import asyncio
from typing import Any

import pytest

from mcpwire.auth.discovery import read_denial
from mcpwire.server.auth import (
    AuthenticationRefused,
    HttpRefusal,
    Principal,
    ResourceServer,
    StaticTokens,
)

RESOURCE = "https://mcp.example/mcp"
ISSUER = "https://login.example"
KNOWN = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
NOW = 1_800_000_000.0


class Fields:
    """Header fields; several of one name are a list."""

    def __init__(self, fields: dict[str, str | list[str]]) -> None:
        self.fields = fields

    def all(self, name: str) -> list[str]:
        found = self.fields.get(name, [])
        return [found] if isinstance(found, str) else found


class Verdicts:
    """A verifier with one configured outcome per token."""

    def __init__(self, verdicts: dict[str, Any]) -> None:
        self.verdicts = verdicts
        self.tokens: list[str] = []

    async def verify(self, token: str) -> Principal:
        self.tokens.append(token)
        verdict = self.verdicts[token]
        if isinstance(verdict, Exception):
            raise verdict
        return verdict


def principal(**members: Any) -> Principal:
    members = {"issuer": ISSUER, "subject": "ann", "audience": {RESOURCE}} | members
    return Principal(**members)


def resource(*verifiers: Any, **options: Any) -> ResourceServer:
    options.setdefault("clock", lambda: NOW)
    options.setdefault("authorization_servers", [ISSUER])
    verifiers = verifiers or (StaticTokens({"good": "ann"}),)
    return ResourceServer(RESOURCE, verifiers=verifiers, **options)


def ask(
    server: ResourceServer,
    *,
    verb: str = "POST",
    url: str = RESOURCE,
    **fields: str | list[str],
) -> Principal:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return asyncio.run(server.authenticate(Fields(named), verb, url))


def refusal(server: ResourceServer, **request: Any) -> HttpRefusal:
    with pytest.raises(AuthenticationRefused) as caught:
        ask(server, **request)
    assert isinstance(caught.value, HttpRefusal)
    return caught.value


def denial_of(refusal: Any) -> Any:
    return read_denial(refusal.http_status, dict(refusal.http_headers))
