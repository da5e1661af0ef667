"""A server with all features, a client that records all messages, a gateway."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fakes import SILENCE, FakeServer

import mcpwire
from mcpwire import Context, types
from mcpwire.gateway import Gateway
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.server.dispatcher import Route
from mcpwire.server.request import RequestContext
from mcpwire.versions import LATEST

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}


class Upstream:
    """A server of one revision, with events that its tools set."""

    def __init__(self, revision: str, **options: Any) -> None:
        self.began = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.release = asyncio.Event()
        self.server = mcpwire.Server("up", "1.0", revisions=[revision], **options)
        register(self)


def register(up: Upstream) -> None:
    register_plain(up)
    register_asking(up.server)
    register_others(up.server)


def register_plain(up: Upstream) -> None:
    """Register tools that send no requests to the client."""
    server = up.server

    @server.tool
    def echo(text: str) -> str:
        return text

    @server.tool
    def fail() -> str:
        raise mcpwire.ToolError("no luck")

    @server.tool
    async def steps(ctx: Context) -> str:
        for step in (1, 2.5, 3):
            ctx.progress(step, 3, f"step {step}")
        return "done"

    @server.tool
    async def talk(ctx: Context) -> str:
        ctx.log("debug", "quiet", "up")
        ctx.log("warning", {"loud": True}, "up")
        return "said"

    @server.tool
    async def slow() -> str:
        up.began.set()
        try:
            await up.release.wait()
        except asyncio.CancelledError:
            up.cancelled.set()
            raise
        return "slept"


def register_asking(server: mcpwire.Server) -> None:
    """Register tools that send requests to the client."""

    @server.tool
    async def model(ctx: Context) -> str:
        return (await ctx.sample("hello", max_tokens=7)).content.text

    @server.tool
    async def form(ctx: Context) -> str:
        answer = await ctx.elicit("who?", SCHEMA)
        return f"{answer.action} {(answer.content or {}).get('name')}"

    @server.tool
    async def visit(ctx: Context) -> str:
        answer = await ctx.elicit_url("sign in", "https://example.com/a")
        return answer.action

    @server.tool
    async def twice(ctx: Context) -> str:
        first = await ctx.elicit("first?", SCHEMA, key="first")
        second = await ctx.elicit("second?", SCHEMA, key="second")
        return f"{first.content['name']} {second.content['name']}"

    @server.tool
    async def roots(ctx: Context) -> str:
        return " ".join(root.uri for root in await ctx.roots())


def register_others(server: mcpwire.Server) -> None:
    """Register a resource, a prompt and a completion."""

    @server.resource("memo://1")
    def memo() -> str:
        return "a memo"

    @server.prompt
    def greet(name: str) -> str:
        return f"hello {name}"

    @server.completion("greet", "name")
    def names(typed: str) -> list[str]:
        return [name for name in ("ann", "anton", "bob") if name.startswith(typed)]


class Downstream:
    """A client side that records the requests and notifications it receives."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.notifications: list[Any] = []
        self.arrived = asyncio.Event()

    async def sample(self, params: Any) -> Any:
        self.requests.append(params)
        return types.CreateMessageResult(
            "assistant", types.TextContent("from the model"), "some-model"
        )

    async def form(self, params: Any) -> Any:
        self.requests.append(params)
        return {"name": params.message[:-1]}

    async def visit(self, params: Any) -> str:
        self.requests.append(params)
        return "accept"

    def on_notification(self, notification: Any) -> None:
        self.notifications.append(notification)
        self.arrived.set()

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.notifications) < count:
                self.arrived.clear()
                await self.arrived.wait()

    def options(self) -> dict[str, Any]:
        return {
            "sampling": self.sample,
            "elicitation": mcpwire.Elicitation(form=self.form, url=self.visit),
            "roots": ["file:///home"],
            "on_notification": self.on_notification,
        }


@asynccontextmanager
async def bridged(
    server: Any, downstream: str, **options: Any
) -> AsyncIterator[mcpwire.Client]:
    """Connect a client of one revision to a server through a gateway."""
    async with (
        Gateway({"up": server}) as gateway,
        mcpwire.Client(gateway, mode=downstream, **options) as client,
    ):
        yield client


def wait(event: asyncio.Event) -> Any:
    """Wait for an event, with a timeout that only a failure reaches."""
    return asyncio.wait_for(event.wait(), 30)


