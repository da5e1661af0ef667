"""The handlers of one connection: limits, order, cancellation and replies."""

import asyncio
import gc
import sys
from contextvars import ContextVar, copy_context
from functools import partial

import pytest

from mcpwire.errors import InternalError
from mcpwire.transports.handlers import Delivery, InboundTasks, NewestQueue

BOUND_S = 30.0


class Harness:
    """Handlers of one connection, and their replies in order."""

    def __init__(self, **options):
        options = {"limit": 2, "backlog": 10, **options}
        self.tasks = InboundTasks(**options)
        self.answers = []

    def start(self, id, handler, size=0, **options):
        reply = partial(self.take, id)
        self.tasks.start(id, handler, reply, size, **options)

    def take(self, id, answer):
        self.answers.append((id, answer))


lazy = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="a handler begins at once there"
)


async def immediate():
    return {}


async def waiting():
    await asyncio.Event().wait()


@lazy
async def test_plain_and_async_handlers_run_in_their_own_tasks():
    harness = Harness()
    harness.start(1, immediate)
    harness.start(2, dict)
    assert (harness.answers, len(harness.tasks)) == ([], 2)
    await harness.tasks.settle(BOUND_S)
    assert (harness.answers, len(harness.tasks)) == ([(1, {}), (2, {})], 0)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks begin late there")
async def test_a_handler_without_await_is_answered_immediately():
    harness = Harness()
    harness.start(1, immediate)
    harness.start(2, waiting, tag="it")
    assert (harness.answers, len(harness.tasks)) == ([(1, {})], 1)
    assert harness.tasks.cancel(2) == "it"
    await harness.tasks.settle(BOUND_S)
    assert (harness.answers, len(harness.tasks)) == ([(1, {})], 0)


async def test_handler_tasks_use_the_task_factory_of_the_loop():
    made, loop, harness = [], asyncio.get_running_loop(), Harness()

    def factory(loop, work, **options):
        made.append(work)
        return asyncio.Task(work, loop=loop, **options)

    loop.set_task_factory(factory)
    try:
        harness.start(1, immediate)
    finally:
        loop.set_task_factory(None)
    await harness.tasks.settle(BOUND_S)
    assert (harness.answers, len(made)) == ([(1, {})], 1)


@lazy
async def test_a_handler_cancelled_before_it_starts_never_runs():
    harness = Harness()
    harness.start(1, pytest.fail, tag="it")
    assert harness.tasks.cancel(1) == "it"
    assert harness.tasks.cancel(1) is None
    await harness.tasks.settle(BOUND_S)
    assert harness.answers == []


@lazy
async def test_handlers_over_the_limit_run_in_later_iterations():
    harness = Harness()
    for id in range(5):
        harness.start(id, immediate)
    await asyncio.sleep(0)  # one loop iteration
    assert [id for id, _ in harness.answers] == [0, 1]
    await harness.tasks.settle(BOUND_S)
    assert [id for id, _ in harness.answers] == [0, 1, 2, 3, 4]
    assert len(harness.tasks) == 0


async def test_waiting_handlers_run_in_order():
    harness = Harness()
    for id in range(4):
        harness.start(id, immediate)
    await asyncio.sleep(0)  # one loop iteration
    harness.start(4, immediate)
    await harness.tasks.settle(BOUND_S)
    assert [id for id, _ in harness.answers] == [0, 1, 2, 3, 4]


VARIABLE = ContextVar("variable", default=None)


@pytest.mark.parametrize("first", [immediate, partial(asyncio.sleep, 0, {})])
async def test_a_waiting_handler_runs_in_its_original_context(first):
    async def reads():
        return VARIABLE.get()

    def start_in_context(id, handler):
        VARIABLE.set(id)
        harness.start(id, handler)

    harness = Harness(limit=1)
    for id, handler in ((1, first), (2, reads), (3, first), (4, reads)):
        copy_context().run(start_in_context, id, handler)
    await harness.tasks.settle(BOUND_S)
    assert harness.answers == [(1, {}), (2, 2), (3, {}), (4, 4)]


class Odd(BaseException):
    """An exception that handlers are not expected to raise."""


@pytest.mark.parametrize("waits", [False, True])
async def test_a_handler_that_ends_without_reply_is_removed(waits):
    async def cancels_itself():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)  # one loop iteration

    async def breaks():
        if waits:
            await asyncio.sleep(0)  # one loop iteration
        raise Odd

    errors = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    harness = Harness()
    harness.start(1, cancels_itself, tag="cancelled")
    harness.start(2, breaks, tag="broken")
    await harness.tasks.settle(BOUND_S)
    gc.collect()
    assert harness.tasks.unanswered() == []
    assert len(harness.tasks) == 0
    assert [type(error) for error in errors] == [Odd]


async def test_a_waiting_handler_starts_when_a_running_one_ends():
    harness = Harness(limit=1, room=10)
    release = asyncio.Event()

    async def until_released():
        await release.wait()
        return {}

    harness.start(1, until_released)
    harness.start(2, immediate, 10)
    harness.start(3, immediate, 1)
    await asyncio.sleep(0)  # one loop iteration
    assert [(id, type(answer)) for id, answer in harness.answers] == [
        (3, InternalError)
    ]
    release.set()
    await harness.tasks.settle(BOUND_S)
    assert harness.answers[1:] == [(1, {}), (2, {})]


