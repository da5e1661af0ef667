"""A connection in memory ends at both ends, whichever of them ends it."""

import asyncio

import pytest

import mcpwire
from mcpwire.limits import Limits

pytestmark = pytest.mark.anyio


async def test_what_the_server_will_not_read_ends_the_clients_call_at_once():
    server = mcpwire.Server("small", "1.0")

    @server.tool
    async def echo(message: str) -> str:
        return message

    client = mcpwire.Client(server, limits=Limits(message=4_096))
    async with asyncio.timeout(30), client:
        with pytest.raises(mcpwire.ConnectionClosed, match="the peer closed it"):
            await client.call_tool("echo", {"message": "x" * 8_192})
        assert (await client.call_tool("echo", {"message": "on"})).text == "on"
