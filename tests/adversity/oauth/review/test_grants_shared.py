"""Grants given to `Http` stay unchanged, and leases and stores work as promised.

Grants and targets are values: programs use them as dictionary keys.
"""

from __future__ import annotations

import asyncio

import pytest
from authorization_server import browse, oauth, protected_server

import mcpwire


@pytest.mark.parametrize("source", ["oauth", "machine"])
def test_using_a_grant_does_not_change_its_hash(source, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    grant = mcpwire.OAuth()
    if source == "machine":
        grant = mcpwire.ClientCredentials(
            client_id="us", client_secret="secret", issuer="https://auth.example.com"
        )
    target = mcpwire.Http("https://mcp.example.com/mcp", auth=grant)
    clients = {target: "client"}
    assert mcpwire.login_status(target) is None
    assert clients[target] == "client"


# One way to authenticate.


@pytest.mark.attack("S23")
@pytest.mark.parametrize("source", ["function", "call"])
async def test_no_request_carries_two_authorization_fields(auth, source):
    """A server and a proxy before it could each use a different one."""
    own = {"Authorization": "Bearer of-the-users-own"}
    with protected_server(auth) as server:
        options = {"headers": lambda: own} if source == "function" else {}
        target = mcpwire.Http(server.url, auth=oauth(), **options)
        with pytest.raises(mcpwire.LocalProtocolError, match="exclude each other"):
            async with mcpwire.Client(target) as client:
                await client.call_tool("echo", {"text": "hi"}, headers=own)
        for request in server.requests:
            assert request.raw.lower().count(b"\r\nauthorization:") <= 1
            assert b"of-the-users-own" not in request.raw


# Token requests...


class Watched(mcpwire.MemoryStorage):
    """Records the duration of each lease."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def lease(self, key, owner, seconds):
        self.seconds.append(seconds)
        return super().lease(key, owner, seconds)


@pytest.mark.pain("P33")
@pytest.mark.attack("S24")
async def test_lease_outlasts_the_requests_it_protects(auth):
    """Another process would send the same refresh token, as a thief would."""
    storage = Watched()
    limits = mcpwire.Limits(oauth_timeout=60.0)
    with protected_server(auth) as server:
        target = mcpwire.Http(server.url, auth=oauth(storage=storage))
        async with mcpwire.Client(target, limits=limits) as client:
            auth.expire_all()
            await client.list_tools()
    assert auth.grants == ["authorization_code", "refresh_token"]
    assert (
        min(storage.seconds) > 2 * limits.oauth_timeout
    )  # one more request for a nonce


@pytest.mark.fault("F40")
async def test_login_works_when_no_file_can_be_stored(auth, monkeypatch, tmp_path):
    """Tokens that no file can store live as long as the grant object."""
    (tmp_path / "state").write_text("no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with protected_server(auth) as server:
        grant = mcpwire.OAuth(redirect_uri="https://app.example.com/back")
        target = mcpwire.Http(server.url, auth=grant)
        begun = await mcpwire.begin_login(target)
        returned = await asyncio.to_thread(browse, begun.url)
        status = await mcpwire.finish_login(target, returned)
    assert status.issuer == auth.issuer
