"""What one client may have waiting at a server over HTTP."""

import asyncio
import json

import attrs
import pytest
from asgi_driver import Visit, scope

from mcpwire import Server
from mcpwire.limits import DEFAULT_LIMITS

pytestmark = pytest.mark.anyio

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "review", "version": "1"},
}


async def test_requests_that_wait_in_a_session_are_bounded_by_their_bytes_too():
    limits = attrs.evolve(DEFAULT_LIMITS, inbound=2, unwritten=50_000)
    server = Server("waiting", "1", limits=limits)
    may_end = asyncio.Event()

    @server.tool
    async def wait(text: str) -> int:
        await may_end.wait()
        return len(text)

    app = server.asgi(stream_after=30)
    fields = [
        ("host", "127.0.0.1:8000"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ]

    def post(id, method, params):
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        return Visit(scope(headers=fields), json.dumps(message).encode()).begin(app)

    opened = await post(0, "initialize", INITIALIZE).done()
    fields.append(("mcp-session-id", opened.headers["mcp-session-id"]))
    fields.append(("mcp-protocol-version", "2025-11-25"))
    long = {"name": "wait", "arguments": {"text": "x" * 20_000}}
    calls = [post(id, "tools/call", long) for id in range(1, 9)]
    # Two run, and two more fit in.
    async with asyncio.timeout(30):
        for refused in calls[4:]:
            await refused.done()
            assert refused.json()["error"]["code"] == -32603
        assert not any(call.task.done() for call in calls[:4])
        may_end.set()
        for call in calls[:4]:
            await call.done()
            assert "result" in call.json()
        # What has been answered takes no room any more.
        again = await post(9, "tools/call", long).done()
        assert "result" in again.json()
    await app.aclose()
