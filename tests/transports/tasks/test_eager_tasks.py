"""A coroutine that begins at once is one task from beginning to end, as any other."""

import asyncio
import contextlib
import gc
import types
import weakref

import anyio
import anyio.lowlevel
import pytest
from beginning import BOUND_S, Loop, by_hand, turns

from mcpwire.transports import eager_tasks
from mcpwire.transports.eager_tasks import FirstSteps

pytestmark = pytest.mark.anyio


@pytest.fixture
async def loop():
    made = Loop()
    async with asyncio.timeout(BOUND_S):
        yield made
    made.steps.close()
    await turns()


async def test_what_does_not_wait_has_ended_at_once_and_costs_no_turn(loop):
    steps = loop.steps
    for n in range(3):
        assert steps.start(loop.tell(n)) is None
    assert loop.told == [0, 1, 2]


async def test_what_waits_has_a_task_and_goes_on_with_it(loop):
    event = asyncio.Event()

    async def work():
        loop.told.append(asyncio.current_task())
        await event.wait()
        loop.told.append(asyncio.current_task())
        await asyncio.sleep(0)
        loop.told.append(asyncio.current_task())

    task = await loop.begin(work())
    assert not task.done()
    assert task in asyncio.all_tasks()
    assert task.get_name() == "worker"
    event.set()
    await task
    assert loop.told == [task] * 3
    assert asyncio.current_task() not in loop.told


async def test_one_that_yields_to_the_loop_first_goes_on(loop):
    async def work():
        await asyncio.sleep(0)
        loop.told.append(1)
        await asyncio.sleep(0)
        loop.told.append(2)

    await (await loop.begin(work()))
    assert loop.told == [1, 2]


async def test_many_of_one_turn_each_have_a_task(loop):
    event = asyncio.Event()

    async def work(n):
        await event.wait()
        loop.told.append(n)

    tasks = [loop.steps.start(work(n)) for n in range(5)]
    assert len(set(tasks)) == 5
    await turns()
    event.set()
    await asyncio.gather(*tasks)
    assert loop.told == [0, 1, 2, 3, 4]


async def test_inside_of_a_task_that_one_goes_on_afterwards(loop):
    outer = asyncio.current_task()

    async def work():
        loop.told.append(asyncio.current_task())

    assert loop.steps.start(work()) is None
    assert asyncio.current_task() is outer
    assert loop.told[0] is not outer

    async def nested():
        loop.told.append(asyncio.current_task())
        assert loop.steps.start(work()) is None
        loop.told.append(asyncio.current_task())

    loop.told.clear()
    assert loop.steps.start(nested()) is None
    first, second, third = loop.told
    assert first is third is not second
    assert loop.steps.start(nested()) is None


# Cancelling...


@pytest.mark.parametrize("waits", ["event", "future", "nothing"])
@pytest.mark.parametrize("after", [0, 1, 3])
async def test_cancelling_its_task_reaches_what_waits(loop, waits, after):
    async def work():
        try:
            if waits == "event":
                await asyncio.Event().wait()
            elif waits == "future":
                await asyncio.get_running_loop().create_future()
            else:
                await asyncio.sleep(3600)
        except asyncio.CancelledError as error:
            loop.told.append(error.args)
            raise

    task = await loop.begin(work())
    await turns(after)
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert loop.told == [("enough",)]
    assert task.cancelled()


@pytest.mark.parametrize("is_parked", [False, True])
async def test_cancelling_cancels_the_task_that_it_waits_for(loop, is_parked):
    inner = asyncio.ensure_future(asyncio.Event().wait())
    if is_parked:
        await loop.begin(loop.tell(0))
        await turns()

    async def work():
        with contextlib.suppress(asyncio.CancelledError):
            await inner

    task = loop.steps.start(work())
    task.cancel()
    await asyncio.wait([task])
    assert inner.cancelled()
    assert not task.cancelled()


async def test_cancelling_one_that_yielded_to_the_loop_reaches_it(loop):
    async def work():
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            loop.told.append("cancelled")

    task = loop.steps.start(work())
    task.cancel()
    await task
    assert loop.told == ["cancelled"]


@pytest.mark.parametrize("is_parked", [False, True])
async def test_one_that_cancels_itself_is_told_where_it_waits(loop, is_parked):
    if is_parked:
        await loop.begin(loop.tell(0))
        await turns()

    async def work():
        asyncio.current_task().cancel()
        loop.told.append("goes on")
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            loop.told.append(asyncio.current_task().cancelling())
            raise

    loop.told.clear()
    task = await loop.begin(work())
    await asyncio.wait([task])
    assert task.cancelled()
    assert loop.told == ["goes on", 1]
    assert await loop.begin(loop.tell("next")) is None
    assert loop.told[-1] == "next"


async def test_one_that_cancels_itself_and_ends_leaves_the_next_one_alone(loop):
    async def work():
        asyncio.current_task().cancel()

    assert await loop.begin(work()) is None
    await turns()

    async def looks():
        loop.told.append(asyncio.current_task().cancelling())
        await asyncio.sleep(0)

    await (await loop.begin(looks()))
    assert loop.told == [0]


# What counts on the task...


@pytest.mark.parametrize("after", [0, 0.001])
async def test_a_timeout_around_the_first_wait_ends_it(loop, after):
    async def work():
        try:
            async with asyncio.timeout(after):
                await asyncio.Event().wait()
        except TimeoutError:
            loop.told.append(asyncio.current_task().cancelling())

    await (await loop.begin(work()))
    assert loop.told == [0]


