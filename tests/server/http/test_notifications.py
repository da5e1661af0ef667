"""Notifications of a call before its response, and clients that disconnect."""

import asyncio

import pytest
import raw_client
from hosted import app, call, echo, post, posted, tools
from living import living
from raw_http_client import Work

from mcpwire import Limits
from mcpwire.errors import LocalProtocolError, MissingCapability
from mcpwire.server.http.exchange import Exchange


async def report_progress(params, request):
    for number in range(3):
        request.progress(number)
    return {"content": []}


@pytest.mark.case("D16")
@pytest.mark.rule("TR-HTTP-12", "TR-HTTP-14", "TR-HTTP-16")
async def test_call_with_notifications_is_answered_by_a_stream():
    visit = await post(app(report_progress), call(progressToken="t"))
    assert visit.status == 200
    assert visit.headers["content-type"] == "text/event-stream"
    assert visit.headers["x-accel-buffering"] == "no"
    *notifications, answer = visit.sse()
    assert [m["params"]["progress"] for m in notifications] == [0, 1, 2]
    assert answer["id"] == 1
    assert visit.is_complete
    assert b"id:" not in visit.body
    assert b"retry:" not in visit.body


async def test_json_only_option_answers_with_json_despite_notifications():
    made = app(report_progress, json_only=True)
    message = call(progressToken="t")
    visit = await post(made, message, accept="application/json")
    assert visit.json()["id"] == 1


async def test_error_after_a_notification_is_the_last_event():
    async def fails(params, request):
        request.progress(1)
        raise MissingCapability("sampling")

    visit = await post(app(fails), call(progressToken="t"))
    assert visit.status == 200
    assert visit.sse()[-1]["error"]["code"] == -32021


async def test_notification_arrives_before_the_response():
    release = asyncio.Event()

    async def slow(params, request):
        request.progress(1)
        await release.wait()
        return {"content": []}

    visit = posted(call(progressToken="t")).begin(app(slow))
    await visit.until(lambda v: v.sent[1:])
    assert [m["method"] for m in visit.sse()] == ["notifications/progress"]
    release.set()
    await visit.done()
    assert visit.sse()[-1]["result"]["content"] == []


@pytest.mark.case("D16")
@pytest.mark.rule("TR-HTTP-19")
async def test_idle_stream_sends_heartbeats():
    work = Work()
    visit = posted(call()).begin(app(work, stream_after=0.001, heartbeat=0.001))
    await visit.until(lambda v: v.body.count(b": \n\n") >= 3)
    work.release.set()
    await visit.done()
    assert visit.sse()[-1]["id"] == 1


async def test_slow_json_only_call_is_answered_with_json():
    async def slow(params, request):
        await visit.until(lambda v: v.receive_count == 2)  # it watches for a disconnect
        return {"content": []}

    made = app(slow, stream_after=0.001, json_only=True)
    visit = posted(call()).begin(made)
    await visit.done()
    assert visit.json()["id"] == 1


@pytest.mark.system("O61")
@pytest.mark.case("D11")
@pytest.mark.rule("TR-HTTP-23", "CAN-05")
@pytest.mark.parametrize("json_only", [False, True])
async def test_disconnecting_client_cancels_its_call(json_only):
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
    await visit.until(lambda v: v.receive_count == 2)  # it watches for a disconnect
    await visit.disconnect()
    assert seen == [True]
    assert visit.status == 499 if json_only else not visit.is_complete
    assert b"progress" not in visit.body
    assert visit.task.cancelling() == 0


@pytest.mark.case("D11")
async def test_result_of_a_handler_that_ignores_cancellation_is_not_sent():
    async def stubborn(params, request):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return {"content": []}

    visit = posted(call()).begin(app(stubborn, stream_after=0.001))
    await visit.disconnect()
    assert not visit.is_complete
    assert visit.task.cancelling() == 0


async def test_result_is_not_sent_when_the_client_disconnects_first():
    work = Work()
    visit = posted(call(progressToken="t")).begin(app(work, stream_after=0.001))
    await visit.until(lambda v: v.sent[1:])
    # Both are seen in the same turn of the loop, the client first.
    visit.leave()
    asyncio.get_running_loop().call_soon(work.release.set)
    await visit.done()
    assert visit.task.cancelling() == 0
    assert not visit.is_complete


async def test_os_error_while_sending_progress_ends_the_call():
    async def slow(params, request):
        visit.send_error = OSError()
        request.progress(1)
        await asyncio.Event().wait()

    visit = posted(call(progressToken="t")).begin(app(slow))
    await visit.done()
    assert visit.sent == []


async def test_os_error_while_sending_the_response_is_not_logged(caplog):
    visit = posted(call())
    visit.send_error = OSError()
    await visit.begin(app()).done()
    assert caplog.records == []


async def test_cancelling_the_asgi_task_cancels_the_call():
    work = Work()
    visit = posted(call()).begin(app(work))
    await work.began.wait()
    visit.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visit.done()
    assert visit.sent == []


@pytest.mark.attack("S13")
async def test_unread_log_messages_are_bounded():
    async def chatty(params, request):
        for number in range(1000):
            request.log("info", "x" * 100 + str(number))
        visit.gate.set()
        return {"content": []}

    visit = posted(call(**{raw_client.LOG_KEY: "info"}))
    visit.gate = asyncio.Event()
    dispatcher = tools(chatty, limits=Limits(unwritten=10_000))
    await visit.begin(app(dispatcher=dispatcher)).done()
    *notifications, answer = visit.sse()
    assert 10 < len(notifications) < 100
    assert notifications[-1]["params"]["data"].endswith("x999")
    assert answer["id"] == 1


async def test_unencodable_log_data_raises_in_the_handler():
    async def strange(params, request):
        with pytest.raises(LocalProtocolError):
            request.log("info", object())
        return {"content": []}

    assert (await post(app(strange), call(**{raw_client.LOG_KEY: "info"}))).json()


async def acknowledge(params, request):
    request.notify("notifications/subscriptions/acknowledged", {"notifications": {}})
    await asyncio.Event().wait()


@pytest.mark.case("D18")
@pytest.mark.parametrize("json_only", [False, True])
async def test_subscription_is_answered_by_a_stream_at_once(json_only):
    dispatcher = tools(echo, methods={"subscriptions/listen": acknowledge})
    made = app(dispatcher=dispatcher, json_only=json_only)
    message = raw_client.modern(1, "subscriptions/listen", {"notifications": {}})
    visit = posted(message).begin(made)
    await visit.until(lambda v: v.sent[1:])
    assert [m["method"] for m in visit.sse()] == [
        "notifications/subscriptions/acknowledged"
    ]
    visit.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visit.done()


async def test_calls_leave_no_tasks_and_no_timers():
    before = asyncio.all_tasks()
    made = app(report_progress)
    for _ in range(3):
        await post(made, call(progressToken="t"))
    await post(made, call())
    assert asyncio.all_tasks() == before
    assert living(Exchange) == []


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
