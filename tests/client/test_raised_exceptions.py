"""`raise_exceptions=True` raises the exceptions of server functions in the client."""

import logging

import pytest

import mcpwire


@pytest.fixture
def server():
    made = mcpwire.Server("under-test")

    @made.tool
    async def divide(a: int, b: int) -> int:
        return a // b

    @made.tool
    def refuse() -> str:
        raise mcpwire.ToolError("not today")

    @made.tool
    def stop() -> str:
        raise SystemExit(3)

    @made.resource("test://broken")
    def broken() -> str:
        raise KeyError("shelf")

    return made


@pytest.mark.parametrize("mode", ["stateless", "session"])
async def test_a_call_raises_the_exception_of_its_tool(server, mode, caplog):
    async with mcpwire.Client(server, mode=mode, raise_exceptions=True) as client:
        with pytest.raises(ZeroDivisionError) as caught:
            await client.call_tool("divide", {"a": 1, "b": 0})
        assert caught.traceback[-1].name == "divide"
        result = await client.call_tool("divide", {"a": 4, "b": 2})
        assert result.structured_content == {"result": 2}
        with pytest.raises(KeyError, match="shelf"):
            await client.read_text("test://broken")
    assert caplog.records == []


async def test_a_tool_error_stays_a_result(server):
    async with mcpwire.Client(server, raise_exceptions=True) as client:
        result = await client.call_tool("refuse")
        assert (result.is_error, result.text) == (True, "not today")
        result = await client.call_tool("stop")
        assert (result.is_error, result.text) == (True, "the tool failed")


async def test_by_default_the_exception_is_logged_only(server, caplog):
    async with mcpwire.Client(server) as client:
        result = await client.call_tool("divide", {"a": 1, "b": 0})
        assert (result.is_error, result.text) == (True, "the tool failed")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_the_blocking_client_raises_exceptions_too(server):
    client = mcpwire.sync.Client(server, raise_exceptions=True)
    with client, pytest.raises(ZeroDivisionError):
        client.call_tool("divide", {"a": 1, "b": 0})


@pytest.mark.parametrize("target", ["http://localhost:1/mcp", "some-server"])
def test_raise_exceptions_needs_an_in_process_server(target):
    with pytest.raises(ValueError, match="raise_exceptions is for a server object in"):
        mcpwire.Client(target, raise_exceptions=True)
