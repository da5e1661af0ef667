"""All engines: requests, responses and the reuse of connections."""

import asyncio
import json
import socket
import threading

import pytest
from engines import (
    ENGINES,
    RecordedResponse,
    all_closed,
    echo,
    engine_at,
    eventually,
    every_engine,
    get,
    is_answered,
    open_engine,
    over_tls,
    post,
    until,
)
from http_bytes import LAST_CHUNK, chunk, head, json_reply, reply, sse_event, sse_head
from malformed_responses import MALFORMED

from mcpwire.errors import MessageTooLarge, RemoteProtocolError
from mcpwire.transports.http import direct, httpx_engine

pytestmark = [
    pytest.mark.unchecked_wire("the bodies are no MCP"),
    pytest.mark.usefixtures("kept_for_long"),
]

SLOW_S = 30.0
"""Time limit of fifty calls through httpx, with coverage and other load."""

REFUSED = MessageTooLarge("refused by the test", limit=1)


async def test_request_is_sent_unchanged_with_its_content_length():
    async with engine_at("direct", echo) as (server, engine):
        assert (await engine.ask("hi")).json == "hi"
        sent = post("hi").start + b'content-length: 4\r\n\r\n"hi"'
        assert server.requests[0].raw == sent
        assert engine.bytes_sent == len(sent)


@every_engine
async def test_request_without_a_body_has_no_content_length(kind):
    def script(conn):
        conn.receive()
        conn.send(reply(405))

    async with engine_at(kind, script) as (server, engine):
        response = RecordedResponse()
        await engine.exchange(get(), response)
        assert response.status == 405
        request = server.requests[0]
        assert (request.verb, request.target) == ("GET", "/other?x=1")
        assert not {"content-length", "transfer-encoding"} & set(request.headers)


