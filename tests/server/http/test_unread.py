"""Unread output is bounded for all clients together, queues included."""

import asyncio
import contextlib
import json

import pytest
import raw_client
from asgi_driver import Visit, scope
from hosted import call, fields, tools
from loop_polling import until
from raw_sockets import TIMEOUT_S, connected, raw
from test_uvicorn import ATTACKER, GET, SmallWrites, large

from mcpwire import Limits
from mcpwire.server.http.app import AsgiApp
from mcpwire.versions import REVISIONS

pytestmark = pytest.mark.attack("X04")

EVENT, EVENTS = 10_240, 40
STREAM = EVENT * EVENTS
TOTAL = 1_048_576
"""Room for two streams, and not for three."""

GREEDY, HONEST = "192.0.2.1", "198.51.100.1"
KINDS = pytest.mark.parametrize("kind", ["stateless", "session", "beside", "legacy"])


class Flood:
    """A tool that sends much: for the call, or on the session's own stream."""

    def __init__(self):
        self.sent = 0
        self.answers = asyncio.Event()

    async def __call__(self, params, request):
        is_beside = params["arguments"].get("beside")
        send = request.session.send if is_beside else request.notify
        for _ in range(EVENTS):
            send("notifications/message", {"level": "info", "data": "x" * EVENT})
            await asyncio.sleep(0)  # one loop iteration
        self.sent += 1
        if is_beside:
            return {"content": []}
        await self.answers.wait()
        return {"content": [{"type": "text", "text": "x" * STREAM}]}


class Streams:
    """Streams of one kind, of an application that counts by itself."""

    def __init__(self, kind):
        self.kind = kind
        self.flood = Flood()
        limits = Limits(unwritten_total=TOTAL)
        dispatcher = tools(self.flood, revisions=REVISIONS, limits=limits)
        self.app = AsgiApp(dispatcher, stream_after=30.0, legacy_sse=True)
        self.visits = []

    @property
    def open_visits(self):
        return [each for each in self.visits if not each.task.done()]

    async def has(self, count):
        """Wait until `count` of them are open."""
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: len(self.open_visits) == count, 0.001)

    async def open(self, address=GREEDY, *, is_read=False):
        """Open one, and wait until all its events are sent."""
        stream = await getattr(self, f"_{self.kind}")(address, is_read)
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: self.flood.sent == len(self.visits), 0.001)
        return stream

    @staticmethod
    def visit(address, verb, named=(), message=None, **more):
        named = [*fields(mcp_protocol_version=None), *named]
        made = scope(verb, headers=named, client=(address, 50_000), **more)
        return Visit(made, b"" if message is None else json.dumps(message).encode())

    def begin(self, visit, is_read):
        if not is_read:
            visit.gate = asyncio.Event()
        self.visits.append(visit)
        return visit.begin(self.app)

    async def done(self, *request, **more):
        return await self.visit(*request, **more).begin(self.app).done()

    async def _stateless(self, address, is_read):
        message = call(1, "t")
        named = [each for each in fields(message) if each[0].startswith("mcp")]
        return self.begin(self.visit(address, "POST", named, message), is_read)

    async def _opened(self, address):
        message = raw_client.request(0, "initialize", raw_client.session("2025-11-25"))
        visit = await self.done(address, "POST", [], message)
        return [("mcp-session-id", visit.headers["mcp-session-id"])]

    async def _session(self, address, is_read):
        named = await self._opened(address)
        return self.begin(self.visit(address, "POST", named, tool()), is_read)

    async def _beside(self, address, is_read):
        named = await self._opened(address)
        stream = self.begin(self.visit(address, "GET", named), is_read)
        await self.done(address, "POST", named, tool(beside=True))
        return stream

    async def _legacy(self, address, is_read):
        stream = self.begin(self.visit(address, "GET", path="/mcp/sse"), is_read=True)
        await stream.until(lambda visit: visit.body)
        if not is_read:
            stream.gate = asyncio.Event()
        query = stream.body.decode().split("?")[1].split()[0].encode()
        begin = raw_client.request(0, "initialize", raw_client.session("2024-11-05"))
        for message in (begin, tool()):
            more = {"path": "/mcp/messages", "query_string": query}
            await self.done(address, "POST", [], message, **more)
        return stream


def tool(**arguments):
    return raw_client.request(1, "tools/call", {"name": "t", "arguments": arguments})


@contextlib.asynccontextmanager
async def streams(kind):
    made = Streams(kind)
    try:
        yield made
    finally:
        made.flood.answers.set()
        for each in made.visits:
            if each.gate is not None:
                each.gate.set()
            each.leave()
        await made.app.aclose()


@KINDS
async def test_unread_streams_are_bounded_in_total(kind):
    async with streams(kind) as made:
        for count in range(1, 6):
            await made.open()
            await made.has(min(count, 2))
        # A web server resets a connection whose answer has no end.
        assert not any(each.is_complete for each in made.visits)


@KINDS
async def test_client_with_the_most_unread_output_loses_a_stream(kind):
    async with streams(kind) as made:
        honest = await made.open(HONEST)
        for _ in range(4):
            await made.open()
        await made.has(2)
        assert not honest.task.done()
        honest.gate.set()
        await honest.until(lambda visit: len(visit.body) > STREAM)


@KINDS
async def test_streams_that_are_read_do_not_count(kind):
    async with streams(kind) as made:
        for count in range(1, 6):
            stream = await made.open(is_read=True)
            await stream.until(lambda visit: len(visit.body) > STREAM)
            assert len(made.open_visits) == count


@pytest.mark.parametrize("kind", ["stateless", "session"])
async def test_responses_queued_behind_unread_events_count_too(kind):
    async with streams(kind) as made:
        for _ in range(2):
            await made.open()
        await made.has(2)
        made.flood.answers.set()
        await made.has(1)


async def test_queues_and_connection_buffers_count_together():
    application = AsgiApp(tools(flood := Flood()), stream_after=30.0)

    async def both(scope, receive, send):
        app = application if scope["method"] == "POST" else large(2 * STREAM)
        await app(scope, receive, send)

    async with (
        SmallWrites(both, unwritten_total=TOTAL) as host,
        connected(host.port, ATTACKER, buffer=4_096) as (_, stream),
        connected(host.port, ATTACKER, buffer=4_096) as (_, answer),
    ):
        for each in (stream, answer):
            each.transport.pause_reading()
        stream.write(raw(call(1, "t")))
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: flood.sent, 0.001)
        await host.has(2)
        answer.write(GET)
        await host.has(1)
        await application.aclose()
