"""What vix's pool loses of its servers, and the client does not."""

import asyncio

import pytest
from fakes import FakeServer, text

import mcpwire

pytestmark = pytest.mark.anyio

BOUND_S = 20

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/a", "description": "first"}},
    "required": ["a"],
    "additionalProperties": False,
    "$defs": {"a": {"type": "string", "pattern": "^x", "default": "x"}},
    "dependentRequired": {"a": []},
    "x-own": [1, {"b": None}],
}
CONTENT = [
    {"type": "text", "text": "hi"},
    {"type": "image", "data": "AA==", "mimeType": "image/png"},
    {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "a:b", "name": "b"},
    {"type": "resource", "resource": {"uri": "a:c", "text": "c"}},
    {"type": "of-a-later-revision", "what": 1},
]


@pytest.mark.system("A20", "L-R11", "L-V10")
async def test_nothing_of_a_definition_is_lost():
    tool = {
        "name": "x",
        "title": "X",
        "description": "does x",
        "inputSchema": SCHEMA,
        "outputSchema": SCHEMA,
        "annotations": {"idempotentHint": True, "openWorldHint": False, "own": 1},
        "_meta": {"group": "g"},
        "later": {"a": 1},
    }
    server = FakeServer({"tools/list": lambda *_: {"tools": [tool]}})
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server) as client:
        [listed] = await client.list_tools()
    assert listed.input_schema == listed.output_schema == SCHEMA
    assert list(listed.input_schema) == list(SCHEMA)
    assert listed.title == "X"
    assert listed.annotations.idempotent_hint is True
    assert listed.annotations.open_world_hint is False
    assert listed.meta == {"group": "g"}
    assert listed.extra == {"later": {"a": 1}}


@pytest.mark.system("L-V10", "L-R10")
async def test_nothing_of_a_result_is_lost():
    said = {"content": CONTENT, "structuredContent": {"a": 1}, "_meta": {"k": "v"}}
    server = FakeServer({"tools/call": lambda *_: said})
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server) as client:
        result = await client.call_tool("x")
    assert [block.type for block in result.content] == [b["type"] for b in CONTENT]
    assert result.raw == said
    assert result.structured_content == {"a": 1}


@pytest.mark.system("L-V2")
@pytest.mark.unchecked_wire("the server's question has the id of the client's call")
async def test_a_question_with_the_id_of_a_call_is_answered_and_completes_nothing():
    answers = []

    def ask(_, server):
        server.send({"jsonrpc": "2.0", "id": server.current["id"], "method": "ping"})
        return text("the answer")

    class Listening(FakeServer):
        def receive(self, data):
            before = len(self.received)
            super().receive(data)
            answers.extend(m for m in self.received[before:] if "method" not in m)

    server = Listening({"tools/call": ask})
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server) as client:
        assert (await client.call_tool("x")).text == "the answer"
        await client.ping()
    assert [message["result"] for message in answers] == [{}]


@pytest.mark.system("V20", "V23")
async def test_what_has_no_id_and_no_method_is_passed_over():
    def mumble(_, server):
        server.send({"jsonrpc": "2.0", "result": {}})
        server.send({"jsonrpc": "2.0"})
        server.send("a text")
        return text("ok")

    server = FakeServer({"tools/call": mumble})
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server) as client:
        assert (await client.call_tool("x")).text == "ok"
        assert client.stats.invalid_messages + client.stats.noise_lines == 3
        assert (await client.call_tool("x")).text == "ok"
