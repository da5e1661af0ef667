"""What waits for callbacks and handlers is bounded in number and in bytes."""

import asyncio
from functools import partial

import pytest

from mcpwire.errors import InternalError
from mcpwire.transports.handlers import InboundTasks, Newest

pytestmark = pytest.mark.anyio


def taken(queue):
    items = []
    while queue:
        items.append(queue.pop())
    return items


def test_the_oldest_items_are_forgotten_when_they_are_too_many():
    queue = Newest(2, 1_000)
    for n in range(5):
        queue.put(n, None, "text")
    assert queue.dropped == 3
    assert taken(queue) == [(3, None, "text"), (4, None, "text")]


def test_the_oldest_items_are_forgotten_when_they_are_too_long():
    queue = Newest(100, 10)
    for text in ("aaaa", "bbbb", "cccccc"):
        queue.put(1, None, text)
    assert queue.dropped == 1
    queue.put(2, None, "x" * 11)
    assert (taken(queue), queue.dropped) == ([], 4)
    queue.put(3, None, "x" * 10)
    queue.clear()
    queue.put(4, None, "y" * 10)
    assert taken(queue) == [(4, None, "y" * 10)]


@pytest.mark.attack("S15")
async def test_requests_that_wait_for_a_handler_are_bounded_in_bytes():
    release = asyncio.Event()
    answers = {}

    async def handler():
        await release.wait()
        return {}

    tasks = InboundTasks(limit=1, backlog=100, room=100)
    for id, size in enumerate([10**6, 60, 40, 1]):
        tasks.start(id, handler, partial(answers.__setitem__, id), size)
    assert list(answers) == [3]
    assert type(answers[3]) is InternalError
    tasks.cancel(1)
    tasks.start(4, handler, partial(answers.__setitem__, 4), 60)
    tasks.start(5, handler, partial(answers.__setitem__, 5), 1)
    assert list(answers) == [3, 5]
    release.set()
    await tasks.settle(30)
    assert [answers[id] for id in (0, 2, 4)] == [{}, {}, {}]
    tasks.start(6, handler, partial(answers.__setitem__, 6), 100)
    await tasks.settle(30)
    assert answers[6] == {}
