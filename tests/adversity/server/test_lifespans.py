"""Lifespans that hang, are cancelled, or belong to a loop that has ended."""

import asyncio
import gc
import threading
from contextlib import asynccontextmanager, suppress

import pytest

from mcpwire import Client, Context, Server
from mcpwire.server.lifespan import Lifespan

TIMEOUT_S = 30


def run(main, **options):
    """Run a coroutine on its own loop."""

    async def bounded():
        async with asyncio.timeout(TIMEOUT_S):
            return await main

    with asyncio.Runner(**options) as runner:
        return runner.run(bounded())


class Log:
    """A lifespan that records its begin and end."""

    def __init__(self):
        self.words = []

    @asynccontextmanager
    async def enter(self, _=None):
        self.words.append("begin")
        try:
            yield self
        finally:
            self.words.append("end")


def lifespan_of(enter):
    lifespan = Lifespan()
    lifespan.add(enter)
    return lifespan


def test_lifespan_starts_again_on_a_new_loop():
    # As with a mounted application that gets no shutdown event.
    log = Log()
    lifespan = lifespan_of(log.enter)
    run(lifespan.start())
    assert log.words == ["begin", "end"]

    async def again():
        await lifespan.start()
        assert log.words == ["begin", "end", "begin"]
        await lifespan.aclose()

    run(again())
    assert log.words == ["begin", "end"] * 2


async def call_value(server):
    async with Client(server) as client:
        return (await client.call_tool("value")).structured_content


def test_handlers_get_the_lifespan_value_on_each_loop():
    log = Log()
    server = Server("loops", "1", lifespan=log.enter)

    @server.tool
    async def value(ctx: Context) -> bool:
        return ctx.lifespan is log

    run(server.dispatcher.start())
    assert run(call_value(server)) == {"result": True}


def test_two_concurrent_loops_share_one_lifespan():
    log = Log()
    begins, may_begin = threading.Event(), threading.Event()

    @asynccontextmanager
    async def enter():
        begins.set()
        await asyncio.to_thread(may_begin.wait, TIMEOUT_S)
        async with log.enter():
            yield

    lifespan = lifespan_of(enter)
    found, both = [], threading.Barrier(2)

    async def use():
        await lifespan.start()
        found.append(list(log.words))
        await asyncio.to_thread(both.wait, TIMEOUT_S)
        await lifespan.aclose()

    async def wait_and_use():
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, may_begin.set)  # when `start` is already waiting
        await use()

    first = threading.Thread(target=run, args=(use(),))
    first.start()
    assert begins.wait(TIMEOUT_S)
    run(wait_and_use())
    first.join(TIMEOUT_S)
    assert found == [["begin"]] * 2
    assert log.words == ["begin", "end"]


async def test_lifespan_cancelled_from_inside_fails_its_waiters():
    @asynccontextmanager
    async def enter():
        raise asyncio.CancelledError
        yield

    lifespan = lifespan_of(enter)
    with pytest.raises(RuntimeError, match="cancelled"):
        await lifespan.start()


async def test_cancelling_start_cancels_the_lifespan():
    begins, ended = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def enter():
        begins.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        yield

    lifespan = lifespan_of(enter)
    starting = asyncio.create_task(lifespan.start())
    await begins.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await ended.wait()


async def test_memory_client_times_out_on_a_hanging_lifespan():
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


async def test_lifespan_that_fails_early_is_reported_and_restarted():
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

    reported = asyncio.Queue()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.put_nowait(context)
    )
    lifespan = lifespan_of(enter)
    await lifespan.start()
    die.set()
    context = await reported.get()
    assert "lifespan" in context["message"]
    await lifespan.start()
    assert len(begun) == 2
    await lifespan.aclose()
    await lifespan.aclose()
    assert reported.empty()


async def test_ending_lifespan_does_not_disturb_the_next():
    may_end = asyncio.Event()

    @asynccontextmanager
    async def slow_end(_):
        yield "value"
        await may_end.wait()

    server = Server("slow", "1", lifespan=slow_end)

    @server.tool
    async def value(ctx: Context) -> str:
        may_end.set()
        await asyncio.sleep(0.01)  # the previous lifespan ends now
        return ctx.lifespan

    dispatcher = server.dispatcher
    await dispatcher.start()
    ending = asyncio.create_task(dispatcher.aclose())
    for _ in range(5):
        await asyncio.sleep(0)
    assert await call_value(server) == {"result": "value"}
    await ending


def test_lifespan_starts_again_after_its_loop_was_closed():
    log = Log()
    lifespan = lifespan_of(log.enter)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(lifespan.start())
    (task,) = asyncio.all_tasks(loop)
    loop.close()

    async def again():
        await lifespan.start()
        await lifespan.aclose()

    run(again())
    assert log.words == ["begin", "begin", "end"]
    task._log_destroy_pending = False  # its loop ended like this on purpose
    with suppress(RuntimeError):
        task.get_coro().close()
    del task
    gc.collect()
