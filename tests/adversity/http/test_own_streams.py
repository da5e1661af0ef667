"""The streams that last: the server's own, and a subscription's."""

import asyncio
import itertools
import threading

import pytest
from faulty import HANG_S, QUICK, answering, connected, never, stream, until
from mcp_server import scripted_mcp
from raw_server import LAST_CHUNK, chunk, head, json_reply, reply, sse_event, sse_head

import mcpwire

LOG = "notifications/message"


def log(data):
    params = {"level": "info", "data": data}
    return {"jsonrpc": "2.0", "method": LOG, "params": params}


# The stream of the server's own...


def always(server, **options):
    return mcpwire.Http(server.url, server_stream="always", **options)


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
}


@pytest.mark.system("U24")
@pytest.mark.parametrize("case", NO_STREAM)
@pytest.mark.fault("F29")
@pytest.mark.pain("P20")
async def test_a_server_without_a_stream_is_asked_for_it_once(case):
    sessions = {} if case != "404" else {"session_ids": False}
    with scripted_mcp(**sessions) as server:
        server.on["GET"] = NO_STREAM[case]
        async with connected(always(server), recovery=QUICK) as client:
            await until(lambda: "GET" in server.verbs())
            for _ in range(30):
                await client.call_tool("echo")
                await asyncio.sleep(0.005)  # time for what must not come
    assert server.verbs().count("GET") == 1
    assert server.verbs().count("initialize") == 1


@pytest.mark.fault("F29")
@pytest.mark.pain("P20")
@pytest.mark.usefixtures("patient_close")
async def test_a_stream_whose_head_never_comes_delays_nothing():
    """Neither calls, nor closing."""
    with scripted_mcp() as server:
        server.on["GET"] = never
        async with connected(always(server)) as client:
            await client.call_tool("echo")
            await until(lambda: "GET" in server.verbs())
    assert server.verbs().count("DELETE") == 1


@pytest.mark.fault("F29")
@pytest.mark.pain("P23")
async def test_a_stream_of_nothing_but_heartbeats_is_left_open():
    def beats(request, conn):
        conn.send(sse_head())
        while not conn.wait_closed(0.01):
            conn.send(chunk(b": beat\n\n"))
        return True

    with scripted_mcp() as server:
        server.on["GET"] = beats
        async with connected(always(server)) as client:
            await until(lambda: "GET" in server.verbs())
            for _ in range(20):
                await client.call_tool("echo")
                await asyncio.sleep(0.005)  # time for what must not come
    assert server.verbs().count("GET") == 1


@pytest.mark.system("O72", "U16", "L-U1")
@pytest.mark.pain("P21", "P22")
@pytest.mark.rule("LHTTP-21")
async def test_the_servers_stream_goes_on_at_its_place_and_loses_nothing():
    """What is said while it is down comes with the next."""
    heard = []
    is_said = threading.Event()
    with scripted_mcp(resumable=True, retry=0) as server:
        options = {"on_notification": lambda note: heard.append(note.params.data)}
        async with connected(always(server), recovery=QUICK, **options) as client:
            await until(lambda: server.streams)
            stream = server.streams[-1]
            server.push({"method": LOG, "params": log(0)["params"]})
            await until(lambda: heard)
            server.on["GET"] = lambda request, conn: not is_said.wait(HANG_S)
            server.close_streams()
            stream.send(log(1))
            is_said.set()
            await until(lambda: len(heard) == 2)
            await client.call_tool("echo")
    assert heard == [0, 1]
    first, second = [r.headers for r in server.requests if r.verb == "GET"]
    assert "last-event-id" not in first
    assert second["last-event-id"] == f"{stream.name}/1-0"


@pytest.mark.pain("P21")
@pytest.mark.rule("LHTTP-21")
async def test_an_event_that_comes_again_after_its_own_id_is_heard_once():
    heard = []

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

    with scripted_mcp() as server:
        server.on["GET"] = repeats
        options = {"on_notification": lambda note: heard.append(note.params.data)}
        async with connected(always(server), recovery=QUICK, **options):
            await until(lambda: 2 in heard)
    # Two in a row of one id are two events, in the way of the HTML standard.
    assert heard == [0, 1, 2]


