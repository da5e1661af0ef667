"""Data and calls that vix's pool loses, and the client does not."""

import json

import pytest
from fakes import FakeServer, text
from scripted import scripted

import mcpwire
from mcpwire import types
from mcpwire.group import Group

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
async def test_tool_definition_is_preserved_completely():
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
    async with mcpwire.Client(server) as client:
        [listed] = await client.list_tools()
        assert (await client.list_tools_page()).raw == {"tools": [tool]}
    assert listed.input_schema == listed.output_schema == SCHEMA
    assert list(listed.input_schema) == list(SCHEMA)
    assert listed.title == "X"
    assert listed.annotations.idempotent_hint is True
    assert listed.annotations.open_world_hint is False
    assert listed.meta == {"group": "g"}
    assert listed.extra == {"later": {"a": 1}}


@pytest.mark.system("L-V10", "L-R10")
async def test_call_result_is_preserved_completely():
    sent_result = {
        "content": CONTENT,
        "structuredContent": {"a": 1},
        "_meta": {"k": "v"},
    }
    server = FakeServer({"tools/call": lambda *_: sent_result})
    async with mcpwire.Client(server) as client:
        result = await client.call_tool("x")
    assert [block.type for block in result.content] == [b["type"] for b in CONTENT]
    assert [types.encode(block) for block in result.content] == CONTENT
    assert result.raw == sent_result
    assert result.structured_content == {"a": 1}


@pytest.mark.system("L-V2")
@pytest.mark.unchecked_wire("the server's question has the id of the client's call")
async def test_server_request_with_the_id_of_a_call_is_answered_separately():
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
    async with mcpwire.Client(server) as client:
        assert (await client.call_tool("x")).text == "the answer"
        await client.ping()
    assert [message["result"] for message in answers] == [{}]


@pytest.mark.system("V20", "V23")
async def test_messages_without_id_and_method_are_ignored():
    def mumble(_, server):
        server.send({"jsonrpc": "2.0", "result": {}})
        server.send({"jsonrpc": "2.0"})
        server.send("a text")
        return text("ok")

    server = FakeServer({"tools/call": mumble})
    async with mcpwire.Client(server) as client:
        assert (await client.call_tool("x")).text == "ok"
        assert client.stats.invalid_messages + client.stats.noise_lines == 3
        assert (await client.call_tool("x")).text == "ok"


POOL = """
handshake()
while True:
    m = recv()
    if m.get("method") == "tools/list":
        tools = [{"name": n, "inputSchema": {"type": "object"}} for n in ("add", "rm")]
        answer(m, {"tools": tools})
    elif "id" in m:
        text(m, json.dumps([m["params"], os.environ.get("POOL_TOKEN")]))
"""


@pytest.mark.system("V01", "V03", "V10", "V11", "V12", "V13", "V14", "V16")
@pytest.mark.system("L-V7", "L-V8", "L-V9")
async def test_pool_from_settings_calls_allowed_and_confirmed_tools():
    program = scripted(POOL)
    command = {"command": program.command, "args": list(program.args)}
    project = [{"name": "broken", "command": "no-such-command-at-all"}]
    settings = {
        "mcp_servers": [
            {
                "name": "calc",
                **command,
                "env": {"POOL_TOKEN": "mine"},
                "allowed_tools": ["add"],
                "require_confirmation": True,
            },
            {"name": "my__calc", "type": "STDIO", **command},
            {"name": "broken", **command},
        ]
    }
    async with Group.from_config(settings, layers=[project], on_error="skip") as group:
        assert len(group) == 2
        assert "not found" in str(group.report.failed["broken"])
        tools = await group.tools(strip_arguments=["cwd", "_session"])
        assert tools.names == (
            *("mcp__calc__add", "mcp__my__calc__add", "mcp__my__calc__rm"),
        )
        assert len(tools) == 3
        given = {"a": 1, "cwd": "/", "_session": "s"}
        with pytest.raises(mcpwire.NeedsConfirmation):
            await tools.call("mcp__calc__add", given)
        assert tools["mcp__calc__add"].needs_confirmation
        called = await tools.call("mcp__calc__add", given, confirmed=True)
        params, token = json.loads(called.text)
        assert (params["name"], params["arguments"], token) == ("add", {"a": 1}, "mine")
        params, token = json.loads((await tools.call("mcp__my__calc__rm", {})).text)
        assert (params["name"], token) == ("rm", None)
        with pytest.raises(mcpwire.NotAllowed):
            await tools.call("mcp__calc__rm", {}, confirmed=True)
        for unknown in ("mcp__calc", "calc__add", "mcp__other__add", ""):
            with pytest.raises(mcpwire.UnknownTool):
                await tools.call(unknown, {})
