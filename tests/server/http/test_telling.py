"""What a call tells before its answer, and a client that does not wait for that."""

import asyncio

import by_hand
import pytest
from hosted import app, call, echo, post, posted, tools
from http_hand import Work

from mcpwire import Limits
from mcpwire.errors import (
    LocalProtocolError,
    MissingCapability,
)

# What is said before the answer...


async def tells(params, request):
    for number in range(3):
        request.progress(number)
    return {"content": []}


@pytest.mark.case("D16")
@pytest.mark.rule("TR-HTTP-12", "TR-HTTP-14", "TR-HTTP-16")
async def test_a_call_that_tells_something_is_answered_by_a_stream():
    visit = await post(app(tells), call(progressToken="t"))
    assert visit.status == 200
    assert visit.headers["content-type"] == "text/event-stream"
    assert visit.headers["x-accel-buffering"] == "no"
    *told, answer = visit.sse()
    assert [m["params"]["progress"] for m in told] == [0, 1, 2]
    assert answer["id"] == 1
    assert visit.is_complete
    assert b"id:" not in visit.body
    assert b"retry:" not in visit.body


async def test_who_wants_json_only_gets_nothing_else():
    made = app(tells, json_only=True)
    message = call(progressToken="t")
    visit = await post(made, message, accept="application/json")
    assert visit.json()["id"] == 1


async def test_an_error_after_something_was_told_is_the_last_event():
    async def fails(params, request):
        request.progress(1)
        raise MissingCapability("sampling")

    visit = await post(app(fails), call(progressToken="t"))
    assert visit.status == 200
    assert visit.sse()[-1]["error"]["code"] == -32021


async def test_what_is_told_arrives_before_the_answer():
    go_on = asyncio.Event()

    async def slow(params, request):
        request.progress(1)
        await go_on.wait()
        return {"content": []}

    visit = posted(call(progressToken="t")).begin(app(slow))
    await visit.until(lambda v: v.sent[1:])
    assert [m["method"] for m in visit.sse()] == ["notifications/progress"]
    go_on.set()
    await visit.done()
    assert visit.sse()[-1]["result"]["content"] == []


@pytest.mark.case("D16")
@pytest.mark.rule("TR-HTTP-19")
async def test_a_silent_stream_says_that_it_is_there():
    work = Work()
    visit = posted(call()).begin(app(work, stream_after=0.001, heartbeat=0.001))
    await visit.until(lambda v: v.body.count(b": \n\n") >= 3)
    work.go_on.set()
    await visit.done()
    assert visit.sse()[-1]["id"] == 1


async def test_a_json_only_call_that_takes_its_time_stays_json():
    async def slow(params, request):
        await visit.until(lambda v: v.asked == 2)  # it looks for the client
        return {"content": []}

    made = app(slow, stream_after=0.001, json_only=True)
    visit = posted(call()).begin(made)
    await visit.done()
    assert visit.json()["id"] == 1


# The client that does not wait...


@pytest.mark.system("O61")
@pytest.mark.case("D11")
@pytest.mark.rule("TR-HTTP-23", "CAN-05")
@pytest.mark.parametrize("json_only", [False, True])
async def test_a_client_that_goes_away_cancels_its_call(json_only):
    seen = []

    async def slow(params, request):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            request.progress(1)
            seen.append(request.is_cancelled)
            raise

    made = app(slow, stream_after=0.001, json_only=json_only)
    visit = posted(call(progressToken="t")).begin(made)
    await visit.until(lambda v: v.asked == 2)  # it looks for the client
    await visit.left()
    assert seen == [True]
    assert visit.status == 499 if json_only else not visit.is_complete
    assert b"progress" not in visit.body
    assert visit.task.cancelling() == 0


@pytest.mark.case("D11")
async def test_a_handler_that_ignores_its_cancellation_is_not_answered():
    async def stubborn(params, request):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return {"content": []}

    visit = posted(call()).begin(app(stubborn, stream_after=0.001))
    await visit.left()
    assert not visit.is_complete
    assert visit.task.cancelling() == 0


