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
    shell, order
):
    remains = Remains()
    clients = [shell(quick()) for _ in range(3)]
    for client in clients:
        await elsewhere(client.connect())
    for position, number in enumerate(order):
        await elsewhere(clients[number].aclose())
        await elsewhere(clients[number].aclose())
        for other in order[position + 1 :]:
            assert (await elsewhere(clients[other].call_tool("x"))).text
    remains.assert_none()


@pytest.fixture
async def connected(shell):
    client = shell(quick())
    await client.connect()
    yield client
    await client.aclose()


@pytest.fixture
async def connected_too(shell):
    async with shell(quick()) as client:
        yield client


@pytest.mark.usefixtures("complaints")
async def test_clients_of_fixtures_work_and_are_closed_by_their_finalisers(
    connected, connected_too
):
    for client in (connected, connected_too):
        assert (await client.call_tool("x")).text


@pytest.mark.usefixtures("complaints")
async def test_the_collector_may_finalise_a_generator_that_holds_a_client():
    async def session():
        async with mcpwire.Client(quick()) as client:
            yield client

    async def use():
        generator = session()
        client = await anext(generator)
        assert (await client.call_tool("x")).text
        return client  # the generator is forgotten here, in the middle

    remains, before = Remains(), asyncio.all_tasks()
    client = await elsewhere(use())
    gc.collect()
    await asyncio.sleep(0)  # the loop begins a task that closes the generator
    await asyncio.wait(asyncio.all_tasks() - before)
    assert not client.is_connected
    await client.aclose()
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
