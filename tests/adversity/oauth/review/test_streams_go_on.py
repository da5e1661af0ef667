"""What lasts outlives an authorization server that cannot answer for a moment."""

from __future__ import annotations

import asyncio

import pytest
from authorization_server import oauth, protected_server
from engine_calls import echo

import mcpwire

pytestmark = [pytest.mark.anyio, pytest.mark.fault("F38"), pytest.mark.pain("P32")]

BOUND_S = 30.0

QUICK = mcpwire.Recovery(backoff_initial=0.01, backoff_max=0.05)
UNAVAILABLE = (503, {}, b"")


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_stream_for_what_the_server_says_unasked_comes_back(auth, era):
    """What it says would be lost for good, and nobody would know."""
    with protected_server(auth, era=era) as server:
        target = mcpwire.Http(server.url, auth=oauth())
        options = {"on_notification": lambda note: None}
        async with asyncio.timeout(BOUND_S):
            async with mcpwire.Client(target, recovery=QUICK, **options) as client:
                await echo(client)
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


@pytest.mark.rule("FLOW-20")
async def test_a_call_whose_stream_broke_off_is_gone_on_with(auth):
    """The token ends while the call runs, and there is no other just then."""
    times = []

    def once(request):
        times.append(request)
        return UNAVAILABLE if len(times) == 1 else None

    with protected_server(auth, resumable=True, polls=1, replies="sse") as server:
        target = mcpwire.Http(server.url, auth=oauth())
        async with asyncio.timeout(BOUND_S):
            async with mcpwire.Client(target, recovery=QUICK) as client:
                server.on["tools/call"] = lambda request, conn: auth.expire_all()
                auth.on["token"] = once
                result = await client.call_tool("notify", {"steps": 2})
                assert result.text == "notified"
                assert len(server.executed) == 1
    assert len(times) == 2
