"""A thousand sessions on one gateway get their own results and leave no tasks."""

import asyncio

import pytest

import mcpwire
from mcpwire.gateway import Gateway

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.unchecked_wire("thousands of the same messages"),
]

TIMEOUT_S = 150.0


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
async def test_each_of_many_sessions_gets_its_own_result(server, share, many, sets):
    gateway = Gateway(
        {"one": server}, share=share, timeout=TIMEOUT_S, max_upstream_sets=many
    )
    before = asyncio.all_tasks()
    clients = [mcpwire.Client(gateway, mode="session") for _ in range(many)]
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
