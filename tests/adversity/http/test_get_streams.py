"""Long-lived streams: the server's own, and a subscription's."""

import asyncio
import itertools
import threading

import pytest
from faulty import HANG_S, QUICK, answering, client_of, connected, never, stream, until
from mcp_server import scripted_mcp
from raw_server import LAST_CHUNK, chunk, head, json_reply, reply, sse_event, sse_head

import mcpwire

LOG = "notifications/message"


def log(data):
    params = {"level": "info", "data": data}
    return {"jsonrpc": "2.0", "method": LOG, "params": params}


def always(server, **options):
    return mcpwire.Http(server.url, server_stream="always", **options)


def beats(request, conn):
    conn.send(sse_head())
    while not conn.wait_closed(0.01):
        conn.send(chunk(b": beat\n\n"))
    return True


NO_STREAM = {
    "405": answering(reply(405)),
    "404": answering(reply(404)),
    "400": answering(reply(400)),
    "406": answering(reply(406)),
    "401": answering(reply(401)),
    "501": answering(reply(501)),
    "json": answering(json_reply({})),
    "html": answering(reply(200, b"<html>", content_type="text/html")),
    "204": answering(head(204)),
    "no response": never,
    "only heartbeats": beats,
}


@pytest.mark.system("U24")
@pytest.mark.parametrize("case", NO_STREAM)
@pytest.mark.fault("F29")
@pytest.mark.pain("P20", "P23")
@pytest.mark.usefixtures("patient_close")
async def test_server_stream_without_messages_is_requested_once(case):
    sessions = {} if case != "404" else {"session_ids": False}
    with scripted_mcp(**sessions) as server:
        server.on["GET"] = NO_STREAM[case]
        async with connected(always(server), recovery=QUICK) as client:
            await until(lambda: "GET" in server.verbs())
            for _ in range(30):
                await client.call_tool("echo")
                await asyncio.sleep(0.005)  # time for requests that must not be sent
    assert server.verbs().count("GET") == 1
    assert server.verbs().count("initialize") == 1
    assert server.verbs().count("DELETE") == (case != "404")


@pytest.mark.system("O72", "U16", "L-U1")
@pytest.mark.pain("P21", "P22")
@pytest.mark.rule("LHTTP-21")
async def test_server_stream_resumes_and_loses_no_event():
    """Events sent while the stream is down arrive on the next one."""
    received = []
    is_sent = threading.Event()
    with scripted_mcp(resumable=True, retry=0) as server:
        options = {"on_notification": lambda note: received.append(note.params.data)}
        async with connected(always(server), recovery=QUICK, **options) as client:
            await until(lambda: server.streams)
            stream = server.streams[-1]
            server.push({"method": LOG, "params": log(0)["params"]})
            await until(lambda: received)
            server.on["GET"] = lambda request, conn: not is_sent.wait(HANG_S)
            server.close_streams()
            stream.send(log(1))
            is_sent.set()
            await until(lambda: len(received) == 2)
            await client.call_tool("echo")
    assert received == [0, 1]
    first, second = [r.headers for r in server.requests if r.verb == "GET"]
    assert "last-event-id" not in first
    assert second["last-event-id"] == f"{stream.name}/1-0"


@pytest.mark.pain("P21")
@pytest.mark.rule("LHTTP-21")
async def test_event_repeated_after_its_own_id_is_delivered_once():
    received = []

    def repeats(request, conn):
        events = [chunk(sse_event(log(0), id="7"))]
        if "last-event-id" in request.headers:
            assert request.headers["last-event-id"] == "7"
            events += [chunk(sse_event(log(number), id="8")) for number in (1, 2)]
            conn.send(sse_head() + b"".join(events))
            conn.wait_closed(HANG_S)
        else:
            conn.send(sse_head() + events[0] + LAST_CHUNK)
        return True

    async with client_of(
        on={"GET": repeats},
        server_stream="always",
        recovery=QUICK,
        on_notification=lambda note: received.append(note.params.data),
    ) as (_server, _):
        await until(lambda: 2 in received)
    # Two consecutive events with one id are two events, as in the HTML standard.
    assert received == [0, 1, 2]


@pytest.mark.pain("P22")
@pytest.mark.parametrize("resumable", [False, True])
async def test_stream_without_event_ids_invalidates_known_tools(resumable):
    """The tools are listed again; a resumed stream misses no change."""
    with scripted_mcp(resumable=resumable, retry=0) as server:
        async with connected(always(server), recovery=QUICK) as client:
            await until(lambda: server.streams)
            await client.call_tool("echo", validate="warn")
            await client.call_tool("echo", validate="warn")
            assert server.verbs().count("tools/list") == 1
            server.close_streams()
            await until(lambda: server.verbs().count("GET") == 2)
            await client.call_tool("echo", validate="warn")
    assert server.verbs().count("tools/list") == (1 if resumable else 2)


