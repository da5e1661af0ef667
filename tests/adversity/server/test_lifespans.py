"""Lifespans and applications that hang, are cancelled, or have lost their loop."""

import asyncio
import gc
import threading
from contextlib import asynccontextmanager, suppress

import pytest
from client_paths import OverHttp
from loop_polling import until
from raw_client import request, session

from mcpwire import Client, Context, Server
from mcpwire.server.lifespan import Lifespan

TIMEOUT_S = 30


def run(main):
    async def bounded():
        async with asyncio.timeout(TIMEOUT_S):
            return await main

    return asyncio.run(bounded())


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


def hanging(begins, ended):
    """Return a lifespan that never begins to serve; it sets events as it runs."""

    @asynccontextmanager
    async def enter(_=None):
        begins.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        yield

    return enter


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
    lifespan = lifespan_of(hanging(begins, ended))
    starting = asyncio.create_task(lifespan.start())
    await begins.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await ended.wait()


async def test_memory_client_times_out_on_a_hanging_lifespan():
    hang = hanging(asyncio.Event(), asyncio.Event())
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


REVISION = "2025-11-25"
INITIALIZE = request(0, "initialize", session(REVISION))


def tool(name, id=1):
    return request(id, "tools/call", {"name": name})


def client_of(app):
    return OverHttp(None, REVISION, app=app)


async def test_response_header_names_are_lower_case():
    # ASGI, "Response Start"; RFC 9113, 8.2.1: anything else breaks HTTP/2.
    answer = await client_of(Server("s", "1").asgi()).visit("POST", INITIALIZE)
    names = [name for name, _ in answer.sent[0]["headers"]]
    assert b"mcp-session-id" in names
    assert names == [name.lower() for name in names]


async def test_hanging_startup_ends_with_the_application():
    begins, ended = asyncio.Event(), asyncio.Event()
    app = Server("hangs", "1", lifespan=hanging(begins, ended)).asgi()
    waiting = client_of(app).begin("POST", INITIALIZE)
    await begins.wait()
    await app.aclose()
    await ended.wait()
    await waiting.done()
    assert waiting.status in {500, 503}


async def test_application_can_be_started_again_after_close():
    app = Server("again", "1").asgi()
    client = client_of(app)
    assert (await client.visit("POST", INITIALIZE)).status == 200
    await app.aclose()
    assert (await client.visit("POST", INITIALIZE)).status == 503
    await app.start()
    assert (await client.visit("POST", INITIALIZE)).status == 200
    await app.aclose()


def test_sessions_end_with_their_event_loop():
    server = Server("loops", "1")

    @server.tool
    async def forever() -> None:
        await asyncio.Event().wait()

    @server.tool
    async def quick() -> str:
        return "done"

    app = server.asgi(session_idle=0.05)

    async def leave_call_running():
        client = await client_of(app).open()
        running = client.begin("POST", tool("forever"))
        await asyncio.sleep(0)
        return client, running

    old, _ = run(leave_call_running())

    async def continue_on_new_loop():
        # The client must open a new session, as after a restart.
        assert (await old.visit("POST", tool("quick"))).status == 404
        answer = None
        while (
            answer is None or answer.status == 404
        ):  # it was idle too long on a loaded machine
            client = await client_of(app).open()
            answer = await client.visit("POST", tool("quick"))
        assert answer.json()["result"]["content"][0]["text"] == "done"
        await asyncio.sleep(0.1)  # longer than it may be idle
        assert (await client.visit("POST", tool("quick", 2))).status == 404
        await app.aclose()

    run(continue_on_new_loop())


def test_tool_concurrency_limit_holds_across_loops():
    server = Server("loops", "1")
    begun, gate = threading.Event(), threading.Event()

    @server.tool(concurrency=1)
    def alone() -> str:
        begun.set()
        return "late" if gate.wait(TIMEOUT_S) else "never"

    app = server.asgi(stream_after=TIMEOUT_S)

    async def leave_call_running():
        client = await client_of(app).open()
        client.begin("POST", tool("alone"))
        await until(begun.is_set, 0.001)

    async def continue_on_new_loop():
        gate.set()
        client = await client_of(app).open()
        answer = await client.visit("POST", tool("alone"))
        assert answer.json()["result"]["content"][0]["text"] == "late"
        await app.aclose()

    run(leave_call_running())
    run(continue_on_new_loop())
