"""The handlers of one connection: how many run, which wait, and what is answered."""

import asyncio
import gc
import sys
from contextvars import ContextVar, copy_context
from functools import partial

import pytest

from mcpwire.errors import InternalError
from mcpwire.transports.handlers import Delivery, InboundTasks, NewestQueue

BOUND_S = 30.0


class Bench:
    """Handlers of one connection, and what they answered in which order."""

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


async def at_once():
    return {}


async def waiting():
    await asyncio.Event().wait()


@lazy
async def test_plain_and_async_handlers_answer_in_tasks_of_their_own():
    bench = Bench()
    bench.start(1, at_once)
    bench.start(2, dict)
    assert (bench.answers, len(bench.tasks)) == ([], 2)
    await bench.tasks.settle(BOUND_S)
    assert (bench.answers, len(bench.tasks)) == ([(1, {}), (2, {})], 0)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks begin late there")
async def test_a_handler_that_waits_for_nothing_is_answered_at_once():
    bench = Bench()
    bench.start(1, at_once)
    bench.start(2, waiting, tag="it")
    assert (bench.answers, len(bench.tasks)) == ([(1, {})], 1)
    assert bench.tasks.cancel(2) == "it"
    await bench.tasks.settle(BOUND_S)
    assert (bench.answers, len(bench.tasks)) == ([(1, {})], 0)


async def test_a_task_factory_of_the_user_makes_the_tasks_of_handlers():
    made, loop, bench = [], asyncio.get_running_loop(), Bench()

    def factory(loop, work, **options):
        made.append(work)
        return asyncio.Task(work, loop=loop, **options)

    loop.set_task_factory(factory)
    try:
        bench.start(1, at_once)
    finally:
        loop.set_task_factory(None)
    await bench.tasks.settle(BOUND_S)
    assert (bench.answers, len(made)) == ([(1, {})], 1)


@lazy
async def test_one_that_is_withdrawn_before_its_turn_never_runs():
    bench = Bench()
    bench.start(1, pytest.fail, tag="it")
    assert bench.tasks.cancel(1) == "it"
    assert bench.tasks.cancel(1) is None
    await bench.tasks.settle(BOUND_S)
    assert bench.answers == []


@lazy
async def test_more_than_run_at_once_follow_in_turns_of_the_loop():
    bench = Bench()
    for id in range(5):
        bench.start(id, at_once)
    await asyncio.sleep(0)  # a turn of the loop
    assert [id for id, _ in bench.answers] == [0, 1]
    await bench.tasks.settle(BOUND_S)
    assert [id for id, _ in bench.answers] == [0, 1, 2, 3, 4]
    assert len(bench.tasks) == 0


async def test_what_comes_later_does_not_overtake_what_waits():
    bench = Bench()
    for id in range(4):
        bench.start(id, at_once)
    await asyncio.sleep(0)  # a turn of the loop
    bench.start(4, at_once)
    await bench.tasks.settle(BOUND_S)
    assert [id for id, _ in bench.answers] == [0, 1, 2, 3, 4]


VARIABLE = ContextVar("variable", default=None)


@pytest.mark.parametrize("first", [at_once, partial(asyncio.sleep, 0, {})])
async def test_one_that_had_to_wait_has_the_context_that_it_came_in(first):
    async def reads():
        return VARIABLE.get()

    def come(id, handler):
        VARIABLE.set(id)
        bench.start(id, handler)

    bench = Bench(limit=1)
    for id, handler in ((1, first), (2, reads), (3, first), (4, reads)):
        copy_context().run(come, id, handler)
    await bench.tasks.settle(BOUND_S)
    assert bench.answers == [(1, {}), (2, 2), (3, {}), (4, 4)]


class Odd(BaseException):
    """What no handler is expected to raise."""


@pytest.mark.parametrize("waits", [False, True])
async def test_one_that_ends_without_an_answer_is_forgotten(waits):
    async def cancels_itself():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)  # a turn of the loop

    async def breaks():
        if waits:
            await asyncio.sleep(0)  # a turn of the loop
        raise Odd

    told = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    bench = Bench()
    bench.start(1, cancels_itself, tag="cancelled")
    bench.start(2, breaks, tag="broken")
    await bench.tasks.settle(BOUND_S)
    gc.collect()
    assert bench.tasks.unanswered() == []
    assert len(bench.tasks) == 0
    assert [type(error) for error in told] == [Odd]


async def test_what_waits_goes_on_when_one_that_runs_has_ended():
    bench = Bench(limit=1, room=10)
    release = asyncio.Event()

    async def until_released():
        await release.wait()
        return {}

    bench.start(1, until_released)
    bench.start(2, at_once, 10)
    bench.start(3, at_once, 1)
    await asyncio.sleep(0)  # a turn of the loop
    assert [(id, type(answer)) for id, answer in bench.answers] == [(3, InternalError)]
    release.set()
    await bench.tasks.settle(BOUND_S)
    assert bench.answers[1:] == [(1, {}), (2, {})]


