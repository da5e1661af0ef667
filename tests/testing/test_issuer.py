"""The authorization server for tests: whole logins, what it refuses, what it says."""

from __future__ import annotations

import asyncio
import contextlib

import httpx
import pytest

import mcpwire
from mcpwire.server.auth.resource_server import InvalidToken
from mcpwire.server.http.uvicorn import serve_http
from mcpwire.testing import AsgiTransport, Issuer

PATIENCE = 30.0


class Guarded:
    """What is served: a server, and beside it the issuer of the tokens it wants."""

    def __init__(self, server, issuer):
        self.auth = server.auth
        self.asgi = lambda **options: issuer.beside(server.asgi(**options))


@pytest.fixture
def port():
    from ports import kept_port

    with kept_port() as found:
        yield found


@contextlib.asynccontextmanager
async def guarded(port, **options):
    """Serve a server that says who asks; give its URL and its issuer."""
    issuer = Issuer(f"http://127.0.0.1:{port}", **options)
    url = f"{issuer.url}/mcp"
    server = mcpwire.Server("guarded", auth=issuer.protect(url))

    @server.tool
    def whoami(ctx: mcpwire.Context) -> str:
        who = ctx.principal
        return f"{who.subject} by {who.client_id} may {sorted(who.scopes)}"

    listening = asyncio.Event()
    serving = asyncio.get_running_loop().create_task(
        serve_http(
            Guarded(server, issuer),
            f"127.0.0.1:{port}",
            announce=lambda _: listening.set(),
        )
    )
    try:
        async with asyncio.timeout(PATIENCE):
            await listening.wait()
        yield url, issuer
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def said(url, auth):
    async with mcpwire.Client(mcpwire.Http(url, auth=auth)) as client:
        return (await client.call_tool("whoami")).text


async def test_a_user_logs_in_and_the_token_is_renewed(port):
    async with guarded(port, subject="ada") as (url, issuer):
        auth = mcpwire.OAuth(ask=issuer.approve, storage=mcpwire.MemoryStorage())
        target = mcpwire.Http(url, auth=auth)
        async with mcpwire.Client(target) as client:
            first = (await client.call_tool("whoami")).text
            assert first == "ada by client-1 may ['mcp']"
            issuer.expire()
            assert (await client.call_tool("whoami")).text == first
        assert await mcpwire.logout(target) is True


async def test_programs_log_in_without_a_user(port):
    async def jwt():
        return "what a platform gives"

    async with guarded(port) as (url, issuer):
        issuer.add_client("service", "s3cret")
        issuer.add_client("app")
        assert "service by service" in await said(
            url,
            mcpwire.ClientCredentials(
                client_id="service", client_secret="s3cret", issuer=issuer.url
            ),
        )
        assert "app by app" in await said(
            url,
            mcpwire.WorkloadIdentity(client_id="app", assertion=jwt, issuer=issuer.url),
        )
        grant = mcpwire.EnterpriseManaged(
            client_id="app",
            issuer=issuer.url,
            idp_client_id="app",
            idp_token_endpoint=f"{issuer.url}/token",
            id_token=jwt,
        )
        assert "app by app" in await said(url, grant)
        with pytest.raises(mcpwire.AuthError):
            await said(
                url,
                mcpwire.ClientCredentials(
                    client_id="service", client_secret="wrong", issuer=issuer.url
                ),
            )


async def test_a_token_that_a_test_asks_for_is_good_for_its_resource_and_scopes(port):
    async with guarded(port, scopes=["mcp", "write"]) as (url, issuer):
        token = issuer.token(url, client_id="me")
        assert await said(url, token) == "user by me may ['mcp', 'write']"
        for wrong in (
            issuer.token(url, scopes=["mcp"]),
            issuer.token("http://localhost:1/other"),
            "unknown",
        ):
            with pytest.raises(mcpwire.MCPError):
                await said(url, wrong)


# What it refuses...

HOST = "http://localhost:9000"


@pytest.fixture
async def http():
    issuer = Issuer(HOST)
    issuer.add_client("known", "s3cret")
    async with httpx.AsyncClient(
        transport=AsgiTransport(issuer), base_url=HOST
    ) as client:
        client.issuer = issuer
        yield client