EXPECTED = {
    "ping": {"result": {}},
    "roots/list": {"error": {"code": -32601}},
    "sampling/createMessage": {"error": {"code": -32601}},
}


def sends_request_first(server, method, timeout):
    """Send a request on the server stream, and answer the call after its response."""

    def handler(request, conn):
        server.push({"method": method, "id": "asked"}, timeout)
        conn.wait_while(lambda: "asked" not in server.answered)
        return False

    return handler


@pytest.mark.pain("P20")
@pytest.mark.parametrize("method", EXPECTED)
async def test_server_stream_requests_are_answered_without_listener(method):
    with scripted_mcp() as server:
        timeout = 30
        server.on["tools/call"] = sends_request_first(server, method, timeout)
        async with connected(server, timeout=timeout) as client:
            result = await client.call_tool("echo", {"text": "x"})
            assert result.text == "x"
    answer = server.answered["asked"]
    assert answer.get("result") == EXPECTED[method].get("result")
    code = answer.get("error", {}).get("code")
    assert code == EXPECTED[method].get("error", {}).get("code")


@pytest.mark.pain("P20")
async def test_calls_do_not_wait_for_the_server_stream():
    """The GET is sent before the first call, on the existing connection.

    A request that the server sends on it at once would be lost after the call.
    """
    sent = []

    def trace(event, data):
        if event == "request":
            sent.append(data.split()[0])

    async with client_of(on={"GET": never}, trace=trace) as (server, client):
        for _ in range(5):
            await client.call_tool("echo")
        await until(lambda: "GET" in server.verbs())
        seen = [(r.verb, r.method, r.connection) for r in server.requests]
    first = seen[0][2]
    methods = [method for _, method, _ in seen if method is not None]
    handshake = methods.index("notifications/initialized") + 1
    # The threads of a server's connections may see them in another order.
    assert sent == ["POST"] * handshake + ["GET"] + ["POST"] * 5 + ["DELETE"]
    assert ("GET", None, first) in seen
    calls = {connection for _, method, connection in seen if method == "tools/call"}
    assert len(calls) == 1
    assert first not in calls


@pytest.mark.pain("P20")
async def test_405_is_remembered_until_a_listener_subscribes():
    with scripted_mcp(get_stream=False) as server:
        target = mcpwire.Http(server.url)
        async with connected(target) as client, client.events():
            pass  # entering it waits for the 405
        async with connected(target) as client:
            await client.call_tool("echo")
            server.forget_sessions()
            await client.call_tool("echo")
        assert server.verbs().count("initialize") == 3
        assert server.verbs().count("GET") == 1
        server.get_stream = True
        async with connected(target) as client, client.events():
            await until(lambda: server.streams)
        async with connected(target):
            await until(lambda: server.streams)


@pytest.mark.pain("P22")
async def test_broken_listen_stream_reopens_with_a_new_request_id():
    received = []
    changed = {"method": "notifications/tools/list_changed"}
    with scripted_mcp("stateless") as server:
        options = {"on_notification": lambda note: received.append(note.method)}
        async with connected(server, recovery=QUICK, **options) as client:
            await until(lambda: server.streams)
            first = server.streams[-1].request_id
            server.raw.close_connections(reset=True)
            await until(
                lambda: server.streams and server.streams[-1].request_id != first
            )
            await asyncio.to_thread(server.push, dict(changed))
            await until(lambda: changed["method"] in received)
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.system("U24", "L-U9")
@pytest.mark.fault("F29")
@pytest.mark.pain("P21")
async def test_stream_that_ends_at_once_causes_no_request_storm():
    """At most eight requests within the first minute, with any back-off."""
    with scripted_mcp() as server:
        server.on["GET"] = answering(sse_head() + LAST_CHUNK)
        async with connected(always(server), recovery=QUICK) as client:
            await until(lambda: server.verbs().count("GET") == 8)
            for _ in range(50):
                await client.call_tool("echo")
                await asyncio.sleep(0.01)  # time for requests that must not be sent
    assert server.verbs().count("GET") == 8


@pytest.mark.pain("P21")
async def test_listen_that_closes_at_once_causes_no_request_storm():
    counter = itertools.count()

    def closes(request, conn):
        next(counter)
        params = {
            "_meta": {"io.modelcontextprotocol/subscriptionId": request.json["id"]},
            "notifications": request.json["params"]["notifications"],
        }
        method = "notifications/subscriptions/acknowledged"
        event = sse_event({"jsonrpc": "2.0", "method": method, "params": params})
        conn.send(stream(event))
        return True

    async with client_of(
        "stateless",
        on={"subscriptions/listen": closes},
        recovery=QUICK,
        on_notification=lambda note: None,
    ) as (server, client):
        await until(lambda: server.verbs().count("subscriptions/listen") >= 2)
        for _ in range(100):
            await client.call_tool("echo")
            await asyncio.sleep(0.02)  # time for requests that must not be sent
    assert server.verbs().count("subscriptions/listen") <= 9
