"""The trace hook sees every message and turn of events, and harms none of them."""

import asyncio
import json

import pytest
from fakes import FakeServer, text

import mcpwire

pytestmark = pytest.mark.anyio

BOUND_S = 10.0


async def test_the_hook_sees_opening_messages_agreement_and_close():
    seen = []
    server = FakeServer({"tools/call": lambda *_: text("ok")})
    async with (
        asyncio.timeout(BOUND_S),
        mcpwire.Client(server, trace=lambda *args: seen.append(args)) as client,
    ):
        await client.call_tool("x")
    assert [event for event, _ in seen] == [
        "open",
        *("send", "receive"),  # the probe
        *("send", "receive"),  # initialize
        *("send", "agree"),  # initialized
        *("send", "receive"),  # the call
        "close",
    ]
    assert json.loads(seen[1][1])["method"] == "server/discover"
    assert seen[6] == ("agree", client.negotiation)
    assert json.loads(seen[8][1])["result"] == text("ok")


async def test_the_hook_hears_of_a_lost_connection():
    seen = []
    server = FakeServer()
    async with (
        asyncio.timeout(BOUND_S),
        mcpwire.Client(server, trace=lambda *args: seen.append(args)) as client,
    ):
        call = asyncio.create_task(client.call_tool("x"))
        await asyncio.sleep(0)
        await server.channel.aclose()
        with pytest.raises(mcpwire.MCPError):
            await call
    event, error = seen[-2]
    assert event == "lost"
    assert isinstance(error, mcpwire.TransportError)


async def test_a_hook_that_raises_is_logged_and_nothing_else(caplog):
    def hook(event, data):
        raise RuntimeError("mine")

    server = FakeServer({"tools/call": lambda *_: text("ok")})
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server, trace=hook) as client:
        assert (await client.call_tool("x")).text == "ok"
    assert "trace hook" in caplog.text
