"""Who begins with a task at hand does not see who had it before."""

import asyncio
import weakref

import pytest
from beginning import BOUND_S, VARIABLE, Loop, by_hand, turns

pytestmark = pytest.mark.anyio


@pytest.fixture
async def loop():
    made = Loop()
    async with asyncio.timeout(BOUND_S):
        yield made
    made.steps.close()
    await turns()


async def test_context_variables_of_one_are_not_seen_by_the_next(loop):
    async def work(value, *, waits):
        loop.told.append(VARIABLE.get())
        VARIABLE.set(value)
        if waits:
            await asyncio.sleep(0)
            loop.told.append(VARIABLE.get())

    assert await loop.begin(work("a", waits=False)) is None
    await (await loop.begin(work("b", waits=True)))
    assert await loop.begin(work("c", waits=False)) is None
    assert loop.told == ["nothing", "nothing", "b", "nothing"]


async def test_each_sees_the_context_that_it_was_begun_in(loop):
    async def work():
        loop.told.append(VARIABLE.get())

    for value in ("a", "a", "b"):
        VARIABLE.set(value)
        loop.steps.start(work())
        await turns()
    assert loop.told == ["a", "a", "b"]


async def test_a_variable_put_back_is_put_back(loop):
    async def work():
        token = VARIABLE.set("mine")
        await asyncio.sleep(0)
        VARIABLE.reset(token)
        loop.told.append(VARIABLE.get())

    await (await loop.begin(work()))
    assert loop.told == ["nothing"]


@by_hand
async def test_a_task_that_nobody_knows_is_used_again(loop):
    ids = set()

    async def work():
        ids.add(id(asyncio.current_task()))
        token = VARIABLE.set("for a while")
        VARIABLE.reset(token)

    for _ in range(5):
        assert await loop.begin(work()) is None
        await turns()
    assert len(ids) == 1


def keep(task, kept):
    kept.append(task)


def keep_weakly(task, kept):
    kept.append(weakref.WeakSet([task]))


def rename(task, kept):
    task.set_name("mine")


def have_told(task, kept):
    task.add_done_callback(kept.append)


def leave_something(task, kept):
    task.owner = "alice"


@pytest.mark.parametrize(
    "change", [keep, keep_weakly, rename, have_told, leave_something]
)
@pytest.mark.parametrize("is_parked", [False, True])
async def test_one_that_is_known_or_changed_is_not_used_again(loop, change, is_parked):
    kept, names = [], []

    async def work():
        change(asyncio.current_task(), kept)

    async def looks():
        task = asyncio.current_task()
        assert not any(task is one for one in kept)
        assert not any(task in one for one in kept if isinstance(one, weakref.WeakSet))
        assert not hasattr(task, "owner")
        names.append(task.get_name())

    if is_parked:
        await loop.begin(loop.tell(0))
        await turns()
    assert await loop.begin(work()) is None
    assert await loop.begin(looks()) is None
    await turns()
    assert names == ["worker"]
    if change in (keep, have_told):
        assert kept[0].done()


async def test_one_that_begins_another_and_is_known_is_not_used_again(loop):
    kept, seen = [], []

    async def work():
        kept.append(asyncio.current_task())
        assert loop.steps.start(loop.tell("within")) is None

    async def looks():
        seen.append(asyncio.current_task())

    await loop.begin(loop.tell("first"))
    await turns()
    assert await loop.begin(work()) is None
    assert await loop.begin(looks()) is None
    assert seen[0] is not kept[0]
    assert loop.told == ["first", "within"]


async def test_its_coroutine_is_its_own(loop):
    own = []

    async def work():
        own.append(asyncio.current_task().get_coro())

    coroutines = [work(), work()]
    for each in coroutines:
        assert await loop.begin(each) is None
    assert own == coroutines


async def test_what_is_at_hand_is_no_task_of_the_loop(loop):
    before = asyncio.all_tasks()
    assert await loop.begin(loop.tell(0)) is None
    await turns()
    assert asyncio.all_tasks() == before


async def test_while_it_runs_it_is_a_task_of_the_loop(loop):
    async def work():
        task = asyncio.current_task()
        loop.told.append(task in asyncio.all_tasks())
        loop.told.append(task.done())
        loop.told.append("work" in repr(task))

    for _ in range(2):
        assert await loop.begin(work()) is None
        await turns()
    assert loop.told == [True, False, True] * 2


async def test_stacks_show_the_coroutine(loop):
    event = asyncio.Event()

    async def work():
        await event.wait()

    task = await loop.begin(work())
    assert [frame.f_code.co_name for frame in task.get_stack()][-1] == "work"
    event.set()
    await task
