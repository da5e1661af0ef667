"""Lifespans that hang, are cancelled, or belong to a loop that has ended."""

import asyncio
import gc
import threading
from contextlib import asynccontextmanager, suppress

import pytest

from mcpwire import Client, Context, Server
from mcpwire.server.lifespan import Lifespan

PATIENCE = 30


def run(main, **options):
    """Run a coroutine on a loop of its own."""

    async def bounded():
        async with asyncio.timeout(PATIENCE):
            return await main

    with asyncio.Runner(**options) as runner:
        return runner.run(bounded())


class Log:
    """A lifespan that tells what becomes of it."""

    def __init__(self):
        self.words = []

    @asynccontextmanager
    async def enter(self, _=None):
        self.words.append("begin")
        try:
            yield self
        finally:
            self.words.append("end")


def begun_by(enter):
    lifespan = Lifespan()
    lifespan.add(enter)
    return lifespan


def test_it_begins_anew_on_the_next_loop_if_the_last_one_ended_without_it():
    # As with a mounted application that nobody tells of its end.
    log = Log()
    lifespan = begun_by(log.enter)
    run(lifespan.start())
    assert log.words == ["begin", "end"]

    async def again():
        await lifespan.start()
        assert log.words == ["begin", "end", "begin"]
        await lifespan.aclose()

    run(again())
    assert log.words == ["begin", "end"] * 2


async def ask(server):
    async with Client(server) as client:
        return (await client.call_tool("value")).structured_content


def test_handlers_have_what_it_yields_on_each_loop():
    log = Log()
    server = Server("loops", "1", lifespan=log.enter)

    @server.tool
    async def value(ctx: Context) -> bool:
        return ctx.lifespan is log

    run(server.dispatcher.start())
    assert run(ask(server)) == {"result": True}


def test_two_loops_at_once_share_one():
    log = Log()
    begins, may_begin = threading.Event(), threading.Event()

    @asynccontextmanager
    async def enter():
        begins.set()
        await asyncio.to_thread(may_begin.wait, PATIENCE)
        async with log.enter():
            yield

    lifespan = begun_by(enter)
    found, both = [], threading.Barrier(2)

    async def use():
        await lifespan.start()
        found.append(list(log.words))
        await asyncio.to_thread(both.wait, PATIENCE)
        await lifespan.aclose()

    async def wait_and_use():
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, may_begin.set)  # when `start` waits already
        await use()

    first = threading.Thread(target=run, args=(use(),))
    first.start()
    assert begins.wait(PATIENCE)
    run(wait_and_use())
    first.join(PATIENCE)
    assert found == [["begin"]] * 2
    assert log.words == ["begin", "end"]


async def test_one_that_is_cancelled_from_inside_fails_those_who_wait():
    @asynccontextmanager
    async def enter():
        raise asyncio.CancelledError
        yield

    lifespan = begun_by(enter)
    with pytest.raises(RuntimeError, match="cancelled"):
        await lifespan.start()


async def test_whoever_does_not_want_to_wait_ends_the_beginning():
    begins, ended = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def enter():
        begins.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        yield

    lifespan = begun_by(enter)
    starting = asyncio.create_task(lifespan.start())
    await begins.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await ended.wait()


async def test_a_client_in_memory_leaves_one_that_hangs():
    @asynccontextmanager
    async def hang(_):
        await asyncio.Event().wait()
        yield

    server = Server("hangs", "1", lifespan=hang)

    @server.tool
    async def value() -> int:
        return 1

    async with Client(server) as client:
        with pytest.raises(TimeoutError):
            await client.call_tool("value", timeout=0.05)


async def test_one_that_dies_early_is_told_of_at_once_and_begins_anew():
    die = asyncio.Event()
    begun = []

    async def job():
        await die.wait()
        raise LookupError("the pool is gone")

    @asynccontextmanager
    async def enter():
        begun.append(1)
        async with asyncio.TaskGroup() as group:
            if len(begun) == 1:
                group.create_task(job())
            yield

    told = asyncio.Queue()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: told.put_nowait(context)
    )
    lifespan = begun_by(enter)
    await lifespan.start()
    die.set()
    context = await told.get()
    assert "lifespan" in context["message"]
    await lifespan.start()
    assert len(begun) == 2
    await lifespan.aclose()
    await lifespan.aclose()
    assert told.empty()


async def test_the_end_of_one_takes_nothing_from_the_next():
    may_end = asyncio.Event()

    @asynccontextmanager
    async def slow_end(_):
        yield "value"
        await may_end.wait()

    server = Server("slow", "1", lifespan=slow_end)

    @server.tool
    async def value(ctx: Context) -> str:
        may_end.set()
        await asyncio.sleep(0.01)  # the one before ends now, if it does harm
        return ctx.lifespan

    dispatcher = server.dispatcher
    await dispatcher.start()
    ending = asyncio.create_task(dispatcher.aclose())
    for _ in range(5):
        await asyncio.sleep(0)
    assert await ask(server) == {"result": "value"}
    await ending


def test_a_loop_that_closes_without_a_word_leaves_nothing_that_hangs():
    log = Log()
    lifespan = begun_by(log.enter)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(lifespan.start())
    (task,) = asyncio.all_tasks(loop)
    loop.close()

    async def again():
        await lifespan.start()
        await lifespan.aclose()

    run(again())
    assert log.words == ["begin", "begin", "end"]
    task._log_destroy_pending = False  # of a loop that ended like this, as we wanted
    with suppress(RuntimeError):
        task.get_coro().close()
    del task
    gc.collect()
