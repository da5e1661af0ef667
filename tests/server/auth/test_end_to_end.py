"""Our client logs in to our server over sockets, and steps up its scopes."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from authorization_server import SENTINEL, oauth
from issuing import EC, public, sign

import mcpwire
from mcpwire.server.auth import (
    IntrospectionVerifier,
    JwtVerifier,
    ResourceServer,
    StaticTokens,
)

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


def introspecting(auth: Any, **options: Any) -> IntrospectionVerifier:
    return IntrospectionVerifier(
        auth.url("/introspect"),
        issuer=auth.issuer,
        client_id="rs",
        client_secret="s",
        **options,
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
        serving = asyncio.ensure_future(uvicorn_server.serve([listening]))
        try:
            yield made
        finally:
            uvicorn_server.should_exit = True
            await asyncio.wait_for(serving, BOUND_S)


ERAS = ["stateless", "session"]
READ, WRITE = "files:read", "files:write"


def scopes(auth):
    return [request.query.get("scope") for request in auth.authorizations]


async def get(url, path, **headers):
    """Send a GET without an MCP client; return status, headers and body."""

    def fetch():
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    return await asyncio.to_thread(fetch)


@pytest.mark.case("G01")
@pytest.mark.rule("AUTH-03", "AUTH-05", "AUTH-06", "AUTH-13", "FLOW-11", "FLOW-14")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_logs_in_and_steps_up(auth, era):
    introspects(auth)
    async with guarded(auth, introspecting(auth)) as server:
        target = mcpwire.Http(server.url, auth=oauth())
        async with mcpwire.Client(target, mode=era) as client:
            assert (await client.call_tool("whoami")).text == "ann"
            assert scopes(auth) == [READ]
            assert (await client.call_tool("erase")).text == "gone"
            assert scopes(auth) == [READ, f"{READ} {WRITE}"]
            assert (await client.call_tool("whoami")).text == "ann"
    assert [request.query["resource"] for request in auth.authorizations] == [
        server.url
    ] * 2


@pytest.mark.case("G01")
@pytest.mark.rule("FLOW-24", "SEC-03")
@pytest.mark.attack("S08")
@pytest.mark.parametrize("era", ERAS)
async def test_handler_sees_the_principal_but_not_the_token(auth, era, caplog):
    caplog.set_level("DEBUG")
    issues_jwts(auth)
    async with guarded(auth, reading(auth)) as server:
        target = mcpwire.Http(server.url, auth=oauth())
        async with mcpwire.Client(target, mode=era) as client:
            assert (await client.call_tool("whoami")).text == "ann"
    (seen,) = server.seen
    assert seen.principal.issuer == auth.issuer
    assert seen.principal.scopes == {READ}
    assert "user-agent" in seen.headers
    assert "authorization" not in seen.headers
    assert "eyJ" not in repr(seen.headers) + repr(seen.principal) + repr(seen.request)
    logged = [r for r in caplog.records if r.name.startswith("mcpwire.server")]
    assert "eyJ" not in "".join(record.getMessage() for record in logged)
    # The JWT was verified with keys found through the issuer's metadata.
    assert auth.of("/jwks")
    assert not auth.of("/introspect")


@pytest.mark.case("G01")
@pytest.mark.parametrize("era", ERAS)
async def test_required_dpop_binds_tokens_to_a_key(auth, era):
    introspects(auth)
    async with guarded(auth, introspecting(auth), dpop="required") as server:
        target = mcpwire.Http(server.url, auth=oauth(dpop=True))
        async with mcpwire.Client(target, mode=era) as client:
            for _ in range(3):
                assert (await client.call_tool("whoami")).text == "ann"
    assert auth.bound


@pytest.mark.rule("FLOW-22")
@pytest.mark.parametrize("era", ERAS)
async def test_revoked_token_is_refreshed(auth, era):
    introspects(auth)
    verifier = introspecting(auth, remember=0.0)
    async with guarded(auth, verifier) as server:
        target = mcpwire.Http(server.url, auth=oauth())
        async with mcpwire.Client(target, mode=era) as client:
            await client.call_tool("whoami")
            auth.expire_all()
            assert (await client.call_tool("whoami")).text == "ann"
    assert auth.grants == ["authorization_code", "refresh_token"]


@pytest.mark.case("G01")
@pytest.mark.rule("AUTH-03", "AUTH-05", "FLOW-26")
async def test_metadata_is_served_at_both_well_known_urls(auth):
    options = {"scopes_supported": [READ, WRITE, "offline_access"]}
    async with guarded(auth, introspecting(auth), **options) as server:
        for path in ("", "/mcp"):
            known = f"/.well-known/oauth-protected-resource{path}"
            status, fields, body = await get(server.url, known)
            assert (status, fields["content-type"]) == (200, "application/json")
            assert json.loads(body) == {
                "resource": server.url,
                "authorization_servers": [auth.issuer],
                "bearer_methods_supported": ["header"],
                "scopes_supported": [READ, WRITE],
            }


@pytest.mark.case("G01")
@pytest.mark.rule("AUTH-14", "FLOW-23")
@pytest.mark.attack("S08")
async def test_refused_get_requests_do_not_reveal_the_token(auth):
    introspects(auth)
    token = auth.give((READ,))["access_token"]  # without a resource
    bearer = {"authorization": f"Bearer {token}"}
    async with guarded(auth, introspecting(auth)) as server:
        for path, headers, expected in (
            ("/mcp", {}, 401),
            ("/mcp", bearer, 401),
            (f"/mcp?access_token={token}", {}, 400),
            ("/mcp", {"authorization": "Bearer"}, 400),
        ):
            status, fields, body = await get(server.url, path, **headers)
            assert status == expected
            assert fields["www-authenticate"].startswith("Bearer ")
            assert SENTINEL not in fields.as_string() + body.decode()


@pytest.mark.rule("SEC-06", "LHTTP-33")
@pytest.mark.attack("S09")
async def test_session_id_does_not_authenticate_another_user(auth):
    tokens = StaticTokens(
        {name: {"subject": name, "scopes": [READ]} for name in ("ann", "bob")}
    )
    async with guarded(auth, tokens) as server:
        target = mcpwire.Http(server.url, auth="ann")
        async with mcpwire.Client(target, mode="session") as client:
            assert (await client.call_tool("whoami")).text == "ann"
            headers = {
                "mcp-session-id": client.session_id,
                "accept": "text/event-stream",
                "authorization": "Bearer bob",
            }
            stolen = await get(server.url, "/mcp", **headers)
            unknown = await get(
                server.url, "/mcp", **headers | {"mcp-session-id": "unknown"}
            )
            unauthenticated = await get(
                server.url, "/mcp", **headers | {"authorization": "x"}
            )
            assert (await client.call_tool("whoami")).text == "ann"
    assert (stolen[0], stolen[2]) == (unknown[0], unknown[2])
    assert (stolen[0], unauthenticated[0]) == (404, 401)


async def test_unavailable_issuer_is_a_503_without_a_challenge(auth):
    auth.on["/introspect"] = lambda _: (503, {}, b"")
    async with guarded(auth, introspecting(auth)) as server:
        status, fields, _ = await get(server.url, "/mcp", authorization="Bearer t")
    assert status == 503
    assert fields["retry-after"]
    assert "www-authenticate" not in fields
