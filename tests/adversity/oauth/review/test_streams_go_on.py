"""What lasts outlives an authorization server that cannot answer for a moment."""

from __future__ import annotations

import asyncio

import pytest
from authorization_server import oauth, protected_server

import mcpwire

pytestmark = [pytest.mark.anyio, pytest.mark.fault("F38"), pytest.mark.pain("P32")]

BOUND_S = 20.0

UNAVAILABLE = (503, {}, b"")


async def test_the_servers_own_stream_comes_back(shell, auth):
    """What it says unasked would be lost for good, and nobody would know."""
    with protected_server(auth) as server:
        target = mcpwire.Http(server.url, auth=oauth())
        options = {**shell.listening, "sampling": lambda _: None}
        options["recovery"] = mcpwire.Recovery(backoff_initial=0.01, backoff_max=0.05)
        async with asyncio.timeout(BOUND_S), shell(target, **options) as client:
            await asyncio.to_thread(server.wait_until, lambda: server.streams)
            auth.on["token"] = lambda request: UNAVAILABLE
            auth.expire_all()
            before = len(auth.token_requests)
            server.close_streams()
            await asyncio.to_thread(
                auth.wait_until, lambda: len(auth.token_requests) > before
            )
            del auth.on["token"]
            await asyncio.to_thread(server.wait_until, lambda: server.streams)
            del client
