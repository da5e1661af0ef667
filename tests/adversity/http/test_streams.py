"""Event streams: parsing, resumption, and limits on reopening."""

import threading
import time

import pytest
from faulty import (
    ERAS,
    ONCE,
    QUICK,
    answer_to,
    answering,
    client_of,
    connected,
    outcome,
    stream,
    target_without_stream,
)
from mcp_server import scripted_mcp
from raw_server import LAST_CHUNK, chunk, json_reply, reply, sse_event, sse_head

import mcpwire
from mcpwire import ConnectionClosed, RequestTimeout

BREAKS = answering(stream(sse_event("", id="1")))
"""The stream ends after an event with an id, without a response."""


# How a stream is written...

ENDS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}
WRITTEN = {
    "plain": b"data: %b\n\n",
    "no space": b"data:%b\n\n",
    "a byte order mark": b"\xef\xbb\xbfdata: %b\n\n",
    "comments": b": ping\n\n:\ndata: %b\n: more\n\n",
    "named": b"event: message\ndata: %b\n\n",
    "an empty event first": b"id: 1\ndata:\n\ndata: %b\n\n",
    "an id with spaces": b"id: a b c\ndata: %b\n\n",
    "an id with NUL": b"id: a\x00b\ndata: %b\n\n",
    "retry that is no number": b"retry: soon\ndata: %b\n\n",
    "retry of none": b"retry: 0\ndata: %b\n\n",
    "retry without end": b"retry: 1000000000000\ndata: %b\n\n",
    "unknown fields": b"foo: bar\nfoo\ndata: %b\n\n",
    "another event before": b"event: ping\ndata: {}\n\ndata: %b\n\n",
}


@pytest.mark.system("O83")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("case", WRITTEN)
@pytest.mark.fault("F30")
@pytest.mark.pain("P19")
@pytest.mark.rule("TR-HTTP-20")
async def test_response_is_read_from_every_valid_sse_form(case, end):
    """Sent byte by byte, in chunks of one byte."""

    def handler(request, conn):
        data = b'{"jsonrpc":"2.0",\n"id":%d,"result":\n{"content":[]}}'
        lines = (data % request.json["id"]).replace(b"\n", b"\ndata: ")
        written = (WRITTEN[case] % lines).replace(b"\n", ENDS[end])
        conn.send(stream(*(bytes([byte]) for byte in written)))
        return True

    async with client_of(recovery=ONCE) as (server, client):
        server.on["tools/call"] = handler
        assert (await client.call_tool("echo")).content == []


@pytest.mark.system("U16", "L-U1")
@pytest.mark.parametrize("end", ["clean", "close", "reset"])
@pytest.mark.fault("F31")
@pytest.mark.pain("P22")
@pytest.mark.rule("LHTTP-21")
async def test_broken_stream_with_an_event_id_is_resumed(end):
    def breaks(request, conn):
        conn.send(sse_head() + chunk(sse_event("", id="place 7")))
        if end == "clean":
            conn.send(LAST_CHUNK)
        else:
            getattr(conn, end)()
        calls.append(request)
        return True

    def resumes(request, conn):
        assert request.headers["last-event-id"] == "place 7"
        conn.send(stream(sse_event(answer_to(calls[0]), id="place 8")))
        return True

    calls = []
    on = {"GET": resumes}
    async with client_of(on=on, server_stream="never") as (server, client):
        server.on["tools/call"] = breaks
        assert (await client.call_tool("echo")).text == "fine"
    assert server.verbs().count("GET") == 1
    get = next(r for r in server.requests if r.verb == "GET")
    assert get.headers["mcp-session-id"] == "session-1"
    assert get.headers["mcp-protocol-version"] == "2025-11-25"
    assert "text/event-stream" in get.headers["accept"]


@pytest.mark.fault("F31")
@pytest.mark.rule("TR-HTTP-21")
async def test_stateless_stream_is_not_resumed():
    async with client_of("stateless", recovery=QUICK) as (server, client):
        server.on["tools/call"] = BREAKS
        with pytest.raises(ConnectionClosed) as caught:
            await client.call_tool("echo")
        assert caught.value.sent is True
    assert "GET" not in server.verbs()


@pytest.mark.system("U23")
@pytest.mark.fault("F32")
@pytest.mark.pain("P22")
@pytest.mark.rule("LHTTP-08")
async def test_polling_server_is_polled_until_it_responds():
    with scripted_mcp(replies="sse", resumable=True, polls=4, retry=100) as server:
        async with connected(target_without_stream(server)) as client:
            started = time.monotonic()
            result = await client.call_tool("echo", {"text": "x"})
            # Each poll comes after `retry`, which has this minimum.
            assert time.monotonic() - started >= 4 * 0.1
            assert result.text == "x"
    assert len(server.executed) == 1
    gets = [r for r in server.requests if r.verb == "GET"]
    places = [r.headers["last-event-id"] for r in gets]
    assert len(places) == 4
    assert len(set(places)) == 4  # each time the newest one


REFUSALS = {
    "404": reply(404),
    "405": reply(405),
    "400": reply(400, b"no such event"),
    "json": json_reply({}),
    "html": reply(200, b"<html>", content_type="text/html"),
}


ENDED = (ConnectionClosed, mcpwire.RemoteProtocolError, mcpwire.SessionExpired)


@pytest.mark.parametrize("case", REFUSALS)
@pytest.mark.fault("F31")
async def test_refused_resumption_ends_the_call(case):
    on = {"GET": answering(REFUSALS[case])}
    async with client_of(on=on, recovery=QUICK) as (server, client):
        server.on["tools/call"] = BREAKS
        error = await outcome(client.call_tool("echo"))
        assert isinstance(error, ENDED), error
        assert server.verbs().count("tools/call") == 1


@pytest.mark.system("U23")
@pytest.mark.fault("F31")
async def test_endless_resumption_ends_at_the_deadline():
    on = {"GET": answering(sse_head() + LAST_CHUNK)}
    async with client_of(on=on) as (server, client):
        server.on["tools/call"] = BREAKS
        with pytest.raises(RequestTimeout):
            await client.call_tool("echo", timeout=0.5)
    # Not more often than the minimum of `retry` allows.
    assert server.verbs().count("GET") <= 6


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.fault("F34")
@pytest.mark.pain("P23")
async def test_silent_stream_ends_at_the_deadline(era):
    healed = threading.Event()

    def swallow(request, conn):
        if request.method == "tools/call":
            conn.send(sse_head())
        conn.wait_for(healed)
        return request.method == "tools/call"

    async with client_of(era, replies="sse") as (server, client):
        server.on["POST"] = swallow
        assert isinstance(
            await outcome(client.call_tool("echo", timeout=0.4)), RequestTimeout
        )
        del server.on["POST"]
        healed.set()
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
