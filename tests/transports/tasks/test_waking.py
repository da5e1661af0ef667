"""Futures whose task goes on at once: nobody can tell, but by the turn of the loop."""

import asyncio
from contextvars import ContextVar

import pytest

from mcpwire.transports.eager_tasks import resolve, resolve_all

pytestmark = pytest.mark.anyio

BOUND_S = 30.0
WHO = ContextVar("WHO", default="nobody")


async def from_the_loop(function, *args):
    """Call that as the loop calls what reads: without a task."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def call():
        try:
            function(*args)
        except BaseException as error:  # noqa: BLE001 - handed to who waits
            over.set_exception(error)
        else:
            over.set_result(None)

    loop.call_soon(call)
    async with asyncio.timeout(BOUND_S):
        await over


class Waiter:
    """A task that waits for a future, and notes what happens to it."""

    def __init__(self, name="a", log=None, then=None):
        self.loop = asyncio.get_running_loop()
        self.future = self.loop.create_future()
        self.log = [] if log is None else log
        self.name = name
        self.then = then
        self.task = self.loop.create_task(self.wait(), name=name)

    async def wait(self):
        WHO.set(self.name)
        try:
            result = await self.future
        except asyncio.CancelledError:
            self.log.append((self.name, "cancelled"))
            raise
        current = asyncio.current_task()
        self.log.append((self.name, result, WHO.get(), current.get_name()))
        if self.then is not None:
            self.then()
        return result

    async def begun(self):
        await asyncio.sleep(0)
        return self


async def test_a_task_goes_on_before_resolve_returns_and_with_its_own_context():
    waiter = await Waiter().begun()

    def reading():
        WHO.set("reader")
        resolve(waiter.future, 7, waiter.loop)
        waiter.log.append(WHO.get())

    await from_the_loop(reading)
    assert waiter.log == [("a", 7, "a", "a"), "reader"]
    assert await waiter.task == 7


async def test_within_a_task_nothing_is_stepped_and_the_loop_does_it():
    waiter = await Waiter().begun()
    resolve(waiter.future, 7, waiter.loop)
    assert waiter.log == []
    assert await waiter.task == 7
    assert asyncio.current_task().get_name() != "a"


async def test_where_nobody_waits_yet_the_result_is_there_for_who_comes():
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    await from_the_loop(resolve, future, 7, loop)
    assert await future == 7


async def test_where_several_wait_all_of_them_get_it():
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    seen = []
    future.add_done_callback(lambda done: seen.append(done.result()))
    future.add_done_callback(lambda done: seen.append(done.result()))
    await from_the_loop(resolve, future, 7, loop)
    assert await future == 7
    assert seen == [7, 7]


async def test_a_future_of_another_make_is_resolved_as_any_other():
    class Foreign:
        result = None

        def set_result(self, result):
            self.result = result

    future = Foreign()
    await from_the_loop(resolve, future, 7, asyncio.get_running_loop())
    assert future.result == 7


async def test_the_turns_of_several_are_in_order_and_one_may_cancel_another():
    log = []
    third = await Waiter("c", log).begun()
    second = await Waiter("b", log, then=third.task.cancel).begun()
    first = await Waiter("a", log).begun()
    answers = [
        (each.future, index) for index, each in enumerate((first, second, third))
    ]
    await from_the_loop(resolve_all, answers, first.loop)
    assert log[:2] == [("a", 0, "a", "a"), ("b", 1, "b", "b")]
    assert await first.task == 0
    assert await second.task == 1
    with pytest.raises(asyncio.CancelledError):
        await third.task
    assert log[2:] == [("c", "cancelled")]


async def test_a_task_cancelled_before_its_answer_is_let_be():
    waiter = await Waiter().begun()

    def cancel_and_answer():
        waiter.task.cancel()
        resolve_all([(waiter.future, 7)], waiter.loop)

    await from_the_loop(cancel_and_answer)
    with pytest.raises(asyncio.CancelledError):
        await waiter.task
    assert waiter.log == [("a", "cancelled")]


async def test_an_exception_of_the_task_is_the_tasks_and_not_the_readers():
    def fail():
        raise ZeroDivisionError

    waiter = await Waiter(then=fail).begun()
    await from_the_loop(resolve_all, [(waiter.future, 7)], waiter.loop)
    with pytest.raises(ZeroDivisionError):
        await waiter.task


async def test_a_task_that_waits_again_is_resolved_again():
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(3)]

    async def wait():
        return [await future for future in futures]

    task = loop.create_task(wait())
    await asyncio.sleep(0)

    def answer():
        for index, future in enumerate(futures):
            resolve(future, index, loop)

    await from_the_loop(answer)
    assert await task == [0, 1, 2]


async def test_timeouts_and_shields_around_the_waiting_work_as_ever():
    waiter = await Waiter().begun()
    shielded = asyncio.shield(waiter.task)
    async with asyncio.timeout(BOUND_S):
        await from_the_loop(resolve, waiter.future, 7, waiter.loop)
        assert await shielded == 7
    late = await Waiter("late").begun()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.wait_for(late.task, BOUND_S)
    await from_the_loop(resolve_all, [(late.future, 7)], late.loop)
    assert late.log == [("late", "cancelled")]


def test_an_interrupt_of_one_task_leaves_the_others_to_the_loop():
    log = []

    def interrupt():
        raise KeyboardInterrupt

    async def begin():
        first = await Waiter("a", log, then=interrupt).begun()
        second = await Waiter("b", log).begun()
        first.loop.call_soon(
            resolve_all, [(first.future, 0), (second.future, 1)], first.loop
        )
        await asyncio.sleep(BOUND_S)  # which the interrupt ends at once

    loop = asyncio.new_event_loop()
    main = loop.create_task(begin())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(main)
    tasks = asyncio.all_tasks(loop) - {main}
    assert [task.get_name() for task in tasks] == ["b"]
    loop.run_until_complete(asyncio.wait(tasks, timeout=BOUND_S))
    main.cancel()
    loop.run_until_complete(asyncio.wait([main], timeout=BOUND_S))
    loop.close()
    assert [entry[0] for entry in log] == ["a", "b"]
