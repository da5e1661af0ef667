"""A thousand sessions at one gateway: each gets its own answer, nothing is left."""

from __future__ import annotations

import asyncio

import pytest

import mcpwire
from mcpwire.gateway import Gateway

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(180),
    pytest.mark.unchecked_wire("thousands of the same messages"),
]

PATIENCE_S = 150.0


@pytest.fixture
def server():
    server = mcpwire.Server("one")

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


@pytest.mark.parametrize(
    ("share", "many", "sets"), [("identity", 1000, 1), ("session", 200, 200)]
)
async def test_many_sessions_have_each_its_own_answer(server, share, many, sets):
    gateway = Gateway(
        {"one": server}, share=share, timeout=PATIENCE_S, max_upstream_sets=many
    )
    before = asyncio.all_tasks()
    clients = [mcpwire.Client(gateway, mode="session") for _ in range(many)]
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(client.connect() for client in clients))
        assert len(gateway.status()["sets"]) == sets
        results = await asyncio.gather(
            *(
                client.call_tool("one_echo", {"text": str(number)})
                for number, client in enumerate(clients)
            )
        )
        assert [result.text for result in results] == [str(n) for n in range(many)]
        await asyncio.gather(*(client.aclose() for client in clients))
    assert gateway.status()["sets"] == []
    assert asyncio.all_tasks() == before


async def test_there_are_no_more_sets_than_it_was_told(server):
    gateway = Gateway({"one": server}, max_upstream_sets=3)
    clients = [mcpwire.Client(gateway, mode="session") for _ in range(4)]
    *first, last = clients
    await asyncio.gather(*(client.connect() for client in first))
    with pytest.raises(
        mcpwire.MCPError, match="too many connections to servers are in use"
    ):
        await last.connect()
    await first[0].aclose()
    await last.connect()
    result = await last.call_tool("one_echo", {"text": "room again"})
    assert result.text == "room again"
    await asyncio.gather(*(client.aclose() for client in clients))