@pytest.mark.pain("P22")
@pytest.mark.parametrize("resumable", [False, True])
async def test_what_a_stream_without_a_place_has_missed_may_be_any_change(resumable):
    """What is known of the tools is read again; from a place on nothing is missed."""
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


ASKED = {
    "ping": {"result": {}},
    "roots/list": {"error": {"code": -32601}},
    "sampling/createMessage": {"error": {"code": -32601}},
}


def asks_first(server, method, timeout):
    """Ask on the server's own stream, and answer the call once that is answered."""

    def handler(request, conn):
        server.push({"method": method, "id": "asked"}, timeout)
        conn.wait_while(lambda: "asked" not in server.answered)
        return False

    return handler


@pytest.mark.pain("P20")
@pytest.mark.parametrize("method", ASKED)
async def test_a_server_may_ask_on_its_own_stream_although_nobody_listens(method):
    with scripted_mcp() as server:
        timeout = 30
        server.on["tools/call"] = asks_first(server, method, timeout)
        async with connected(server, timeout=timeout) as client:
            result = await client.call_tool("echo", {"text": "x"})
            assert result.text == "x"
    answer = server.answered["asked"]
    assert answer.get("result") == ASKED[method].get("result")
    code = answer.get("error", {}).get("code")
    assert code == ASKED[method].get("error", {}).get("code")


@pytest.mark.pain("P20")
async def test_no_call_waits_for_the_servers_stream():
    """It goes before the first call, on the connection that is there, and stays on it.

    A server that asks on it at once would lose its question if the call overtook it.
    """
    sent = []

    def trace(event, data):
        if event == "request":
            sent.append(data.split()[0])

    with scripted_mcp() as server:
        server.on["GET"] = never
        async with connected(server, trace=trace) as client:
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
async def test_405_is_remembered_for_as_long_as_nobody_listens():
    with scripted_mcp(get_stream=False) as server:
        target = mcpwire.Http(server.url)
        async with connected(target) as client, client.events():
            pass  # entering it waits for the verdict
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
async def test_a_broken_listen_comes_back_under_a_new_id():
    heard = []
    changed = {"method": "notifications/tools/list_changed"}
    with scripted_mcp("stateless") as server:
        options = {
            "on_notification": lambda note: heard.append(note.method),
        }
        async with connected(server, recovery=QUICK, **options) as client:
            await until(lambda: server.streams)
            first = server.streams[-1].request_id
            server.raw.close_connections(reset=True)
            await until(
                lambda: server.streams and server.streams[-1].request_id != first
            )
            await asyncio.to_thread(server.push, dict(changed))
            await until(lambda: changed["method"] in heard)
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.system("U24", "L-U9")
@pytest.mark.fault("F29")
@pytest.mark.pain("P21")
async def test_a_stream_that_ends_at_once_is_no_storm():
    """At most eight times within its first minute, whatever the back-off."""
    with scripted_mcp() as server:
        server.on["GET"] = answering(sse_head() + LAST_CHUNK)
        async with connected(always(server), recovery=QUICK) as client:
            await until(lambda: server.verbs().count("GET") == 8)
            for _ in range(50):
                await client.call_tool("echo")
                await asyncio.sleep(0.01)  # time for what must not come
    assert server.verbs().count("GET") == 8


@pytest.mark.pain("P21")
async def test_a_listen_that_is_closed_at_once_is_no_storm():
    counter = itertools.count()

    def closes(request, conn):
        next(counter)
        params = {
            "_meta": {
                "io.modelcontextprotocol/subscriptionId": request.json["id"],
            },
            "notifications": request.json["params"]["notifications"],
        }
        method = "notifications/subscriptions/acknowledged"
        event = sse_event({"jsonrpc": "2.0", "method": method, "params": params})
        conn.send(stream(event))
        return True

    with scripted_mcp("stateless") as server:
        server.on["subscriptions/listen"] = closes
        options = {"on_notification": lambda note: None}
        async with connected(server, recovery=QUICK, **options) as client:
            await until(lambda: server.verbs().count("subscriptions/listen") >= 2)
            for _ in range(100):
                await client.call_tool("echo")
                await asyncio.sleep(0.02)  # time for what must not come
    assert server.verbs().count("subscriptions/listen") <= 9