async def test_what_has_begun_is_given_back_and_cancelled():
    bench = Bench()
    bench.start(1, waiting, tag="one")
    bench.start(2, at_once, tag="two")
    await asyncio.sleep(0)  # a turn of the loop
    assert bench.tasks.unanswered() == ["one"]
    assert bench.tasks.cancel(1) == "one"
    assert bench.tasks.unanswered() == []
    await bench.tasks.settle(BOUND_S)
    assert bench.answers == [(2, {})]


async def test_what_is_in_line_is_given_back_too():
    bench = Bench(limit=1)
    bench.start(1, waiting)
    bench.start(2, pytest.fail, tag="two")
    await asyncio.sleep(0)  # a turn of the loop
    assert bench.tasks.cancel(2) == "two"
    await asyncio.wait(bench.tasks.close())
    assert bench.answers == []


@pytest.mark.parametrize("goes_on", [True, False])
async def test_one_that_withdraws_itself_in_its_first_step_answers_nobody(goes_on):
    bench = Bench()
    seen = []

    async def handler():
        bench.tasks.cancel(1)
        if goes_on:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
        return {}

    bench.start(1, handler)
    await bench.tasks.settle(BOUND_S)
    assert bench.answers == []
    assert seen == ["cancelled"] * goes_on


async def test_one_that_closes_its_connection_in_its_first_step_answers_nobody():
    bench = Bench()

    async def handler():
        assert bench.tasks.close() == []
        return {}

    bench.start(1, handler)
    await asyncio.sleep(0)  # a turn of the loop
    assert bench.answers == []


@lazy
async def test_one_that_closes_its_connection_ends_those_that_have_not_begun():
    bench = Bench()

    async def handler():
        ended.extend(bench.tasks.close())

    ended = []
    bench.start(1, handler)
    bench.start(2, pytest.fail)
    await bench.tasks.settle(BOUND_S)
    assert (len(ended), bench.answers) == (1, [])


async def test_an_id_that_is_used_again_while_the_first_one_goes_on():
    bench = Bench()
    release = asyncio.Event()

    async def stubborn():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return {"of": "the first"}

    bench.start(1, stubborn)
    await asyncio.sleep(0)  # a turn of the loop
    bench.tasks.cancel(1)
    bench.start(1, at_once)
    release.set()
    await bench.tasks.settle(BOUND_S)
    assert bench.answers == [(1, {})]


@pytest.mark.parametrize("waits", [True, False])
async def test_a_failure_is_logged_and_told_as_one(waits, caplog):
    bench = Bench()

    async def handler():
        if waits:
            await asyncio.sleep(0)  # a turn of the loop
        raise ValueError("secret")

    async def cancelled_by_somebody():
        raise asyncio.CancelledError

    bench.start(1, handler)
    bench.start(2, cancelled_by_somebody)
    await bench.tasks.settle(BOUND_S)
    assert sorted((id, type(answer)) for id, answer in bench.answers) == [
        (1, InternalError),
        (2, InternalError),
    ]
    assert "secret" not in str(bench.answers)
    assert len(caplog.records) == 2


async def test_a_callback_that_is_cancelled_before_it_begins_hears_what_comes_later(
    recwarn,
):
    heard = []

    async def callback(item):
        heard.append(item)

    delivery = Delivery(callback, NewestQueue(10, 1_000))
    delivery.put("first")
    await asyncio.wait([delivery.close()])
    await delivery.settle()
    delivery.put("second")
    await delivery.settle()
    gc.collect()
    assert (heard, recwarn.list) == (["second"], [])


async def cancel_all_others():
    others = asyncio.all_tasks() - {asyncio.current_task()}
    named = [task for task in others if task.get_name() == "mcpwire-request"]
    for task in named:
        task.cancel()
    await asyncio.wait(named)


@lazy
async def test_one_that_a_stranger_cancels_before_its_turn_keeps_no_place():
    bench = Bench(limit=1)
    bench.start(1, at_once)
    bench.start(2, at_once)
    await cancel_all_others()
    bench.start(3, at_once)
    await bench.tasks.settle(BOUND_S)
    assert (bench.answers, len(bench.tasks)) == ([(2, {}), (3, {})], 0)
    assert bench.tasks.unanswered() == []


@lazy
async def test_waiting_for_one_that_a_stranger_cancels_before_its_turn_ends():
    bench = Bench()
    bench.start(1, at_once, tag="it")
    await cancel_all_others()
    await bench.tasks.wait_ended(lambda tag: tag == "it")
    await bench.tasks.settle(BOUND_S)
    assert len(bench.tasks) == 0


# What waits is bounded in number and in bytes...


def taken(queue):
    items = []
    while queue:
        items.append(queue.pop())
    return items


def test_the_oldest_items_are_forgotten_when_they_are_too_many():
    queue = NewestQueue(2, 1_000)
    for n in range(5):
        queue.put(n, None, "text")
    assert queue.dropped == 3
    assert taken(queue) == [(3, None, "text"), (4, None, "text")]


def test_the_oldest_items_are_forgotten_when_they_are_too_long():
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
    await tasks.settle(BOUND_S)
    assert [answers[id] for id in (0, 2, 4)] == [{}, {}, {}]
    tasks.start(6, handler, partial(answers.__setitem__, 6), 100)
    await tasks.settle(BOUND_S)
    assert answers[6] == {}
