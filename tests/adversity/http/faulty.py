"""Handlers of faulty servers, for the tests of this folder."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
from http_bytes import LAST_CHUNK, chunk, json_reply, reply, sse_head
from mcp_server import ScriptedMcp, scripted_mcp
from raw_server import Connection, RawRequest

import mcpwire
from mcpwire import types

BOUND_S = 25.0
"""Upper bound of a test: a hanging call fails then, before its own 30 s timeout."""

HANG_S = 100.0
"""How long a peer stays silent: longer than any test; the end of the test ends it."""

ONCE = mcpwire.Recovery(attempts=1, reinitialize=False, resume=False, restart=False)
"""No retries."""

QUICK = mcpwire.Recovery(backoff_initial=0.001, backoff_max=0.01)
"""All retries, without long pauses."""

ERAS = ("session", "stateless")
REPLIES = ("json", "sse")
ENGINES = ("direct", "httpx")

ANSWER = types.CreateMessageResult("assistant", types.TextContent("fine"), "m")
"""A result of sampling."""


def answering(data: bytes, then: str | None = None) -> Any:
    """Return a handler that sends these bytes and then may end the connection."""

    def handler(request: RawRequest, conn: Connection) -> bool:
        conn.send(data)
        if then is not None:
            getattr(conn, then)()
        return True

    return handler


def never(request: RawRequest, conn: Connection) -> bool:
    conn.wait_closed(HANG_S)
    return True


def answer_to(request: RawRequest, text: str = "fine", **result: Any) -> Any:
    result = {"content": [{"type": "text", "text": text}], **result}
    return {"jsonrpc": "2.0", "id": request.json["id"], "result": result}


def refusing(code: int, message: str = "no", status: int = 400, **more: Any) -> Any:
    def handler(request: RawRequest, conn: Connection) -> bool:
        error = {"code": code, "message": message, **more}
        answer = {"jsonrpc": "2.0", "id": request.json["id"], "error": error}
        conn.send(json_reply(answer, status))
        return True

    return handler


def moved(status: int = 307, location: str = "/elsewhere") -> Any:
    """Return a handler that redirects requests to the first URL."""

    def handler(request: RawRequest, conn: Connection) -> bool:
        if request.target == "/mcp":
            conn.send(reply(status, location=location))
        return request.target == "/mcp"

    return handler


def stream(*events: bytes, end: bytes = LAST_CHUNK) -> bytes:
    return sse_head() + b"".join(map(chunk, events)) + end


def once(handler: Callable[..., Any]) -> Any:
    calls: list[None] = []

    def first(request: RawRequest, conn: Connection) -> Any:
        calls.append(None)
        return len(calls) == 1 and handler(request, conn)

    return first


@contextlib.asynccontextmanager
async def connected(
    server: ScriptedMcp | str, *, bound: float = BOUND_S, **options: Any
) -> AsyncIterator[Any]:
    """Connect a client; the body must not take longer than the bound."""
    target = server if isinstance(server, (str, mcpwire.Http)) else server.url
    async with asyncio.timeout(bound), mcpwire.Client(target, **options) as client:
        yield client


TARGET_OPTIONS = {field.name for field in attrs.fields(mcpwire.Http)} - {
    "connect_timeout"  # of the client
}
CLIENT_OPTIONS = {*inspect.signature(mcpwire.Client).parameters, "bound"}


@contextlib.asynccontextmanager
async def client_of(
    era: str = "session", *, on: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[ScriptedMcp, Any]]:
    """Start a `ScriptedMcp` and connect a client to it.

    Each option goes to the target, to the client or to the server, by its name.
    """
    of_target = {n: options.pop(n) for n in TARGET_OPTIONS & options.keys()}
    of_client = {n: options.pop(n) for n in CLIENT_OPTIONS & options.keys()}
    with scripted_mcp(era, **options) as server:
        server.on.update(on or {})
        target = mcpwire.Http(server.url, **of_target)
        async with connected(target, **of_client) as client:
            yield server, client


async def outcome(awaitable: Any) -> Any:
    """Return the result, or the error of mcpwire that was raised."""
    try:
        return await awaitable
    except mcpwire.MCPError as error:
        return error


async def until(holds: Callable[[], Any], bound: float = BOUND_S) -> None:
    """Wait until a condition holds that another thread makes true."""
    async with asyncio.timeout(bound):
        while not holds():  # noqa: ASYNC110 - a thread cannot wake the loop
            await asyncio.sleep(0.002)  # between two checks; the wait is bounded


def target_without_stream(server: ScriptedMcp) -> mcpwire.Http:
    """Return a target whose only GET requests resume the stream of a call."""
    return mcpwire.Http(server.url, server_stream="never")
