"""HTTP+SSE of 2024-11-05: one connection of two requests."""

import asyncio
import contextlib
import json

import pytest
from hosted import subscribed
from raw_client import modern, notice, request, server, session, success
from raw_http_client import Visit, call, content, turns

from mcpwire.errors import ConnectionClosed
from mcpwire.protocol.http_headers import resolve_endpoint
from mcpwire.server.auth.resource_server import Principal
from mcpwire.server.http.exchange import HttpProblem, Timeouts
from mcpwire.server.http.legacy_sse import LegacySse
from mcpwire.wire.urls import parse_url

LOG = "notifications/message"
ADA = Principal(issuer="i", client_id="c", subject="ada")
BOB = Principal(issuer="i", client_id="c", subject="bob")


class LegacyClient:
    def __init__(self, legacy, principal=None, path="/mcp/sse"):
        self.legacy = legacy
        self.principal = principal
        self.path = path
        self.timeouts = Timeouts(body=30, stream_after=30)
        self.stream = None
        self.endpoint = None

    def visit(self, verb, path):
        return Visit(
            verb,
            {"content-type": "application/json"},
            principal=self.principal,
            timeouts=self.timeouts,
            path=path,
        )

    async def connect(self):
        self.stream = self.visit("GET", self.path)
        self.stream.begin(self.legacy.serve_stream(self.stream.exchange))
        await self.stream.until(lambda: self.stream.events)
        first = self.stream.events[0]
        assert first.event == "endpoint"
        url = resolve_endpoint(parse_url("http://h" + self.path), first.data)
        self.endpoint = url.target
        return self

    async def post(self, message, path=None):
        body = message if isinstance(message, bytes) else json.dumps(message, indent=1)
        visit = self.visit("POST", path or self.endpoint)
        visit.give(body if isinstance(body, bytes) else body.encode())
        await self.legacy.serve_message(visit.exchange)
        assert (visit.status, visit.body) == (202, b"Accepted")

    async def next(self, count=1):
        def messages():
            return [e for e in self.stream.events if e.event == "message"]

        await self.stream.until(lambda: len(messages()) >= count)
        return json.loads(messages()[count - 1].data)

    async def open(self, version="2024-11-05"):
        await self.connect()
        await self.post(request(0, "initialize", session(version)))
        answer = await self.next()
        assert answer["result"]["protocolVersion"] == version
        await self.post(notice("notifications/initialized"))
        return self


@contextlib.asynccontextmanager
async def serving(call, **options):
    """Give a server, and a function that makes clients; at the end all streams end."""
    dispatcher = server({"tools/call": call}, {"tools": {}, "logging": {}})
    legacy = LegacySse(dispatcher, check_message=lambda *_: None, **options)
    clients = []

    def client(*arguments, **named):
        clients.append(LegacyClient(legacy, *arguments, **named))
        return clients[-1]

    yield legacy, client
    await legacy.aclose()
    for each in clients:
        if each.stream is not None:
            await each.stream.done()


async def echo(params, request):
    request.log("info", "hello")
    return content(params["arguments"]["text"])


@pytest.mark.rule("SSE-01", "SSE-02", "SSE-04")
@pytest.mark.case("C11")
@pytest.mark.parametrize("path", ["/mcp/sse", "/sse", "/mcp/sse/"])
async def test_stream_sends_the_endpoint_and_then_all_messages(path):
    async with serving(echo) as (_, client_of):
        client = await client_of(path=path).open()
        assert client.endpoint.startswith(
            path.rstrip("/").removesuffix("sse") + "messages?"
        )
        await client.post(call(1, text="hi"))
        log, answer = await client.next(2), await client.next(3)
        assert (log["method"], log["params"]["data"]) == (LOG, "hello")
        assert answer == success(1, content("hi"))
        assert client.stream.headers["content-type"] == "text/event-stream"
    assert client.stream.is_complete


async def test_subscription_gets_its_result_when_the_server_ends():
    legacy = LegacySse(subscribed(echo), check_message=lambda *_: None)
    client = await LegacyClient(legacy).connect()
    await client.post(modern(1, "subscriptions/listen", {"notifications": {}}))
    await client.next()  # the acknowledgement
    await legacy.aclose()
    await client.stream.done()
    assert (await client.next(2))["result"]["resultType"] == "complete"


@pytest.mark.attack("S09", "S10")
async def test_connection_accepts_posts_only_from_its_principal():
    async with serving(echo) as (_, client_of):
        ada, bob = [await client_of(principal).open() for principal in (ADA, BOB)]
        foreign = [(bob, ada.endpoint), (ada, bob.endpoint), (ada, ada.endpoint + "x")]
        for client, endpoint in foreign:
            with pytest.raises(HttpProblem) as caught:
                await client.post(call(1, text="x"), endpoint)
            assert caught.value.status == 404
        await ada.post(call(1, text="ada"))
        await bob.post(call(1, text="bob"))
        assert await ada.next(3) == success(1, content("ada"))
        assert await bob.next(3) == success(1, content("bob"))


@pytest.mark.parametrize(
    "path", ["/messages", "/messages?session_id=", "/messages?a=b"]
)
async def test_post_without_a_known_connection_id_gets_404(path):
    async with serving(echo) as (_, client_of):
        with pytest.raises(HttpProblem) as caught:
            await client_of().post(call(1), path)
        assert caught.value.status == 404


