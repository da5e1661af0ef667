"""Event streams: read by the letter, resumed at their place, opened in no storm."""

import asyncio
import gc
import time
import tracemalloc

import pytest
from faulty import (
    BOUND_S,
    ERAS,
    ONCE,
    QUICK,
    answering,
    client_of,
    connected,
    outcome,
    unheard,
    until,
)
from mcp_server import scripted_mcp
from proxy import cutting_proxy
from raw_server import (
    LAST_CHUNK,
    chunk,
    json_reply,
    reply,
    sse_event,
    sse_head,
)

import mcpwire
from mcpwire import ConnectionClosed, RequestTimeout

pytestmark = pytest.mark.anyio

LOG = "notifications/message"


def text_answer(request, text="fine"):
    result = {"content": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": request.json["id"], "result": result}


def log(data):
    params = {"level": "info", "data": data}
    return {"jsonrpc": "2.0", "method": LOG, "params": params}


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
async def test_an_answer_is_read_however_its_stream_is_written(case, end):
    """Byte by byte, and across the pieces that a network makes of it."""

    def handler(request, conn):
        data = b'{"jsonrpc":"2.0",\n"id":%d,"result":\n{"content":[]}}'
        lines = (data % request.json["id"]).replace(b"\n", b"\ndata: ")
        stream = (WRITTEN[case] % lines).replace(b"\n", ENDS[end])
        conn.send(sse_head() + b"".join(chunk(bytes([byte])) for byte in stream))
        conn.send(LAST_CHUNK)
        return True

    async with client_of(scripted_mcp(), recovery=ONCE) as (server, client):
        server.on["tools/call"] = handler
        assert (await client.call_tool("echo")).content == []


@pytest.mark.fault("F30")
@pytest.mark.pain("P19")
async def test_an_event_without_its_empty_line_is_not_one():
    def handler(request, conn):
        event = sse_event(text_answer(request)).rstrip(b"\n")
        conn.send(sse_head() + chunk(event + b"\n") + LAST_CHUNK)
        return True

    async with client_of(scripted_mcp(), recovery=ONCE) as (server, client):
        server.on["tools/call"] = handler
        with pytest.raises(ConnectionClosed):
            await client.call_tool("echo")


# Resuming...


@pytest.mark.system("U16", "L-U1")
@pytest.mark.parametrize("end", ["clean", "close", "reset"])
@pytest.mark.fault("F31")
@pytest.mark.pain("P22")
@pytest.mark.rule("LHTTP-21")
async def test_a_stream_with_a_place_goes_on_where_it_broke(end):
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
        event = sse_event(text_answer(calls[0]), id="place 8")
        conn.send(sse_head() + chunk(event) + LAST_CHUNK)
        return True

    calls = []
    with scripted_mcp() as server:
        server.on["GET"] = resumes
        async with connected(unheard(server)) as client:
            server.on["tools/call"] = breaks
            assert (await client.call_tool("echo")).text == "fine"
    assert server.verbs().count("GET") == 1
    get = next(r for r in server.requests if r.verb == "GET")
    assert get.headers["mcp-session-id"] == "session-1"
    assert get.headers["mcp-protocol-version"] == "2025-11-25"
    assert "text/event-stream" in get.headers["accept"]


@pytest.mark.fault("F31")
@pytest.mark.rule("TR-HTTP-21")
async def test_the_stateless_era_resumes_nothing():
    def breaks(request, conn):
        conn.send(sse_head() + chunk(sse_event("", id="7")) + LAST_CHUNK)
        return True

    async with client_of(scripted_mcp("stateless"), recovery=QUICK) as (server, client):
        server.on["tools/call"] = breaks
        with pytest.raises(ConnectionClosed) as caught:
            await client.call_tool("echo")
        assert caught.value.sent is True
    assert "GET" not in server.verbs()


@pytest.mark.system("U23")
@pytest.mark.fault("F32")
@pytest.mark.pain("P22")
@pytest.mark.rule("LHTTP-08")
async def test_a_polling_server_is_asked_until_it_answers():
    with scripted_mcp(replies="sse", resumable=True, polls=4, retry=100) as server:
        async with connected(unheard(server)) as client:
            started = time.monotonic()
            result = await client.call_tool("echo", {"text": "x"})
            # Each time after `retry`, which has a floor of that much.
            assert time.monotonic() - started >= 4 * 0.1
            assert result.text == "x"
    assert len(server.executed) == 1
    gets = [r for r in server.requests if r.verb == "GET"]
    places = [r.headers["last-event-id"] for r in gets]
    assert len(places) == 4
    assert len(set(places)) == 4  # each time the newest one


@pytest.mark.timeout(120)
@pytest.mark.fault("F32")
@pytest.mark.pain("P22")
async def test_500_polling_cycles_cost_what_one_costs(monkeypatch):
    """Memory, descriptors, connections and stack stay as they are."""
    from mcpwire.protocol import retry

    monkeypatch.setattr(retry, "RETRY_MIN_S", 0.0)
    sizes = []

    def look(request, conn):
        if len(sizes) in {0, 100, 450}:
            gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
        server.requests.clear()
        return False

    tracemalloc.start()
    try:
        with scripted_mcp(replies="sse", resumable=True, polls=500, retry=0) as server:
            server.on["GET"] = look
            async with connected(unheard(server)) as client:
                call = client.call_tool("echo", {"text": "x"}, timeout=BOUND_S)
                assert (await call).text == "x"
            assert server.connections <= 2
    finally:
        tracemalloc.stop()
    assert len(sizes) == 500
    assert len(server.executed) == 1
    assert min(sizes[400:]) - min(sizes[100:200]) < 100_000


@pytest.mark.fault("F33")
@pytest.mark.pain("P22")
@pytest.mark.rule("LHTTP-22")
async def test_what_is_replayed_is_delivered_once_and_nothing_of_other_streams():
    def breaks(request, conn):
        calls.append(request)
        events = [sse_event(log(n), id=str(n)) for n in (1, 2)]
        conn.send(sse_head() + b"".join(map(chunk, events)) + LAST_CHUNK)
        return True

    def resumes(request, conn):
        assert request.headers["last-event-id"] == "2"
        foreign = {"jsonrpc": "2.0", "id": 999, "result": {"content": []}}
        events = [
            sse_event(log(1), id="1"),  # again
            sse_event(log(2), id="2"),
            sse_event(foreign, id="x"),
            sse_event(log(3), id="3"),
            sse_event(text_answer(calls[0]), id="4"),
        ]
        conn.send(sse_head() + b"".join(map(chunk, events)) + LAST_CHUNK)
        return True

    calls, heard = [], []
    with scripted_mcp() as server:
        server.on["GET"] = resumes
        options = {
            "on_notification": lambda note: heard.append(note.params.data),
            "server_stream": "never",
        }
        target = mcpwire.Http(server.url, server_stream=options.pop("server_stream"))
        async with connected(target, **options) as client:
            server.on["tools/call"] = breaks
            assert (await client.call_tool("echo")).text == "fine"
            await until(lambda: len(heard) == 3)
    assert heard == [1, 2, 3]


@pytest.mark.fault("F33")
@pytest.mark.pain("P22")
async def test_places_never_leak_from_one_stream_to_another():
    """20 calls break off at once, each at a place of its own."""
    begun = {}

    def breaks(request, conn):
        place = f"place-{request.json['params']['arguments']['text']}"
        begun[place] = request
        conn.send(sse_head() + chunk(sse_event("", id=place)))
        conn.wait_while(lambda: len(begun) < 20)
        for other in tuple(server.raw.open):
            other.nudge()
        conn.close()
        return True

    def resumes(request, conn):
        asked = begun[request.headers["last-event-id"]]
        text = asked.json["params"]["arguments"]["text"]
        conn.send(sse_head() + chunk(sse_event(text_answer(asked, text))) + LAST_CHUNK)
        return True

    with scripted_mcp() as server:
        server.on["GET"] = resumes
        async with connected(unheard(server)) as client:
            server.on["tools/call"] = breaks
            calls = [client.call_tool("echo", {"text": str(n)}) for n in range(20)]
            results = await asyncio.gather(*calls)
    assert [result.text for result in results] == [str(n) for n in range(20)]


@pytest.mark.pain("P22")
async def test_a_resumed_stream_that_dies_empty_is_asked_for_by_the_same_place():
    places = []

    def breaks(request, conn):
        calls.append(request)
        conn.send(sse_head() + chunk(sse_event("", id="1")) + LAST_CHUNK)
        return True

    def resumes(request, conn):
        places.append(request.headers["last-event-id"])
        if len(places) < 3:
            conn.send(sse_head())
            conn.close()
        else:
            conn.send(sse_head() + chunk(sse_event(text_answer(calls[0]))) + LAST_CHUNK)
        return True

    calls = []
    with scripted_mcp() as server:
        server.on["GET"] = resumes
        async with connected(unheard(server), recovery=QUICK) as client:
            server.on["tools/call"] = breaks
            assert (await client.call_tool("echo")).text == "fine"
    assert places == ["1", "1", "1"]


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
async def test_a_server_that_does_not_resume_ends_the_call(case):
    def breaks(request, conn):
        conn.send(sse_head() + chunk(sse_event("", id="1")) + LAST_CHUNK)
        return True

    with scripted_mcp() as server:
        server.on["GET"] = answering(REFUSALS[case])
        async with connected(server, recovery=QUICK) as client:
            server.on["tools/call"] = breaks
            error = await outcome(client.call_tool("echo"))
            assert isinstance(error, ENDED), error
            assert server.verbs().count("tools/call") == 1


@pytest.mark.system("U23")
@pytest.mark.fault("F31")
async def test_a_server_that_never_lets_it_go_on_is_bounded_by_the_deadline():
    def breaks(request, conn):
        conn.send(sse_head() + chunk(sse_event("", id="1")) + LAST_CHUNK)
        return True

    with scripted_mcp() as server:
        server.on["GET"] = answering(sse_head() + LAST_CHUNK)
        async with connected(server) as client:
            server.on["tools/call"] = breaks
            with pytest.raises(RequestTimeout):
                await client.call_tool("echo", timeout=0.5)
    # Not more often than the floor of `retry` lets it.
    assert server.verbs().count("GET") <= 6


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.fault("F34")
@pytest.mark.pain("P23")
async def test_a_black_hole_in_a_stream_ends_at_the_deadline(era):
    with (
        scripted_mcp(era, replies="sse") as server,
        cutting_proxy(server.raw.port) as proxy,
    ):
        async with connected(proxy.url_of(server.url)) as client:
            while not server.executed:  # a loaded machine may not get there in time
                call = asyncio.ensure_future(
                    outcome(client.call_tool("slow", timeout=0.4))
                )
                await until(lambda task=call: server.executed or task.done())
            proxy.black_hole()
            server.release()
            assert isinstance(await call, RequestTimeout)
            proxy.heal()
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
