"""The context of a handler, and the notifications it sends from any thread."""

import asyncio
import threading
from functools import partial

import pytest
from clocks import on_a_virtual_clock
from hypothesis import given
from hypothesis import strategies as st
from input_session import ALL, NoSession, Session, answer_all, run, yield_to_loop
from loop_polling import until

from mcpwire.errors import LocalProtocolError
from mcpwire.server.context import Context, current_context
from mcpwire.server.notifications import RateLimit, Throttle, call_soon
from mcpwire.server.request import RequestInfo
from mcpwire.types._base import LOG_LEVEL

PROGRESS = {"progressToken": "t"}

TIMEOUT_S = 30
"""Longer than any step here takes; only a defect reaches it."""


async def test_context_exposes_its_request():
    peer = Session(answer_all)
    info = RequestInfo(transport="http", headers={"x-user": "ada"})
    peer.services.server, peer.services.lifespan = "server", "pool"
    context = peer.context(meta={"a": 1}, info=info)
    context.session["seen"] = True
    assert peer.info.state == {"seen": True}
    assert (context.request_id, context.method, context.meta) == (
        1,
        "tools/call",
        {"a": 1},
    )
    assert (context.headers, context.principal) == ({"x-user": "ada"}, None)
    assert (context.client_info, context.client_capabilities) == ({"name": "c"}, ALL)
    assert (context.protocol_version, context.server, context.lifespan) == (
        "2025-11-25",
        "server",
        "pool",
    )
    assert repr(context) == "<Context tools/call 1, 2025-11-25>"


async def test_stateless_requests_share_no_session_state():
    peer = NoSession()
    peer.context().session["seen"] = True
    assert peer.context().session == {}


async def test_current_context_is_that_of_the_running_handler():
    with pytest.raises(LocalProtocolError, match="while a handler runs"):
        current_context()
    peer = Session(answer_all)

    async def handler(ctx):
        inner = peer.context()
        with inner:
            assert current_context() is inner
        assert await asyncio.create_task(asyncio.sleep(0, current_context())) is ctx
        return current_context() is ctx

    def in_thread(ctx):
        return current_context() is ctx

    assert await peer.call(handler)
    assert await peer.call(in_thread)
    with pytest.raises(LocalProtocolError):
        current_context()


@pytest.mark.parametrize("from_thread", [False, True])
async def test_close_stream_calls_the_callback_if_there_is_one(from_thread):
    closed = []
    info = RequestInfo(
        close_stream=lambda retry: closed.append((retry, threading.get_ident()))
    )
    peer = Session(answer_all)

    async def handler(ctx):
        ctx.close_stream(1.5)

    def in_thread(ctx):
        ctx.close_stream(1.5)

    await run(in_thread if from_thread else handler, peer.context(info=info))
    assert closed == [(1.5, threading.get_ident())]
    await peer.call(handler)


def reporting(*values):
    async def handler(ctx):
        for value in values:
            ctx.progress(value, 100, f"at {value}")

    return handler


@pytest.mark.rule("PROG-02", "PROG-08")
@pytest.mark.case("F03")
@pytest.mark.parametrize("client", [Session, NoSession])
async def test_progress_is_sent_in_order_and_only_increases(client):
    peer = client(answer_all)
    await peer.call(reporting(0, 50, 50, 10, 99.5, 100), meta=PROGRESS)
    assert peer.notifications.of("progress", "progress") == [0, 50, 99.5, 100]
    assert set(peer.notifications.of("progress", "progressToken")) == {"t"}
    assert peer.notifications.of("progress", "message")[0] == "at 0"


async def test_progress_and_log_calls_can_be_awaited():
    peer = Session(answer_all)

    async def handler(ctx):
        await ctx.report_progress(1, 2, "half")
        await ctx.progress(2)
        for log in (ctx.debug, ctx.info, ctx.warning, ctx.error):
            await log("hi")
        await ctx.log("notice", "there")

    await peer.call(handler, meta=PROGRESS)
    assert peer.notifications.of("progress", "progress") == [1, 2]
    received = peer.notifications.of("message", "level")
    assert received == ["info", "warning", "error", "notice"]
    peer.notifications.all.clear()
    await peer.call(handler)
    assert peer.notifications.of("progress", "progress") == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", True, None])
async def test_progress_must_be_a_finite_number(value):
    context = Session(answer_all).context(meta=PROGRESS)
    with pytest.raises(LocalProtocolError, match="finite number"):
        context.progress(1, "x" if value is None else value)