async def test_cancel_returns_the_tag_of_a_running_or_waiting_handler():
    harness = Harness(limit=2)
    harness.start(1, waiting, tag="one")
    harness.start(2, immediate, tag="two")
    harness.start(3, waiting)
    harness.start(4, pytest.fail, tag="four")
    assert harness.tasks.cancel(4) == "four"
    await asyncio.sleep(0)  # one loop iteration
    assert harness.tasks.unanswered()[0] == "one"
    assert "two" not in harness.tasks.unanswered()
    assert harness.tasks.cancel(1) == "one"
    assert "one" not in harness.tasks.unanswered()
    await asyncio.wait(harness.tasks.close())
    assert harness.answers == [(2, {})]


@pytest.mark.parametrize("how", ["cancels and waits", "cancels", "closes"])
async def test_a_handler_that_cancels_itself_or_closes_sends_no_reply(how):
    harness = Harness()
    seen = []

    async def handler():
        if how == "closes":
            assert harness.tasks.close() == []
        else:
            harness.tasks.cancel(1)
        if how == "cancels and waits":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
        return {}

    harness.start(1, handler)
    await harness.tasks.settle(BOUND_S)
    await asyncio.sleep(0)  # one loop iteration
    assert harness.answers == []
    assert seen == ["cancelled"] * (how == "cancels and waits")


@lazy
async def test_closing_in_a_handler_ends_waiting_handlers():
    harness = Harness()

    async def handler():
        ended.extend(harness.tasks.close())

    ended = []
    harness.start(1, handler)
    harness.start(2, pytest.fail)
    await harness.tasks.settle(BOUND_S)
    assert (len(ended), harness.answers) == (1, [])


async def test_an_id_can_be_reused_while_its_handler_still_runs():
    harness = Harness()
    release = asyncio.Event()

    async def stubborn():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return {"of": "the first"}

    harness.start(1, stubborn)
    await asyncio.sleep(0)  # one loop iteration
    harness.tasks.cancel(1)
    harness.start(1, immediate)
    release.set()
    await harness.tasks.settle(BOUND_S)
    assert harness.answers == [(1, {})]


@pytest.mark.parametrize("waits", [True, False])
async def test_a_failed_handler_is_logged_and_replies_with_an_error(waits, caplog):
    harness = Harness()

    async def handler():
        if waits:
            await asyncio.sleep(0)  # one loop iteration
        raise ValueError("secret")

    async def raises_cancelled():
        raise asyncio.CancelledError

    harness.start(1, handler)
    harness.start(2, raises_cancelled)
    await harness.tasks.settle(BOUND_S)
    assert sorted((id, type(answer)) for id, answer in harness.answers) == [
        (1, InternalError),
        (2, InternalError),
    ]
    assert "secret" not in str(harness.answers)
    assert len(caplog.records) == 2


async def test_a_delivery_closed_before_it_starts_delivers_later_items(recwarn):
    received = []

    async def callback(item):
        received.append(item)

    delivery = Delivery(callback, NewestQueue(10, 1_000))
    delivery.put("first")
    await asyncio.wait([delivery.close()])
    await delivery.settle()
    delivery.put("second")
    await delivery.settle()
    gc.collect()
    assert (received, recwarn.list) == (["second"], [])


async def cancel_all_others():
    others = asyncio.all_tasks() - {asyncio.current_task()}
    named = [task for task in others if task.get_name() == "mcpwire-request"]
    for task in named:
        task.cancel()
    await asyncio.wait(named)


@lazy
async def test_a_handler_task_cancelled_from_outside_frees_its_slot():
    harness = Harness(limit=1)
    harness.start(1, immediate)
    harness.start(2, immediate)
    await cancel_all_others()
    harness.start(3, immediate)
    await harness.tasks.settle(BOUND_S)
    assert (harness.answers, len(harness.tasks)) == ([(2, {}), (3, {})], 0)
    assert harness.tasks.unanswered() == []


@lazy
async def test_wait_ended_returns_after_an_outside_cancellation():
    harness = Harness()
    harness.start(1, immediate, tag="it")
    await cancel_all_others()
    await harness.tasks.wait_ended(lambda tag: tag == "it")
    await harness.tasks.settle(BOUND_S)
    assert len(harness.tasks) == 0


# Waiting items are limited in number and in bytes...


def taken(queue):
    items = []
    while queue:
        items.append(queue.pop())
    return items


def test_the_oldest_items_over_a_limit_are_dropped():
    queue = NewestQueue(2, 10)
    for n in range(5):
        queue.put(n, None, "text")
    assert queue.dropped == 3
    assert taken(queue) == [(3, None, "text"), (4, None, "text")]
    queue = NewestQueue(100, 10)
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
async def test_requests_waiting_for_a_handler_are_limited_in_bytes():
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
    await tasks.settle(BOUND_S)
    assert [answers[id] for id in (0, 2, 4)] == [{}, {}, {}]
    tasks.start(6, handler, partial(answers.__setitem__, 6), 100)
    await tasks.settle(BOUND_S)
    assert answers[6] == {}
