"""HTTP+SSE: the order of sent messages, and failing POSTs."""

import logging

import pytest
from engines import eventually, until
from http_bytes import LAST_CHUNK, chunk, head, json_reply, reply, sse_event, sse_head
from legacy_channels import BOUND_S, failure, legacy, opened, tool_text
from legacy_server import legacy_server

from mcpwire.errors import (
    CallCancelled,
    ConnectError,
    ConnectionClosed,
    HTTPError,
    InvalidRequest,
    RemoteProtocolError,
    RequestTimeout,
    TransportError,
)
from mcpwire.limits import Limits
from mcpwire.transports.base import CallHandle
from mcpwire.transports.http import legacy_sse

pytestmark = pytest.mark.grounds(1, "engine")

INITIALIZED = "notifications/initialized"
CANCELLED = "notifications/cancelled"


def posts(server):
    return [request.method for request in server.requests if request.verb == "POST"]


def holding(event, *, accepts=False):
    def handler(request, conn):
        conn.wait_for(event, BOUND_S)
        if not accepts:
            conn.send(reply(202))
        return not accepts

    return handler


async def test_messages_wait_until_initialized_is_accepted(engine, gate):
    async with legacy(engine) as (server, client):
        server.on[INITIALIZED] = holding(gate)
        await client.ready()
        await client.notify(INITIALIZED)
        calls = [client.tool(str(number)) for number in range(3)]
        await until(server, lambda: posts(server))
        assert not any(call.done() for call in calls)
        assert posts(server) == [INITIALIZED]
        gate.set()
        assert [await tool_text(call) for call in calls] == ["0", "1", "2"]


@pytest.mark.pain("P29")
async def test_wait_for_initialized_to_be_accepted_is_bounded(
    engine, gate, monkeypatch
):
    monkeypatch.setattr(legacy_sse, "ORDER_TIMEOUT_S", 0.05)
    async with legacy(engine) as (server, client):
        server.on[INITIALIZED] = holding(gate)
        await client.notify(INITIALIZED)
        assert await tool_text(client.tool("a")) == "a"
        assert await tool_text(client.tool("b")) == "b"


@pytest.mark.pain("P29")
async def test_stuck_notification_does_not_delay_other_messages(engine, gate):
    async with legacy(engine) as (server, client):
        server.on["notifications/roots/list_changed"] = holding(gate)
        await client.ready()
        await client.notify("notifications/roots/list_changed")
        await client.notify("notifications/roots/list_changed")
        await client.notify(INITIALIZED)
        assert await tool_text(client.tool("a")) == "a"


@pytest.mark.pain("P29")
async def test_calls_run_concurrently_before_their_posts_are_accepted(engine, gate):
    async with legacy(engine) as (server, client):
        server.on["tools/call"] = holding(gate, accepts=True)
        calls = [client.tool(str(number)) for number in range(20)]
        await until(server, lambda: len(posts(server)) == 20)
        assert await client.call("ping") == {}
        gate.set()
        assert [await tool_text(call) for call in calls] == [str(n) for n in range(20)]


async def test_requests_over_the_concurrency_limit_wait(engine, gate, monkeypatch):
    monkeypatch.setattr(legacy_sse, "MAX_CONCURRENT_REQUESTS", 4)
    async with legacy(engine) as (server, client):
        server.on["tools/call"] = holding(gate, accepts=True)
        calls = [client.tool(str(number)) for number in range(12)]
        await until(server, lambda: len(posts(server)) == 4)
        await client.notify(
            "notifications/roots/list_changed"
        )  # does not wait for a request
        await until(server, lambda: len(posts(server)) == 5)
        gate.set()
        assert [await tool_text(call) for call in calls] == [str(n) for n in range(12)]


async def test_cancellation_is_sent_after_its_request(engine, gate):
    async with legacy(engine) as (server, client):
        server.on["tools/call"] = holding(gate)
        handle = CallHandle()
        call = client.tool("x", handle=handle)
        await until(server, lambda: posts(server))
        client.cancel(handle)
        assert isinstance(await failure(call), CallCancelled)
        assert await client.call("ping") == {}
        assert posts(server) == ["tools/call", "ping"]
        gate.set()
        await until(server, lambda: len(posts(server)) == 3)
        assert posts(server)[-1] == CANCELLED


async def test_cancellation_has_the_headers_of_its_call(engine):
    async with legacy(engine) as (server, client):
        server.on["tools/call"] = lambda _, conn: conn.send(reply(202)) or True
        await client.ready()
        with pytest.raises(RequestTimeout):
            await client.call(
                "tools/call",
                {"name": "x", "arguments": {}},
                seconds=0.5,
                headers={"X-Who": "me"},
            )
        await until(server, lambda: CANCELLED in posts(server))
        cancelled = server.requests[-1]
        assert cancelled.json["params"] == {"requestId": 1, "reason": "timeout"}
        assert cancelled.headers["x-who"] == "me"


async def test_call_cancelled_before_sending_is_not_sent(engine, gate):
    with legacy_server() as server:
        server.on["GET"] = lambda _, conn: conn.wait_for(gate, BOUND_S)
        async with opened(server.url, engine) as client:
            handle = CallHandle()
            call = client.tool("x", handle=handle)
            await eventually(lambda: handle.request_id)
            client.cancel(handle)
            assert isinstance(await failure(call), CallCancelled)
            gate.set()
            assert await client.call("ping") == {}
            assert posts(server) == ["ping"]