META = "io.modelcontextprotocol/"
TASKS = f"{META}tasks"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CANCELLED = "notifications/cancelled"


class RawClient:
    """An in-memory client that sends exactly the messages of a test."""

    def __init__(self, server: Any, version: str = "2025-11-25") -> None:
        self.version = version
        self.lines: list[dict[str, Any]] = []
        self.capabilities: dict[str, Any] = {}
        self.gateway: Any = None
        self._came = asyncio.Event()
        self._last = 0
        self.channel = server.open_in_memory(self, DEFAULT_LIMITS)
        self.channel.receive = self.receive
        self.channel.is_scripted = True

    def receive(self, data: bytes) -> None:
        self.lines += [json.loads(line) for line in data.splitlines()]
        self._came.set()

    def send(self, **members: Any) -> None:
        message = {"jsonrpc": "2.0", **members}
        self.channel.transmit(json.dumps(message).encode() + b"\n")

    def request(self, method: str, params: Any = None, **meta: Any) -> int:
        self._last += 1
        params = dict(params or {})
        if self.version == "2026-07-28":
            meta = {
                f"{META}protocolVersion": self.version,
                f"{META}clientCapabilities": self.capabilities,
                **meta,
            }
        if meta:
            params["_meta"] = meta
        self.send(id=self._last, method=method, params=params)
        return self._last

    async def until(self, seen: Any) -> dict[str, Any]:
        """Wait for the first line that matches; remove and return it."""
        async with asyncio.timeout(30):
            while True:
                for line in self.lines:
                    if seen(line):
                        self.lines.remove(line)
                        return line
                self._came.clear()
                await self._came.wait()

    async def response(self, id: int) -> dict[str, Any]:
        return await self.until(
            lambda line: line.get("id") == id and "method" not in line
        )

    async def ask(self, method: str, params: Any = None, **meta: Any) -> dict[str, Any]:
        return await self.response(self.request(method, params, **meta))

    async def wait_for(self, method: str) -> dict[str, Any]:
        return await self.until(lambda line: line.get("method") == method)

    async def call(self, tool: str = "up_t", **arguments: Any) -> dict[str, Any]:
        params = {"name": tool, **({"arguments": arguments} if arguments else {})}
        return await self.ask("tools/call", params)

    async def listen(self, **notifications: Any) -> tuple[int, dict[str, Any]]:
        """Subscribe at 2026-07-28; return the id and the acknowledged filter."""
        id = self.request("subscriptions/listen", {"notifications": notifications})
        accepted: Any = (await self.wait_for(ACKNOWLEDGED))["params"]["notifications"]
        return id, accepted

    def cancel(self, id: int) -> None:
        self.send(method=CANCELLED, params={"requestId": id})

    async def settle(self, count: int = 3) -> None:
        """Exchange a few requests, so that pending messages are delivered."""
        for _ in range(count):
            await self.ask("ping" if self.version < "2026" else "server/discover")

    async def open(self, **capabilities: Any) -> None:
        """Open a session, if the revision has sessions."""
        self.capabilities = capabilities
        if self.version != "2026-07-28":
            about = {
                "protocolVersion": self.version,
                "capabilities": capabilities,
                "clientInfo": {"name": "raw", "version": "1"},
            }
            response = await self.ask("initialize", about)
            assert response["result"]["protocolVersion"] == self.version
            self.send(method="notifications/initialized")

    async def aclose(self) -> None:
        await self.channel.aclose()

    def notification(self, *_: Any) -> None: ...
    def cancelled(self, *_: Any) -> None: ...
    def lost(self, *_: Any) -> None: ...


@asynccontextmanager
async def raw(
    server: Any, version: str = "2025-11-25", /, **capabilities: Any
) -> AsyncIterator[RawClient]:
    gateway = Gateway({"up": server})
    async with joined(gateway, version, **capabilities) as client:
        yield client


@asynccontextmanager
async def joined(
    gateway: Gateway, version: str = "2025-11-25", /, **capabilities: Any
) -> AsyncIterator[RawClient]:
    async with several(gateway, 1, version, **capabilities) as (client,):
        yield client


@asynccontextmanager
async def several(
    gateway: Gateway, count: int, version: str = "2025-11-25", /, **capabilities: Any
) -> AsyncIterator[list[RawClient]]:
    async with gateway:
        clients = [RawClient(gateway, version) for _ in range(count)]
        try:
            for client in clients:
                client.gateway = gateway
                await client.open(**capabilities)
            yield clients
        finally:
            for client in clients:
                await client.aclose()


