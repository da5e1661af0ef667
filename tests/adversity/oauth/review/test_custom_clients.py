"""Custom HTTP clients and stores that behave unusually."""

from __future__ import annotations

import httpx
import pytest
from authorization_server import oauth, protected_server
from engine_calls import connected, echo

import mcpwire


@pytest.mark.attack("S23")
@pytest.mark.parametrize("kind", [httpx.AsyncClient, httpx.Client])
async def test_http_client_with_its_own_auth_is_refused(kind):
    """It would overwrite the token."""
    client = kind(auth=("user", "SENTINEL-of-the-user"))
    for grant in ("oauth", oauth(), "given"):
        with pytest.raises(ValueError, match="exclude each other") as caught:
            mcpwire.Http("https://mcp.example.com", auth=grant, http_client=client)
        assert "SENTINEL" not in str(caught.value)
    mcpwire.Http("https://mcp.example.com", http_client=client)
    if kind is httpx.AsyncClient:
        await client.aclose()
    else:
        client.close()


class FailingRelease(mcpwire.MemoryStorage):
    """A remote store that is unreachable when the lease is released."""

    def release(self, key, owner):
        super().release(key, owner)
        raise ConnectionResetError("the store is gone")


@pytest.mark.fault("F40")
async def test_lease_that_cannot_be_released_fails_no_call(auth):
    """The lease expires by itself; the tokens are stored."""
    with protected_server(auth) as server:
        async with connected(server, oauth(storage=FailingRelease())) as client:
            auth.expire_all()
            await echo(client)
    assert auth.grants == ["authorization_code", "refresh_token"]


@pytest.mark.attack("S29")
async def test_user_may_log_in_again_once_tokens_are_accepted_again(auth):
    """Prompts stop when logins do not help, and return after a login elsewhere."""
    storage = mcpwire.MemoryStorage()
    with protected_server(auth) as server:
        target = mcpwire.Http(server.url, auth=oauth(storage=storage))
        async with mcpwire.Client(target) as client:
            original, server._complaint = server._complaint, lambda _: (401, {})
            for _ in range(4):
                with pytest.raises(mcpwire.MCPError):
                    await echo(client)
                auth.forget_all()
            server._complaint = original
            async with mcpwire.Client(
                mcpwire.Http(server.url, auth=oauth(storage=storage))
            ):
                pass  # logs in
            await echo(client)  # with the stored tokens
            auth.forget_all()
            await echo(client)  # this asks the user to log in