@pytest.mark.rule("PROG-06")
@pytest.mark.case("F03")
@pytest.mark.parametrize("from_thread", [False, True])
async def test_flood_of_progress_sends_the_first_and_the_last(from_thread, monkeypatch):
    # However long the flood takes, none of it may be sent meanwhile.
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", partial(float, loop.time()))

    def report(ctx):
        for value in range(10_000):
            ctx.progress(value)

    async def handler(ctx):
        report(ctx)

    peer = Session(answer_all)
    await peer.call(report if from_thread else handler, meta=PROGRESS)
    params = peer.notifications.of("progress", "progress")
    assert params == sorted(params)
    assert params[-1] == 9_999
    assert len(params) == 51


@pytest.mark.rule("PROG-06")
async def test_throttled_progress_is_sent_after_a_pause(monkeypatch):
    peer = Session(answer_all)

    async def handler(ctx):
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as patch:
            # However long these take, the clock stands still for them.
            patch.setattr(loop, "time", partial(float, loop.time()))
            for value in range(60):
                ctx.progress(value)
        before = len(peer.notifications.all)
        await until(lambda: len(peer.notifications.all) > before)
        return before

    assert await peer.call(handler, meta=PROGRESS) == 50
    assert peer.notifications.of("progress", "progress")[-1] == 59


@pytest.mark.rule("PROG-04", "LOG-03", "MRTR-20")
@pytest.mark.parametrize("client", [Session, NoSession])
async def test_no_notification_is_sent_after_the_response(client):
    """Neither from the loop nor from a thread that is still running."""
    peer = client(answer_all)
    context = peer.context(meta={**PROGRESS, LOG_LEVEL: "debug"})
    await run(reporting(1), context)
    params = list(peer.notifications.all)
    context.progress(2)
    context.info("late")

    def late():
        context.progress(3)
        context.info("late")

    await asyncio.to_thread(late)
    await yield_to_loop()
    assert peer.notifications.all == params


class Loop:
    """A loop whose time changes only when a test sets it."""

    now = 0.0
    timers = ()

    def time(self):
        return self.now

    def call_later(self, pause, function):
        self.timers = (*self.timers, function)

    def call_soon_threadsafe(self, function, *args):
        function(*args)


async def test_no_timer_is_started_after_the_response():
    peer, loop = Session(answer_all), Loop()
    request = peer.context(meta=PROGRESS).request
    request.close()
    throttle = Throttle(request, loop)
    for value in range(100):
        throttle.send(value, None, None, is_log=False)
    assert loop.timers == ()


async def test_newer_progress_replaces_throttled_progress():
    peer, loop = Session(answer_all), Loop()
    request = peer.context(meta=PROGRESS).request
    throttle = Throttle(request, loop)
    for value in range(52):
        throttle.send(value, None, None, is_log=False)
    loop.now = 1.0
    throttle.send(100, None, None, is_log=False)
    for timer in loop.timers:
        timer()
    assert peer.notifications.of("progress", "progress") == [*range(50), 100]


def test_rate_limit_allows_a_burst_and_then_a_rate():
    limit = RateLimit(2, 10.0)
    assert [limit.take(0.0), limit.take(0.0), limit.take(0.0)] == [True, True, False]
    assert limit.pause == pytest.approx(0.1)
    assert [limit.take(0.05), limit.take(0.15), limit.take(0.15)] == [
        False,
        True,
        False,
    ]
    # Unused tokens do not accumulate beyond the burst.
    assert [limit.take(99.0) for _ in range(3)] == [True, True, False]


@given(st.floats(0.0, 1e6), st.lists(st.floats(0.0, 0.049), max_size=5))
def test_rate_limit_allows_after_its_pause(now, pauses):
    limit = RateLimit(1, 20.0)
    assert limit.take(now)
    for moment in sorted(pauses):
        limit.take(now + moment)
    last = now + max(pauses, default=0.0)
    if not limit.take(last):
        later = last + limit.pause
        assert later > last
        assert limit.take(later)


@pytest.mark.rule("LOG-02")
@pytest.mark.case("F07")
async def test_request_receives_logs_from_its_log_level():
    async def handler(ctx):
        ctx.debug("d")
        ctx.info("i")
        ctx.warning({"w": 1})
        ctx.error(["e"])
        ctx.log("alert", None, "mine")

    peer = NoSession()
    await peer.call(handler)
    assert peer.notifications.all == []
    await peer.call(handler, meta={LOG_LEVEL: "warning"})
    assert peer.notifications.of("message", "level") == ["warning", "error", "alert"]
    assert peer.notifications.of("message", "data") == [{"w": 1}, ["e"], None]
    assert peer.notifications.all[-1][1]["logger"] == "mine"


@pytest.mark.parametrize("from_thread", [False, True])
async def test_invalid_log_level_or_data_raises_in_the_handler(from_thread):
    async def handler(ctx):
        bad(ctx)

    def bad(ctx):
        with pytest.raises(LocalProtocolError, match="one of debug, info"):
            ctx.log("loud", "x")
        with pytest.raises(LocalProtocolError):
            ctx.info({1, 2})

    await Session(answer_all).call(bad if from_thread else handler)


