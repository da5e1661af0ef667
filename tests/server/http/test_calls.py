"""Requests of a session: responses, notifications, cancellation and end."""

import asyncio

import pytest
from living import living
from raw_client import failure, notice, request, success
from raw_http_client import (
    QUICK,
    Bench,
    Work,
    call,
    called,
    content,
    in_session,
    progress,
    running,
    turns,
)

from mcpwire.server.http.exchange import Timeouts
from mcpwire.server.http.streams import Stream

ENDED = "the session ended before the answer"

INITIALIZED = notice("notifications/initialized")


def with_token(id, **arguments):
    message = call(id, **arguments)
    message["params"]["_meta"] = {"progressToken": id}
    return message


@pytest.mark.rule("LHTTP-05")
async def test_quick_response_is_json():
    async with in_session(progress(3)) as (_, hand):
        visit = await hand.post(call(1)).done()
        assert visit.headers["content-type"] == "application/json"
        assert visit.json == success(1, content())
        assert visit.is_complete


@pytest.mark.rule("LHTTP-06", "LHTTP-09", "LHTTP-11")
async def test_notification_before_the_response_turns_it_into_a_stream():
    async with in_session(progress(2)) as (_, hand):
        visit = await hand.post(with_token("a")).done()
        assert visit.status == 200
        assert visit.headers["cache-control"] == "no-cache, no-transform"
        first, *rest = visit.events
        assert (first.data, first.retry) == (b"", 1_000)
        assert first.id
        assert [m.get("method") for m in visit.messages] == [
            "notifications/progress",
            "notifications/progress",
            None,
        ]
        assert visit.messages[-1] == success("a", content())
        assert visit.is_complete
        assert len(set(visit.ids)) == len(rest) + 1


@pytest.mark.parametrize("version", ["2025-06-18", "2025-03-26", "2024-11-05"])
async def test_older_revisions_get_event_ids_and_no_event_without_data(version):
    async with in_session(progress(1), version=version) as (_, hand):
        visit = await hand.post(with_token(1)).done()
        assert all(event.data and event.id for event in visit.events)
        stream = hand.get()
        await stream.until(lambda: b":" in stream.body)
        assert not stream.events


async def test_without_a_store_events_have_no_ids():
    async with in_session(progress(1), event_store=False) as (_, hand):
        visit = await hand.post(with_token(1)).done()
        assert visit.ids == ["", ""]
        visit = await hand.get(last_event_id="a.1.1").done()
        assert visit.status == 400


async def test_idle_stream_sends_heartbeats():
    work = Work()
    async with Bench(work) as bench:
        timeouts = Timeouts(body=30, stream_after=QUICK, heartbeat=QUICK)
        hand = await bench.open(timeouts=timeouts)
        visit = hand.post(call(1))
        await visit.until(lambda: visit.body.count(b"\n: \n") >= 3)
        work.release.set()
        await visit.done()
        assert visit.messages == [success(1, content())]


async def test_unencodable_result_becomes_an_internal_error(caplog):
    async def work(params, request):
        return {"content": [object()]}

    async with in_session(work) as (_, hand):
        answer = await hand.ask(1, "tools/call", {})
        assert answer == failure(1, -32603, "the handler failed")
        assert "cannot be sent" in caplog.text


@pytest.mark.case("B04")
async def test_request_id_in_use_is_refused_and_the_first_call_continues():
    work = Work()
    async with in_session(work) as (_, hand):
        first = hand.post(call(1))
        await work.began.wait()
        second = await hand.post(call(1, text="2")).done()
        assert second.json["error"]["code"] == -32600
        twin = hand.post(call("1", text="other"))
        await turns()
        work.release.set()
        assert (await first.done()).json == success(1, content())
        assert (await twin.done()).json == success("1", content("other"))
        assert len(work.requests) == 2
        # The id is free again after its response.
        assert (await hand.post(call(1, text="3")).done()).json["result"] == content(
            "3"
        )


