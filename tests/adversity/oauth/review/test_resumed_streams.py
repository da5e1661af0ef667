"""Streams survive an authorization server that is briefly unavailable."""

from __future__ import annotations

import pytest
from authorization_server import oauth, protected_server

import mcpwire

pytestmark = [pytest.mark.fault("F38"), pytest.mark.pain("P32")]

QUICK = mcpwire.Recovery(backoff_initial=0.01, backoff_max=0.05)
UNAVAILABLE = (503, {}, b"")


@pytest.mark.rule("FLOW-20")
async def test_resumption_survives_a_failed_token_request(auth):
    """The token expires while the call runs, and the first refresh fails."""
    token_requests = []

    def once(request):
        token_requests.append(request)
        return UNAVAILABLE if len(token_requests) == 1 else None

    with protected_server(auth, resumable=True, polls=1, replies="sse") as server:
        target = mcpwire.Http(server.url, auth=oauth())
        async with mcpwire.Client(target, recovery=QUICK) as client:
            server.on["tools/call"] = lambda request, conn: auth.expire_all()
            auth.on["token"] = once
            result = await client.call_tool("notify", {"steps": 2})
            assert result.text == "notified"
            assert len(server.executed) == 1
    assert len(token_requests) == 2