async def test_a_task_group_holds_together(loop):
    async def work():
        async with asyncio.TaskGroup() as group:
            one = group.create_task(asyncio.sleep(0, "a"))
            two = group.create_task(asyncio.sleep(0, "b"))
        loop.told.append(one.result() + two.result())
        with contextlib.suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await asyncio.sleep(3600)
        loop.told.append("ended")

    async def fail():
        raise ValueError("no")

    await (await loop.begin(work()))
    assert loop.told == ["ab", "ended"]


async def test_cancel_scopes_of_anyio_work(loop):
    async def work():
        with anyio.move_on_after(0) as scope:
            await anyio.sleep(3600)
        loop.told.append(scope.cancelled_caught)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 3600)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        loop.told.append("ended")

    async def never_waits():
        with anyio.CancelScope():  # noqa: ASYNC100 - it leaves its mark on the task
            loop.told.append("in")

    for _ in range(2):
        assert await loop.begin(never_waits()) is None
        await (await loop.begin(work()))
    assert loop.told == ["in", True, "ended"] * 2


# What is raised...


async def test_what_a_later_step_raises_is_the_tasks(loop):
    async def work():
        await asyncio.sleep(0)
        raise ValueError("no")

    task = await loop.begin(work())
    with pytest.raises(ValueError, match="no"):
        await task


@pytest.mark.parametrize("waits", [True, False])
async def test_what_it_waits_for_may_raise(loop, waits):
    future = asyncio.get_running_loop().create_future()

    async def work():
        try:
            await future
        except ValueError as error:
            loop.told.append(str(error))
        if waits:
            await asyncio.sleep(0)

    task = await loop.begin(work())
    future.set_exception(ValueError("no"))
    await task
    assert loop.told == ["no"]


async def test_being_cancelled_by_what_it_waits_for_ends_it(loop):
    async def work():
        raise asyncio.CancelledError

    loop.steps.start(work())
    assert loop.steps.start(loop.tell(1)) is None
    assert loop.told == [1]


@by_hand
async def test_what_the_first_step_raises_is_told_the_loop(loop):
    told = []
    running = asyncio.get_running_loop()
    running.set_exception_handler(lambda _, context: told.append(context["exception"]))
    error = ValueError("no")

    async def work():
        raise error

    assert await loop.begin(work()) is None
    running.set_exception_handler(None)
    assert told == [error]
    assert asyncio.current_task() is not None


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_what_is_to_end_the_program_does(loop, kind):
    async def work():
        raise kind

    with pytest.raises(kind):
        loop.steps.start(work())
    assert asyncio.current_task() is not None
    assert loop.steps.start(loop.tell(1)) is None


async def test_a_coroutine_that_yields_no_future_hears_of_it(loop):
    @types.coroutine
    def broken():
        yield 7

    async def work():
        try:
            await broken()
        except RuntimeError as error:
            loop.told.append(str(error))

    await (await loop.begin(work()))
    assert "bad yield" in loop.told[0]

    task = loop.steps.start(work())
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_two_that_wait_for_the_same_future_both_hear(loop):
    future = asyncio.get_running_loop().create_future()

    async def work(n):
        loop.told.append((n, await future))

    one = loop.steps.start(work(1))
    two = asyncio.ensure_future(work(2))
    await turns()
    future.set_result("x")
    await asyncio.gather(one, two)
    assert sorted(loop.told) == [(1, "x"), (2, "x")]


# The end...


@by_hand
async def test_closing_ends_what_is_at_hand(loop):
    kept = []

    async def work():
        kept.append(weakref.ref(asyncio.current_task()))

    async def again():
        kept.append(weakref.ref(asyncio.current_task()))

    loop.steps.start(loop.tell(1))
    await turns()
    loop.steps.close()
    loop.steps.close()
    await turns()
    gc.collect()
    assert not [
        one
        for one in gc.get_objects()
        if type(one) is eager_tasks._Task and one.get_loop() is loop.steps._loop
    ]
    assert loop.steps.start(loop.tell(2)) is None


def test_a_loop_that_ends_with_one_at_hand_says_nothing(caplog):
    async def main():
        steps = FirstSteps("worker")
        steps.start(asyncio.sleep(0, None)).cancel()
        await turns()

        async def nothing():
            pass

        steps.start(nothing())
        await turns()
        return steps

    steps = asyncio.run(main())
    steps.close()
    del steps
    gc.collect()
    assert not caplog.records


async def test_a_task_factory_makes_its_own_tasks(loop):
    made = []

    def factory(running, work, **options):
        made.append(asyncio.Task(work, loop=running, **options))
        return made[-1]

    running = asyncio.get_running_loop()
    running.set_task_factory(factory)
    try:
        task = loop.steps.start(loop.tell(1))
    finally:
        running.set_task_factory(None)
    assert made == [task]
    await task
    assert loop.told == [1]


async def test_a_coroutine_that_is_dropped_is_closed(loop):
    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            loop.told.append("closed")

    task = await loop.begin(work())
    await turns()
    task.get_coro().close()
    assert loop.told == ["closed"]
    task.cancel()
    with contextlib.suppress(RuntimeError, asyncio.CancelledError):
        await task