@pytest.mark.case("D15")
async def test_a_thousand_calls_at_once_on_one_session_are_all_answered():
    async def work(params, request):
        await asyncio.sleep(0)  # one loop iteration
        return content(params["arguments"]["text"])

    async with in_session(work) as (bench, hand):
        visits = [hand.post(call(id, text=str(id))) for id in range(1_000)]
        for id, visit in enumerate(visits):
            assert (await visit.done()).json == success(id, content(str(id)))
        assert running(bench.sessions) == 0


async def test_queued_call_counts_as_running_and_can_be_cancelled():
    work = Work()
    async with in_session(work) as (bench, hand):
        visits = [hand.post(call(id)) for id in range(20)]
        await turns(10)
        assert (running(bench.sessions), len(work.requests)) == (20, 16)
        await hand.post_accepted(notice("notifications/cancelled", requestId=19))
        assert (await visits[19].done()).is_stream
        assert running(bench.sessions) == 19
        work.release.set()
        await bench.sessions.settle(30)
        assert len(work.outcomes) == 19
        for visit in visits:
            await visit.done()


@pytest.mark.system("O52")
@pytest.mark.rule("CAN-05")
async def test_a_cancelled_request_stops_and_is_not_answered():
    work = Work()
    async with called(work) as (bench, hand, visit):
        await work.began.wait()
        await hand.post_accepted(notice("notifications/cancelled", requestId="1"))
        await hand.post_accepted(notice("notifications/cancelled"))
        await hand.post_accepted(notice("notifications/cancelled", requestId=[1]))
        assert not work.outcomes
        await hand.post_accepted(notice("notifications/cancelled", requestId=1))
        await visit.done()
        assert work.outcomes == ["cancelled"]
        assert work.requests[0].is_cancelled
        assert (visit.status, visit.messages, visit.is_complete) == (200, [], True)
        await hand.post_accepted(notice("notifications/cancelled", requestId=1))
        assert running(bench.sessions) == 0


@pytest.mark.rule("CAN-11")
async def test_cancellation_reason_is_logged_on_one_short_line(caplog):
    caplog.set_level("DEBUG", "mcpwire")
    work = Work()
    async with in_session(work) as (_, hand):
        visit = hand.post(call("the-id"))
        await work.began.wait()
        reason = "nobody wants it\n" + "x" * 1_000
        params = {"requestId": "the-id", "reason": reason}
        await hand.post_accepted(notice("notifications/cancelled", **params))
        await visit.done()
    (line,) = [m for m in caplog.messages if "cancelled" in m]
    assert "the-id" in line
    assert "nobody wants it" in line
    assert "\n" not in line
    assert len(line) < 300


async def test_stream_of_a_cancelled_request_cannot_be_resumed():
    work = Work()
    async with in_session(work, timeouts=Timeouts(body=30, stream_after=QUICK)) as (
        _,
        hand,
    ):
        visit = hand.post(call(1))
        await visit.until(lambda: visit.events)
        await hand.post_accepted(notice("notifications/cancelled", requestId=1))
        await visit.done()
        assert (visit.messages, visit.is_complete) == ([], True)
        resumed = await hand.get(last_event_id=visit.ids[-1]).done()
        assert resumed.status == 400


@pytest.mark.rule("LHTTP-12")
@pytest.mark.case("D11")
async def test_disconnecting_client_does_not_cancel_its_call():
    work = Work()
    async with in_session(work, timeouts=Timeouts(body=30, stream_after=QUICK)) as (
        bench,
        hand,
    ):
        visit = hand.post(call(1))
        await visit.until(lambda: visit.events)
        await visit.disconnect()
        assert running(bench.sessions) == 1
        work.release.set()
        await bench.sessions.settle(30)
        assert work.outcomes == ["done"]
        resumed = await hand.get(last_event_id=visit.ids[-1]).done()
        assert resumed.messages == [success(1, content())]


