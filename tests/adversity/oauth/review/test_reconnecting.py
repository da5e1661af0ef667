"""A session that is renewed while the user logs in."""

from __future__ import annotations

import asyncio
import contextlib

from authorization_server import browse, oauth, protected_server
from engine_calls import connected

import mcpwire

CALL_S = 0.6
THINKS_S = 1.5


async def test_login_during_session_renewal_pauses_the_call_timeout(auth):
    """In one of eight attempts: a loaded machine may use up the call's timeout."""
    is_slow = []

    async def think(url):
        if is_slow:
            await asyncio.sleep(THINKS_S)  # longer than the call may take
        return await asyncio.to_thread(browse, url)

    async def call_during_session_renewal():
        is_slow.clear()
        with protected_server(auth) as server:
            async with connected(server, oauth(ask=think)) as client:
                is_slow.append(True)
                server.free = {"tools/call"}
                server.forget_sessions()
                auth.forget_all()
                return await client.call_tool("echo", {"text": "hi"}, timeout=CALL_S)

    for _ in range(8):
        before, result = len(auth.authorizations), None
        with contextlib.suppress(mcpwire.RequestTimeout):
            result = await call_during_session_renewal()
            break
    assert result is not None
    assert result.text == "hi"
    assert len(auth.authorizations) == before + 2