@pytest.mark.parametrize("from_thread", [False, True])
async def test_notification_without_a_json_form_raises_and_others_are_sent(from_thread):
    def report(ctx):
        ctx.progress(1, message="first")
        for notify in (
            lambda: ctx.progress(2, message="\ud800"),
            lambda: ctx.info("\ud800"),
            lambda: ctx.log("info", "x", "\ud800"),
        ):
            with pytest.raises(LocalProtocolError, match="a lone surrogate"):
                notify()
        ctx.info("middle")
        ctx.progress(3, message="last")

    async def handler(ctx):
        report(ctx)

    peer = Session(answer_all)
    await peer.call(report if from_thread else handler, meta=PROGRESS)
    assert peer.notifications.of("progress", "message") == ["first", "last"]
    assert peer.notifications.of("message", "data") == ["middle"]


async def test_logged_data_is_copied():
    def handler(ctx):
        data = [1]
        ctx.info(data)
        data.append(2)

    peer = Session(answer_all)
    await peer.call(handler)
    assert peer.notifications.of("message", "data") == [[1]]


@pytest.mark.rule("LOG-07")
@pytest.mark.case("F07")
@on_a_virtual_clock
async def test_flood_of_logs_is_cut_and_counted():
    async def handler(ctx):
        for number in range(1_000):
            ctx.info(number)
            ctx.debug("unwanted, and counted nowhere")

    peer = Session(answer_all)
    await peer.call(handler)
    *sent, last = peer.notifications.of("message", "data")
    assert sent == list(range(200))
    assert last == "800 log messages came too fast and were dropped"


async def test_thread_sends_progress_and_logs_in_order():
    def handler(ctx):
        ctx.progress(1)
        ctx.info("a")
        ctx.progress(2)
        ctx.info("b")

    peer = Session(answer_all)
    await peer.call(handler, meta=PROGRESS)
    assert [method.rpartition("/")[2] for method, _ in peer.notifications.all] == [
        "progress",
        "message",
        "progress",
        "message",
    ]


def test_call_soon_on_a_closed_loop_is_ignored():
    loop = asyncio.new_event_loop()
    loop.close()
    call_soon(loop, print)


async def test_call_soon_error_of_an_open_loop_is_raised():
    class Broken:
        def call_soon_threadsafe(self, *_):
            raise RuntimeError("broken")

        def is_closed(self):
            return False

    with pytest.raises(RuntimeError, match="broken"):
        call_soon(Broken(), print)


async def test_context_needs_a_running_loop():
    peer = Session(answer_all)
    request = peer.context().request
    with pytest.raises(RuntimeError):
        await asyncio.to_thread(Context, request, peer.services)


def test_consecutive_loops_can_serve_one_server():
    peer = Session(answer_all)
    for value in (1, 2):
        asyncio.run(peer.call(lambda ctx: ctx.progress(1), meta=PROGRESS))
        assert peer.notifications.of("progress", "progress") == [1] * value


@pytest.mark.rule("CAN-05")
@pytest.mark.case("F01")
async def test_cancelling_wakes_a_thread_waiting_for_a_response():
    requested = asyncio.Event()
    woken = threading.Event()

    async def never_answer(method, params):
        requested.set()
        await asyncio.Event().wait()

    def handler(ctx):
        try:
            ctx.sync.roots()
        except asyncio.CancelledError:
            woken.set()
            raise

    context = Session(never_answer).context()
    task = asyncio.create_task(run(handler, context))
    await asyncio.wait_for(requested.wait(), TIMEOUT_S)
    context.request.is_cancelled = True
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(woken.wait, TIMEOUT_S)


@pytest.mark.rule("CAN-05")
@pytest.mark.case("F01")
async def test_cancelled_thread_sees_it_and_sends_no_requests():
    peer = Session(answer_all)
    started, resume, done = threading.Event(), threading.Event(), threading.Event()
    outcomes = []

    def handler(ctx):
        started.set()
        resume.wait(TIMEOUT_S)
        outcomes.append(ctx.is_cancelled)
        for check in (ctx.raise_if_cancelled, ctx.sync.roots):
            try:
                check()
            except asyncio.CancelledError:
                outcomes.append("cancelled")
        done.set()

    context = peer.context()
    context.raise_if_cancelled()
    task = asyncio.create_task(run(handler, context))
    assert await asyncio.to_thread(started.wait, TIMEOUT_S)
    context.request.is_cancelled = True
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    resume.set()
    assert await asyncio.to_thread(done.wait, TIMEOUT_S)
    assert outcomes == [True, "cancelled", "cancelled"]
    assert peer.requests == []


async def test_sync_request_in_the_loop_thread_is_refused():
    async def handler(ctx):
        ctx.sync.roots()

    with pytest.raises(LocalProtocolError, match="must not run in the event loop"):
        await Session(answer_all).call(handler)