@pytest.mark.case("D11")
async def test_cancelling_the_asgi_task_does_not_cancel_the_handler():
    work = Work()
    async with called(work) as (bench, _hand, visit):
        await work.began.wait()
        visit.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await visit.task
        work.requests[0].log("info", "unheard")
        work.release.set()
        await bench.sessions.settle(30)
        assert work.outcomes == ["done"]
        assert not visit.body


@pytest.mark.case("D11")
async def test_cancelling_the_asgi_task_at_stream_start_leaves_no_writer():
    work = Work()
    async with called(work) as (bench, _hand, visit):
        await work.began.wait()
        work.requests[0].log("info", "unheard")
        visit.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await visit.task
        (stream,) = living(Stream)
        assert stream.writer is None
        work.release.set()
        await bench.sessions.settle(30)


@pytest.mark.system("O57")
async def test_deleting_a_session_cancels_its_calls_and_ends_its_streams():
    work = Work()
    async with called(work) as (_bench, hand, visit):
        await work.began.wait()
        stream = await hand.listen()
        assert (await hand.delete().done()).status == 204
        assert (await stream.done()).is_complete
        assert (await visit.done()).json == failure(1, -32603, ENDED)
        await turns()
        assert work.outcomes == ["cancelled"]
        assert work.requests[0].is_cancelled


async def test_closing_all_sessions_cancels_their_calls():
    work = Work()
    bench = Bench(work)
    hands = [await bench.open() for _ in range(3)]
    visits = [hand.post(call(1)) for hand in hands]
    await work.began.wait()
    await turns()
    await bench.sessions.aclose()
    for visit in visits:
        assert (await visit.done()).json == failure(1, -32603, ENDED)
    assert work.outcomes == ["cancelled"] * 3
    assert len(bench.sessions) == 0


async def test_handler_that_ignores_cancellation_does_not_delay_closing(monkeypatch):
    monkeypatch.setattr("mcpwire.server.http.sessions.CLOSE_GRACE_S", QUICK)
    stop = asyncio.Event()
    began = asyncio.Event()

    async def work(params, request):
        began.set()
        while not stop.is_set():
            try:
                await stop.wait()
            except asyncio.CancelledError:
                continue
        return content()

    bench = Bench(work)
    hand = await bench.open()
    visit = hand.post(call(1))
    await began.wait()
    await bench.sessions.aclose()
    assert (await visit.done()).json == failure(1, -32603, ENDED)
    stop.set()
    await turns()


@pytest.mark.case("D03")
async def test_stateless_posts_are_independent_of_each_other():
    seen = []

    async def work(params, request):
        seen.append(request)
        request.log("info", "hello")
        return content()

    async with Bench(work, stateless=True) as bench:
        hand = bench.hand()
        visit = hand.post(
            request(
                1,
                "initialize",
                {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}},
            )
        )
        await visit.done()
        assert visit.json["result"]["protocolVersion"] == "2025-06-18"
        assert "mcp-session-id" not in visit.headers
        await hand.post_accepted(INITIALIZED)
        for version in ("2025-06-18", "2025-11-25", None):
            visit = await hand.post(call(2), mcp_protocol_version=version).done()
            assert visit.messages[-1] == success(2, content())
            assert set(visit.ids) == {""}
        assert [r.revision.name for r in seen] == [
            "2025-06-18",
            "2025-11-25",
            "2025-03-26",
        ]
        assert not any(r.can_ask for r in seen)
        assert seen[0].state is not seen[1].state
        for other in (hand.get(), hand.delete()):
            await other.done()
            assert (other.status, other.headers["allow"]) == (405, "POST")
        assert not bench.sessions.stateless_sessions


async def test_closing_cancels_a_running_stateless_call():
    work = Work()
    async with Bench(work, stateless=True) as bench:
        visit = bench.hand().post(call(1), mcp_session_id="any")
        await work.began.wait()
        assert running(bench.sessions) == 1
    assert (await visit.done()).json == failure(1, -32603, ENDED)
    assert work.outcomes == ["cancelled"]
    assert not bench.sessions.stateless_sessions
