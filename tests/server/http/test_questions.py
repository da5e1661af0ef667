"""What a session asks its client, and what becomes of it."""

import asyncio

import pytest
from by_hand import failure, notice, success
from http_hand import QUICK, Bench, call, content, turns

from mcpwire.errors import (
    ConnectionClosed,
    InvalidMessage,
    LocalProtocolError,
    RequestTimeout,
    RPCError,
)

pytestmark = pytest.mark.anyio


@pytest.mark.rule("LHTTP-04", "LHTTP-11", "LHTTP-19")
@pytest.mark.case("D08")
async def test_what_a_call_asks_goes_on_its_own_stream_and_is_answered_by_a_post():
    async def work(params, request):
        answer = await request.ask("roots/list", {})
        return content(str(answer["roots"]))

    async with Bench(work) as bench:
        hand = await bench.open()
        stream = hand.get()
        await stream.until(lambda: stream.events)
        one, two = hand.post(call(1)), hand.post(call(2))
        asked, other = await one.next(), await two.next()
        assert asked["method"] == other["method"] == "roots/list"
        assert asked["id"] != other["id"]
        await hand.tell(success(other["id"], {"roots": [2]}))
        await hand.tell(success(asked["id"], {"roots": [1]}))
        assert await one.next() == success(1, content("[1]"))
        assert await two.next() == success(2, content("[2]"))
        await hand.tell(success(asked["id"], {"roots": [3]}))
        await hand.tell(success("1", {}))
        await hand.tell(success(99, {}))
        assert stream.messages == []


async def ask_once(bench):
    """Return the question of a call, its visit and who asked."""
    hand = await bench.open()
    visit = hand.post(call(1))
    return hand, visit, await visit.next()


def asking(outcome):
    async def work(params, request):
        try:
            await request.ask("roots/list", params["arguments"])
        except BaseException as error:
            outcome.append(error)
            raise
        return content()

    return work


async def test_an_error_is_an_answer_too():
    outcome = []
    async with Bench(asking(outcome)) as bench:
        hand, visit, asked = await ask_once(bench)
        await hand.tell(failure(asked["id"], -32601, "no roots", {"why": 1}))
        await visit.done()
        (error,) = outcome
        assert isinstance(error, RPCError)
        assert (error.method, error.data) == ("roots/list", {"why": 1})


async def test_a_malformed_answer_fails_the_question_and_is_refused():
    outcome = []
    async with Bench(asking(outcome)) as bench:
        hand, visit, asked = await ask_once(bench)
        bad = {"jsonrpc": "2.0", "id": asked["id"], "result": []}
        refused = await hand.post(bad).done()
        assert refused.status == 400
        await visit.done()
        assert isinstance(outcome[0], InvalidMessage)


async def test_a_question_that_is_not_answered_is_withdrawn():
    outcome = []
    async with Bench(asking(outcome), ask_timeout=QUICK) as bench:
        _, visit, asked = await ask_once(bench)
        withdrawn = await visit.next()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"] == {"requestId": asked["id"], "reason": "timeout"}
        await visit.done()
        (error,) = outcome
        assert isinstance(error, RequestTimeout)
        assert (error.method, error.timeout) == ("roots/list", QUICK)


async def test_a_question_of_a_call_that_is_cancelled_is_withdrawn_beside_it():
    outcome = []
    async with Bench(asking(outcome)) as bench:
        hand, visit, asked = await ask_once(bench)
        await hand.tell(notice("notifications/cancelled", requestId=1))
        await visit.done()
        stream = hand.get()
        withdrawn = await stream.next()
        assert withdrawn["params"]["requestId"] == asked["id"]
        assert isinstance(outcome[0], asyncio.CancelledError)


async def test_a_question_that_is_answered_is_not_withdrawn_whatever_comes_then():
    outcome = []
    async with Bench(asking(outcome)) as bench:
        hand, visit, asked = await ask_once(bench)
        # Both come before the handler could go on.
        answer = hand.post(success(asked["id"], {}))
        cancel = hand.post(notice("notifications/cancelled", requestId=1))
        for told in (answer, cancel, visit):
            await told.done()
        assert isinstance(outcome[0], asyncio.CancelledError)
        (session,) = bench.sessions
        assert session.server_stream.last == 0
        assert len(session._server_requests) == 0


async def test_a_question_that_is_no_json_is_not_sent():
    outcome = []

    async def work(params, request):
        try:
            await request.ask("roots/list", {"x": object()})
        except LocalProtocolError as error:
            outcome.append(error)
        return content()

    async with Bench(work) as bench:
        hand = await bench.open()
        assert (await hand.ask(1, "tools/call", {}))["result"] == content()
        assert len(outcome) == 1


async def test_questions_of_a_session_that_ends_fail():
    outcome = []

    async def work(params, request):
        # As a handler would that asks in a task of its own.
        asked = asyncio.ensure_future(request.ask("roots/list", {}))
        asked.add_done_callback(lambda done: outcome.append(done.exception()))
        await asyncio.wait([asked])

    async with Bench(work) as bench:
        hand, visit, _ = await ask_once(bench)
        await hand.delete().done()
        await visit.done()
        await turns()
        assert visit.is_complete
        assert isinstance(outcome[0], ConnectionClosed)
