"""A whole login at a real MCP server: the official Python SDK with its OAuth routes."""

import asyncio

import pytest

import mcpwire

pytestmark = pytest.mark.servers

BOUND_S = 30.0
LOGIN = ["register", "authorize", "authorization_code"]


async def call(sdk, grant):
    async with asyncio.timeout(BOUND_S):
        target = mcpwire.Http(f"{sdk.issuer}/mcp", auth=grant)
        async with mcpwire.Client(target) as client:
            return (await client.call_tool("echo", {"text": "hi"})).text


async def test_a_login_is_used_refreshed_and_repeated(sdk, browser):
    grant = mcpwire.OAuth(open_browser=browser, storage=mcpwire.MemoryStorage())
    assert await call(sdk, grant) == "hi"
    assert sdk.seen() == LOGIN
    assert await call(sdk, grant) == "hi"
    assert sdk.seen() == []
    sdk.expire_all()
    assert await call(sdk, grant) == "hi"
    assert sdk.seen() == ["refresh_token"]
    # As after a restart it knows neither tokens nor clients.
    sdk.post("forget")
    assert await call(sdk, grant) == "hi"
    assert sdk.seen() == LOGIN
    target = mcpwire.Http(f"{sdk.issuer}/mcp", auth=grant)
    assert mcpwire.login_status(target).scopes == ("mcp:read",)
    assert await mcpwire.logout(target)
    assert sdk.seen() == ["revoke"]
    assert await call(sdk, grant) == "hi"
    assert sdk.seen() == LOGIN
    assert len(browser.asked) == 3


async def test_a_configured_client_sends_its_secret_in_the_form(sdk):
    redirect_uri = "http://127.0.0.1/callback"
    known = sdk.register(redirect_uris=[redirect_uri], scope="mcp:read")
    assert known["token_endpoint_auth_method"] == "client_secret_post"
    grant = mcpwire.OAuth(
        client_id=known["client_id"],
        client_secret=known["client_secret"],
        issuer=sdk.issuer,
        redirect_uri=redirect_uri,
        ask=sdk.redirects_to,
        storage=mcpwire.MemoryStorage(),
    )
    assert await call(sdk, grant) == "hi"
    assert await mcpwire.logout(mcpwire.Http(f"{sdk.issuer}/mcp", auth=grant))
    assert sdk.seen() == [*LOGIN, "revoke"]


async def test_a_client_without_refresh_token_registers_again(sdk, browser):
    sdk.post("no-refresh-tokens")
    grant = mcpwire.OAuth(open_browser=browser, storage=mcpwire.MemoryStorage())
    assert await call(sdk, grant) == "hi"
    sdk.post("forget")
    assert await call(sdk, grant) == "hi"
    # The login page is checked with the new client before the browser opens it.
    assert sdk.seen() == [*LOGIN, "register", "authorize", *LOGIN[1:]]
