"""Handlers of cancelled requests."""

import asyncio
import threading

import pytest
from input_session import Session, answer_all, run

from mcpwire.errors import LocalProtocolError

TIMEOUT_S = 30
"""Longer than any step here takes; only a defect reaches it."""


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
