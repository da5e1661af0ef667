"""A login and the token of each request, end to end, in both shells."""

from __future__ import annotations

import asyncio

import pytest
from authorization_server import authorization_server, oauth, protected_server

import mcpwire

pytestmark = pytest.mark.anyio

BOUND_S = 20.0


@pytest.fixture
def auth():
    with authorization_server() as server:
        yield server


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_login_is_enough_for_every_request(shell, auth, era):
    with protected_server(auth, era=era) as server:
        target = mcpwire.Http(server.url, auth=oauth())
        async with asyncio.timeout(BOUND_S), shell(target) as client:
            result = await client.call_tool("echo", {"text": "hi"})
            assert result.text == "hi"
        assert auth.grants == ["authorization_code"]
        assert server.challenges == 1
