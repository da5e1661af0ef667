"""Requests of a session, to its client, and in batches: responses, cancellation."""

import asyncio
import contextlib

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

from mcpwire.errors import (
    ConnectionClosed,
    InvalidMessage,
    LocalProtocolError,
    RequestTimeout,
    RPCError,
)
from mcpwire.server.http.exchange import Timeouts
from mcpwire.server.http.streams import Stream

ENDED = "the session ended before the answer"

INITIALIZED = notice("notifications/initialized")


def with_token(id, **arguments):
    message = call(id, **arguments)
    message["params"]["_meta"] = {"progressToken": id}
    return message


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


@pytest.mark.rule("LHTTP-05")
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


@pytest.mark.rule("LHTTP-04", "LHTTP-11", "LHTTP-19")
@pytest.mark.case("D08")
async def test_server_request_is_on_the_calls_stream_and_answered_by_a_post():
    async def work(params, request):
        answer = await request.ask("roots/list", {})
        return content(str(answer["roots"]))

    async with in_session(work) as (_, hand):
        stream = await hand.listen()
        one, two = hand.post(call(1)), hand.post(call(2))
        first, second = await one.next(), await two.next()
        assert first["method"] == second["method"] == "roots/list"
        assert first["id"] != second["id"]
        await hand.post_accepted(success(second["id"], {"roots": [2]}))
        await hand.post_accepted(success(first["id"], {"roots": [1]}))
        assert await one.next() == success(1, content("[1]"))
        assert await two.next() == success(2, content("[2]"))
        await hand.post_accepted(success(first["id"], {"roots": [3]}))
        await hand.post_accepted(success("1", {}))
        await hand.post_accepted(success(99, {}))
        assert stream.messages == []


def ask_roots(outcome):
    async def work(params, request):
        try:
            await request.ask("roots/list", params["arguments"])
        except BaseException as error:
            outcome.append(error)
            raise
        return content()

    return work


@contextlib.asynccontextmanager
async def pending_request(**options):
    """Give a client, its call, the server's request, and a list with its error."""
    outcome = []
    async with in_session(ask_roots(outcome), **options) as (_, hand):
        visit = hand.post(call(1))
        yield hand, visit, await visit.next(), outcome


async def test_error_response_of_the_client_raises_rpc_error():
    async with pending_request() as (hand, visit, server_request, outcome):
        await hand.post_accepted(
            failure(server_request["id"], -32601, "no roots", {"why": 1})
        )
        await visit.done()
        (error,) = outcome
        assert isinstance(error, RPCError)
        assert (error.method, error.data) == ("roots/list", {"why": 1})


async def test_malformed_response_is_refused_and_fails_the_server_request():
    async with pending_request() as (hand, visit, server_request, outcome):
        bad = {"jsonrpc": "2.0", "id": server_request["id"], "result": []}
        refused = await hand.post(bad).done()
        assert refused.status == 400
        await visit.done()
        assert isinstance(outcome[0], InvalidMessage)


async def test_server_request_is_cancelled_after_its_timeout():
    async with pending_request(ask_timeout=QUICK) as (
        _,
        visit,
        server_request,
        outcome,
    ):
        cancelled = await visit.next()
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"] == {
            "requestId": server_request["id"],
            "reason": "timeout",
        }
        await visit.done()
        (error,) = outcome
        assert isinstance(error, RequestTimeout)
        assert (error.method, error.timeout) == ("roots/list", QUICK)


async def test_server_request_of_a_cancelled_call_is_cancelled_on_the_get_stream():
    async with pending_request() as (hand, visit, server_request, outcome):
        await hand.post_accepted(notice("notifications/cancelled", requestId=1))
        await visit.done()
        stream = hand.get()
        cancelled = await stream.next()
        assert cancelled["params"]["requestId"] == server_request["id"]
        assert isinstance(outcome[0], asyncio.CancelledError)


async def test_answered_server_request_is_not_cancelled_afterwards():
    async with pending_request() as (hand, visit, server_request, outcome):
        # Both arrive before the handler can continue.
        answer = hand.post(success(server_request["id"], {}))
        cancel = hand.post(notice("notifications/cancelled", requestId=1))
        for each in (answer, cancel, visit):
            await each.done()
        assert isinstance(outcome[0], asyncio.CancelledError)
        (session,) = hand.sessions
        assert session.server_stream.last == 0


async def test_unencodable_server_request_is_not_sent():
    outcome = []

    async def work(params, request):
        try:
            await request.ask("roots/list", {"x": object()})
        except LocalProtocolError as error:
            outcome.append(error)
        return content()

    async with in_session(work) as (_, hand):
        assert (await hand.ask(1, "tools/call", {}))["result"] == content()
        assert len(outcome) == 1


