"""The user's headers: computed for each request, never mixed, never sent elsewhere."""

import asyncio
import contextlib
import itertools
import threading

import pytest
from faulty import (
    ONCE,
    answer_to,
    answering,
    client_of,
    connected,
    moved,
    outcome,
    stream,
    until,
)
from mcp_server import scripted_mcp
from raw_server import head, raw_server, reply, sse_event

import mcpwire
from mcpwire import HTTPError, LocalProtocolError, MCPError
from mcpwire.protocol.http_reply import MAX_ERROR_BODY
from mcpwire.transports.http import streamable

STATUSES = (301, 302, 303, 307, 308)
FOLLOWING = {"follow_redirects": True, "server_stream": "never"}


def headers_of(server, name):
    return [request.headers.get(name) for request in server.requests]


@pytest.mark.system("A15", "L-A5")
@pytest.mark.pain("P27")
async def test_target_headers_are_sent_with_every_request():
    async with client_of(headers={"X-Tenant": "a"}, server_stream="always") as (
        server,
        client,
    ):
        await client.call_tool("echo")
        await until(lambda: server.streams)
    assert set(headers_of(server, "x-tenant")) == {"a"}
    assert {request.verb for request in server.requests} == {"POST", "GET", "DELETE"}


@pytest.mark.system("O90")
@pytest.mark.pain("P27")
@pytest.mark.parametrize("is_async", [False, True])
async def test_header_function_is_called_before_each_request(is_async):
    numbers = itertools.count()

    def plain():
        return {"X-Number": str(next(numbers))}

    async def later():
        await asyncio.sleep(0)  # one iteration of the loop
        return plain()

    headers = later if is_async else plain
    async with client_of(headers=headers, server_stream="never") as (server, client):
        for _ in range(5):
            await client.call_tool("echo")
    sent = headers_of(server, "x-number")
    assert sent == [str(n) for n in range(len(server.requests))]


@pytest.mark.system("A15", "O80")
@pytest.mark.pain("P27")
async def test_headers_of_one_call_are_sent_with_that_call_only():
    with scripted_mcp() as server:
        headers = {"X-A": "all", "X-B": "all"}
        target = mcpwire.Http(server.url, headers=headers, server_stream="never")
        async with connected(target) as client:
            await client.call_tool("echo", headers={"x-a": "one"})
            await client.call_tool("echo")
    sent = [(r.method, r.headers["x-a"], r.headers["x-b"]) for r in server.requests]
    own = [each for each in sent if each[1:] != ("all", "all")]
    assert own == [("tools/call", "one", "all")]
    assert sent[sent.index(own[0]) + 1] == ("tools/call", "all", "all")


@pytest.mark.pain("P27")
async def test_headers_of_1000_concurrent_calls_do_not_mix():
    async def call_echo(client, number):
        name = str(number)
        await client.call_tool("echo", {"text": name}, headers={"X-Tenant": name})

    async with client_of() as (server, client):
        for start in range(0, 1000, 20):
            numbers = range(start, start + 20)
            await asyncio.gather(*(call_echo(client, number) for number in numbers))
    calls = [r for r in server.requests if r.method == "tools/call"]
    assert len(calls) == 1000
    for call in calls:
        assert call.headers["x-tenant"] == call.json["params"]["arguments"]["text"]


@pytest.mark.pain("P27")
async def test_response_to_a_server_request_has_the_headers_of_its_call():
    async def elicitation(request):
        return None

    async with client_of(sampling=elicitation) as (server, client):
        await client.call_tool("ask", headers={"X-Tenant": "mine"})
    answers = [r for r in server.requests if r.verb == "POST" and r.method is None]
    assert [r.headers.get("x-tenant") for r in answers] == ["mine"]


@pytest.mark.pain("P27")
async def test_call_headers_must_not_override_protocol_headers():
    async with client_of() as (_server, client):
        for name in ("Mcp-Session-Id", "Content-Length", "Host"):
            error = await outcome(client.call_tool("echo", headers={name: "1"}))
            assert isinstance(error, LocalProtocolError), (name, error)


