"""What lasts outlives an authorization server that cannot answer for a moment."""

from __future__ import annotations

import pytest
from authorization_server import oauth, protected_server

import mcpwire

pytestmark = [pytest.mark.fault("F38"), pytest.mark.pain("P32")]

QUICK = mcpwire.Recovery(backoff_initial=0.01, backoff_max=0.05)
UNAVAILABLE = (503, {}, b"")


@pytest.mark.rule("FLOW-20")
async def test_a_call_whose_stream_broke_off_is_gone_on_with(auth):
    """The token ends while the call runs, and there is no other just then."""
    times = []

    def once(request):
        times.append(request)
        return UNAVAILABLE if len(times) == 1 else None

    with protected_server(auth, resumable=True, polls=1, replies="sse") as server:
        target = mcpwire.Http(server.url, auth=oauth())
        async with mcpwire.Client(target, recovery=QUICK) as client:
            server.on["tools/call"] = lambda request, conn: auth.expire_all()
            auth.on["token"] = once
            result = await client.call_tool("notify", {"steps": 2})
            assert result.text == "notified"
            assert len(server.executed) == 1
    assert len(times) == 2
