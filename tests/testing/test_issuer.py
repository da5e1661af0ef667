"""The authorization server for tests: logins, errors and token lifetimes."""

import asyncio
import contextlib

import httpx
import pytest

import mcpwire
from mcpwire.server.auth.resource_server import InvalidToken
from mcpwire.server.http.uvicorn import serve_http
from mcpwire.testing import AsgiTransport, Issuer

TIMEOUT_S = 30.0


class Guarded:
    """A server together with the issuer of its tokens, as one application."""

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
    """Serve a server whose tool names its caller; give its URL and its issuer."""
    issuer = Issuer(f"http://127.0.0.1:{port}", **options)
    url = f"{issuer.url}/mcp"
    server = mcpwire.Server("guarded", auth=issuer.protect(url))

    @server.tool
    def whoami(ctx: mcpwire.Context) -> str:
        user = ctx.principal
        return f"{user.subject} by {user.client_id} may {sorted(user.scopes)}"

    listening = asyncio.Event()
    serving = asyncio.get_running_loop().create_task(
        serve_http(
            Guarded(server, issuer),
            f"127.0.0.1:{port}",
            announce=lambda _: listening.set(),
        )
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await listening.wait()
        yield url, issuer
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def call_whoami(url, auth):
    async with mcpwire.Client(mcpwire.Http(url, auth=auth)) as client:
        return (await client.call_tool("whoami")).text


async def test_user_logs_in_and_the_token_is_refreshed(port):
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
        assert "service by service" in await call_whoami(
            url,
            mcpwire.ClientCredentials(
                client_id="service", client_secret="s3cret", issuer=issuer.url
            ),
        )
        assert "app by app" in await call_whoami(
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
        assert "app by app" in await call_whoami(url, grant)
        with pytest.raises(mcpwire.AuthError):
            await call_whoami(
                url,
                mcpwire.ClientCredentials(
                    client_id="service", client_secret="wrong", issuer=issuer.url
                ),
            )


async def test_issued_token_is_valid_for_its_resource_and_scopes(port):
    async with guarded(port, scopes=["mcp", "write"]) as (url, issuer):
        token = issuer.token(url, client_id="me")
        assert await call_whoami(url, token) == "user by me may ['mcp', 'write']"
        for wrong in (
            issuer.token(url, scopes=["mcp"]),
            issuer.token("http://localhost:1/other"),
            "unknown",
        ):
            with pytest.raises(mcpwire.MCPError):
                await call_whoami(url, wrong)


# Errors...

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
    "unknown path": ("GET", "/nowhere", {}, 404, "invalid_request"),
    "no registration": ("POST", "/register", "{", 400, "invalid_client_metadata"),
    "a deep list": (
        *("POST", "/register", "[" * 100_000),
        *(400, "invalid_client_metadata"),
    ),
    "an invalid redirect URI": (
        "GET",
        (
            "/authorize?client_id=known&response_type=code&code_challenge_method=S256"
            "&redirect_uri=http://x/%0d%0aset-cookie:a=b"
        ),
        *({}, 400, "invalid_request"),
    ),
    "a list": ("POST", "/register", "[]", 400, "invalid_client_metadata"),
    "no client": ("GET", "/authorize?client_id=x", {}, 400, "invalid_request"),
    "no response type": (
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
async def test_invalid_request_is_an_oauth_error(http, case):
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


async def test_credentials_that_are_not_base64_are_invalid_client(http):
    answer = await http.post(
        "/token",
        data={"grant_type": "client_credentials"},
        headers={"authorization": "Basic a"},
    )
    assert answer.json()["error"] == "invalid_client"


async def test_oversized_body_is_refused(http):
    answer = await http.post("/token", content=b"x" * (5 * 2**20))
    assert (answer.status_code, answer.json()) == (413, {"error": "invalid_request"})


async def test_code_can_be_used_once_with_its_verifier(http):
    url = f"{HOST}/authorize?client_id=known&response_type=code&state=s"
    url += "&code_challenge_method=S256&redirect_uri=http://localhost:1/back?a=b"
    url += "&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    answer = await http.get(url)
    assert answer.status_code == 302
    location = httpx.URL(answer.headers["location"])
    assert (location.params["a"], location.params["state"]) == ("b", "s")
    assert location.params["iss"] == HOST
    form = {
        "grant_type": "authorization_code",
        "code": location.params["code"],
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


async def test_tokens_expire_after_their_lifetime():
    now = [1_000.0]
    issuer = Issuer(HOST, lifetime=60, clock=lambda: now[0])
    token = issuer.token(f"{HOST}/mcp")
    assert (await issuer.verify(token)).expires_at == 1_060.0
    now[0] = 1_060.0
    with pytest.raises(InvalidToken):
        await issuer.verify(token)


@pytest.mark.parametrize("url", ["", "localhost:9000", "ftp://x", f"{HOST}/a", "http:"])
def test_issuer_url_must_have_no_path(url):
    with pytest.raises(ValueError, match="an issuer's url must be like"):
        Issuer(url)


async def test_websocket_scope_is_refused():
    issuer = Issuer(HOST)
    assert repr(issuer) == f"<Issuer {HOST!r}>"
    with pytest.raises(RuntimeError, match="websocket"):
        await issuer({"type": "websocket"}, None, None)
