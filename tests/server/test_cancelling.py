"""What becomes of a handler whose request nobody wants answered any more."""

import asyncio
import threading

import pytest
from asking_rig import Session, person, run

from mcpwire.errors import LocalProtocolError

SECONDS = 30
"""Longer than anything here takes; only a defect waits so long."""


@pytest.mark.rule("CAN-05")
@pytest.mark.case("F01")
async def test_a_handler_that_is_cancelled_stops_where_it_waits():
    stopped = asyncio.Event()
    asked = asyncio.Event()

    async def never(method, params):
        asked.set()
        await asyncio.Event().wait()

    async def handler(ctx):
        try:
            await ctx.roots()
        finally:
            stopped.set()

    task = asyncio.create_task(Session(never).call(handler))
    await asyncio.wait_for(asked.wait(), SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped.is_set()


@pytest.mark.rule("CAN-05")
@pytest.mark.case("F01")
async def test_a_thread_that_waits_for_an_answer_is_woken_when_nobody_wants_it():
    asked = asyncio.Event()
    woken = threading.Event()

    async def never(method, params):
        asked.set()
        await asyncio.Event().wait()

    def handler(ctx):
        try:
            ctx.sync.roots()
        except asyncio.CancelledError:
            woken.set()
            raise

    context = Session(never).context()
    task = asyncio.create_task(run(handler, context))
    await asyncio.wait_for(asked.wait(), SECONDS)
    context.request.is_cancelled = True
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(woken.wait, SECONDS)


@pytest.mark.rule("CAN-05")
@pytest.mark.case("F01")
async def test_a_thread_sees_that_it_is_over_and_asks_nobody_any_more():
    peer = Session(person)
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()
    outcomes = []

    def handler(ctx):
        begun.set()
        go_on.wait(SECONDS)
        outcomes.append(ctx.is_cancelled)
        for end in (ctx.raise_if_cancelled, ctx.sync.roots):
            try:
                end()
            except asyncio.CancelledError:
                outcomes.append("cancelled")
        done.set()

    context = peer.context()
    context.raise_if_cancelled()
    task = asyncio.create_task(run(handler, context))
    assert await asyncio.to_thread(begun.wait, SECONDS)
    context.request.is_cancelled = True
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    assert await asyncio.to_thread(done.wait, SECONDS)
    assert outcomes == [True, "cancelled", "cancelled"]
    assert peer.asked == []


async def test_the_loops_own_thread_must_not_wait():
    async def handler(ctx):
        ctx.sync.roots()

    with pytest.raises(LocalProtocolError, match="must not: await"):
        await Session(person).call(handler)
