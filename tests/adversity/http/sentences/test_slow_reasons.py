"""The body of a 4xx is read before anything older is tried, however late it comes."""

import json

import pytest
from faulty import HANG_S, ONCE, outcome
from http_bytes import head
from mcp_server import scripted_mcp

import mcpwire
from mcpwire.transports.http import streamable as channel

pytestmark = pytest.mark.anyio


@pytest.mark.pain("P26")
async def test_the_late_body_of_a_refused_probe_is_waited_for(monkeypatch):
    monkeypatch.setattr(channel, "DECIDING_S", HANG_S)

    def late(request, conn):
        error = {"code": -32022, "message": "no", "data": {"supported": ["2099-01-01"]}}
        body = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "error": error})
        conn.send(head(400, content_type="application/json", content_length=len(body)))
        conn.wait_closed(0.6)
        conn.send(body.encode())
        return True

    with scripted_mcp("stateless") as server:
        server.on["server/discover"] = late
        client = mcpwire.Client(server.url, recovery=ONCE)
        error = await outcome(client.connect())
        await client.aclose()
        assert "initialize" not in server.verbs(), error
