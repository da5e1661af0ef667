"""A connection that is opened again, and a user who is asked meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from authorization_server import browse, oauth, protected_server

import mcpwire

pytestmark = [pytest.mark.anyio]

BOUND_S = 20.0
CALL_S = 0.6
THINKS_S = 1.5


async def test_a_login_while_a_lost_session_is_opened_again_is_no_time_of_the_calls(
    shell, auth
):
    slow = []

    async def think(url):
        if slow:
            await asyncio.sleep(THINKS_S)  # longer than the call may take
        return await asyncio.to_thread(browse, url)

    with protected_server(auth) as server:
        grant = oauth(ask=shell.callback(think))
        async with asyncio.timeout(BOUND_S):
            async with shell(mcpwire.Http(server.url, auth=grant)) as client:
                slow.append(True)
                server.free = {"tools/call"}
                server.forget_sessions()
                auth.forget_all()
                result = await client.call_tool("echo", {"text": "hi"}, timeout=CALL_S)
                assert result.text == "hi"
    assert len(auth.authorizations) == 2
