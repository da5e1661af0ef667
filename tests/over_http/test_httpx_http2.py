"""HTTP/2 through httpx: many calls on one connection, which end independently."""

import asyncio
import contextlib
import random
import ssl
from unittest.mock import Mock

import httpx
import pytest
from certificates import ca_file
from engines import RecordedResponse, is_answered, open_engine, request_to
from h2.errors import ErrorCodes
from http2_server import http2_server

from mcpwire import UrlRefused
from mcpwire.errors import CallCancelled, ConnectionClosed, RemoteProtocolError
from mcpwire.transports.handlers import set_blocking_runner


@pytest.fixture
def trust(tmp_path):
    return {"http2": True, "ca_file": ca_file(tmp_path)}


@contextlib.asynccontextmanager
async def http2_at(answer, options):
    with http2_server(answer) as server:
        async with open_engine("httpx", server.url, **options) as engine:
            yield server, engine


def echo(stream):
    stream.answer({"got": stream.body.decode()})


async def test_sequential_calls_share_one_connection(trust):
    async with http2_at(echo, trust) as (server, it):
        response = await it.send(request_to(it.http, b"one", x_own="1"))
        assert [await it.send() for _ in range(5)][-1].body == b'{"got": "{}"}'
        assert server.connections == 1
        assert it.bytes_sent > 0
    assert response.body == b'{"got": "one"}'
    assert response.fields[b"content-type"] == b"application/json"
    fields = server.requests[0].fields
    assert (fields[":method"], fields[":path"]) == ("POST", "/mcp")
    assert fields["x-own"] == "1"
    assert fields["user-agent"] == "mcpwire-test"
    assert "connection" not in fields


async def test_token_with_a_users_client_is_sent_only_to_its_url(trust):
    async def lead_away(request):
        request.headers["host"] = "other-tenant.example"

    context = ssl.create_default_context(cafile=trust["ca_file"])
    client = httpx.AsyncClient(http2=True, verify=context)
    async with http2_at(echo, {"client": client}) as (server, it):
        request = request_to(it.http, authorization="Bearer s3cret")
        assert (await it.send(request)).status == 200
        client.event_hooks = {"request": [lead_away]}
        with pytest.raises(UrlRefused, match="other-tenant"):
            await it.send(request)
        client.event_hooks = {}
        assert (await it.send(request)).status == 200
    assert [received.fields[":authority"] for received in server.requests] == [
        it.http.parsed.authority
    ] * 2


async def test_large_body_is_sent_in_many_frames(trust):
    def answer(stream):
        stream.answer(len(stream.body))

    async with http2_at(answer, trust) as (_server, it):
        response = await it.send(request_to(it.http, b"a" * 1_000_000))
    assert response.body == b"1000000"


async def test_exchange_returns_before_the_end_of_its_stream(trust):
    open_streams = []

    def answer(stream):
        while open_streams:
            open_streams.pop().data(b" the rest", ends=True)
        stream.head(content_type="text/event-stream")
        stream.data(b"the answer")
        open_streams.append(stream)

    async with http2_at(answer, trust) as (_server, it):
        first = await it.send(response=RecordedResponse(is_answered))
        assert not first.has_ended
        second = await it.send(response=RecordedResponse(is_answered))
        assert second.body == b"the answer"


def refuse(stream):
    stream.h2.reset_stream(stream.id, ErrorCodes.REFUSED_STREAM)


def reset(stream):
    stream.h2.reset_stream(stream.id, ErrorCodes.INTERNAL_ERROR)


def begin_and_reset(stream):
    stream.head()
    stream.data(b"ab")
    reset(stream)


def leave(stream):
    stream.h2.close_connection(ErrorCodes.NO_ERROR, last_stream_id=stream.id)


@pytest.mark.parametrize(
    ("ends", "code", "may_have_run"),
    [
        (refuse, 7, False),
        (reset, 2, True),
        (begin_and_reset, 2, True),
        (leave, 0, True),
    ],
)
async def test_ended_stream_may_have_run_unless_it_was_refused(
    trust, ends, code, may_have_run
):
    async with http2_at(ends, trust) as (_server, it):
        with pytest.raises(ConnectionClosed, match=f"with code {code}") as caught:
            await it.send()
    assert caught.value.sent is may_have_run


async def test_invalid_http2_frame_is_refused(trust):
    def answer(stream):
        stream.head()
        stream.h2._data_to_send += b"\0\0\1\x08\0\0\0\0\1x"  # a wrong WINDOW_UPDATE

    async with http2_at(answer, trust) as (_server, it):
        with pytest.raises(RemoteProtocolError):
            await it.send()


