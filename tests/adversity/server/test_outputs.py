"""What comes of results that are huge, late, or not what their tool promised."""

import asyncio
import socket

import pytest
from by_hand import Hand, request
from victim import build
from ways import WAYS, frame, opened, works

import mcpwire
from mcpwire import Limits

PATIENCE = 30.0
MIB = 2**20


@pytest.fixture
def no_network(monkeypatch):
    """Fail whoever looks something up, or connects."""

    def refuse(*_, **__):
        raise AssertionError("somebody went to the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.case("D19")
@pytest.mark.attack("S13")
@pytest.mark.parametrize("mode", ["session", "stateless"])
async def test_a_result_that_is_too_large_for_its_client_is_that_clients_error(mode):
    server = build()

    @server.tool
    async def huge(size: int) -> str:
        return "x" * size

    for limit in (4 * MIB, 64 * MIB):
        limits = Limits(message=limit)
        async with mcpwire.Client(
            server, mode=mode, timeout=PATIENCE, limits=limits
        ) as client:
            large = client.call_tool("huge", {"size": 16 * MIB})
            if limit < 16 * MIB:
                with pytest.raises(mcpwire.MCPError, match=r"Limits\.message"):
                    await large
            else:
                assert len((await large).text) == 16 * MIB
            assert (await client.call_tool("echo", {"text": "after"})).text == "after"


@pytest.mark.case("D19")
@pytest.mark.grounds(2, "way")
@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_that_hangs_is_ended_by_its_timeout(way):
    server = build()
    ended = []

    @server.tool(timeout=0.01)
    async def hangs() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    way = await opened(way, server)
    [answer] = await way.say(frame(way, 1, "hangs", b"{}"))
    assert answer["result"]["isError"]
    assert "longer than 0.01" in answer["result"]["content"][0]["text"]
    assert ended == [1]
    await works(way)
    await way.aclose()


REMOTE = "http://127.0.0.1:9/schema.json"

REFERRING = [
    {"type": "object", "properties": {"x": {"$ref": REMOTE}}},
    {"type": "object", "allOf": [{"$ref": REMOTE}]},
    {"type": "object", "$defs": {"a": {"$ref": REMOTE}}, "$ref": "#/$defs/a"},
    {"type": "object", "properties": {"x": {"$dynamicRef": REMOTE}}},
    {"type": "object", "$schema": REMOTE},
    {"type": "object", "$id": REMOTE, "properties": {"x": {"$ref": "other.json"}}},
    {"type": "object", "properties": {"x": {"$ref": "file:///etc/passwd"}}},
]


@pytest.mark.case("F10")
@pytest.mark.parametrize("schema", REFERRING)
@pytest.mark.parametrize("which", ["input_schema", "output_schema"])
@pytest.mark.usefixtures("no_network")
async def test_no_schema_is_fetched_wherever_it_is_referred_to(which, schema):
    server = build()

    async def tool(arguments: dict):
        return arguments

    options = {"input_schema": {"type": "object"}, which: schema}
    try:
        server.add_tool(tool, **options)
    except (ValueError, mcpwire.MCPError):
        return  # which its author is told, at once
    hand = Hand(server.dispatcher, "2025-11-25")
    params = {"name": "tool", "arguments": {"x": 1}}
    hand.send(request(1, "tools/call", params), request(2, "tools/list"))
    assert {each["id"] for each in await hand.settled()} == {1, 2}
