"""HTTP+SSE, the transport of 2024-11-05: connecting, messages and refused servers."""

import json
import threading

import pytest
from engines import eventually, until
from http_bytes import LAST_CHUNK, chunk, head, json_reply, reply, sse_event, sse_head
from legacy_channels import (
    BOUND_S,
    INITIALIZE,
    Recorder,
    failure,
    legacy,
    opened,
    tool_text,
)
from legacy_server import legacy_server
from ports import kept_port
from raw_server import raw_server

from mcpwire.auth.errors import UrlRefused
from mcpwire.errors import (
    ConnectError,
    ConnectionClosed,
    HTTPError,
    MessageTooLarge,
    RemoteProtocolError,
)
from mcpwire.limits import Limits
from mcpwire.transports.http import legacy_sse

pytestmark = pytest.mark.grounds(1, "engine")


def posts(server):
    return [request for request in server.requests if request.verb == "POST"]


@pytest.mark.system("L-U11")
@pytest.mark.rule("SSE-01", "SSE-02", "SSE-03", "SSE-04")
async def test_responses_to_posts_arrive_on_the_stream(engine):
    async with legacy(engine) as (server, client):
        await client.ready()
        result = await client.call("initialize", INITIALIZE)
        assert result["serverInfo"]["name"] == "legacy"
        await client.notify("notifications/initialized")
        assert await tool_text(client.tool("hi")) == "hi"
        get, *sent = server.requests
        assert (get.verb, get.target) == ("GET", "/sse")
        assert get.headers["accept"] == "text/event-stream"
        assert [(r.verb, r.target) for r in sent] == [
            ("POST", "/messages?session=s1")
        ] * 3
        assert [r.method for r in sent] == [
            "initialize",
            "notifications/initialized",
            "tools/call",
        ]
        assert {r.headers["content-type"] for r in sent} == {"application/json"}


@pytest.mark.pain("P26")
@pytest.mark.rule("SSE-03")
async def test_headers_of_later_transports_are_not_sent(engine):
    async with legacy(engine) as (server, client):
        await client.call("initialize", INITIALIZE)
        assert await tool_text(client.tool("hi")) == "hi"
        for request in server.requests:
            assert not [name for name in request.headers if name.startswith("mcp-")]


async def test_call_can_be_made_before_ready(engine):
    async with legacy(engine) as (_server, client):
        assert await client.call("ping") == {}
        assert "open, 0 calls" in repr(client.channel)


async def test_completed_messages_leave_no_state():
    async with legacy() as (server, client):
        for number in range(30):
            await client.call("ping", headers={"X-Number": str(number)})
        await client.notify("notifications/initialized", headers={"X-Number": "x"})
        await until(server, lambda: len(posts(server)) == 31)
        channel = client.channel
        await eventually(lambda: not channel._posts and not channel._requests)
        assert channel._call_headers == {}


async def test_large_messages_pass_in_both_directions(engine):
    text = "x" * 2**21
    async with legacy(engine) as (_server, client):
        assert await tool_text(client.tool(text)) == text


async def test_posts_of_sequential_calls_share_one_connection(engine):
    async with legacy(engine) as (server, client):
        for _ in range(50):
            await client.call("ping")
        assert server.connections <= 3
        assert client.channel.bytes_sent == sum(len(r.body) + 1 for r in posts(server))


@pytest.mark.rule("SSE-04")
@pytest.mark.fault("F30")
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_events_are_read_for_any_split_and_line_ending(engine, size):
    def script(conn):
        request = conn.receive()
        if request.verb == "POST":
            conn.send(reply(202))
            answers.set()
            conn.receive(None)
            return
        conn.send(sse_head() + chunk(b": hi\r\n\r\nevent:endpoint\rdata:/m\r\r"))
        conn.wait_for(answers, BOUND_S)
        data = (
            b"event: ping\ndata: {}\n\n"
            b"event: endpoint\ndata: http://evil.example/\n\n"
            b'event: message\nid: 1\ndata: {"jsonrpc": "2.0",\ndata: "id": 1,\n'
            b'data: "result": {}}\n\n'
        )
        for index in range(0, len(data), size):
            conn.send(chunk(data[index : index + size]))
        conn.wait_closed(None)

    answers = threading.Event()
    with raw_server(script) as server:
        async with opened(server.url, engine) as client:
            assert await client.call("ping") == {}
            assert [r.target for r in posts(server)] == ["/m"]


async def test_notifications_and_requests_of_the_server_are_handled(engine):
    inbound = Recorder({"ping": {}})
    async with legacy(engine, inbound=inbound) as (server, client):
        await client.call("initialize", INITIALIZE)
        server.push({"method": "notifications/tools/list_changed"})
        server.push({"method": "ping", "id": "a"})
        await client.call("ping")
        assert inbound.notes == [("notifications/tools/list_changed", None)]
        await until(server, lambda: server.answered)
        assert server.answered["a"]["result"] == {}


