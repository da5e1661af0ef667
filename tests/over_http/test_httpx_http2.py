"""HTTP/2 through httpx: many calls on one connection, which end independently."""

import asyncio
import random
import ssl
from unittest.mock import Mock

import httpx
import pytest
from h2.errors import ErrorCodes
from http2_server import ca_file, http2_server
from httpx_exchanges import MARK, ResponseSink, exchanges, request_to

from mcpwire import Http, UrlRefused
from mcpwire.errors import CallCancelled, ConnectionClosed, RemoteProtocolError
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.transports.handlers import set_blocking_runner
from mcpwire.transports.http.httpx_engine import HttpxEngine


@pytest.fixture
def trust(tmp_path):
    return {"http2": True, "ca_file": ca_file(tmp_path)}


def echo(stream):
    stream.answer({"got": stream.body.decode()})


def test_sequential_calls_share_one_connection(trust):
    with http2_server(echo) as server, exchanges(server.url, **trust) as it:
        response = it.exchange(request_to(it.target, b"one", x_own="1"))
        assert it.exchanges(5)[-1].body == b'{"got": "{}"}'
        assert server.connections == 1
        assert it.engine.bytes_sent > 0
    assert response.body == b'{"got": "one"}'
    assert response.fields[b"content-type"] == b"application/json"
    fields = server.requests[0].fields
    assert (fields[":method"], fields[":path"]) == ("POST", "/mcp")
    assert fields["x-own"] == "1"
    assert fields["user-agent"] == "mcpwire-test"
    assert "connection" not in fields


def test_token_with_a_users_client_is_sent_only_to_its_url(trust):
    async def lead_away(request):
        request.headers["host"] = "other-tenant.example"

    context = ssl.create_default_context(cafile=trust["ca_file"])
    client = httpx.AsyncClient(http2=True, verify=context)
    with http2_server(echo) as server, exchanges(server.url, client=client) as it:
        request = request_to(it.target, authorization="Bearer s3cret")
        assert it.exchange(request).status == 200
        client.event_hooks = {"request": [lead_away]}
        with pytest.raises(UrlRefused, match="other-tenant"):
            it.exchange(request)
        client.event_hooks = {}
        assert it.exchange(request).status == 200
    assert [received.fields[":authority"] for received in server.requests] == [
        it.target.parsed.authority
    ] * 2


def test_large_body_is_sent_in_many_frames(trust):
    def answer(stream):
        stream.answer(len(stream.body))

    with http2_server(answer) as server, exchanges(server.url, **trust) as it:
        response = it.exchange(request_to(it.target, b"a" * 1_000_000))
    assert response.body == b"1000000"


def test_exchange_returns_before_the_end_of_its_stream(trust):
    open_streams = []

    def answer(stream):
        while open_streams:
            open_streams.pop().data(b" the rest", ends=True)
        stream.head(content_type="text/event-stream")
        stream.data(MARK)
        open_streams.append(stream)

    with http2_server(answer) as server, exchanges(server.url, **trust) as it:
        first = it.exchange()
        assert not first.has_ended
        assert it.exchange().body == MARK


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
def test_ended_stream_may_have_run_unless_it_was_refused(
    trust, ends, code, may_have_run
):
    with (
        http2_server(ends) as server,
        exchanges(server.url, **trust) as it,
        pytest.raises(ConnectionClosed, match=f"with code {code}") as caught,
    ):
        it.exchange()
    assert caught.value.sent is may_have_run


def test_invalid_http2_frame_is_refused(trust):
    def answer(stream):
        stream.head()
        stream.h2._data_to_send += b"\0\0\1\x08\0\0\0\0\1x"  # a wrong WINDOW_UPDATE

    with (
        http2_server(answer) as server,
        exchanges(server.url, **trust) as it,
        pytest.raises(RemoteProtocolError),
    ):
        it.exchange()


# Concurrent calls...


