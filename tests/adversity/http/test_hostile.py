"""Hostile servers: floods, forged responses, smuggled headers, undeclared requests."""

import asyncio
import gzip
import itertools

import pytest
from faulty import (
    ONCE,
    answer_to,
    answering,
    client_of,
    connected,
    outcome,
    stream,
    until,
)
from mcp_server import scripted_mcp
from raw_server import LAST_CHUNK, chunk, head, reply, sse_event, sse_head

import mcpwire
from mcpwire import HTTPError, MCPError, MessageTooLarge, RemoteProtocolError

LIMIT = 100_000
FLOOD_S = 150.0
"""How long hundreds of server requests may take on a loaded machine."""

LIMITS = mcpwire.Limits(message=LIMIT, head=16_384)


@pytest.mark.attack("S31")
async def test_response_on_the_server_stream_completes_no_call():
    async with client_of(server_stream="always") as (server, client):
        await until(lambda: server.streams)
        call = asyncio.ensure_future(client.call_tool("slow"))
        await until(lambda: server.executed)
        id = server.executed[0][2]
        forged = {"content": [{"type": "text", "text": "forged"}]}
        server.push({"id": id, "result": forged})
        await client.ping()
        assert not call.done()
        server.release()
        assert (await call).text == "slow"


def endless(begin, piece):
    """Return a handler that sends pieces until the client ends the connection."""

    def handler(request, conn):
        conn.send(begin)
        try:
            for _ in range(10_000):  # far more than any socket's buffers
                conn.send(piece)
        except ConnectionError:
            ended.append(True)
            raise
        raise AssertionError("the client took all of it")

    ended = []
    handler.ended = ended
    return handler


KIB = b"x" * 16_000
FLOODS = {
    "an error": (head(500, transfer_encoding="chunked"), chunk(KIB), HTTPError),
    "a page": (
        head(200, content_type="text/html", transfer_encoding="chunked"),
        chunk(KIB),
        RemoteProtocolError,
    ),
    "json": (
        head(200, content_type="application/json", transfer_encoding="chunked"),
        chunk(KIB),
        MessageTooLarge,
    ),
    "json to the end": (
        head(200, content_type="application/json", connection="close"),
        KIB,
        MessageTooLarge,
    ),
    "a line": (sse_head() + chunk(b"data: "), chunk(KIB), MessageTooLarge),
    "an event": (sse_head(), chunk(b"data: " + KIB + b"\n"), MessageTooLarge),
    "a comment": (sse_head() + chunk(b": "), chunk(KIB), MessageTooLarge),
    "a head": (b"HTTP/1.1 200 OK\r\n", b"x-a: " + KIB + b"\r\n", RemoteProtocolError),
}


@pytest.mark.parametrize(
    ("case", "engine"),
    [
        *((case, "direct") for case in FLOODS),
        ("an error", "httpx"),
        ("a page", "httpx"),
    ],
)
@pytest.mark.attack("S15")
async def test_endless_response_is_cut_at_the_limit(case, engine):
    begin, piece, expected = FLOODS[case]
    handler = endless(begin, piece)
    options = {"limits": LIMITS, "recovery": ONCE}
    async with client_of(engine=engine, **options) as (server, client):
        server.on["tools/call"] = handler
        error = await outcome(client.call_tool("echo"))
        assert isinstance(error, expected), error
        assert len(str(error)) < 2000
        await until(lambda: handler.ended)
        del server.on["tools/call"]
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.attack("S15")
async def test_compression_is_not_requested_and_not_decoded():
    bomb = gzip.compress(b" " * 50_000_000)
    answer = reply(200, bomb, content_type="application/json", content_encoding="gzip")
    async with client_of(limits=LIMITS, recovery=ONCE) as (server, client):
        server.on["tools/call"] = answering(answer)
        error = await outcome(client.call_tool("echo"))
        assert isinstance(error, MCPError), error
    accepted = {request.headers.get("accept-encoding") for request in server.requests}
    assert accepted <= {"identity", None}


@pytest.mark.attack("S15")
async def test_notification_flood_before_a_response_is_handled():
    """10,000 notifications before the response: the response arrives."""
    params = {"level": "info", "data": "x" * 100}
    event = sse_event(
        {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    )

    def handler(request, conn):
        conn.send(sse_head())
        for _ in range(100):
            conn.send(chunk(event * 100))
        conn.send(chunk(sse_event(answer_to(request))) + LAST_CHUNK)
        return True

    async with client_of() as (server, client):
        server.on["tools/call"] = handler
        assert (await client.call_tool("echo")).text == "fine"


# Server requests without a declared capability...

QUESTIONS = {
    "sampling/createMessage": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}],
        "maxTokens": 1,
    },
    "elicitation/create": {
        "message": "?",
        "requestedSchema": {"type": "object", "properties": {}},
    },
    "roots/list": {},
    "no/such": {},
}


@pytest.mark.parametrize("method", QUESTIONS)
@pytest.mark.attack("S28")
@pytest.mark.rule("TR-HTTP-09", "TR-CUST-04")
async def test_server_request_in_the_stateless_era_is_not_answered(method):
    """Clients POST no responses in this era: servers must not send requests."""
    received = []

    async def sampling(request):
        received.append(request)
        raise AssertionError

    def sends_request(request, conn):
        question = {"jsonrpc": "2.0", "id": "q", "method": method}
        events = [{**question, "params": QUESTIONS[method]}]
        events.append(answer_to(request, resultType="complete"))
        conn.send(stream(*map(sse_event, events)))
        return True

    async with client_of("stateless", sampling=sampling) as (server, client):
        server.on["tools/call"] = sends_request
        await client.call_tool("echo")
        await client.list_tools()
    assert "answer" not in server.verbs()
    assert received == []


@pytest.mark.attack("S28")
async def test_server_request_flood_runs_few_handlers_at_once():
    most, running = 0, 0

    async def elicitation(request):
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return {}

    counter = itertools.count()

    def floods(request, conn):
        conn.send(sse_head())
        question = {
            "jsonrpc": "2.0",
            "method": "elicitation/create",
            "params": QUESTIONS["elicitation/create"],
        }
        for _ in range(5):
            events = [sse_event({**question, "id": next(counter)}) for _ in range(100)]
            conn.send(chunk(b"".join(events)))
        conn.send(chunk(sse_event(answer_to(request))) + LAST_CHUNK)
        return True

    with scripted_mcp() as server:
        options = {"elicitation": elicitation}
        options |= {"limits": mcpwire.Limits(questions=500)}
        options |= {"bound": FLOOD_S, "timeout": FLOOD_S}
        async with connected(server, **options) as client:
            server.on["tools/call"] = floods
            assert (await client.call_tool("echo")).text == "fine"
            await until(lambda: server.verbs().count("answer") == 500, FLOOD_S)
            assert server.connections <= 128
            del server.on["tools/call"]
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert 1 < most <= mcpwire.Limits().inbound