@pytest.mark.parametrize("ending", ["event", "line"])
async def test_event_over_the_limit_ends_the_connection(engine, ending):
    limits = Limits(message=1_000, close_grace=0.5, terminate_grace=0.5)
    flood = b"data: " + b"x" * 1_100 + (b"\n\n" if ending == "event" else b"")
    async with legacy(engine, limits=limits) as (server, client):
        await client.ready()
        server.on["ping"] = lambda *_: server.send("s1", flood)
        call = client.begin("ping")
        error = await failure(call)
        assert isinstance(error, ConnectionClosed)
        assert "1000 bytes (Limits.message)" in str(error)
        assert isinstance(client.channel.lost.__cause__, MessageTooLarge)


@pytest.mark.rule("SSE-07")
@pytest.mark.attack("S27")
@pytest.mark.parametrize(
    "form",
    [
        *("{other}/m", "//{other_host}/m", "{own}@{other_host}/m"),
        *("http://user:secret@{own_host}/m", "\\\\{other_host}\\m"),
        *("/\\{other_host}/m", "https://{own_host}/m", "ftp://{own_host}/m"),
        *("http://localhost:{own_port}/m", "http://[::1]:{own_port}/m"),
        *("http:\\\\{other_host}/m", "javascript:alert(1)"),
    ],
)
async def test_endpoint_at_another_origin_is_refused_and_gets_no_request(engine, form):
    with raw_server(lambda conn: conn.receive()) as other, legacy_server() as server:
        named = form.format(
            other=other.origin,
            other_host=other.origin.removeprefix("http://"),
            own=server.raw.origin,
            own_host=server.raw.origin.removeprefix("http://"),
            own_port=server.raw.port,
        )
        server.endpoint = lambda _: named
        headers = {"Authorization": "s3cret"}
        async with opened(server.url, engine, headers=headers) as client:
            with pytest.raises(RemoteProtocolError, match="endpoint") as caught:
                await client.ready()
            assert "secret" not in str(caught.value)
            assert isinstance(await failure(client.begin("ping")), ConnectionClosed)
            assert isinstance(client.channel.lost, ConnectError)
        assert other.connections == 0
        assert posts(server) == []


def answering(answer):
    def script(conn):
        conn.receive()
        conn.send(answer)
        conn.wait_closed(None)

    return script


REFUSALS = {
    "404": (reply(404), "404"),
    "405": (reply(405, allow="POST"), "405"),
    "401": (reply(401, www_authenticate="Bearer"), "401"),
    "400 with an error": (
        json_reply(
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "no"}},
            400,
        ),
        "-32000",
    ),
    "500 without end": (head(500, content_length=10) + b"wrong", "500"),
    "406 without a body": (head(406, transfer_encoding="chunked"), "406"),
    "307": (reply(307, location="https://user:pw@elsewhere.example/"), "307"),
    "200 html": (reply(200, b"<html>", content_type="text/html"), "text/html"),
    "200 json": (json_reply({}), "application/json"),
    "204": (head(204), "204"),
    "message first": (sse_head() + chunk(sse_event({})), "'message', not 'endpoint'"),
    "ends at once": (sse_head() + LAST_CHUNK, "ended its event stream"),
    "ends in the event": (
        sse_head() + chunk(b"event: endpoint\ndata: /m\n") + LAST_CHUNK,
        "ended its event stream",
    ),
    "breaks off": (sse_head(chunked=False), "ended its event stream"),
    "reset": (b"", ""),
    "reset in the head": (b"HTTP/1.1 200", ""),
    "reset in the stream": (sse_head(), ""),
}


@pytest.mark.fault("F21", "F29")
@pytest.mark.parametrize("case", REFUSALS)
async def test_server_without_http_sse_is_a_connect_error_at_once(
    engine, case, monkeypatch
):
    monkeypatch.setattr(legacy_sse, "ENDPOINT_TIMEOUT_S", 60.0)
    answer, text = REFUSALS[case]

    def script(conn):
        conn.receive()
        conn.send(answer)
        if case.startswith("reset"):
            conn.reset()
        elif case != "breaks off":
            conn.wait_closed(None)

    with raw_server(script) as server:
        async with opened(server.url, engine) as client:
            with pytest.raises(ConnectError) as caught:
                await client.ready()
            assert text in str(caught.value)
            assert "pw" not in str(caught.value)
            assert isinstance(await failure(client.begin("ping")), ConnectionClosed)
            assert isinstance(client.channel.lost, ConnectError)
            assert len(client.inbound.losses) == 1