async def test_concurrent_calls_share_a_connection(trust):
    waiting = []

    def answer_backwards(stream):
        waiting.append(stream)
        if len(waiting) == 20:
            for one in reversed(waiting):
                one.answer(one.json)

    async with http2_at(answer_backwards, trust) as (server, it):
        requests = [request_to(it.http, b"%d" % i) for i in range(20)]
        responses = await asyncio.gather(*map(it.send, requests))
        assert [response.body for response in responses] == [
            b"%d" % i for i in range(20)
        ]
        assert server.connections == 1


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("how", ["cancel", "abort"])
async def test_cancelled_call_does_not_end_the_connection(trust, begins, how):
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()

    def answer(stream):
        if stream.body == b"slow":
            if begins:
                stream.head()
            loop.call_soon_threadsafe(arrived.set)
        else:
            stream.answer("ok")

    async with http2_at(answer, trust) as (server, it):
        response = RecordedResponse()
        slow = request_to(it.http, b"slow")
        call = asyncio.ensure_future(it.send(slow, response))
        await arrived.wait()
        if how == "cancel":
            call.cancel()
        else:
            assert it.abort(response, CallCancelled("tools/call"))
        with pytest.raises((asyncio.CancelledError, CallCancelled)):
            await call
        assert (await it.send()).body == b'"ok"'
        assert server.connections == 1


@pytest.mark.parametrize("has_client", [False, True])
@pytest.mark.parametrize("writes", [1, 2, 3, 4])
async def test_call_aborted_while_writing_does_not_end_other_calls(
    trust, has_client, writes
):
    def counted_writes():
        nonlocal sent, seen
        if it.bytes_sent > sent:
            sent = it.bytes_sent
            seen += 1
        return seen

    sent = seen = 0
    context = ssl.create_default_context(cafile=trust["ca_file"])
    options = {"client": {"http2": True, "verify": context}} if has_client else trust
    async with http2_at(echo, options) as (server, it):
        early = RecordedResponse()
        request = request_to(it.http, content_length="2")
        call = asyncio.ensure_future(it.send(request, early))
        beside = asyncio.ensure_future(it.send(request))
        # Writes of the connection preface, of the head, of the body, of its end.
        while counted_writes() < writes:  # noqa: ASYNC110 - no event signals it
            await asyncio.sleep(0)  # one loop iteration
        assert it.abort(early, CallCancelled("tools/call"))
        with pytest.raises(CallCancelled):
            await call
        answers = [await beside, await it.send(request)]
        assert early.body == b""
        assert [answer.body for answer in answers] == [b'{"got": "{}"}'] * 2
        assert server.connections == 1


async def test_aborted_call_of_a_blocking_client_does_not_end_other_calls(trust):
    waiting = []

    def answer(stream):
        waiting.append(stream)
        if len(waiting) == 3:
            for one in waiting:
                one.answer("ok")

    set_blocking_runner(asyncio.get_running_loop(), Mock())
    context = ssl.create_default_context(cafile=trust["ca_file"])
    with httpx.Client(http2=True, verify=context) as client:
        async with http2_at(answer, {"client": client}) as (server, it):
            early = RecordedResponse()
            calls = []
            for count, response in enumerate([early, RecordedResponse()], 1):
                calls.append(asyncio.ensure_future(it.send(response=response)))
                await asyncio.to_thread(
                    server.wait_until, lambda count=count: len(waiting) == count
                )
            assert it.abort(early, CallCancelled("tools/call"))
            with pytest.raises(CallCancelled):
                await calls[0]
            late = await it.send()
            assert [(await calls[1]).body, late.body] == [b'"ok"'] * 2
            assert server.connections == 1


async def test_calls_cancelled_at_any_time_free_their_streams(trust):
    def answer(stream):
        stream.answer(stream.json)

    async def call(number):
        sent = it.send(request_to(it.http, b"%d" % number))
        if number % 2:
            task = asyncio.ensure_future(sent)
            for _ in range(chance.randrange(60)):
                await asyncio.sleep(0)  # one loop iteration
            task.cancel()
            await asyncio.wait([task])
        else:
            assert (await sent).body == b"%d" % number

    chance = random.Random(1)
    async with http2_at(answer, trust) as (_server, it):
        for _ in range(6):  # more than the limit of open streams
            await asyncio.gather(*map(call, range(50)))
