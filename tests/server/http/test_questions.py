"""What a session asks its client, and what becomes of it."""

import asyncio
import contextlib

import pytest
from by_hand import failure, notice, success
from http_hand import QUICK, call, called, content, in_session, turns

from mcpwire.errors import (
    ConnectionClosed,
    InvalidMessage,
    LocalProtocolError,
    RequestTimeout,
    RPCError,
)


@pytest.mark.rule("LHTTP-04", "LHTTP-11", "LHTTP-19")
@pytest.mark.case("D08")
async def test_what_a_call_asks_goes_on_its_own_stream_and_is_answered_by_a_post():
    async def work(params, request):
        answer = await request.ask("roots/list", {})
        return content(str(answer["roots"]))

    async with in_session(work) as (_, hand):
        stream = await hand.listen()
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


def asking(outcome):
    async def work(params, request):
        try:
            await request.ask("roots/list", params["arguments"])
        except BaseException as error:
            outcome.append(error)
            raise
        return content()

    return work


@contextlib.asynccontextmanager
async def one_asked(**options):
    """Give a client, its call, what that asks, and a list of how the asking ends."""
    outcome = []
    async with in_session(asking(outcome), **options) as (_, hand):
        visit = hand.post(call(1))
        yield hand, visit, await visit.next(), outcome


async def test_an_error_is_an_answer_too():
    async with one_asked() as (hand, visit, asked, outcome):
        await hand.tell(failure(asked["id"], -32601, "no roots", {"why": 1}))
        await visit.done()
        (error,) = outcome
        assert isinstance(error, RPCError)
        assert (error.method, error.data) == ("roots/list", {"why": 1})


async def test_a_malformed_answer_fails_the_question_and_is_refused():
    async with one_asked() as (hand, visit, asked, outcome):
        bad = {"jsonrpc": "2.0", "id": asked["id"], "result": []}
        refused = await hand.post(bad).done()
        assert refused.status == 400
        await visit.done()
        assert isinstance(outcome[0], InvalidMessage)


async def test_a_question_that_is_not_answered_is_withdrawn():
    async with one_asked(ask_timeout=QUICK) as (_, visit, asked, outcome):
        withdrawn = await visit.next()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"] == {"requestId": asked["id"], "reason": "timeout"}
        await visit.done()
        (error,) = outcome
        assert isinstance(error, RequestTimeout)
        assert (error.method, error.timeout) == ("roots/list", QUICK)


async def test_a_question_of_a_call_that_is_cancelled_is_withdrawn_beside_it():
    async with one_asked() as (hand, visit, asked, outcome):
        await hand.tell(notice("notifications/cancelled", requestId=1))
        await visit.done()
        stream = hand.get()
        withdrawn = await stream.next()
        assert withdrawn["params"]["requestId"] == asked["id"]
        assert isinstance(outcome[0], asyncio.CancelledError)


async def test_a_question_that_is_answered_is_not_withdrawn_whatever_comes_then():
    async with one_asked() as (hand, visit, asked, outcome):
        # Both come before the handler could go on.
        answer = hand.post(success(asked["id"], {}))
        cancel = hand.post(notice("notifications/cancelled", requestId=1))
        for told in (answer, cancel, visit):
            await told.done()
        assert isinstance(outcome[0], asyncio.CancelledError)
        (session,) = hand.sessions
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

    async with in_session(work) as (_, hand):
        assert (await hand.ask(1, "tools/call", {}))["result"] == content()
        assert len(outcome) == 1


async def test_questions_of_a_session_that_ends_fail():
    outcome = []

    async def work(params, request):
        # As a handler would that asks in a task of its own.
        asked = asyncio.ensure_future(request.ask("roots/list", {}))
        asked.add_done_callback(lambda done: outcome.append(done.exception()))
        await asyncio.wait([asked])

    async with called(work) as (_, hand, visit):
        await visit.next()
        await hand.delete().done()
        await visit.done()
        await turns()
        assert visit.is_complete
        assert isinstance(outcome[0], ConnectionClosed)
