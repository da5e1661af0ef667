"""One timer for many things that all wait equally long."""

import asyncio

import pytest

from mcpwire.server.http.exchange import TimeoutQueue, Timeouts

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_who_came_first_is_done_first():
    done = []
    last = asyncio.Event()
    line = TimeoutQueue(0.001)
    line.add(lambda: done.append(1))
    line.add(lambda: done.append(2))
    line.add(last.set)
    assert len(line) == 3
    await asyncio.wait_for(last.wait(), 30)
    assert done == [1, 2]
    assert len(line) == 0


async def test_who_left_is_not_done():
    done = []
    last = asyncio.Event()
    line = TimeoutQueue(0.001)

    def first():
        done.append(1)

    line.add(first)
    line.add(last.set)
    line.discard(first)
    line.discard(first)
    await asyncio.wait_for(last.wait(), 30)
    assert done == []


async def test_one_timer_serves_those_who_come_later():
    line = TimeoutQueue(0.01)
    later = asyncio.Event()
    loop = asyncio.get_running_loop()
    line.add(lambda: None)
    timer = line._timer
    loop.call_later(0.005, lambda: line.add(later.set))
    assert line._timer is timer
    await asyncio.wait_for(later.wait(), 30)
    assert line._timer is None


async def test_an_action_may_come_again():
    line = TimeoutQueue(0.001)
    rounds = []
    last = asyncio.Event()

    def again():
        rounds.append(1)
        line.add(again if len(rounds) < 3 else last.set)

    line.add(again)
    await asyncio.wait_for(last.wait(), 30)
    assert len(rounds) == 3


async def test_closing_forgets_all():
    timeouts = Timeouts(reading=60)
    timeouts.reading.add(lambda: None)
    timeouts.close()
    assert len(timeouts.reading) == 0
    assert timeouts.reading._timer is None


def test_another_loop_begins_anew():
    line = TimeoutQueue(0.001)

    async def add():
        done = asyncio.Event()
        line.add(done.set)
        return done

    async def wait():
        await asyncio.wait_for((await add()).wait(), 30)

    asyncio.run(add())
    asyncio.run(wait())
