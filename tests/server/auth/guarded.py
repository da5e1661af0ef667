"""An MCP server in uvicorn that needs tokens of a scripted authorization server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import TYPE_CHECKING, Any

import uvicorn
from issuing import EC, public, sign

import mcpwire
from mcpwire.server.auth import IntrospectionVerifier, JwtVerifier, ResourceServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BOUND_S = 30.0


def json_page(document: Any) -> tuple[int, dict[str, str], bytes]:
    fields = {"content-type": "application/json"}
    return 200, fields, json.dumps(document).encode()


def introspects(auth: Any) -> None:
    """Let an authorization server answer introspection requests."""

    def introspect(request: Any) -> Any:
        assert request.headers["authorization"].startswith("Basic ")
        token = request.form["token"]
        if token not in auth.live:
            return json_page({"active": False})
        family = next(f for f in auth.families.values() if token in f.access)
        claims = {"active": True, "sub": "ann", "client_id": family.client_id}
        claims |= {"scope": " ".join(auth.live[token]), "aud": family.resource}
        if token in auth.bound:
            claims |= {"cnf": {"jkt": auth.bound[token]}}
        return json_page(claims)

    auth.on["/introspect"] = introspect


def issues_jwts(auth: Any) -> None:
    """Let an authorization server issue JWTs, and publish its keys."""

    def as_jwt(answer: dict[str, Any]) -> dict[str, Any]:
        opaque = answer.get("access_token")
        if opaque is None:
            return answer
        family = next(f for f in auth.families.values() if opaque in f.access)
        claims = {"iss": auth.issuer, "sub": "ann", "client_id": family.client_id}
        claims |= {"aud": family.resource, "exp": 4_000_000_000, "jti": opaque}
        claims |= {"scope": answer.get("scope", "")}
        head = {"typ": "at+jwt", "alg": "ES256", "kid": "one"}
        return answer | {"access_token": sign(head, claims, EC)}

    auth.edit["token"] = as_jwt
    auth.edit["metadata"] = lambda document: {**document, "jwks_uri": auth.url("/jwks")}
    auth.on["/jwks"] = lambda _: json_page({"keys": [public(EC, kid="one")]})


def introspecting(auth: Any) -> IntrospectionVerifier:
    return IntrospectionVerifier(
        auth.url("/introspect"), issuer=auth.issuer, client_id="rs", client_secret="s"
    )


def reading(auth: Any) -> JwtVerifier:
    return JwtVerifier(auth.issuer)


class Guarded:
    """A server, its URL and the contexts its tool received."""

    def __init__(self, url: str, server: mcpwire.Server) -> None:
        self.url = url
        self.server = server
        self.seen: list[mcpwire.Context] = []

    def add_tools(self) -> None:
        async def whoami(ctx: mcpwire.Context) -> str:
            self.seen.append(ctx)
            return f"{ctx.principal.subject}"

        async def erase() -> str:
            return "gone"

        self.server.add_tool(whoami, name="whoami")
        self.server.add_tool(erase, name="erase", scopes=["files:write"])


@contextlib.asynccontextmanager
async def guarded(auth: Any, verifier: Any, **options: Any) -> AsyncIterator[Guarded]:
    """Serve a server that needs tokens of `auth`."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # so that clients can connect before uvicorn runs
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        resource = ResourceServer(
            url,
            authorization_servers=[auth.issuer],
            verifiers=[verifier],
            required_scopes=["files:read"],
            **options,
        )
        made = Guarded(url, mcpwire.Server("guarded", "1.0", auth=resource))
        made.add_tools()
        config = uvicorn.Config(
            made.server.asgi(), log_config=None, lifespan="on", ws="none"
        )
        uvicorn_server = uvicorn.Server(config)
        serving = asyncio.ensure_future(uvicorn_server._serve([listening]))
        try:
            yield made
        finally:
            uvicorn_server.should_exit = True
            await asyncio.wait_for(serving, BOUND_S)
