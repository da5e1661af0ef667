"""Output schemas: of a server's own making, and nobody's surprise."""

import socket

import pytest
from fakes import FakeServer

import mcpwire
from mcpwire.protocol.output_validation import SchemaValidator

pytestmark = pytest.mark.pain("P37")

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}
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
    said = {"content": [{"type": "text", "text": "hi"}], **result}
    return FakeServer(
        {"tools/list": lambda *_: {"tools": [tool]}, "tools/call": lambda *_: said}
    )


@pytest.fixture
def nobody_connects(monkeypatch):
    """Fail the test in which anything is connected to, or a name resolved."""

    def refuse(*_, **__):
        raise AssertionError("somebody was asked for a schema")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.system("V41")
@pytest.mark.parametrize("schema", [SCHEMA, *BROKEN.values()], ids=["good", *BROKEN])
async def test_nothing_is_checked_and_no_list_fetched_unless_somebody_asks(
    schema, nobody_connects
):
    server = promising(schema, structuredContent={"n": "one"})
    async with mcpwire.Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["x"]
        for _ in range(3):
            result = await client.call_tool("x")
            assert result.structured_content == {"n": "one"}
        assert len(server.requests("tools/list")) == 1


@pytest.mark.parametrize("validate", ["warn", "error"])
@pytest.mark.parametrize("schema", [SCHEMA, *BROKEN.values()], ids=["good", *BROKEN])
async def test_a_result_that_reports_failure_is_never_checked(schema, validate):
    server = promising(schema, structuredContent={"n": "one"}, isError=True)
    async with mcpwire.Client(server) as client:
        result = await client.call_tool("x", validate=validate)
        assert result.is_error


@pytest.mark.attack("S03")
@pytest.mark.parametrize("schema", BROKEN.values(), ids=BROKEN)
async def test_a_warning_comes_beside_the_result_whatever_is_wrong(
    schema, caplog, nobody_connects
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
