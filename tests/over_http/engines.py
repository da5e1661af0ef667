"""Both engines behind one interface, so that one test covers both.

async with open_engine("httpx", server.url) as engine:
    response = await engine.ask(1)
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import httpx
import pytest
from certificates import client_context, server_context
from raw_server import RawServer, raw_server

from mcpwire.errors import MCPError, RequestTimeout
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol.http_reply import Request
from mcpwire.transports.http.direct import DirectEngine
from mcpwire.transports.http.httpx_engine import HttpxEngine
from mcpwire.transports.http.target import Http

BOUND_S: Final = 30.0


class RecordedResponse:
    """A response that an engine feeds; over at its end, or when `until(body)` holds."""

    def __init__(
        self,
        until: Callable[[bytes], bool] | None = None,
        refusal: MCPError | None = None,
    ) -> None:
        self.is_over = False
        self.status = 0
        self.fields: dict[bytes, bytes] = {}
        self.chunks: list[bytes] = []
        self.has_ended = False
        self._until = until
        self._refusal = refusal

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        assert not self.status, "more than one head"
        self.status, self.fields = status, fields

    def data(self, chunk: bytes) -> None:
        assert type(chunk) is bytes
        assert self.status
        assert not self.has_ended
        if self._refusal is not None:
            raise self._refusal
        self.chunks.append(chunk)
        if self._until is not None and self._until(self.body):
            self.is_over = True

    def end(self) -> None:
        assert self.status
        assert not self.has_ended, "more than one end"
        self.has_ended = self.is_over = True

    def timeout_error(self, now: float) -> MCPError:
        return RequestTimeout(method="test", timeout=BOUND_S, elapsed=BOUND_S)


def post(obj: object = None, *, body: bytes | None = None) -> Request:
    start = b"POST /mcp HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
    return Request(start, json.dumps(obj).encode() if body is None else body)


def get() -> Request:
    return Request(b"GET /other?x=1 HTTP/1.1\r\nhost: test\r\n")


def request_to(
    target: Http, body: bytes | None = b"{}", *, verb: str = "POST", **fields: str
) -> Request:
    """Return a request as the channels build it, with additional header fields."""
    lines = [
        f"{verb} {target.parsed.target} HTTP/1.1",
        f"host: {target.parsed.authority}",
        "accept: application/json, text/event-stream",
        "accept-encoding: identity",
        "user-agent: mcpwire-test",
        *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items()),
    ]
    return Request("".join(f"{line}\r\n" for line in lines).encode(), body)


def is_answered(body: bytes) -> bool:
    """Whether a response is over before its body ends."""
    return b"answer" in body


class EngineUnderTest:
    def __init__(self, engine: Any, target: Http) -> None:
        self.engine = engine
        self.http = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    async def exchange(self, request: Request, response: RecordedResponse) -> None:
        await self.engine.exchange(request, response)

    async def ask(
        self,
        obj: object = None,
        *,
        body: bytes | None = None,
        response: RecordedResponse | None = None,
    ) -> RecordedResponse:
        """Post an object or a body; return the response, in bounded time."""
        response = response or RecordedResponse()
        async with asyncio.timeout(BOUND_S):
            await self.exchange(post(obj, body=body), response)
        assert response.is_over
        return response

    async def send(
        self, request: Request | None = None, response: RecordedResponse | None = None
    ) -> RecordedResponse:
        """Send a request, by default one of a channel; return the response."""
        response = response or RecordedResponse()
        async with asyncio.timeout(BOUND_S):
            await self.exchange(request or request_to(self.http), response)
        assert response.is_over
        return response

    async def aclose(self) -> None:
        async with asyncio.timeout(BOUND_S):
            await self.engine.aclose()


ENGINES: Final[dict[str, Any]] = {"direct": DirectEngine, "httpx": HttpxEngine}

every_engine = pytest.mark.parametrize("kind", ENGINES)


@contextlib.asynccontextmanager
async def open_engine(
    kind: str,
    url: str,
    *,
    limits: Limits = DEFAULT_LIMITS,
    client: Any = None,
    **options: Any,
) -> AsyncIterator[EngineUnderTest]:
    """Yield an engine of that kind; close it at the end.

    `client` is a user's httpx client, or the options of one.
    """
    client = httpx.AsyncClient(**client) if type(client) is dict else client
    target = Http(url, http_client=client, **options)
    engine = EngineUnderTest(ENGINES[kind](target, limits), target)
    try:
        yield engine
    finally:
        is_closed = getattr(client, "is_closed", None)
        await engine.aclose()
        closed_by_us = getattr(client, "is_closed", None) is not is_closed
        if type(client) is httpx.AsyncClient:
            await client.aclose()
    assert not closed_by_us


@contextlib.asynccontextmanager
async def engine_at(
    kind: str,
    script: Callable[[Any], None],
    *,
    query: str = "",
    ssl_context: Any = None,
    **options: Any,
) -> AsyncIterator[tuple[RawServer, EngineUnderTest]]:
    """Yield a server that runs the script, and an engine connected to it."""
    with raw_server(script, ssl_context=ssl_context) as server:
        async with open_engine(kind, server.url + query, **options) as engine:
            yield server, engine


def over_tls() -> dict[str, Any]:
    """Return the options of `engine_at` for TLS with a valid certificate."""
    return {"ssl_context": server_context(), "ssl": client_context()}


def answering(*answers: bytes) -> Callable[[Any], None]:
    """Return a script that sends these responses in turn, and repeats the last."""
    left = list(answers)

    def script(conn: Any) -> None:
        while conn.receive(timeout=None) is not None:
            conn.send(left.pop(0) if len(left) > 1 else left[0])

    return script


async def until(server: Any, holds: Callable[[], Any]) -> None:
    """Wait until a condition on a server holds, while the loop runs."""
    await asyncio.to_thread(server.wait_until, holds)


async def eventually(holds: Callable[[], Any]) -> None:
    """Wait until a condition holds, by polling between turns of the loop."""
    async with asyncio.timeout(BOUND_S):
        while True:
            if holds():
                return
            await asyncio.sleep(0.0005)  # between two polls; the wait is bounded


async def all_closed(server: Any) -> None:
    await until(server, lambda: not server.open)


def echo(conn: Any) -> None:
    from http_bytes import json_reply

    while (request := conn.receive()) is not None:
        conn.send(json_reply(request.json))
