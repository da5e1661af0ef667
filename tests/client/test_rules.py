"""Protocol rules for a whole client, which belong to the tests of no single module."""

import asyncio
import inspect
import logging

import pytest
from fakes import FakeServer, text
from scripted import ECHO_LOOP, scripted

import mcpwire
from mcpwire import errors, types
from mcpwire.server.demo import demo_dispatcher

META = "io.modelcontextprotocol/"


@pytest.mark.rule("RPC-24")
async def test_our_error_codes_avoid_the_reserved_range():
    codes = {
        cls.default_code
        for cls in vars(errors).values()
        if inspect.isclass(cls) and issubclass(cls, errors.RPCError)
    }
    assert codes & set(range(-32019, -31999)) == {-32002}


ODD_REQUESTS = [
    ("tools/call", {"name": "nope"}),
    ("tools/list", {"cursor": "nope"}),
    ("resources/read", {"uri": "demo://nope"}),
    ("prompts/get", {"name": "nope"}),
    ("nope/nope", None),
]


@pytest.mark.parametrize("mode", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("method", "params"), ODD_REQUESTS)
@pytest.mark.rule("RPC-32")
async def test_each_server_error_is_one_concise_sentence(method, params, mode):
    async with mcpwire.Client(demo_dispatcher(), mode=mode) as client:
        with pytest.raises(mcpwire.RPCError) as caught:
            await client.request(method, params)
    message = caught.value.message
    assert 0 < len(message) < 150
    assert message.isprintable()
    assert not message.endswith(".")


@pytest.mark.rule("LIFE-09", "LIFE-17")
async def test_an_unsupported_version_ends_the_connection():
    server = FakeServer(version="2099-01-01")
    client = mcpwire.Client(server)
    with pytest.raises(mcpwire.NegotiationError, match="2099-01-01") as caught:
        await client.connect()
    assert caught.value.supported == ("2099-01-01",)
    assert not client.is_connected
    assert server.channel.lost is not None
    methods = [message["method"] for message in server.received]
    assert "notifications/initialized" not in methods


def named(name):
    return {META + "serverInfo": {"name": name, "version": "9.9"}}


@pytest.mark.rule("META-12")
async def test_the_name_of_the_server_changes_no_messages():
    sent = []
    for name in ("fake", "modelcontextprotocol/official"):
        server = FakeServer(
            {"tools/call": lambda *_: {**text("x"), "resultType": "complete"}},
            version="2026-07-28",
            _meta=named(name),
        )
        async with mcpwire.Client(server) as client:
            await client.call_tool("x")
            assert client.server_info.name == name
        sent.append(server.received)
    assert sent[0] == sent[1]


@pytest.mark.rule("META-04")
@pytest.mark.parametrize("value", [None, True, 0, "", [], {"a": 1}])
async def test_unknown_values_at_reserved_meta_keys_are_kept(value):
    meta = {META + "something-new": value}
    server = FakeServer({"tools/call": lambda *_: {**text("x"), "_meta": meta}})
    async with mcpwire.Client(server) as client:
        result = await client.call_tool("x")
    assert result.meta == meta
    assert types.encode(result)["_meta"] == meta


@pytest.mark.rule("TR-STDIO-05")
async def test_stderr_output_of_a_server_is_not_an_error(caplog):
    body = (
        "handshake()\n"
        "sys.stderr.write('ERROR: all is well\\nTraceback (most recent call):\\n')\n"
        "sys.stderr.flush()\n"
    )
    caplog.set_level(logging.INFO, "mcpwire")
    async with mcpwire.Client(scripted(body + ECHO_LOOP)) as client:
        assert (await client.call_tool("x", {"text": "hi"})).text == "hi"
        assert client.stats.noise_lines == 0
    assert caplog.records == []


HEADED = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "not a token"}},
}


@pytest.mark.rule("HDR-13", "TR-STDIO-16")
async def test_header_annotations_are_ignored_without_http():
    server = FakeServer(
        {
            "tools/list": lambda *_: {"tools": [{"name": "x", "inputSchema": HEADED}]},
            "tools/call": lambda *_: text("x"),
        }
    )
    async with mcpwire.Client(server) as client:
        (tool,) = await client.list_tools()
        await client.call_tool("x", {"region": "north"})
    assert tool.input_schema == HEADED
    assert server.requests("tools/call") == [
        {"name": "x", "arguments": {"region": "north"}}
    ]


@pytest.mark.rule("TR-STDIO-17")
async def test_stdio_credentials_are_passed_in_the_environment_only():
    body = (
        "handshake()\n"
        "while True:\n"
        "    m = recv()\n"
        "    if 'id' in m:\n"
        "        text(m, os.environ['A_TOKEN'])\n"
    )
    target = scripted(body, env={"A_TOKEN": "s3cret"})
    async with mcpwire.Client(target) as client:
        assert (await client.call_tool("x")).text == "s3cret"
        assert "s3cret" not in repr(client)
    assert "s3cret" not in repr(target)
    assert "auth" not in inspect.signature(mcpwire.Stdio).parameters


@pytest.mark.rule("PROG-04")
async def test_progress_after_the_response_is_not_delivered():
    received = []

    def call(params, server):
        token = params["_meta"]["progressToken"]
        server.notify("notifications/progress", progressToken=token, progress=1)
        loop = asyncio.get_running_loop()
        loop.call_soon(
            lambda: server.notify(
                "notifications/progress", progressToken=token, progress=2
            )
        )
        return text("x")

    server = FakeServer({"tools/call": call, "resources/list": lambda *_: {}})
    async with mcpwire.Client(server) as client:
        await client.call_tool("x", on_progress=lambda *step: received.append(step))
        await client.ping()  # so that all messages before its response are read
    assert received == [(1, None, None)]