async def test_a_handler_that_ends_as_its_client_goes_away_is_not_answered():
    work = Work()
    visit = posted(call(progressToken="t")).begin(app(work, stream_after=0.001))
    await visit.until(lambda v: v.sent[1:])
    # Both are seen in the same turn of the loop, the client first.
    visit.leave()
    asyncio.get_running_loop().call_soon(work.go_on.set)
    await visit.done()
    assert visit.task.cancelling() == 0
    assert not visit.is_complete


async def test_a_server_that_says_the_client_is_gone_is_believed():
    async def slow(params, request):
        visit.send_error = OSError()
        request.progress(1)
        await asyncio.Event().wait()

    visit = posted(call(progressToken="t")).begin(app(slow))
    await visit.done()
    assert visit.sent == []


async def test_a_client_that_does_not_take_its_answer_is_nobodys_fault(caplog):
    visit = posted(call())
    visit.send_error = OSError()
    await visit.begin(app()).done()
    assert caplog.records == []


async def test_a_web_server_that_cancels_a_call_cancels_it():
    work = Work()
    visit = posted(call()).begin(app(work))
    await work.began.wait()
    visit.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visit.done()
    assert visit.sent == []


@pytest.mark.attack("S13")
async def test_what_a_client_does_not_read_is_bounded():
    async def chatty(params, request):
        for number in range(1000):
            request.log("info", "x" * 100 + str(number))
        visit.gate.set()
        return {"content": []}

    visit = posted(call(**{by_hand.LOG_KEY: "info"}))
    visit.gate = asyncio.Event()
    dispatcher = tools(chatty, limits=Limits(unwritten=10_000))
    await visit.begin(app(dispatcher=dispatcher)).done()
    *told, answer = visit.sse()
    assert 10 < len(told) < 100
    assert told[-1]["params"]["data"].endswith("x999")
    assert answer["id"] == 1


async def test_what_has_no_json_form_fails_where_it_is_told():
    async def strange(params, request):
        with pytest.raises(LocalProtocolError):
            request.log("info", object())
        return {"content": []}

    assert (await post(app(strange), call(**{by_hand.LOG_KEY: "info"}))).json()


# Subscriptions...


async def listens(params, request):
    request.notify("notifications/subscriptions/acknowledged", {"notifications": {}})
    await asyncio.Event().wait()


@pytest.mark.case("D18")
@pytest.mark.parametrize("json_only", [False, True])
async def test_a_subscription_is_a_stream_at_once(json_only):
    dispatcher = tools(echo, methods={"subscriptions/listen": listens})
    made = app(dispatcher=dispatcher, json_only=json_only)
    message = by_hand.modern(1, "subscriptions/listen", {"notifications": {}})
    visit = posted(message).begin(made)
    await visit.until(lambda v: v.sent[1:])
    assert [m["method"] for m in visit.sse()] == [
        "notifications/subscriptions/acknowledged"
    ]
    visit.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visit.done()


async def test_no_tasks_and_no_timers_are_left():
    before = asyncio.all_tasks()
    made = app(tells)
    for _ in range(3):
        await post(made, call(progressToken="t"))
    await post(made, call())
    assert asyncio.all_tasks() == before
    assert not made._open
    assert not made._stateless._calls


async def test_a_plain_call_starts_no_task():
    loop = asyncio.get_running_loop()
    made = []
    visit = posted(call())
    target = app()
    await post(target, call())  # which starts the application
    factory = loop.get_task_factory()
    loop.set_task_factory(
        lambda loop, coro, **more: made.append(coro) or asyncio.Task(coro, loop=loop)
    )
    try:
        await target(visit.scope, visit.receive, visit.send)
    finally:
        loop.set_task_factory(factory)
    assert made == []
    assert visit.json()["id"] == 1