async def test_concurrent_calls_share_a_connection(trust):
    waiting = []

    def answer_backwards(stream):
        waiting.append(stream)
        if len(waiting) == 20:
            for one in reversed(waiting):
                one.answer(one.json)

    with http2_server(answer_backwards) as server:
        target = Http(server.url, **trust)
        engine = HttpxEngine(target, DEFAULT_LIMITS)
        responses = [ResponseSink() for _ in range(20)]
        await asyncio.gather(
            *(
                engine.exchange(request_to(target, b"%d" % i), response, None)
                for i, response in enumerate(responses)
            )
        )
        await engine.aclose()
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

    with http2_server(answer) as server:
        target = Http(server.url, **trust)
        engine = HttpxEngine(target, DEFAULT_LIMITS)
        response = ResponseSink()
        call = asyncio.ensure_future(
            engine.exchange(request_to(target, b"slow"), response, None)
        )
        await arrived.wait()
        if how == "cancel":
            call.cancel()
        else:
            assert engine.abort(response, CallCancelled("tools/call"))
        with pytest.raises((asyncio.CancelledError, CallCancelled)):
            await call
        other = ResponseSink()
        await engine.exchange(request_to(target), other, None)
        await engine.aclose()
        assert other.body == b'"ok"'
        assert server.connections == 1


@pytest.mark.parametrize("has_client", [False, True])
@pytest.mark.parametrize("writes", [1, 2, 3, 4])
async def test_call_aborted_while_writing_does_not_end_other_calls(
    trust, has_client, writes
):
    def counted_writes():
        nonlocal sent, seen
        if engine.bytes_sent > sent:
            sent = engine.bytes_sent
            seen += 1
        return seen

    sent = seen = 0
    context = ssl.create_default_context(cafile=trust["ca_file"])
    with http2_server(echo) as server:
        async with httpx.AsyncClient(http2=True, verify=context) as client:
            options = {"http_client": client} if has_client else trust
            target = Http(server.url, **options)
            engine = HttpxEngine(target, DEFAULT_LIMITS)
            early, late, other = ResponseSink(), ResponseSink(), ResponseSink()
            request = request_to(target, content_length="2")
            call = asyncio.ensure_future(engine.exchange(request, early, None))
            beside = asyncio.ensure_future(engine.exchange(request, other, None))
            # Writes of the connection preface, of the head, of the body, of its end.
            while counted_writes() < writes:  # noqa: ASYNC110 - no event signals it
                await asyncio.sleep(0)  # a turn of the loop
            assert engine.abort(early, CallCancelled("tools/call"))
            with pytest.raises(CallCancelled):
                await call
            await beside
            await engine.exchange(request, late, None)
            await engine.aclose()
        assert [early.body, other.body, late.body] == [b"", *[b'{"got": "{}"}'] * 2]
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
    with (
        http2_server(answer) as server,
        httpx.Client(http2=True, verify=context) as client,
    ):
        target = Http(server.url, http_client=client)
        engine = HttpxEngine(target, DEFAULT_LIMITS)
        early, beside, late = ResponseSink(), ResponseSink(), ResponseSink()
        calls = []
        for count, response in enumerate([early, beside], 1):
            sent = engine.exchange(request_to(target), response, None)
            calls.append(asyncio.ensure_future(sent))
            await asyncio.to_thread(
                server.wait_until, lambda count=count: len(waiting) == count
            )
        assert engine.abort(early, CallCancelled("tools/call"))
        with pytest.raises(CallCancelled):
            await calls[0]
        await engine.exchange(request_to(target), late, None)
        await calls[1]
        await engine.aclose()
        assert [beside.body, late.body] == [b'"ok"'] * 2
        assert server.connections == 1


async def test_calls_cancelled_at_any_time_free_their_streams(trust):
    def answer(stream):
        stream.answer(stream.json)

    async def call(number):
        response = ResponseSink()
        sent = engine.exchange(request_to(target, b"%d" % number), response, None)
        if number % 2:
            task = asyncio.ensure_future(sent)
            for _ in range(chance.randrange(60)):
                await asyncio.sleep(0)  # a turn of the loop
            task.cancel()
            await asyncio.wait([task])
        else:
            await sent
            assert response.body == b"%d" % number

    chance = random.Random(1)
    with http2_server(answer) as server:
        target = Http(server.url, **trust)
        engine = HttpxEngine(target, DEFAULT_LIMITS)
        for _ in range(6):  # more than the limit of open streams
            await asyncio.gather(*map(call, range(50)))
        await engine.aclose()
