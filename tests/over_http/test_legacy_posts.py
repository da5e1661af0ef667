"""HTTP+SSE: in what order messages leave, and what a POST that fails means."""

import logging

import pytest
from http_bytes import LAST_CHUNK, chunk, head, json_reply, reply, sse_event, sse_head
from legacy_faces import BOUND_S, failure, opened, said, wait_until
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
    """Return a handler that answers its POST only after that event."""

    def handler(request, conn):
        conn.wait_for(event, BOUND_S)
        if not accepts:
            conn.send(reply(202))
        return not accepts

    return handler


# Order...


def test_nothing_overtakes_initialized(engine, gate):
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on[INITIALIZED] = holding(gate)
        face.ready()
        face.notify(INITIALIZED)
        calls = [face.tool(str(number)) for number in range(3)]
        server.wait_until(lambda: posts(server))
        assert not any(call.done() for call in calls)
        assert posts(server) == [INITIALIZED]
        gate.set()
        assert [said(call) for call in calls] == ["0", "1", "2"]


@pytest.mark.pain("P29")
def test_a_server_that_never_accepts_initialized_is_not_waited_for(
    engine, gate, monkeypatch
):
    monkeypatch.setattr(legacy_sse, "ORDER_TIMEOUT_S", 0.05)
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on[INITIALIZED] = holding(gate)
        face.notify(INITIALIZED)
        assert said(face.tool("a")) == "a"
        assert said(face.tool("b")) == "b"


@pytest.mark.pain("P29")
def test_a_stuck_notification_delays_no_other_message(engine, gate):
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["notifications/roots/list_changed"] = holding(gate)
        face.ready()
        face.notify("notifications/roots/list_changed")
        face.notify("notifications/roots/list_changed")
        face.notify(INITIALIZED)
        assert said(face.tool("a")) == "a"


@pytest.mark.pain("P29")
def test_twenty_calls_run_at_once_whenever_their_posts_are_accepted(engine, gate):
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["tools/call"] = holding(gate, accepts=True)
        calls = [face.tool(str(number)) for number in range(20)]
        server.wait_until(lambda: len(posts(server)) == 20)
        assert face.call("ping") == {}
        gate.set()
        assert [said(call) for call in calls] == [str(n) for n in range(20)]


def test_more_requests_than_connections_wait_for_their_turn(engine, gate, monkeypatch):
    monkeypatch.setattr(legacy_sse, "MAX_CONCURRENT_REQUESTS", 4)
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["tools/call"] = holding(gate, accepts=True)
        calls = [face.tool(str(number)) for number in range(12)]
        server.wait_until(lambda: len(posts(server)) == 4)
        face.notify("notifications/roots/list_changed")  # waits for no request
        server.wait_until(lambda: len(posts(server)) == 5)
        gate.set()
        assert [said(call) for call in calls] == [str(n) for n in range(12)]


def test_no_cancellation_overtakes_its_request(engine, gate):
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["tools/call"] = holding(gate)
        handle = CallHandle()
        call = face.tool("x", handle=handle)
        server.wait_until(lambda: posts(server))
        face.cancel(handle)
        assert isinstance(failure(call), CallCancelled)
        assert face.call("ping") == {}
        assert posts(server) == ["tools/call", "ping"]
        gate.set()
        server.wait_until(lambda: len(posts(server)) == 3)
        assert posts(server)[-1] == CANCELLED


def test_a_cancellation_has_the_headers_of_its_call(engine):
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["tools/call"] = lambda _, conn: conn.send(reply(202)) or True
        face.ready()
        with pytest.raises(RequestTimeout):
            face.call(
                "tools/call",
                {"name": "x", "arguments": {}},
                seconds=0.5,
                headers={"X-Who": "me"},
            )
        server.wait_until(lambda: CANCELLED in posts(server))
        told = server.requests[-1]
        assert told.json["params"] == {"requestId": 1, "reason": "timeout"}
        assert told.headers["x-who"] == "me"


def test_what_is_cancelled_before_it_left_is_not_sent(engine, gate):
    with legacy_server() as server:
        server.on["GET"] = lambda _, conn: conn.wait_for(gate, BOUND_S)
        with opened(server.url, engine) as face:
            handle = CallHandle()
            call = face.tool("x", handle=handle)
            wait_until(lambda: handle.request_id)
            face.cancel(handle)
            assert isinstance(failure(call), CallCancelled)
            gate.set()
            assert face.call("ping") == {}
            assert posts(server) == ["ping"]


