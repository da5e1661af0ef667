"""Two in-memory HTTP servers, and a gateway that gets raw HTTP requests."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import attrs
import httpx

import mcpwire
from mcpwire import Context, Server
from mcpwire.gateway import FromHeaders, Gateway
from mcpwire.server.auth import ResourceServer, StaticTokens
from mcpwire.testing import AsgiTransport

A = "https://a.example/mcp"
B = "https://b.example/mcp"
OUTSIDE = "https://gateway.example"

META = "io.modelcontextprotocol/"
PROTOCOL = "2025-11-25"
SESSIONS: dict[str, Any] = {"revisions": [PROTOCOL]}
"""Options of servers that support only revisions with sessions."""

HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
}

INITIALIZE: dict[str, Any] = {
    "protocolVersion": PROTOCOL,
    "capabilities": {},
    "clientInfo": {"name": "tester", "version": "1"},
}
"""The params of a client's first request."""

STATELESS_META: dict[str, Any] = {
    f"{META}protocolVersion": "2026-07-28",
    f"{META}clientCapabilities": {},
    f"{META}clientInfo": {"name": "tester", "version": "1"},
}


def users() -> ResourceServer:
    """Return the protection of a gateway with the users ann and bob."""
    return ResourceServer(
        f"{OUTSIDE}/mcp",
        authorization_servers=["https://login.example"],
        verifiers=[StaticTokens({"ann-token": "ann", "bob-token": "bob"})],
    )


ANN = {"authorization": "Bearer ann-token"}
BOB = {"authorization": "Bearer bob-token"}


@attrs.define
class ReceivedRequest:
    """A request that reached a server behind the gateway."""

    verb: str
    headers: dict[str, str]


class RecordingServer:
    def __init__(self, name: str, **options: Any) -> None:
        self.seen: list[ReceivedRequest] = []
        self.server = Server(name, **options)
        self.app = self.server.asgi(allowed_hosts=["*"], stream_after=30.0)
        self.may_answer: Callable[[], bool] = lambda: True

        @self.server.tool
        async def whoami(ctx: Context) -> str:
            return name

        @self.server.tool
        async def fail() -> str:
            raise mcpwire.ToolError("no")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            fields = {k.decode(): v.decode() for k, v in scope["headers"]}
            self.seen.append(ReceivedRequest(scope["method"], fields))
            if not self.may_answer():
                await send({"type": "http.response.start", "status": 503})
                await send({"type": "http.response.body"})
                return
        await self.app(scope, receive, send)

    def verbs(self) -> list[str]:
        return [each.verb for each in self.seen]

    def all(self, field: str) -> list[str | None]:
        return [each.headers.get(field) for each in self.seen]


class World:
    """Two servers, and gateways to them that are closed at the end."""

    def __init__(self, stack: contextlib.AsyncExitStack, **options: Any) -> None:
        self._stack = stack
        self.a, self.b = (
            RecordingServer("a", **options),
            RecordingServer("b", **options),
        )
        self.upstream_http = httpx.AsyncClient(
            mounts={
                "https://a.example": AsgiTransport(self.a),
                "https://b.example": AsgiTransport(self.b),
            },
            transport=httpx.MockTransport(lambda _: httpx.Response(502)),
        )

    def source(self, **options: Any) -> FromHeaders:
        return FromHeaders(http_client=self.upstream_http, **options)

    def static(self) -> dict[str, Any]:
        return {
            name: mcpwire.Http(url, http_client=self.upstream_http)
            for name, url in (("a", A), ("b", B))
        }

    async def client_for(
        self, gateway: Gateway, *, root_path: str = "", **options: Any
    ) -> "GatewayClient":
        """Return an HTTP client of a gateway; it is closed with the world."""
        # After 0.1 s responses become streams; on a busy machine any response could.
        options = {"stream_after": 30.0, **options}
        app = gateway.asgi(allowed_hosts=["gateway.example"], **options)
        client = httpx.AsyncClient(
            transport=AsgiTransport(app, root_path=root_path), base_url=OUTSIDE
        )
        await self._stack.enter_async_context(client)
        return GatewayClient(client, gateway)


