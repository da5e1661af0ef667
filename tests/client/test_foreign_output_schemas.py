"""Output schemas of servers: validated on request only, and never fetched."""

import socket

import pytest
from fakes import FakeServer

import mcpwire
from mcpwire.protocol.output_validation import SchemaValidator

pytestmark = pytest.mark.pain("P37")

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CANARY = {"type": "object", "properties": {"n": {"$ref": "http://127.0.0.1:1/n"}}}
BROKEN = {
    "no such type": {"type": "objekt"},
    "no object": {"type": "object", "properties": []},
    "a reference to nothing": {"$ref": "#/$defs/none"},
    "a reference elsewhere": CANARY,
    "a reference to a file": {"$ref": "file:///etc/hostname"},
    "itself": {"$ref": "#"},
}


def promising(schema, **result):
    tool = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": schema}
    reply = {"content": [{"type": "text", "text": "hi"}], **result}
    return FakeServer(
        {"tools/list": lambda *_: {"tools": [tool]}, "tools/call": lambda *_: reply}
    )


@pytest.fixture
def no_connections(monkeypatch):
    """Fail the test if it opens a connection or resolves a name."""

    def refuse(*_, **__):
        raise AssertionError("a schema was fetched")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.system("V41")
@pytest.mark.parametrize("schema", [SCHEMA, *BROKEN.values()], ids=["good", *BROKEN])
async def test_results_are_not_validated_by_default(schema, no_connections):
    server = promising(schema, structuredContent={"n": "one"})
    async with mcpwire.Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["x"]
        for _ in range(3):
            result = await client.call_tool("x")
            assert result.structured_content == {"n": "one"}
        assert len(server.requests("tools/list")) == 1


@pytest.mark.parametrize("validate", ["warn", "error"])
@pytest.mark.parametrize("schema", [SCHEMA, *BROKEN.values()], ids=["good", *BROKEN])
async def test_a_result_with_is_error_is_never_validated(schema, validate):
    server = promising(schema, structuredContent={"n": "one"}, isError=True)
    async with mcpwire.Client(server) as client:
        result = await client.call_tool("x", validate=validate)
        assert result.is_error


@pytest.mark.attack("S03")
@pytest.mark.parametrize("schema", BROKEN.values(), ids=BROKEN)
async def test_validate_warn_logs_one_warning_and_returns(
    schema, caplog, no_connections
):
    server = promising(schema, structuredContent={"n": "one"})
    async with mcpwire.Client(server) as client:
        result = await client.call_tool("x", validate="warn")
        assert result.structured_content == {"n": "one"}
        assert len(caplog.records) == 1
        with pytest.raises(mcpwire.RemoteProtocolError):
            await client.call_tool("x", validate="error")


async def test_a_schema_is_compiled_once(monkeypatch):
    made = []
    usual = SchemaValidator.__init__

    def counting(self, schema, **options):
        made.append(schema)
        usual(self, schema, **options)

    monkeypatch.setattr(SchemaValidator, "__init__", counting)
    server = promising(SCHEMA, structuredContent={"n": 1})
    async with mcpwire.Client(server) as client:
        for _ in range(5):
            result = await client.call_tool("x", validate="error")
            assert result.structured_content == {"n": 1}
        assert len(made) == len(server.requests("tools/list")) == 1


def changing(*schemas):
    """Make a server that changes its tool while each list is on the way."""
    remaining = list(schemas)

    def list_tools(_, server):
        server.notify("notifications/tools/list_changed")
        schema = remaining.pop(0)
        return {"tools": [{"name": "x", "inputSchema": {}, "outputSchema": schema}]}

    reply = {"content": [], "structuredContent": {"n": "one"}}
    return FakeServer({"tools/list": list_tools, "tools/call": lambda *_: reply})


async def test_a_schema_that_changed_while_it_was_listed_is_not_used():
    server = changing(SCHEMA, {})
    async with mcpwire.Client(server) as client:
        await client.list_tools()
        result = await client.call_tool("x", validate="error")
    assert result.structured_content == {"n": "one"}
    assert len(server.requests("tools/list")) == 2


async def test_a_result_is_validated_though_its_schema_changes_meanwhile():
    async with mcpwire.Client(changing(SCHEMA)) as client:
        with pytest.raises(mcpwire.RemoteProtocolError, match="expected type"):
            await client.call_tool("x", validate="error")


@pytest.mark.parametrize("validate", ["warn", "error"])
async def test_a_pattern_with_look_around_is_skipped_with_one_warning(validate, caplog):
    number = {"type": "string", "pattern": "(?=x)[0-9]+"}
    schema = {"type": "object", "properties": {"n": number}}
    server = promising(schema, structuredContent={"n": "one"})
    async with mcpwire.Client(server) as client:
        for _ in range(3):
            result = await client.call_tool("x", validate=validate)
            assert result.structured_content == {"n": "one"}
    (record,) = caplog.records
    assert (
        "the output schema of 'x' has patterns that are not checked" in record.message
    )
    assert "(?=x)[0-9]+" in record.message


@pytest.mark.system("L-U13")
@pytest.mark.rule("TOOL-12")
async def test_validate_refuses_a_result_that_breaks_its_schema(caplog):
    server = promising(SCHEMA, structuredContent={"n": "one"})
    async with mcpwire.Client(server) as client:
        await client.call_tool("x")
        assert server.requests("tools/list") == []
        with pytest.raises(
            mcpwire.RemoteProtocolError, match="output schema"
        ) as caught:
            await client.call_tool("x", validate="error")
        assert "n" in str(caught.value)
        result = await client.call_tool("x", validate="warn")
        assert result.structured_content == {"n": "one"}
        assert "breaks its output schema" in caplog.text
        assert len(server.requests("tools/list")) == 1
        server.notify("notifications/tools/list_changed")
        with pytest.raises(mcpwire.RemoteProtocolError):
            await client.call_tool("x", validate="error")
        assert len(server.requests("tools/list")) == 2


async def test_validate_needs_structured_content():
    async with mcpwire.Client(promising(SCHEMA)) as client:
        with pytest.raises(mcpwire.RemoteProtocolError, match="no structured"):
            await client.call_tool("x", validate="error")


async def test_an_unknown_validate_mode_is_refused_before_sending():
    server = promising(SCHEMA)
    async with mcpwire.Client(server) as client:
        with pytest.raises(ValueError, match="validate"):
            await client.call_tool("x", validate="strict")
    assert server.requests("tools/call") == []


async def test_a_started_call_may_be_checked_and_validated():
    server = promising(SCHEMA, structuredContent={"n": "one"})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x", validate="error")
        with pytest.raises(mcpwire.RemoteProtocolError, match="output schema"):
            await call
        server.methods["tools/call"] = lambda *_: {"content": [], "isError": True}
        call = await client.start_call("x", check=True)
        with pytest.raises(mcpwire.ToolError):
            await call
        with pytest.raises(ValueError, match="validate"):
            await client.start_call("x", validate="strict")
