"""Our own client with our server: timeouts and batches."""

import asyncio
import sys

import pytest
from attacked_server import build
from scripted import PRELUDE

import mcpwire


@pytest.mark.case("F02")
@pytest.mark.parametrize("mode", ["session", "stateless"])
async def test_timed_out_call_ends_on_both_sides(mode):
    server = build()
    begun, ended = asyncio.Event(), asyncio.Event()

    @server.tool
    async def hangs() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with mcpwire.Client(server, mode=mode) as client:
        while not begun.is_set():  # it may not begin in time on a loaded machine
            with pytest.raises(mcpwire.RequestTimeout):
                await client.call_tool("hangs", timeout=0.05)
        await ended.wait()
        assert (await client.call_tool("echo", {"text": "next"})).text == "next"


BATCHING = """
handshake("2025-03-26")
one, two = recv(), recv()
def answered(m):
    text = m["params"]["arguments"]["text"]
    return {"jsonrpc": "2.0", "id": m["id"],
            "result": {"content": [{"type": "text", "text": text}]}}
log = {"level": "info", "data": "told"}
send([answered(two),
      {"jsonrpc": "2.0", "method": "notifications/message", "params": log},
      answered(one)])
send([{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}])
recv()
"""


@pytest.mark.case("B07")
async def test_responses_and_notifications_in_one_batch_are_handled():
    received, all_received = [], asyncio.Event()

    def note(notification):
        received.append(notification.method)
        if len(received) == 2:
            all_received.set()

    target = mcpwire.Stdio(sys.executable, ["-c", PRELUDE + BATCHING])
    async with mcpwire.Client(
        target, mode="2025-03-26", on_notification=note
    ) as client:
        calls = [client.call_tool("x", {"text": text}) for text in ("one", "two")]
        results = await asyncio.gather(*calls)
        assert [result.text for result in results] == ["one", "two"]
        await all_received.wait()
    assert received == ["notifications/message", "notifications/tools/list_changed"]
