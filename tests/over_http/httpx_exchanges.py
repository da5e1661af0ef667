"""The httpx engine on its own loop, for tests that wait for each exchange.

    with exchanges(server.url) as it:
        response = it.exchange()

A `ResponseSink` records the response; it is over at a mark in the body, or at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import httpx
from engines import BOUND_S, RecordedResponse

from mcpwire import Http
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.http_reply import Request
from mcpwire.transports.http.httpx_engine import HttpxEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpwire.errors import MCPError
    from mcpwire.limits import Limits

MARK: Final = b"the answer"


class ResponseSink(RecordedResponse):
    """Records a response; over at a mark in the body, or at its end."""

    def __init__(self, *, refusal: MCPError | None = None) -> None:
        super().__init__(lambda body: MARK in body, refusal)


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


class Exchanges:
    """One engine, and its target with an optional client of the user."""

    def __init__(self, run: Callable[[Any], Any], target: Http, limits: Limits) -> None:
        self._run = run
        self.target = target
        self.engine: HttpxEngine = run(self._make(limits))

    async def _make(self, limits: Limits) -> HttpxEngine:
        return HttpxEngine(self.target, limits)

    def exchange(
        self, request: Request | None = None, response: ResponseSink | None = None
    ) -> ResponseSink:
        """Perform one exchange; return the response."""
        response = response or ResponseSink()
        request = request or request_to(self.target)
        self._run(self.engine.exchange(request, response, None))
        assert response.is_over
        return response

    def exchanges(self, count: int) -> list[ResponseSink]:
        """Perform several exchanges, one after the other."""
        return [self.exchange() for _ in range(count)]

    def close_client(self) -> None:
        self._run(self.target.http_client.aclose())

    def close(self) -> None:
        client = self.target.http_client
        is_closed = getattr(client, "is_closed", None)
        self._run(self.engine.aclose())
        assert getattr(client, "is_closed", None) is is_closed, (
            "closed the user's client"
        )
        if type(client) is httpx.AsyncClient:
            self.close_client()


def answering(*answers: bytes) -> Callable[[Any], None]:
    """Return a script that sends these responses in turn, and repeats the last."""
    left = list(answers)

    def script(conn: Any) -> None:
        while conn.receive(timeout=None) is not None:
            conn.send(left.pop(0) if len(left) > 1 else left[0])

    return script


def forget_proxies(monkeypatch: Any) -> None:
    """Remove the proxy variables from the environment."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@contextlib.contextmanager
def exchanges(
    url: str, *, limits: Limits = DEFAULT_LIMITS, client: Any = None, **options: Any
) -> Iterator[Exchanges]:
    """Yield an open engine, and close it.

    Args:
        url: The URL of the server.
        limits: The engine's.
        client: The user's: options for one, or one.
        **options: The target's.
    """
    client = httpx.AsyncClient(**client) if type(client) is dict else client
    with asyncio.Runner() as runner:
        target = Http(url, http_client=client, **options)
        it = Exchanges(lambda work: runner.run(bounded(work)), target, limits)
        try:
            yield it
        finally:
            it.close()


async def bounded(work: Any) -> Any:
    """Await a coroutine in bounded time."""
    async with asyncio.timeout(BOUND_S):
        return await work
