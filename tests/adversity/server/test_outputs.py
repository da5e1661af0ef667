"""What comes of results that are huge, late, or not what their tool promised."""

import asyncio
import json
import socket

import pytest
from by_hand import META, Hand, modern, request
from victim import build
from ways import WAYS, OverHttp, ask, frame, opened, works
from wires import events

import mcpwire
from mcpwire import Limits

pytestmark = pytest.mark.anyio

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
        client = mcpwire.Client(server, mode=mode, timeout=PATIENCE, limits=limits)
        async with client:
            large = client.call_tool("huge", {"size": 16 * MIB})
            if limit < 16 * MIB:
                with pytest.raises(mcpwire.MCPError, match=r"Limits\.message"):
                    await large
            else:
                assert len((await large).text) == 16 * MIB
            assert (await client.call_tool("echo", {"text": "after"})).text == "after"


@pytest.mark.case("D19")
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


BROKEN = {
    "a missing member": {"y": 1},
    "a wrong type": {"x": "s3cr3t"},
    "no object": "s3cr3t",
    "nothing": None,
}

SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
}


@pytest.mark.case("F10")
@pytest.mark.parametrize("way", WAYS)
async def test_what_a_tool_did_not_promise_does_not_leave(way):
    server = build()

    @server.tool(output_schema=SCHEMA)
    async def promises(which: str):
        return {"x": 1} if which == "kept" else BROKEN[which]

    way = await opened(way, server)
    for which in BROKEN:
        arguments = json.dumps({"which": which}).encode()
        [answer] = await way.say(frame(way, 1, "promises", arguments))
        assert answer["result"]["isError"], which
        assert "structuredContent" not in answer["result"]
        assert "s3cr3t" not in json.dumps(answer)
    [answer] = await way.say(frame(way, 1, "promises", b'{"which":"kept"}'))
    result = answer["result"]
    assert json.loads(result["content"][0]["text"]) == {"x": 1}
    if way.version != "2024-11-05":
        assert result["structuredContent"] == {"x": 1}
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


@pytest.mark.case("F15")
async def test_what_is_not_complete_says_nothing_of_how_long_it_may_be_kept():
    server = build()

    @server.resource("asks://one", ttl_ms=60_000, cache_scope="public")
    async def asks(ctx: mcpwire.Context) -> str:
        schema = {"type": "object", "properties": {"word": {"type": "string"}}}
        return str((await ctx.elicit("?", schema, key="word")).content)

    capabilities = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    hand = Hand(server.dispatcher)
    params = {"uri": "asks://one"}
    [asked] = await hand.ask(modern(1, "resources/read", params, **capabilities))
    result = asked["result"]
    assert result["resultType"] == "input_required"
    assert result.keys().isdisjoint({"ttlMs", "cacheScope"})
    params |= {
        "requestState": result["requestState"],
        "inputResponses": {"word": {"action": "accept", "content": {"word": "x"}}},
    }
    [answer] = await hand.ask(modern(2, "resources/read", params, **capabilities))
    assert answer["result"]["ttlMs"] == 60_000
    # An error is nothing to be kept, and a list is to be asked for anew by default.
    [missing] = await hand.ask(modern(3, "resources/read", {"uri": "asks://two"}))
    assert "ttlMs" not in json.dumps(missing)
    [listed] = await hand.ask(modern(4, "tools/list"))
    assert listed["result"]["ttlMs"] == 0


@pytest.mark.case("D19")
async def test_over_http_a_failing_tool_leaves_a_stream_whole():
    server = build()

    @server.tool
    async def fails_late(ctx: mcpwire.Context) -> str:
        ctx.progress(1, 2)
        await asyncio.sleep(0)
        raise ValueError("s3cr3t")

    way = await OverHttp(server, None).open()
    message = ask(way, 1, "tools/call", {"name": "fails_late", "arguments": {}})
    message["params"]["_meta"] = {**META, "progressToken": 1}
    visit = await way.visit("POST", json.dumps(message).encode())
    told, answer = events(visit)
    assert told["method"] == "notifications/progress"
    assert answer["result"]["isError"]
    assert b"s3cr3t" not in visit.body
    assert visit.is_complete
    await works(way)
    await way.aclose()
