"""Requests of a session to its client, and how they end."""

import asyncio
import contextlib

import pytest
from raw_client import failure, notice, success
from raw_http_client import QUICK, call, called, content, in_session, turns

from mcpwire.errors import (
    ConnectionClosed,
    InvalidMessage,
    LocalProtocolError,
    RequestTimeout,
    RPCError,
)


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
