"""A client of HTTP sessions below the application: one visit is one request."""

import asyncio
import contextlib
import json

import asgi_driver
from raw_client import notice, request, server, session

from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.server.http.exchange import ClientGone, Exchange, HttpProblem, Timeouts
from mcpwire.server.http.sessions import Sessions
from mcpwire.wire.jsonrpc import failure
from mcpwire.wire.sse import SSEDecoder

TIMEOUT_S = 30.0

QUICK = 0.001
"""The seconds after which a pending call is answered by a stream."""


class Visit(asgi_driver.Visit):
    def __init__(self, verb, headers, *, principal=None, timeouts=None, path="/mcp"):
        path, _, query = path.partition("?")
        more = {"query_string": query.encode(), "client": None}
        super().__init__(asgi_driver.scope(verb, path, headers.items(), **more))
        self.exchange = Exchange(
            self.scope,
            lambda: self.receive(),  # noqa: PLW0108 - a test may replace it
            lambda event: self.send(event),  # noqa: PLW0108 - as above
            DEFAULT_LIMITS,
            timeouts,
        )
        self.exchange.principal = principal
        self._seen = 0

    def begin(self, serving):
        async def run(*_):
            with contextlib.suppress(ClientGone):
                try:
                    await serving
                except HttpProblem as problem:
                    message = failure(problem.id, problem.error)
                    await self.exchange.reply(problem.status, message, problem.headers)
            await self.wake()

        return super().begin(run)

    @property
    def json(self):
        return super().json()

    @property
    def is_stream(self):
        return self.headers.get("content-type") == "text/event-stream"

    @property
    def events(self):
        return SSEDecoder(2**20).feed(self.body) if self.is_stream else []

    @property
    def ids(self):
        return [event.id for event in self.events]

    @property
    def messages(self):
        found = [json.loads(event.data) for event in self.events if event.data]
        # Some clients ignore events that do not name their type.
        assert self.body.count(b"event: message\n") == len(found)
        return found

    async def until(self, condition):
        await super().until(lambda _: condition())

    async def next(self):
        await self.until(lambda: len(self.messages) > self._seen)
        self._seen += 1
        return self.messages[self._seen - 1]


class Hand:
    """A client that may open sessions at one server."""

    def __init__(self, sessions, version="2025-11-25", principal=None, timeouts=None):
        self.sessions = sessions
        self.version = version
        self.principal = principal
        self.timeouts = timeouts or Timeouts(body=30, stream_after=30)
        self.id = None

    def visit(self, verb, **headers):
        fields = {k.replace("_", "-"): v for k, v in headers.items() if v is not None}
        if self.id is not None:
            fields.setdefault("mcp-session-id", self.id)
            fields.setdefault("mcp-protocol-version", self.version)
        return Visit(verb, fields, principal=self.principal, timeouts=self.timeouts)

    def post(self, message, **headers):
        visit = self.visit("POST", **headers)
        return visit.begin(self.sessions.serve(visit.exchange, message))

    def get(self, **headers):
        visit = self.visit("GET", **headers)
        return visit.begin(self.sessions.serve_get(visit.exchange))

    async def listen(self, **headers):
        visit = self.get(**headers)
        await visit.until(lambda: visit.events)
        return visit

    def delete(self, **headers):
        visit = self.visit("DELETE", **headers)
        return visit.begin(self.sessions.serve_delete(visit.exchange))

    async def open(self):
        visit = await self.post(
            request("init", "initialize", session(self.version))
        ).done()
        assert visit.status == 200, visit.body
        assert visit.json["result"]["protocolVersion"] == self.version
        self.id = visit.headers["mcp-session-id"]
        await self.post_accepted(notice("notifications/initialized"))
        return self

    async def post_accepted(self, message):
        visit = await self.post(message).done()
        assert (visit.status, visit.body) == (202, b"")
        assert "content-type" not in visit.headers
        return visit

    async def ask(self, id, method, params=None):
        visit = await self.post(request(id, method, params)).done()
        assert visit.status == 200
        return visit.json


class Bench:
    """A server with one tool, whose handler a test provides."""

    def __init__(self, call=None, *, dispatcher=None, **options):
        handlers = {} if call is None else {"tools/call": call}
        capabilities = {"tools": {}, "logging": {}}
        self.dispatcher = dispatcher or server(handlers, capabilities)
        self.sessions = Sessions(self.dispatcher, **options)

    def hand(self, version="2025-11-25", **options):
        return Hand(self.sessions, version, **options)

    async def open(self, version="2025-11-25", **options):
        return await self.hand(version, **options).open()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.sessions.aclose()


def call(id, **arguments):
    return request(id, "tools/call", {"name": "t", "arguments": arguments})


@contextlib.asynccontextmanager
async def in_session(
    work=None, version="2025-11-25", *, principal=None, timeouts=None, **options
):
    """Give a server, and a client with a session on it."""
    async with Bench(work, **options) as bench:
        yield bench, await bench.open(version, principal=principal, timeouts=timeouts)


@contextlib.asynccontextmanager
async def called(work, **options):
    """Give such a server and client, and a call that the client has posted."""
    async with in_session(work, **options) as (bench, hand):
        yield bench, hand, hand.post(call(1))


def content(text="done"):
    return {"content": [{"type": "text", "text": text}]}


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


class Work:
    """A tool that waits until the test releases it, and records how calls ended."""

    def __init__(self):
        self.began = asyncio.Event()
        self.release = asyncio.Event()
        self.requests = []
        self.outcomes = []

    async def __call__(self, params, request):
        self.requests.append(request)
        self.began.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.outcomes.append("cancelled")
            raise
        self.outcomes.append("done")
        return content(params["arguments"].get("text", "done"))


def progress(steps):
    async def work(params, request):
        for step in range(1, steps + 1):
            request.progress(step, steps)
            await asyncio.sleep(0)
        return content()

    return work


class Steps:
    """A tool that runs the steps of a test: log, close the stream, or end."""

    def __init__(self):
        self.todo = asyncio.Queue()
        self.request = None

    async def __call__(self, params, request):
        self.request = request
        while (step := await self.todo.get()) is not None:
            step(request)
        return content()

    def log(self, *values):
        for value in values:
            self.todo.put_nowait(lambda r, v=value: r.log("info", v))

    def pause(self, retry=None):
        self.todo.put_nowait(lambda r: r.info.close_stream(retry))

    def end(self):
        self.todo.put_nowait(None)


def data_of(visit):
    return [m["params"]["data"] if "params" in m else m for m in visit.messages]


def running(sessions):
    """Return the number of running requests."""
    return sum(map(len, sessions))
