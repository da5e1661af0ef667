"""Timeouts and progress of calls."""

import asyncio
import contextvars

import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer, text

import mcpwire

CALLER = contextvars.ContextVar("WHO", default="nobody")
ERAS = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])


def client(server, **options):
    return mcpwire.Client(server, **options)


@pytest.mark.system("A04", "L-A2", "L-R6", "L-V3")
@pytest.mark.rule("LIFE-15")
@on_a_virtual_clock
async def test_a_call_has_the_clients_timeout_its_own_or_none():
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with client(server, timeout=0.05) as c:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await c.call_tool("x")
        assert caught.value.timeout == 0.05
        with pytest.raises(TimeoutError) as caught:
            await c.call_tool("x", timeout=0.01)
        assert caught.value.timeout == 0.01
        endless = asyncio.create_task(c.call_tool("x", timeout=None))
        with pytest.raises(mcpwire.RequestTimeout):
            await c.call_tool("x", timeout=0.1)
        assert not endless.done()
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "1", True])
async def test_a_timeout_out_of_range_is_refused(timeout):
    async with client(FakeServer()) as c:
        with pytest.raises(ValueError, match="timeout"):
            await c.call_tool("x", timeout=timeout)
        with pytest.raises(ValueError, match="timeout"):
            await c.list_tools(timeout=timeout)


@pytest.mark.system("A03")
@on_a_virtual_clock
async def test_one_timeout_spans_all_pages_of_a_list():
    def page(params, server):
        number = int(params.get("cursor", "0")) + 1
        return {"tools": [], "nextCursor": str(number)} if number < 5 else SILENCE

    server = FakeServer({"tools/list": page})
    async with client(server) as c:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await c.list_tools(timeout=0.1)
    assert caught.value.timeout == 0.1
    assert len(server.requests("tools/list")) == 5


@on_a_virtual_clock
async def test_many_deadlines_are_checked_together(monkeypatch):
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with client(server) as c:
        loop, timers = asyncio.get_running_loop(), []
        call_at = loop.call_at
        monkeypatch.setattr(
            loop, "call_at", lambda *timer: (timers.append(timer), call_at(*timer))[1]
        )
        calls = [c.call_tool("x", timeout=0.05 + n / 10_000) for n in range(500)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {mcpwire.RequestTimeout}
    # They end within 50 ms of each other, and checks are at least 5 ms apart.
    assert len(timers) <= 30


def report(params, server):
    token = params["_meta"]["progressToken"]
    server.notify("notifications/progress", progressToken=token, progress=1)
    return text("done")


@pytest.mark.system("A40", "L-R9")
@ERAS
@pytest.mark.rule("PROG-01", "PROG-05")
async def test_progress_comes_in_order_and_before_the_result(version):
    def slow(params, server):
        token = params["_meta"]["progressToken"]
        for step in (1, 2.5):
            server.notify(
                "notifications/progress",
                progressToken=token,
                progress=step,
                total=3,
                message=f"at {step}",
            )
        server.notify("notifications/progress", progressToken=token, progress="bad")
        server.notify("notifications/progress", progressToken=token, progress=3)
        return text("done")

    seen, late = [], []

    async def delayed(*args):
        await asyncio.sleep(0)  # one loop iteration
        late.append(args)

    server = FakeServer({"tools/call": slow}, version=version)
    expected = [(1, 3, "at 1"), (2.5, 3, "at 2.5"), (3, None, None)]
    async with client(server) as c:
        await c.call_tool("x", on_progress=lambda *args: seen.append(args))
        assert seen == expected
        await c.call_tool("x", on_progress=delayed)
        assert late == expected
    first, second = server.requests("tools/call")
    assert first["_meta"]["progressToken"] != second["_meta"]["progressToken"]


@pytest.mark.parametrize("timeout", [0.05, None])
@on_a_virtual_clock
async def test_a_hanging_progress_callback_does_not_delay_the_result(timeout):
    async def hang(*_):
        await asyncio.Event().wait()

    async with client(FakeServer({"tools/call": report})) as c:
        result = await c.call_tool("x", on_progress=hang, timeout=timeout)
    assert result.text == "done"


async def test_a_progress_callback_that_raises_is_logged(caplog):
    def fail(*_):
        raise RuntimeError("mine")

    async def fail_later(*_):
        raise RuntimeError("mine too")

    async with client(FakeServer({"tools/call": report})) as c:
        for callback in (fail, fail_later):
            result = await c.call_tool("x", on_progress=callback)
            assert result.text == "done"
    assert len(caplog.records) == 2


@pytest.mark.system("L-A2")
@pytest.mark.rule("LIFE-15")
@on_a_virtual_clock
async def test_progress_extends_a_call_up_to_max_timeout():
    def endless(params, server):
        loop = asyncio.get_running_loop()
        token = params["_meta"]["progressToken"]

        def step(number):
            if server.channel.lost is None:
                server.notify(
                    "notifications/progress", progressToken=token, progress=number
                )
                loop.call_later(0.02, step, number + 1)

        step(1)
        return SILENCE

    steps = []
    server = FakeServer({"tools/call": endless})
    options = {"timeout": 0.4, "reset_timeout_on_progress": True, "max_timeout": 0.8}
    async with client(server, **options) as c:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await c.call_tool("x", on_progress=lambda *args: steps.append(args))
        assert caught.value.timeout == 0.8
        assert caught.value.elapsed >= 0.8
    assert len(steps) > 5
    async with client(server, timeout=0.1) as c:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await c.call_tool("x", on_progress=lambda *_: None)
        assert caught.value.timeout == 0.1


async def test_progress_callbacks_run_in_the_context_of_their_call():
    names = []

    async def later(*_):
        await asyncio.sleep(0)
        names.append(CALLER.get())

    async with client(FakeServer({"tools/call": report})) as c:

        async def call(name, callback):
            CALLER.set(name)
            await c.call_tool("x", on_progress=callback)

        await asyncio.create_task(call("plain", lambda *_: names.append(CALLER.get())))
        await asyncio.create_task(call("async", later))
    assert names == ["plain", "async"]
