"""Clients and stores of the user's own, which have ways of their own."""

from __future__ import annotations

import httpx
import pytest
from authorization_server import oauth, protected_server
from engine_calls import connected, echo

import mcpwire


@pytest.mark.attack("S23")
@pytest.mark.parametrize("kind", [httpx.AsyncClient, httpx.Client])
async def test_a_client_that_says_itself_who_asks_is_refused(kind):
    """It would write over the token, and a login would follow the other."""
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


class Fickle(mcpwire.MemoryStorage):
    """A store elsewhere, which is gone when the lease is to be given back."""

    def release(self, key, owner):
        super().release(key, owner)
        raise ConnectionResetError("the store is gone")


@pytest.mark.fault("F40")
async def test_a_lease_that_cannot_be_given_back_costs_no_call(auth):
    """It ends by itself; the tokens are there, and stored."""
    with protected_server(auth) as server:
        async with connected(server, oauth(storage=Fickle())) as client:
            auth.expire_all()
            await echo(client)
    assert auth.grants == ["authorization_code", "refresh_token"]


@pytest.mark.attack("S29")
async def test_a_user_may_be_asked_again_once_tokens_help_again(auth):
    """Who was not asked any more, as no login helped, may log in elsewhere."""
    storage = mcpwire.MemoryStorage()
    with protected_server(auth) as server:
        target = mcpwire.Http(server.url, auth=oauth(storage=storage))
        async with mcpwire.Client(target) as client:
            usual, server._complaint = server._complaint, lambda _: (401, {})
            for _ in range(4):
                with pytest.raises(mcpwire.MCPError):
                    await echo(client)
                auth.forget_all()
            server._complaint = usual
            async with mcpwire.Client(
                mcpwire.Http(server.url, auth=oauth(storage=storage))
            ):
                pass  # logs in
            await echo(client)  # with what is stored
            auth.forget_all()
            await echo(client)  # and this asks