async def test_post_whose_stream_ends_while_it_is_read_gets_404():
    async with serving(echo) as (served, client_of):
        client = await client_of().open()
        visit = client.visit("POST", client.endpoint)
        visit.begin(served.serve_message(visit.exchange))
        visit.give(json.dumps(call(1, text="x")).encode(), more=True)
        await visit.until(visit.incoming.empty)
        await client.stream.disconnect()
        visit.give(b"")
        assert (await visit.done()).status == 404


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"3", -32600),
        (b'""', -32600),
        pytest.param(
            b'{"x":[' + b"{}," * 1_000_000 + b"{}]}",
            -32600,
            id="many values",
            marks=pytest.mark.attack("X12"),
        ),
    ],
)
async def test_body_that_is_not_a_valid_message_is_refused(body, code):
    async with serving(echo) as (_, client_of):
        client = await client_of().connect()
        with pytest.raises(HttpProblem) as caught:
            await client.post(body)
        assert (caught.value.status, caught.value.error.code) == (400, code)


async def test_request_before_initialize_gets_an_error():
    async with serving(echo) as (_, client_of):
        client = await client_of().connect()
        await client.post(request(1, "tools/call", {}))
        assert (await client.next())["error"]["code"] in {-32600, -32602}


async def test_batches_are_answered_only_in_the_revision_that_has_them():
    async with serving(echo) as (_, client_of):
        old, newer = (await client_of().open(), await client_of().open("2025-03-26"))
        await old.post([request(1, "ping")])
        await old.post(request(2, "ping"))
        assert await old.next(2) == success(2, {})
        await newer.post([request(1, "ping"), request(2, "no/method")])
        answers = await newer.next(2)
        assert answers[0] == success(1, {})
        assert answers[1]["id"] == 2


async def test_server_can_send_requests_and_client_can_cancel_calls():
    outcome = []

    async def ask(params, request):
        try:
            answer = await request.ask("roots/list", {})
            return content(answer["text"])
        except asyncio.CancelledError:
            outcome.append(request.is_cancelled)
            raise

    async with serving(ask) as (_, client_of):
        client = await client_of(ADA).open()
        await client.post(call(1))
        server_request = await client.next(2)
        await client.post(success(server_request["id"], {"text": "ok"}))
        assert await client.next(3) == success(1, content("ok"))
        await client.post(call(2))
        await client.next(4)
        await client.post(notice("notifications/cancelled", requestId=2))
        await turns()
        assert outcome == [True]


async def test_handlers_see_the_principal_and_the_transport():
    seen = []

    async def look(params, request):
        seen.append(request.info)
        return content()

    async with serving(look) as (_, client_of):
        client = await client_of(ADA).open()
        await client.post(call(1))
        await client.next(2)
        assert (seen[0].principal, seen[0].transport) == (ADA, "http")


async def test_disconnecting_client_ends_its_connection_and_calls():
    outcome = []
    began = asyncio.Event()

    async def ask(params, request):
        began.set()
        try:
            await request.ask("roots/list", {})
        except BaseException as error:
            outcome.append(error)
            raise

    async with serving(ask) as (served, client_of):
        client = await client_of().open()
        await client.post(call(1))
        await began.wait()
        assert len(served) == 1
        await client.stream.disconnect()
        assert len(served) == 0
        assert isinstance(outcome[0], (ConnectionClosed, asyncio.CancelledError))
        with pytest.raises(HttpProblem):
            await client.post(call(2))


async def test_connections_above_the_maximum_are_refused_with_503():
    async with serving(echo, maximum=1) as (served, client_of):
        client = await client_of().connect()
        visit = Visit("GET", {}, path="/sse")
        with pytest.raises(HttpProblem) as caught:
            await served.serve_stream(visit.exchange)
        assert (caught.value.status, len(served)) == (503, 1)
        await client.stream.disconnect()
        await client_of().connect()


@pytest.mark.attack("X07")
async def test_oldest_stream_of_the_largest_client_ends_for_a_smaller_one():
    async with serving(echo, maximum=3) as (served, client_of):
        first, second, _ = [await client_of(ADA).connect() for _ in range(3)]
        await client_of(BOB).connect()
        await first.stream.done()
        assert first.stream.is_complete
        with pytest.raises(HttpProblem, match="too many sessions"):
            await served.serve_stream(Visit("GET", {}, principal=ADA).exchange)
        await client_of(BOB).connect()
        await second.stream.done()
        with pytest.raises(HttpProblem, match="too many sessions"):
            await served.serve_stream(Visit("GET", {}, principal=BOB).exchange)
        assert len(served) == 3


@pytest.mark.attack("X02")
async def test_initialize_with_too_large_capabilities_is_refused():
    large = {"capabilities": {"experimental": {"x": {"y": [{}] * 2_000}}}}
    async with serving(echo) as (_, client_of):
        client = await client_of().connect()
        await client.post(request(0, "initialize", session("2024-11-05") | large))
        error = (await client.next())["error"]
    assert error["code"] == -32602
    assert "at most 65536 bytes" in error["message"]