class GatewayClient:
    def __init__(self, client: httpx.AsyncClient, gateway: Gateway) -> None:
        self.http = client
        self.gateway = gateway
        self._ids = iter(range(1, 1_000))

    async def post(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        session: str | None = None,
        *,
        path: str = "/mcp",
        **headers: str,
    ) -> httpx.Response:
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method}
        if params is not None:
            message["params"] = dict(params)
        return await self.http.post(
            path, content=json.dumps(message), headers=_fields(session, headers)
        )

    async def initialize(
        self, session: str | None = None, *, path: str = "/mcp", **headers: str
    ) -> httpx.Response:
        return await self.post("initialize", INITIALIZE, session, path=path, **headers)

    async def post_stateless(
        self, method: str, params: Mapping[str, Any], **headers: str
    ) -> httpx.Response:
        """Send a request of 2026-07-28."""
        head = {"mcp_protocol_version": "2026-07-28", "mcp_method": method, **headers}
        for key in {"name", "taskId"} & params.keys():
            head["mcp_name"] = params[key]
        return await self.post(method, {"_meta": STATELESS_META, **params}, **head)

    async def opened(self, *, path: str = "/mcp", **headers: str) -> str:
        response = await self.initialize(path=path, **headers)
        assert response.status_code == 200, response.text
        assert "result" in response.json(), response.text
        id = response.headers["mcp-session-id"]
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        response = await self.http.post(
            path, content=json.dumps(initialized), headers=_fields(id, {})
        )
        assert response.status_code == 202
        return id

    async def tools(self, session: str, *, path: str = "/mcp") -> list[str]:
        response = await self.post("tools/list", {}, session, path=path)
        assert response.status_code == 200, response.text
        return [tool["name"] for tool in response.json()["result"]["tools"]]

    async def call(
        self, session: str, name: str, *, path: str = "/mcp", **headers: str
    ) -> dict[str, Any]:
        params = {"name": name, "arguments": {}}
        response = await self.post("tools/call", params, session, path=path, **headers)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = message_of(response)
        return found

    async def delete(self, session: str, *, path: str = "/mcp") -> int:
        headers = _fields(session, {})
        return (await self.http.delete(path, headers=headers)).status_code

    async def status(self, session: str) -> int:
        return (await self.post("ping", {}, session)).status_code


def message_of(answer: httpx.Response) -> Any:
    """Return the last message of a response, as JSON or from a stream."""
    if answer.headers["content-type"] == "application/json":
        return answer.json()
    lines = [line for line in answer.text.split("\n") if line.startswith("data: {")]
    return json.loads(lines[-1].removeprefix("data: "))


def _fields(session: str | None, more: Mapping[str, str]) -> dict[str, bytes]:
    fields = {**HEADERS, "mcp-protocol-version": PROTOCOL}
    if session is not None:
        fields["mcp-session-id"] = session
    fields |= {name.replace("_", "-"): value for name, value in more.items()}
    return {name: value.encode("latin-1") for name, value in fields.items()}


def fields_of(session: str) -> dict[str, bytes]:
    return _fields(session, {"accept": "text/event-stream"})


def chosen(*urls: str, **headers: Mapping[str, str]) -> dict[str, str]:
    """Return the header fields that choose servers; headers by ``a`` and ``b``."""
    by_url = {{"a": A, "b": B}[name]: dict(each) for name, each in headers.items()}
    fields = {"x-mcp-servers": json.dumps(urls)}
    return {**fields, "x-mcp-headers": json.dumps(by_url)} if by_url else fields


@contextlib.asynccontextmanager
async def a_world(**options: Any) -> AsyncIterator[World]:
    """Yield a world with servers of these options; close its gateways and servers."""
    async with contextlib.AsyncExitStack() as stack:
        world = World(stack, **options)
        await stack.enter_async_context(world.upstream_http)
        yield world