@every_engine
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("size", [65_530, 300_000, 2_000_000])
async def test_large_bodies_are_sent_and_received_completely(kind, size, secure):
    pattern = bytes(range(48, 120)).replace(b"\\", b"/")
    body = b'"' + (pattern * (size // 71))[:size] + b'"'
    options = over_tls() if secure else {}
    async with engine_at(kind, echo, **options) as (server, engine):
        for _ in range(2):
            assert (await engine.ask(body=body)).body == body
        assert (await engine.ask("small")).json == "small"
        assert server.connections == 1


WAYS = {
    "a length": reply(200, b'"abc"'),
    "chunks": head(200, transfer_encoding="chunked")
    + chunk(b'"a')
    + chunk(b'bc"')
    + LAST_CHUNK,
    "trailers": head(200, transfer_encoding="chunked")
    + chunk(b'"abc"')
    + b"0\r\nx-more: 1\r\n\r\n",
    "1xx first": head(100) + head(103, link="</x>") + reply(200, b'"abc"'),
    "HTTP/1.0 with keep-alive": b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n"
    b'content-length: 5\r\n\r\n"abc"',
}
ENDING_WAYS = {
    "connection: close": reply(200, b'"abc"', connection="close"),
    "no length": head(200) + b'"abc"',
    "HTTP/1.0": b'HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\n"abc"',
    "HTTP/1.0 without length": b'HTTP/1.0 200 OK\r\n\r\n"abc"',
}


@every_engine
@pytest.mark.parametrize("way", [*WAYS, *ENDING_WAYS])
async def test_every_body_framing_is_understood(kind, way):
    def script(conn):
        while conn.receive() is not None:
            conn.send((WAYS | ENDING_WAYS)[way])
            if way in ENDING_WAYS:
                return

    async with engine_at(kind, script) as (server, engine):
        for _ in range(3):
            response = await engine.ask()
            assert (response.status, response.json) == (200, "abc")
            assert b"x-more" not in response.fields
        if way in ENDING_WAYS or "1.0" not in way:  # httpx does not reuse HTTP/1.0
            assert server.connections == (3 if way in ENDING_WAYS else 1)


@every_engine
async def test_response_may_be_split_anywhere(kind):
    whole = head(100) + head(200, transfer_encoding="chunked", x_y="z")
    whole += chunk(b'"abc"') + LAST_CHUNK
    cuts = range(1, len(whole))

    def script(conn):
        for at in cuts:
            conn.receive()
            conn.send(whole[:at])
            conn.wait(0.0005)
            conn.send(whole[at:])

    async with engine_at(kind, script) as (server, engine):
        for _ in cuts:
            response = await engine.ask()
            assert (response.json, response.fields[b"x-y"]) == ("abc", b"z")
        assert server.connections == 1


@every_engine
async def test_field_names_are_lower_case_and_repeated_fields_joined(kind):
    def script(conn):
        conn.receive()
        conn.send(
            b"HTTP/1.1 401 No\r\nWWW-Authenticate: A\r\nX-Blank: \t a \t\r\n"
            b"www-authenticate: B\r\nContent-Length: 0\r\n\r\n"
        )

    async with engine_at(kind, script) as (_server, engine):
        response = await engine.ask()
        assert response.fields[b"www-authenticate"] == b"A, B"
        assert response.fields[b"x-blank"] == b"a"


@pytest.mark.attack("S33")
@pytest.mark.parametrize(
    "more", [json_reply("smuggled"), b"x", b"HTTP/1.1 200 OK\r\ncontent-"]
)
@pytest.mark.parametrize("is_late", [False, True])
async def test_bytes_after_a_response_are_not_read_as_the_next(more, is_late):
    def script(conn):
        request = conn.receive()
        response = json_reply(request.json)
        if is_late:
            conn.send(response)
            conn.send(more)
        else:
            conn.send(response + more)
        sent.set()
        if conn.number > 1:
            conn.receive()
        conn.wait_closed()

    sent = threading.Event()
    async with engine_at("direct", script) as (server, engine):
        assert (await engine.ask("first")).json == "first"
        assert sent.wait(30)
        assert (await engine.ask("second")).json == "second"
        assert server.connections == 2


@pytest.mark.attack("S33")
async def test_malformed_response_ends_its_connection():
    def script(conn):
        while (request := conn.receive()) is not None and request.json != "odd":
            conn.send(json_reply(request.json))
        conn.send(MALFORMED["length and chunks"] + json_reply("smuggled"))
        conn.wait_closed()

    async with engine_at("direct", script) as (server, engine):
        with pytest.raises(RemoteProtocolError):
            await engine.ask("odd")
        assert (await engine.ask(1)).json == 1
        await until(server, lambda: len(server.open) == 1)
        assert server.connections == 2


@every_engine
@pytest.mark.attack("S15")
async def test_error_of_a_reply_is_raised_and_ends_an_endless_response(kind):
    def script(conn):
        conn.receive()
        conn.send(sse_head())
        while True:
            conn.send(chunk(b": " + b"x" * 65_536 + b"\n\n"))

    async with engine_at(kind, script) as (server, engine):
        with pytest.raises(MessageTooLarge) as caught:
            await engine.ask(response=RecordedResponse(refusal=REFUSED))
        assert caught.value is REFUSED
        await all_closed(server)


@every_engine
async def test_a_hundred_sequential_calls_share_one_connection(kind):
    async with engine_at(kind, echo) as (server, engine):
        assert [(await engine.ask(n)).json for n in range(100)] == [*range(100)]
        assert server.connections == 1
        assert engine.bytes_sent == sum(len(r.raw) for r in server.requests)
        # Response heads are counted.
        assert engine.bytes_received > 100 * len(b"HTTP/1.1 200 OK\r\n\r\n")


@every_engine
async def test_fifty_concurrent_calls_get_their_own_responses(kind):
    gate = threading.Barrier(50)

    def script(conn):
        # The client sends the second fifty after reading the first: that may take long.
        while (request := conn.receive(SLOW_S)) is not None:
            if request.json < 50:
                gate.wait(30)
            conn.send(json_reply(request.json))

    async with engine_at(kind, script) as (server, engine):
        for turn in range(2):
            numbers = range(50 * turn, 50 * turn + 50)
            responses = await asyncio.gather(*map(engine.ask, numbers))
            assert [response.json for response in responses] == [*numbers]
        assert server.connections == 50


async def test_server_may_respond_before_it_has_read_the_request():
    def script(conn):
        if conn.number == 1:
            conn.read_some()
            conn.send(json_reply("too large", status=413))
            conn.wait_closed()
        else:
            echo(conn)

    async with engine_at("direct", script) as (server, engine):
        response = await engine.ask(body=b"x" * 20_000_000)
        assert (response.status, response.json) == (413, "too large")
        assert (await engine.ask("next")).json == "next"
        assert server.connections == 2


@every_engine
async def test_exchange_returns_when_the_reply_is_over_and_drains_the_rest(kind):
    rest = threading.Event()

    def script(conn):
        while conn.receive() is not None:
            conn.send(sse_head() + chunk(sse_event("answer")))
            conn.wait_for(rest)
            conn.send(chunk(b": more\n\n") + LAST_CHUNK)

    async with engine_at(kind, script) as (server, engine):
        first = await engine.ask(response=RecordedResponse(until=is_answered))
        assert not first.has_ended
        second = await engine.ask(response=RecordedResponse(until=is_answered))
        rest.set()
        for response in (first, second):
            await eventually(lambda response=response: response.has_ended)
            assert response.body.endswith(b": more\n\n")
        for _ in range(5):
            response = await engine.ask(response=RecordedResponse(until=is_answered))
            await eventually(lambda response=response: response.has_ended)
        assert server.connections == 2


@every_engine
async def test_draining_the_rest_of_a_response_is_bounded(kind, monkeypatch):
    def script(conn):
        conn.receive()
        conn.send(sse_head() + chunk(sse_event("answer")))
        conn.wait_closed()

    for module in (direct, httpx_engine):
        monkeypatch.setattr(module, "MAX_TAIL_S", 0.03)
    async with engine_at(kind, script) as (server, engine):
        response = await engine.ask(response=RecordedResponse(until=is_answered))
        await all_closed(server)
        assert not response.has_ended


@pytest.mark.parametrize(
    ("kind", "rest"),
    [
        ("direct", LAST_CHUNK + b"HTTP/1.1"),
        *[(kind, rest) for kind in ENGINES for rest in (b"xyz\r\n", b"")],
    ],
)
async def test_invalid_rest_of_a_response_only_closes_the_connection(kind, rest):
    def script(conn):
        while (request := conn.receive()) is not None:
            conn.send(sse_head() + chunk(sse_event(["answer", request.json])))
            conn.send(rest)
            if not rest:
                return

    async with engine_at(kind, script) as (server, engine):
        for number in range(5):
            response = await engine.ask(
                number, response=RecordedResponse(until=is_answered)
            )
            data = response.body.removeprefix(b"data: ").strip()
            assert json.loads(data) == ["answer", number]
        assert server.connections == 5


@every_engine
async def test_literal_ipv6_address_is_connected(kind):
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    hosts = []

    def serve():
        with listener.accept()[0] as conn:
            data = b""
            while not data.endswith(b'"hi"'):
                data += conn.recv(65_536)
            hosts.append(data)
            conn.sendall(reply(200, b'"yes"', connection="close"))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        url = f"http://[::1]:{listener.getsockname()[1]}/mcp"
        async with open_engine(kind, url) as engine:
            assert (await engine.ask("hi")).json == "yes"
        thread.join(30)
    assert hosts[0].startswith(b"POST /mcp HTTP/1.1\r\n")
