"""Opening, using and closing from anywhere, in any order, any number of times."""

import asyncio
import gc
import itertools

import pytest
from fakes import FakeServer
from quick import quick
from schedule import Remains

import mcpwire

pytestmark = pytest.mark.pain("P01")

BOUND_S = 30.0


@pytest.fixture
async def complaints():
    """Collect what the loop is told of that nobody handled; there must be none."""
    loop, heard = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: heard.append(context))
    yield heard
    gc.collect()  # "never retrieved" is told by finalisers
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    assert heard == []


async def elsewhere(awaitable):
    """Do it in a task of its own."""

    async def do():
        return await awaitable

    return await asyncio.create_task(do())


@pytest.mark.usefixtures("complaints")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_three_clients_are_closed_in_every_order_each_in_a_task_of_its_own(
    order,
):
    remains = Remains()
    clients = [mcpwire.Client(quick()) for _ in range(3)]
    for client in clients:
        await elsewhere(client.connect())
    for position, number in enumerate(order):
        await elsewhere(clients[number].aclose())
        await elsewhere(clients[number].aclose())
        for other in order[position + 1 :]:
            assert (await elsewhere(clients[other].call_tool("x"))).text
    remains.assert_none()


@pytest.mark.fault("F41")
@pytest.mark.pain("P11")
def test_closing_after_the_loop_was_closed_lets_go_of_everything():
    client = mcpwire.Client(quick())
    asyncio.run(client.connect())
    asyncio.run(client.aclose())
    assert not client.is_connected
    asyncio.run(client.aclose())


@pytest.mark.pain("P11")
@pytest.mark.parametrize("target", [quick, FakeServer])
def test_loop_after_loop_the_same_client_is_used_afresh(target):
    client = mcpwire.Client(target())

    async def use():
        async with asyncio.timeout(BOUND_S), client:
            await client.ping()

    for _ in range(5):
        asyncio.run(use())
    assert client.stats.connections == 5


@pytest.mark.fault("F44")
async def test_40_clients_at_once_each_get_their_own_answers():
    remains = Remains()
    clients = [mcpwire.Client(quick()) for _ in range(40)]
    await asyncio.gather(*(client.connect() for client in clients))
    for _ in range(5):
        results = await asyncio.gather(*(c.call_tool("x") for c in clients))
        assert len({result.text for result in results}) == 1
    await asyncio.gather(*(client.aclose() for client in clients))
    remains.assert_none()