async def test_server_requests_fail_when_their_session_ends():
    outcome = []

    async def work(params, request):
        # As a handler does that sends its request in a separate task.
        pending = asyncio.ensure_future(request.ask("roots/list", {}))
        pending.add_done_callback(lambda done: outcome.append(done.exception()))
        await asyncio.wait([pending])

    async with called(work) as (_, hand, visit):
        await visit.next()
        await hand.delete().done()
        await visit.done()
        await turns()
        assert visit.is_complete
        assert isinstance(outcome[0], ConnectionClosed)


def batching(work=None, version="2025-03-26"):
    return in_session(work or progress(0), version)


@pytest.mark.rule("RPC-13", "LHTTP-35")
@pytest.mark.case("B05")
async def test_a_batch_is_answered_by_an_array():
    async with batching() as (_, hand):
        visit = await hand.post(
            [request("a", "ping"), INITIALIZED, call(2), request(3, "no/method")]
        ).done()
        answers = {answer["id"]: answer for answer in visit.json}
        assert answers["a"] == success("a", {})
        assert answers[2] == success(2, content())
        assert answers[3]["error"]["code"] == -32601
        assert len(visit.json) == 3
        assert (await hand.post([call(7)]).done()).json == [success(7, content())]


@pytest.mark.rule("LHTTP-35")
@pytest.mark.case("B05")
async def test_a_batch_without_requests_is_accepted():
    async with batching() as (_, hand):
        for batch in ([INITIALIZED, success(9, {}), 1], [1, INITIALIZED]):
            visit = await hand.post(batch).done()
            assert (visit.status, visit.body) == (202, b"")


@pytest.mark.case("B05")
async def test_initialize_in_a_batch_is_refused_and_the_rest_is_answered():
    async with batching() as (bench, hand):
        visit = await hand.post([request(1, "initialize"), request(2, "ping")]).done()
        refused, pong = visit.json
        assert (refused["id"], refused["error"]["code"]) == (1, -32600)
        assert pong == success(2, {})
        visit = await bench.hand().post([request(1, "initialize")]).done()
        assert visit.status == 400
        assert len(bench.sessions) == 1


@pytest.mark.attack("S13")
@pytest.mark.rule("RPC-15")
@pytest.mark.case("B05", "B06")
@pytest.mark.parametrize(
    ("version", "batch"),
    [
        *(("2025-03-26", batch) for batch in ([], [{}], [1, 2], [INITIALIZED] * 1_001)),
        *(
            (version, [request(1, "ping")])
            for version in ("2024-11-05", "2025-06-18", "2025-11-25")
        ),
    ],
    ids=range(7),
)
async def test_malformed_batch_or_one_of_another_revision_is_refused(version, batch):
    async with batching(version=version) as (_, hand):
        visit = await hand.post(batch).done()
        assert visit.status == 400
        assert visit.json["error"]["code"] == -32600


async def test_invalid_message_in_a_batch_gets_its_own_error():
    async with batching() as (_, hand):
        bad = {"jsonrpc": "2.0", "id": 5, "method": 5}
        visit = await hand.post([bad, 3, request(6, "ping")]).done()
        refused, pong = visit.json
        assert (refused["id"], refused["error"]["code"]) == (5, -32600)
        assert pong == success(6, {})


async def test_stateless_request_in_a_batch_is_refused():
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    async with batching() as (_, hand):
        visit = await hand.post([request(1, "tools/list", meta=meta)]).done()
        assert visit.json[0]["error"]["code"] == -32600


async def test_batch_with_notifications_streams_until_its_last_request_ends():
    first, second = Work(), Work()

    async def work(params, request):
        if params["arguments"].get("log"):
            request.log("info", "hello")
            return content("logged")
        return await (first if params["arguments"]["text"] == "1" else second)(
            params, request
        )

    async with batching(work) as (_, hand):
        visit = hand.post(
            [
                request(0, "ping"),
                call(1, text="1"),
                call(2, text="2"),
                call(3, text="x", log=True),
            ]
        )
        assert await visit.next() == success(0, {})
        assert (await visit.next())["method"] == "notifications/message"
        assert await visit.next() == success(3, content("logged"))
        second.release.set()
        assert await visit.next() == success(2, content("2"))
        assert not visit.is_complete
        await hand.post_accepted(notice("notifications/cancelled", requestId=1))
        await visit.done()
        assert len(visit.messages) == 4


async def test_duplicate_id_within_a_batch_is_refused():
    work = Work()
    work.release.set()
    async with batching(work) as (_, hand):
        visit = await hand.post([call(1), call(1)]).done()
        assert sorted("error" in answer for answer in visit.json) == [False, True]