async def test_connect_error_has_the_http_error_as_its_cause(engine):
    answer = reply(403, b"go away", content_type="text/plain")
    with raw_server(answering(answer)) as server:
        async with opened(server.url, engine) as client:
            with pytest.raises(ConnectError) as caught:
                await client.ready()
            cause = caught.value.__cause__
            assert isinstance(cause, HTTPError)
            assert (cause.status, cause.body) == (403, b"go away")


REDIRECTS = {
    "elsewhere": ("{other}/sse", "another origin"),
    "without a place": (None, "no Location"),
    "to nowhere": ("http://[", "not a usable http"),
}


@pytest.mark.attack("S02")
@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("case", REDIRECTS)
async def test_redirect_to_another_origin_is_not_followed(engine, case, follows):
    location, why = REDIRECTS[case]
    options = {"follow_redirects": follows, "headers": {"Authorization": "s3cret"}}
    with raw_server(lambda conn: conn.receive()) as other, legacy_server() as server:
        fields = {}
        if location is not None:
            fields["location"] = location.format(other=other.origin)
        answer = reply(307, **fields)
        async with opened(server.url, engine, **options) as client:
            server.on["ping"] = lambda _, conn: conn.send(answer) or True
            error = await failure(client.begin("ping"))
            assert isinstance(error, HTTPError)
            assert error.status == 307
            assert why in str(error)
        with raw_server(answering(answer)) as first:
            async with opened(first.url, engine, **options) as client:
                with pytest.raises(ConnectError, match=why):
                    await client.ready()
        assert other.connections == 0


async def test_redirects_within_the_origin_are_followed_if_allowed(engine, monkeypatch):
    # The wait for the body of a redirect must not end the request that follows it.
    monkeypatch.setattr(legacy_sse.LegacyChannel, "_error_body_s", 0.0)

    def move_stream(request, conn):
        if request.target == "/sse":
            conn.send(reply(307, b"over there", location="/a/b"))
        return request.target == "/sse"

    def move_post(request, conn):
        if request.target.startswith("/a/m?"):
            conn.send(reply(308, location=request.target.replace("/a/m", "/n")))
        return request.target.startswith("/a/m?")

    with legacy_server(endpoint="m?session={session}") as server:
        server.on["GET"] = move_stream
        server.on["tools/call"] = move_post
        async with opened(server.url, engine, follow_redirects=True) as client:
            assert await tool_text(client.tool("hi")) == "hi"
        assert [request.target for request in server.requests] == [
            *("/sse", "/a/b", "/a/m?session=s1", "/n?session=s1")
        ]


@pytest.mark.parametrize("moved", ["GET", "ping"])
async def test_redirect_with_credentials_is_refused(engine, moved):
    options = {"follow_redirects": True, "headers": {"Authorization": "s3cret"}}
    with legacy_server() as server:
        server.on[moved] = lambda request, conn: (
            request.target != "/elsewhere"
            and (conn.send(reply(307, location="/elsewhere")) or True)
        )
        async with opened(server.url, engine, **options) as client:
            if moved == "GET":
                with pytest.raises(UrlRefused, match="elsewhere"):
                    await client.ready()
            else:
                error = await failure(client.begin(moved))
                assert isinstance(error, UrlRefused)
        assert not any(request.target == "/elsewhere" for request in server.requests)


async def test_number_of_redirects_is_limited(engine):
    def script(conn):
        while conn.receive():
            conn.send(reply(307, location="/sse"))

    with raw_server(script) as server:
        async with opened(server.url, engine, follow_redirects=True) as client:
            with pytest.raises(RemoteProtocolError, match="redirects"):
                await client.ready()
            assert len(server.requests) == 6


@pytest.mark.parametrize("answer", [b"", sse_head(), sse_head() + chunk(b": ping\n\n")])
async def test_missing_endpoint_event_is_a_connect_error_after_the_timeout(
    engine, answer, monkeypatch
):
    monkeypatch.setattr(legacy_sse, "ENDPOINT_TIMEOUT_S", 0.1)
    with raw_server(answering(answer)) as server:
        async with opened(server.url, engine, connect_timeout=0.5) as client:
            with pytest.raises(ConnectError, match=r"no endpoint event within 0\.1 s"):
                await client.ready()


@pytest.mark.fault("F19")
async def test_refused_connection_is_a_connect_error(engine):
    with kept_port() as port:
        async with opened(f"http://127.0.0.1:{port}/sse", engine) as client:
            with pytest.raises(ConnectError):
                await client.ready()


async def test_message_with_newlines_between_tokens_is_read(engine):
    note = json.dumps(
        {"jsonrpc": "2.0", "method": "x", "params": {"a": [1, 2]}}, indent=1
    )
    async with legacy(engine) as (server, client):
        await client.ready()
        server.send("s1", sse_event(note))
        await client.call("ping")
        assert client.inbound.notes == [("x", {"a": [1, 2]})]
        await eventually(lambda: client.channel.stats.noise == 0)
