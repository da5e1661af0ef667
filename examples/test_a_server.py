"""Test a server with pytest: `python -m pytest test_a_server.py`."""

import asyncio
import sys

import pytest

import mcpwire
from mcpwire.testing import FaultyStdio, ScriptedClient, Split

pytest_plugins = ["mcpwire.testing.pytest_plugin"]  # or in conftest.py, once
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]

SERVER = mcpwire.Stdio(sys.executable, ["-m", "mcpwire", "demo-server"])  # yours


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_add_returns_the_sum() -> None:
    async with mcpwire.Client(SERVER) as client:
        result = await client.call_tool("add", {"a": 2, "b": 3})
        assert result.structured_content == {"sum": 5}


async def test_wrong_arguments_are_refused() -> None:
    async with mcpwire.Client(SERVER) as client:
        result = await client.call_tool("add", {"a": "two", "b": 3})
        assert result.is_error
        assert "expected integer" in result.text


async def test_a_parse_error_does_not_end_the_server() -> None:
    async with ScriptedClient(SERVER) as client:
        await client.handshake()
        client.send_bytes(b"nonsense\n")
        assert (await client.receive()).error["code"] == -32700
        assert (await client.request("ping")).result == {}


async def test_requests_can_arrive_byte_by_byte() -> None:
    target = FaultyStdio(SERVER, [Split(toward="server")])
    async with mcpwire.Client(target) as client:
        call = client.call_tool("echo", {"message": "hi"})
        assert (await asyncio.wait_for(call, 5)).text == "hi"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q"]))
