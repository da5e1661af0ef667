"""Ways to call one server: in memory and over HTTP, in a session and stateless."""

import asyncio
import json

from asgi_driver import Visit, scope
from raw_client import META, Hand, modern, notice, request, session

from mcpwire.wire.sse import SSEDecoder

TIMEOUT_S = 30.0

HOST = ("host", "127.0.0.1:8000")
JSON = ("content-type", "application/json")
BOTH = ("accept", "application/json, text/event-stream")


def events(visit):
    assert visit.headers["content-type"] == "text/event-stream"
    return [json.loads(e.data) for e in SSEDecoder(2**20).feed(visit.body) if e.data]


def encoded(message):
    return message if isinstance(message, bytes) else json.dumps(message).encode()


class InMemory:
    def __init__(self, server, version, **options):
        self.version = version
        capabilities = options.pop("capabilities", {})
        self._hand = Hand(server.dispatcher)
        if version is not None:
            opening = {**session(version), "capabilities": capabilities}
            self._hand.send(request("init", "initialize", opening))
            self._hand.send(notice("notifications/initialized"))
            self._hand.take()

    async def open(self):
        return self

    async def say(self, body):
        """Send a message or bytes; return each message that the server sends."""
        self._hand.receive(encoded(body) + b"\n")
        return await self._hand.settled()

    async def aclose(self):
        await self._hand.aclose()


class OverHttp:
    """The application; one POST for each message."""

    def __init__(self, server, version, *, app=None, capabilities=None, **options):
        self.version = version
        self.app = app or server.asgi(**options)
        self._is_shared = app is not None
        self._capabilities = capabilities or {}
        self.head = [HOST, JSON, BOTH]
        self.status = None

    async def open(self):
        if self.version is None:
            self.head.append(("mcp-protocol-version", "2026-07-28"))
            return self
        opening = {**session(self.version), "capabilities": self._capabilities}
        opened = await self.visit("POST", request("init", "initialize", opening))
        id = opened.headers["mcp-session-id"]
        self.head += [("mcp-session-id", id), ("mcp-protocol-version", self.version)]
        ready = notice("notifications/initialized")
        assert (await self.visit("POST", ready)).status == 202
        return self

    def begin(self, verb, body=None, more=()):
        """Begin a request without waiting for its response."""
        body = None if body is None else encoded(body)
        named = self.named(body) if verb == "POST" else self.head
        return Visit(scope(verb, headers=[*named, *more]), body).begin(self.app)

    def named(self, body):
        """Return the header fields for a body, as far as it can be parsed."""
        return [*self.head, *(_mirrors(body) if self.version is None else ())]

    async def visit(self, verb, body=None, more=()):
        visit = self.begin(verb, b"" if body is None else body, more)
        async with asyncio.timeout(TIMEOUT_S):
            await visit.task
        return visit

    async def say(self, body):
        seen = await self.visit("POST", body)
        self.status = seen.status
        if not seen.body:
            return []
        return (
            events(seen) if "event" in seen.headers["content-type"] else [seen.json()]
        )

    async def aclose(self):
        if not self._is_shared:
            await self.app.aclose()


def _mirrors(body):
    """Return the header fields that mirror a stateless request."""
    try:
        message = json.loads(body)
        params = message.get("params", {})
        named = {"mcp-method": message["method"]}
        if name := params.get("name") or params.get("uri"):
            named["mcp-name"] = name
        "".join(map(str, named.values())).encode("latin-1")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        named = {"mcp-method": "tools/call", "mcp-name": "echo"}
    return [each for each in named.items() if isinstance(each[1], str)]


WAYS = {
    "memory, session": (InMemory, "2025-11-25"),
    "memory, oldest session": (InMemory, "2024-11-05"),
    "memory, alone": (InMemory, None),
    "HTTP, session": (OverHttp, "2025-11-25"),
    "HTTP, alone": (OverHttp, None),
}


async def opened(way, server, **options):
    kind, version = WAYS[way]
    return await kind(server, version, **options).open()


def ask(way, id, method, params=None):
    make = modern if way.version is None else request
    return make(id, method, params or {})


def frame(way, id, tool, arguments):
    """Return the bytes of a call; the arguments are bytes as well."""
    meta = f',"_meta":{json.dumps(META)}' if way.version is None else ""
    return (
        b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":'
        b'{"name":"%b","arguments":%b%b}}'
        % (json.dumps(id).encode(), tool.encode(), arguments, meta.encode())
    )


async def works(way, id="works"):
    [answer] = await way.say(frame(way, id, "echo", b'{"text":"hi"}'))
    assert answer["id"] == id
    assert answer["result"]["content"][0]["text"] == "hi"