# Failures...


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
            {"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "no"}},
            400,
        ),
        InvalidRequest,
        "no",
        400,
    ),
    "no HTTP": (b"SSH-2.0-x\r\n\r\n", RemoteProtocolError, "HTTP", None),
}


@pytest.mark.fault("F26")
@pytest.mark.parametrize("case", FAILURES)
def test_a_post_that_fails_ends_its_own_call_and_no_other(engine, case, gate):
    answer, expected, text, status = FAILURES[case]
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["tools/call"] = holding(gate, accepts=True)
        other = face.tool("x")
        server.wait_until(lambda: posts(server))
        server.on["resources/list"] = answering(answer)
        failed = face.begin("resources/list")
        with pytest.raises(expected, match=text) as caught:
            failed.result(BOUND_S)
        assert getattr(caught.value, "status", None) == status
        gate.set()
        assert said(other) == "x"
        assert face.inbound.losses == []


@pytest.mark.fault("F21")
@pytest.mark.parametrize("way", ["FIN", "RST", "in the head"])
def test_a_post_without_answer_may_have_run(engine, way):
    def vanish(_, conn):
        if way == "in the head":
            conn.send(b"HTTP/1.1 2")
        conn.reset() if way == "RST" else conn.close()
        raise ConnectionError

    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["tools/call"] = vanish
        error = failure(face.tool("x"))
        assert isinstance(error, ConnectionClosed)
        assert error.sent
        assert posts(server) == ["tools/call"]
        assert face.call("ping") == {}


def test_a_post_that_reaches_nobody_is_a_connect_error(engine):
    with legacy_server() as server, opened(server.url, engine) as face:
        face.ready()
        server.raw.stop_accepting()
        assert isinstance(failure(face.tool("x")), ConnectError)
        server.push({"method": "notifications/tools/list_changed"})
        wait_until(lambda: face.begin("ping").exception(BOUND_S))
        assert face.inbound.losses == []


def test_a_notification_that_is_refused_harms_nothing(engine, caplog):
    caplog.set_level(logging.DEBUG, "mcpwire")
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on[INITIALIZED] = answering(reply(500))
        face.notify(INITIALIZED)
        assert face.call("ping") == {}
        wait_until(lambda: "initialized" in caplog.text)
        assert "500" in caplog.text


def test_what_a_post_says_after_its_answer_harms_nothing(engine, gate):
    def answer_first(request, conn):
        server.push({"id": request.json["id"], "result": {"content": []}})
        conn.wait_for(gate, BOUND_S)
        conn.send(reply(500))
        return True

    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["tools/call"] = answer_first
        assert face.tool("x").result(BOUND_S) == {"content": []}
        gate.set()
        assert face.call("ping") == {}
        assert face.channel.stats.unknown == 0


@pytest.mark.parametrize("id", [None, "7"])
def test_a_post_that_is_answered_with_an_event_stream_brings_no_message(engine, id):
    message = {"jsonrpc": "2.0", "method": "notifications/x"}

    def answer(request, conn):
        conn.send(sse_head() + chunk(sse_event(message, id=id)) + LAST_CHUNK)
        return True

    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["ping"] = answer
        assert isinstance(failure(face.begin("ping", seconds=0.1)), RequestTimeout)
        assert said(face.tool("hi")) == "hi"
        assert not face.inbound.notes


def test_a_post_that_nobody_waits_for_is_let_go(engine, gate, monkeypatch):
    monkeypatch.setattr(legacy_sse, "ACCEPT_TIMEOUT_S", 0.4)
    closed = []

    def hold(_, conn):
        closed.append(conn.wait_closed(BOUND_S))
        raise ConnectionError

    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["tools/call"] = holding(gate, accepts=True)
        call = face.tool("x")
        server.on["notifications/roots/list_changed"] = hold
        face.notify("notifications/roots/list_changed")
        wait_until(lambda: closed == [True])
        gate.set()
        assert said(call) == "x"


def test_a_peer_that_takes_nothing_is_bounded(gate):
    limits = Limits(unwritten=10_000, close_grace=0.5, terminate_grace=0.5)
    with legacy_server() as server:
        server.on["GET"] = lambda _, conn: conn.wait_for(gate, BOUND_S)
        with opened(server.url, limits=limits) as face:
            call = face.tool("x" * 9_000)
            with pytest.raises(TransportError, match="unwritten"):
                face.call("tools/call", {"name": "x", "arguments": {"a": "x" * 9_000}})
            gate.set()
            assert len(said(call)) == 9_000