def canary(conn):
    while conn.receive(None):
        conn.send(reply(200))


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("method", ["server/discover", "initialize"])
@pytest.mark.attack("S02")
async def test_handshake_redirect_to_another_origin_is_not_followed(status, method):
    with raw_server(canary) as other, scripted_mcp() as server:
        server.on[method] = answering(reply(status, location=other.url))
        target = mcpwire.Http(server.url, headers={"X-API-Key": "secret"})
        client = mcpwire.Client(target, recovery=ONCE)
        await outcome(client.connect())
        await client.aclose()
        assert other.connections == 0


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.attack("S02")
async def test_same_origin_redirect_is_followed_only_if_allowed(status):
    with scripted_mcp() as server:
        for follow in (False, True):
            target = mcpwire.Http(server.url, follow_redirects=follow)
            async with connected(target, recovery=ONCE) as client:
                server.on["tools/call"] = moved(status)
                answer = await outcome(client.call_tool("echo", {"text": "x"}))
                if follow and status in {307, 308}:
                    assert answer.text == "x"
                else:
                    assert isinstance(answer, (HTTPError, MCPError))
                    assert "/elsewhere" in str(answer)
    elsewhere = [r for r in server.requests if r.target == "/elsewhere"]
    assert len(elsewhere) == (1 if status in {307, 308} else 0)


async def test_redirect_does_not_limit_the_time_of_the_final_response(monkeypatch):
    monkeypatch.setattr(streamable, "MAX_ERROR_BODY_S", 0.0)
    on = {"tools/call": moved()}
    async with client_of(on=on, recovery=ONCE, **FOLLOWING) as (_, client):
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


async def test_body_of_a_redirect_is_bounded():
    def call(request, conn):
        if request.target == "/mcp":
            conn.send(head(307, location="/elsewhere", content_length=10**12))
            with contextlib.suppress(OSError):
                while True:
                    conn.send(b"x" * 65_536)
            return True
        return False

    on = {"tools/call": call}
    async with client_of(on=on, recovery=ONCE, **FOLLOWING) as (_, client):
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        assert client.stats.bytes_received < 8 * MAX_ERROR_BODY


async def test_late_rest_of_a_redirect_is_no_part_of_the_final_response():
    def call(request, conn):
        if request.target == "/mcp":
            size = MAX_ERROR_BODY + 1
            conn.send(head(307, location="/elsewhere", content_length=size + 1))
            conn.send(b"x" * size)
            conn.wait_for(redirected)
            try:
                conn.send(b"x")
            finally:
                redirect_ended.set()
            return True
        redirected.set()
        conn.wait_for(redirect_ended)
        return False

    redirected, redirect_ended = threading.Event(), threading.Event()
    on = {"tools/call": call}
    async with client_of(on=on, recovery=ONCE, **FOLLOWING) as (_, client):
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


async def test_redirect_of_a_resumed_stream_is_relative_to_its_url():
    def call(request, conn):
        if moved(location="/a/b")(request, conn):
            return True
        calls.append(request)
        conn.send(stream(sse_event("", id="7", retry=0)))
        return True

    def resume(request, conn):
        if moved(location="c")(request, conn):
            return True
        conn.send(stream(sse_event(answer_to(calls[0]))))
        return True

    calls = []
    on = {"tools/call": call, "GET": resume}
    async with client_of(on=on, **FOLLOWING) as (server, client):
        assert (await client.call_tool("echo")).text == "fine"
    targets = [request.target for request in server.requests]
    assert targets[3:7] == ["/mcp", "/a/b", "/mcp", "/c"]


@pytest.mark.attack("S02")
async def test_redirect_loop_ends():
    async with client_of(follow_redirects=True, recovery=ONCE) as (server, client):
        server.on["tools/call"] = answering(reply(307, location="/mcp"))
        error = await outcome(client.call_tool("echo"))
        assert isinstance(error, MCPError), error
    assert server.verbs().count("tools/call") < 20
