"""Whole logins at a real authorization server: Authlib, with all its rules."""

import asyncio

import pytest
from joserfc.jwk import ECKey

import mcpwire

pytestmark = pytest.mark.servers

BOUND_S = 30.0
KEY = ECKey.generate_key("P-256")


def oauth(browser, **options):
    """Return a grant with that browser and the built-in callback server."""
    storage = options.pop("storage", None) or mcpwire.MemoryStorage()
    return mcpwire.OAuth(open_browser=browser, storage=storage, **options)


async def call(server, grant, tool="echo"):
    async with asyncio.timeout(BOUND_S):
        async with mcpwire.Client(mcpwire.Http(server.url, auth=grant)) as client:
            return (await client.call_tool(tool, {"text": "hi"})).text


def grants(seen):
    return [parameters["grant_type"] for path, parameters in seen if path == "/token"]


@pytest.mark.rule("REG-08", "REG-13", "FLOW-02", "FLOW-05")
async def test_a_user_logs_in_once(authlib, server, browser, tmp_path):
    store = mcpwire.FileStorage(tmp_path / "private" / "store.sqlite")
    grant = oauth(browser, storage=store)
    assert await call(server, grant) == "hi"
    seen = authlib.seen()
    assert [path for path, _ in seen] == [
        "/.well-known/oauth-authorization-server",
        "/register",
        "/authorize",
        "/authorize",
        "/token",
    ]
    [query] = browser.asked
    assert query["resource"] == seen[-1][1]["resource"] == server.url
    assert query["code_challenge_method"] == "S256"
    assert query["redirect_uri"].startswith("http://127.0.0.1:")
    assert set(query["scope"].split()) == {"mcp:read", "offline_access"}
    [(location, (status, _, page))] = browser.came_back
    assert status == 200
    assert "iss=" in location
    assert "SENTINEL" not in page
    # From then on no user is needed: not in the next process...
    store = mcpwire.FileStorage(tmp_path / "private" / "store.sqlite")
    assert await call(server, oauth(browser, storage=store)) == "hi"
    # ... and not when the token has expired.
    authlib.expire_all()
    assert await call(server, oauth(browser, storage=store)) == "hi"
    assert await call(server, oauth(browser, storage=store)) == "hi"
    assert grants(authlib.seen()) == ["refresh_token"]
    assert len(browser.asked) == 1


@pytest.mark.rule("FLOW-18")
async def test_a_step_up_requests_more_scopes(authlib, server, browser):
    server.needs["tools/call"] = ("mcp:write",)
    grant = oauth(browser)
    assert await call(server, grant) == "hi"
    first, second = (set(query["scope"].split()) for query in browser.asked)
    assert first == {"mcp:read", "offline_access"}
    assert second == {"mcp:read", "mcp:write", "offline_access"}
    seen = authlib.seen()
    assert grants(seen) == ["authorization_code"] * 2
    # It registers again: some servers refuse scopes that are not registered.
    assert [path for path, _ in seen].count("/register") == 2
    status = mcpwire.login_status(mcpwire.Http(server.url, auth=grant))
    assert set(status.scopes) == second


async def test_logout_revokes_and_forgets_the_tokens(authlib, server, browser):
    grant = oauth(browser)
    tokens = []
    assert await call(server, grant) == "hi"
    for message in server.messages:
        _, _, token = message.headers.get("authorization", "").partition(" ")
        tokens += [token] if token else []
    assert authlib.get(tokens[-1]) is not None
    target = mcpwire.Http(server.url, auth=grant)
    assert await mcpwire.logout(target) is True
    assert authlib.get(tokens[-1]) is None
    assert mcpwire.login_status(target) is None
    assert await mcpwire.logout(target) is False
    authlib.seen()
    assert await call(server, grant) == "hi"
    assert len(browser.asked) == 2
    assert grants(authlib.seen()) == ["authorization_code"]


async def test_a_denied_consent_raises(authlib, server, browser):
    browser.answer = "no"
    with pytest.raises(mcpwire.ConsentDenied) as caught:
        await call(server, oauth(browser))
    assert caught.value.error == "access_denied"
    assert grants(authlib.seen()) == []
    browser.answer = "yes"
    assert await call(server, oauth(browser)) == "hi"


async def test_a_revoked_login_leads_to_a_new_login(authlib, server, browser):
    grant, copy = oauth(browser), mcpwire.MemoryStorage()
    assert await call(server, grant) == "hi"
    stored = grant.storage.keys()
    for key in stored:
        copy.save(key, grant.storage.load(key)[0], 0)
    # A logout elsewhere, and the tokens are still stored here.
    assert await mcpwire.logout(
        mcpwire.Http(server.url, auth=oauth(browser, storage=copy))
    )
    assert await call(server, grant) == "hi"
    assert grants(authlib.seen()) == [
        "authorization_code",
        "refresh_token",
        "authorization_code",
    ]


async def test_client_credentials_use_their_secret(authlib, server):
    known = {
        "client_id": "a known: client",
        "client_secret": "SENTINEL-authlib: it's 100% + a \N{SNOWMAN} &%20=?",
    }
    authlib.add_client(
        **known,
        token_endpoint_auth_method="client_secret_basic",
        grant_types=["client_credentials"],
    )
    grant = mcpwire.ClientCredentials(**known, issuer=authlib.issuer)
    assert await call(server, grant) == "hi"
    assert grants(authlib.seen()) == ["client_credentials"]
    wrong = {**known, "client_secret": "SENTINEL-authlib_wrong"}
    with pytest.raises(mcpwire.TokenError) as caught:
        await call(server, mcpwire.ClientCredentials(**wrong, issuer=authlib.issuer))
    assert caught.value.error == "invalid_client"


@pytest.mark.rule("CC-01", "CC-02")
async def test_client_credentials_sign_with_their_key(authlib, server):
    authlib.add_client(
        client_id="signer",
        public_key=KEY.as_pem(private=False).decode(),
        token_endpoint_auth_method="private_key_jwt",
        grant_types=["client_credentials"],
    )
    grant = mcpwire.ClientCredentials(
        client_id="signer",
        private_key_pem=KEY.as_pem(private=True).decode(),
        issuer=authlib.issuer,
    )
    assert await call(server, grant) == "hi"
    authlib.expire_all()
    assert await call(server, grant) == "hi"
    assert grants(authlib.seen()) == ["client_credentials"] * 2