def answering(answer):
    def handler(request, conn):
        conn.send(answer)
        return True

    return handler


FAILURES = {
    "500": (reply(500, b"oops", content_type="text/plain"), HTTPError, "500", 500),
    "404": (reply(404), HTTPError, "404", 404),
    "307": (reply(307, location="http://evil.example/"), HTTPError, "307", 307),
    "body without end": (
        head(503, content_length=100) + b"busy",
        HTTPError,
        "503 .*busy",
        503,
    ),
    "error": (
        json_reply(
            {"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "no"}}, 400
        ),
        InvalidRequest,
        "no",
        400,
    ),
    "no HTTP": (b"SSH-2.0-x\r\n\r\n", RemoteProtocolError, "HTTP", None),
}


@pytest.mark.fault("F26")
@pytest.mark.parametrize("case", FAILURES)
async def test_failed_post_ends_only_its_own_call(engine, case, gate):
    answer, expected, text, status = FAILURES[case]
    async with legacy(engine) as (server, client):
        server.on["tools/call"] = holding(gate, accepts=True)
        other = client.tool("x")
        await until(server, lambda: posts(server))
        server.on["resources/list"] = answering(answer)
        failed = client.begin("resources/list")
        with pytest.raises(expected, match=text) as caught:
            await failed
        assert getattr(caught.value, "status", None) == status
        gate.set()
        assert await tool_text(other) == "x"
        assert client.inbound.losses == []


@pytest.mark.fault("F21")
@pytest.mark.parametrize("way", ["FIN", "RST", "in the head"])
async def test_call_whose_post_got_no_response_may_have_run(engine, way):
    def vanish(_, conn):
        if way == "in the head":
            conn.send(b"HTTP/1.1 2")
        conn.reset() if way == "RST" else conn.close()
        raise ConnectionError

    async with legacy(engine) as (server, client):
        server.on["tools/call"] = vanish
        error = await failure(client.tool("x"))
        assert isinstance(error, ConnectionClosed)
        assert error.sent
        assert posts(server) == ["tools/call"]
        assert await client.call("ping") == {}


async def test_post_to_a_closed_port_is_a_connect_error(engine):
    async with legacy(engine) as (server, client):
        await client.ready()
        server.raw.stop_accepting()
        assert isinstance(await failure(client.tool("x")), ConnectError)
        server.push({"method": "notifications/tools/list_changed"})
        assert await failure(client.begin("ping"))
        assert client.inbound.losses == []


async def test_refused_notification_is_logged_and_the_channel_continues(engine, caplog):
    caplog.set_level(logging.DEBUG, "mcpwire")
    async with legacy(engine) as (server, client):
        server.on[INITIALIZED] = answering(reply(500))
        await client.notify(INITIALIZED)
        assert await client.call("ping") == {}
        await eventually(lambda: "initialized" in caplog.text)
        assert "500" in caplog.text


async def test_error_status_of_a_post_after_its_response_is_ignored(engine, gate):
    def answer_first(request, conn):
        server.push({"id": request.json["id"], "result": {"content": []}})
        conn.wait_for(gate, BOUND_S)
        conn.send(reply(500))
        return True

    async with legacy(engine) as (server, client):
        server.on["tools/call"] = answer_first
        assert await client.tool("x") == {"content": []}
        gate.set()
        assert await client.call("ping") == {}
        assert client.channel.stats.unknown == 0


@pytest.mark.parametrize("id", [None, "7"])
async def test_event_stream_in_a_post_response_is_ignored(engine, id):
    message = {"jsonrpc": "2.0", "method": "notifications/x"}

    def answer(request, conn):
        conn.send(sse_head() + chunk(sse_event(message, id=id)) + LAST_CHUNK)
        return True

    async with legacy(engine) as (server, client):
        server.on["ping"] = answer
        assert isinstance(
            await failure(client.begin("ping", seconds=0.1)), RequestTimeout
        )
        assert await tool_text(client.tool("hi")) == "hi"
        assert not client.inbound.notes


async def test_unaccepted_notification_post_is_closed_after_the_timeout(
    engine, gate, monkeypatch
):
    monkeypatch.setattr(legacy_sse, "ACCEPT_TIMEOUT_S", 0.4)
    closed = []

    def hold(_, conn):
        closed.append(conn.wait_closed(BOUND_S))
        raise ConnectionError

    async with legacy(engine) as (server, client):
        server.on["tools/call"] = holding(gate, accepts=True)
        call = client.tool("x")
        server.on["notifications/roots/list_changed"] = hold
        await client.notify("notifications/roots/list_changed")
        await eventually(lambda: closed == [True])
        gate.set()
        assert await tool_text(call) == "x"


async def test_unwritten_messages_are_bounded(gate):
    limits = Limits(unwritten=10_000, close_grace=0.5, terminate_grace=0.5)
    with legacy_server() as server:
        server.on["GET"] = lambda _, conn: conn.wait_for(gate, BOUND_S)
        async with opened(server.url, limits=limits) as client:
            call = client.tool("x" * 9_000)
            with pytest.raises(TransportError, match="unwritten"):
                await client.call(
                    "tools/call", {"name": "x", "arguments": {"a": "x" * 9_000}}
                )
            gate.set()
            assert len(await tool_text(call)) == 9_000
