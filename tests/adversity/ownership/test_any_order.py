"""Opening, using and closing from any task, in any order, any number of times."""

import asyncio
import gc
import itertools

import pytest
from fakes import FakeServer
from schedule import Remains
from shell_server import quick

import mcpwire

pytestmark = pytest.mark.pain("P01")

BOUND_S = 30.0


@pytest.fixture
async def complaints():
    """Collect unhandled errors reported to the loop; there must be none."""
    loop, contexts = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: contexts.append(context))
    yield contexts
    gc.collect()  # "never retrieved" is reported by finalisers
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    assert contexts == []


async def in_own_task(awaitable):
    """Await it in its own task."""

    async def do():
        return await awaitable

    return await asyncio.create_task(do())


@pytest.mark.usefixtures("complaints")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_three_clients_close_in_any_order_in_separate_tasks(order):
    remains = Remains()
    clients = [mcpwire.Client(quick()) for _ in range(3)]
    for client in clients:
        await in_own_task(client.connect())
    for position, number in enumerate(order):
        await in_own_task(clients[number].aclose())
        await in_own_task(clients[number].aclose())
        for other in order[position + 1 :]:
            assert (await in_own_task(clients[other].call_tool("x"))).text
    remains.assert_none()


@pytest.mark.fault("F41")
@pytest.mark.pain("P11")
def test_closing_after_the_loop_was_closed_releases_everything():
    client = mcpwire.Client(quick())
    asyncio.run(client.connect())
    asyncio.run(client.aclose())
    assert not client.is_connected
    asyncio.run(client.aclose())


@pytest.mark.pain("P11")
@pytest.mark.parametrize("target", [quick, FakeServer])
def test_one_client_is_usable_in_successive_loops(target):
    client = mcpwire.Client(target())

    async def use():
        async with asyncio.timeout(BOUND_S), client:
            await client.ping()

    for _ in range(5):
        asyncio.run(use())
    assert client.stats.connections == 5


@pytest.mark.fault("F44")
async def test_40_concurrent_clients_each_get_their_results():
    remains = Remains()
    clients = [mcpwire.Client(quick()) for _ in range(40)]
    await asyncio.gather(*(client.connect() for client in clients))
    for _ in range(5):
        results = await asyncio.gather(*(c.call_tool("x") for c in clients))
        assert len({result.text for result in results}) == 1
    await asyncio.gather(*(client.aclose() for client in clients))
    remains.assert_none()
