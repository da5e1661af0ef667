"""A connection that is opened again, and a user who is asked meanwhile."""

from __future__ import annotations

import asyncio
import contextlib

from authorization_server import browse, oauth, protected_server
from engine_calls import connected

import mcpwire

CALL_S = 0.6
THINKS_S = 1.5


async def test_a_login_while_a_lost_session_is_opened_again_is_no_time_of_the_calls(
    auth,
):
    """In one of eight attempts: others may keep the machine for what the call has."""
    slow = []

    async def think(url):
        if slow:
            await asyncio.sleep(THINKS_S)  # longer than the call may take
        return await asyncio.to_thread(browse, url)

    async def call_as_it_is_opened_again():
        slow.clear()
        with protected_server(auth) as server:
            async with connected(server, oauth(ask=think)) as client:
                slow.append(True)
                server.free = {"tools/call"}
                server.forget_sessions()
                auth.forget_all()
                return await client.call_tool("echo", {"text": "hi"}, timeout=CALL_S)

    for _ in range(8):
        before, result = len(auth.authorizations), None
        with contextlib.suppress(mcpwire.RequestTimeout):
            result = await call_as_it_is_opened_again()
            break
    assert result is not None
    assert result.text == "hi"
    assert len(auth.authorizations) == before + 2