def a_request(
    id: Any = 1, meta: Any = None, notify: Any = print, **options: Any
) -> RequestContext:
    """Return the context of a stateless tool call, as a dispatcher creates it."""
    return RequestContext(
        id,
        "tools/call",
        meta or {},
        LATEST,
        None,
        {},
        notify,
        False,
        Route(print),
        **options,
    )


ERAS = ("2025-11-25", "2026-07-28")

ERA_PAIRS = pytest.mark.parametrize(
    ("down", "up"),
    [pytest.param(down, up, id=f"{down} before {up}") for down in ERAS for up in ERAS],
)
"""Each era of the client with each era of the server."""

STAMP = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""What a list of the stateless era has."""

TOOLS = [{"name": "t", "inputSchema": {"type": "object"}}]

ELICIT = "elicitation/create"
FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
CAN = {"elicitation": {"form": {}, "url": {}}, "roots": {}, "sampling": {}}
ASK = {"name": "up_t", "arguments": {"ask": [[ELICIT, FORM]]}}
"""A call in which an `AskingServer` sends a form."""

ANSWER = {"action": "accept", "content": {"name": "ann"}}


def answers_in(response: dict[str, Any]) -> list[Any]:
    """Return the responses that an `AskingServer` got during a call."""
    found: list[Any] = response["result"]["structuredContent"]["answers"]
    return found


class AskingServer(FakeServer):
    """A session server whose tool `t` sends the requests in its arguments.

    ``{"ask": [[method, params], ...]}``: all at once; the result has the responses, in
    that order. ``{"then": [...]}``: sent when those are answered.
    """

    def __init__(self, version: str = "2025-11-25", **methods: Any) -> None:
        super().__init__(
            {
                "tools/list": lambda *_: {"tools": TOOLS},
                "tools/call": self.called,
                **methods,
            },
            version=version,
            capabilities={"tools": {"listChanged": True}, "logging": {}},
        )
        self.asking: dict[str, list[Any]] = {}
        self.answers: dict[str, dict[str, Any]] = {}
        self.sent_count = 0

    def called(self, params: dict[str, Any], _: Any) -> Any:
        arguments = params.get("arguments", {})
        if "ask" not in arguments:
            return {"content": [], **arguments}
        self.begin(self.current["id"], arguments["ask"], arguments.get("then"))
        return SILENCE

    def begin(self, call: Any, requests: Any, then: Any, before: Any = ()) -> None:
        ids = []
        for method, params in requests:
            self.sent_count += 1
            ids.append(f"q{self.sent_count}")
            message = {"jsonrpc": "2.0", "id": ids[-1], "method": method}
            self.send(message if params is None else {**message, "params": params})
        for id in ids:
            self.asking[id] = [call, ids, then, before]

    def receive(self, data: bytes) -> None:
        super().receive(data)
        for line in data.splitlines():
            message = json.loads(line)
            if "method" not in message and message.get("id") in self.asking:
                self.answered(message)

    def answered(self, message: dict[str, Any]) -> None:
        call, ids, then, before = self.asking.pop(message["id"])
        self.answers[message["id"]] = message
        if any(id not in self.answers for id in ids):
            return
        members = [
            {key: each for key, each in self.answers[id].items() if key != "jsonrpc"}
            for id in ids
        ]
        found = [*before, *members]
        if then:
            self.begin(call, then, None, found)
            return
        result = {"content": [], "structuredContent": {"answers": found}}
        self.send({"jsonrpc": "2.0", "id": call, "result": result})


# --- a server of the stateless era that needs input


def rounds(*results: Any) -> FakeServer:
    """Return a server whose tool `t` returns these results, one after the other."""
    left = list(results)
    listed = {"tools": TOOLS, **STAMP}
    methods = {"tools/list": lambda *_: listed, "tools/call": lambda *_: left.pop(0)}
    return FakeServer(methods, version="2026-07-28", capabilities={"tools": {}})


def needs(state: str | None = None, **questions: Any) -> dict[str, Any]:
    """Return a result that requires input, with the input requests by key."""
    result = {"resultType": "input_required", "inputRequests": questions}
    return result if state is None else {**result, "requestState": state}


DONE = {"resultType": "complete", "content": []}