REFUSED = {
    "no such place": ("GET", "/nowhere", {}, 404, "invalid_request"),
    "no registration": ("POST", "/register", "{", 400, "invalid_client_metadata"),
    "a deep list": (
        *("POST", "/register", "[" * 100_000),
        *(400, "invalid_client_metadata"),
    ),
    "no URI to come back to": (
        "GET",
        (
            "/authorize?client_id=known&response_type=code&code_challenge_method=S256"
            "&redirect_uri=http://x/%0d%0aset-cookie:a=b"
        ),
        *({}, 400, "invalid_request"),
    ),
    "a list": ("POST", "/register", "[]", 400, "invalid_client_metadata"),
    "no client": ("GET", "/authorize?client_id=x", {}, 400, "invalid_request"),
    "no code asked for": (
        *("GET", "/authorize?client_id=known", {}),
        *(400, "invalid_request"),
    ),
    "no grant": ("POST", "/token", {}, 400, "unsupported_grant_type"),
    "a client that is unknown": (
        *("POST", "/token", {"grant_type": "refresh_token"}),
        *(401, "invalid_client"),
    ),
    "no code": (
        *("POST", "/token", {"grant_type": "authorization_code", "code": "x"}),
        *(400, "invalid_grant"),
    ),
    "no refresh token": (
        *("POST", "/token", {"grant_type": "refresh_token", "refresh_token": "x"}),
        *(400, "invalid_grant"),
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
async def test_what_it_does_not_know_is_an_oauth_error(http, case):
    verb, path, body, status, error = case
    answer = await http.request(
        verb,
        path,
        data=body if isinstance(body, dict) else None,
        content=body if isinstance(body, str) else None,
        auth=("known", "s3cret") if error == "invalid_grant" else None,
    )
    assert answer.status_code == status
    assert answer.json()["error"] == error
    assert answer.json()["error_description"]


async def test_credentials_that_are_no_base64_are_those_of_nobody(http):
    answer = await http.post(
        "/token",
        data={"grant_type": "client_credentials"},
        headers={"authorization": "Basic a"},
    )
    assert answer.json()["error"] == "invalid_client"


async def test_a_body_that_is_too_large_is_refused(http):
    answer = await http.post("/token", content=b"x" * (5 * 2**20))
    assert (answer.status_code, answer.json()) == (413, {"error": "invalid_request"})


async def test_a_code_is_good_once_and_with_its_verifier(http):
    url = f"{HOST}/authorize?client_id=known&response_type=code&state=s"
    url += "&code_challenge_method=S256&redirect_uri=http://localhost:1/back?a=b"
    url += "&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    answer = await http.get(url)
    assert answer.status_code == 302
    place = httpx.URL(answer.headers["location"])
    assert (place.params["a"], place.params["state"]) == ("b", "s")
    assert place.params["iss"] == HOST
    form = {
        "grant_type": "authorization_code",
        "code": place.params["code"],
        "redirect_uri": "http://localhost:1/back?a=b",
        "code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    }
    answers = [
        (await http.post("/token", data=form, auth=("known", "s3cret")))
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [200, 400]
    token = answers[0].json()["access_token"]
    assert (await http.issuer.verify(token)).subject == "user"
    await http.post("/revoke", data={"token": token})
    with pytest.raises(InvalidToken):
        await http.issuer.verify(token)


async def test_tokens_end_when_their_time_is_over():
    now = [1_000.0]
    issuer = Issuer(HOST, lifetime=60, clock=lambda: now[0])
    token = issuer.token(f"{HOST}/mcp")
    assert (await issuer.verify(token)).expires_at == 1_060.0
    now[0] = 1_060.0
    with pytest.raises(InvalidToken):
        await issuer.verify(token)


@pytest.mark.parametrize("url", ["", "localhost:9000", "ftp://x", f"{HOST}/a", "http:"])
def test_an_issuer_has_a_url_without_a_path(url):
    with pytest.raises(ValueError, match="an issuer's url must be like"):
        Issuer(url)


async def test_it_is_asked_over_http_only():
    issuer = Issuer(HOST)
    assert repr(issuer) == f"<Issuer {HOST!r}>"
    with pytest.raises(RuntimeError, match="websocket"):
        await issuer({"type": "websocket"}, None, None)
