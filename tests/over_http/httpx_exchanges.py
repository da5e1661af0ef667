"""The httpx engine on a loop of its own, for tests that wait for each exchange.

    with exchanges(server.url) as it:
        fed = it.exchange()

What is fed is kept in a `Fed`, which is over at a mark in the body, or at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import httpx
from engines import BOUND_S, Answer

from mcpwire import Http
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.http_reply import Request
from mcpwire.transports.http.httpx_engine import HttpxEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpwire.errors import MCPError
    from mcpwire.limits import Limits

MARK: Final = b"the answer"


class Fed(Answer):
    """Keeps what an engine feeds; over at a mark in the body, or at its end."""

    def __init__(self, *, refusal: MCPError | None = None) -> None:
        super().__init__(lambda body: MARK in body, refusal)


def request_to(
    target: Http, body: bytes | None = b"{}", *, verb: str = "POST", **fields: str
) -> Request:
    """Return a request as the channels build them, with those fields besides."""
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
    """One engine with its loop, and the user's client that it may have."""

    def __init__(
        self, url: str, limits: Limits, client: Any, options: dict[str, Any]
    ) -> None:
        self.engine: Any = None
        self._runner = asyncio.Runner()
        self._limits = limits
        self.client = httpx.AsyncClient(**client) if type(client) is dict else client
        self.target = Http(url, http_client=self.client, **options)

    def open(self) -> None:
        self.engine = self.run(self._make())

    async def _make(self) -> HttpxEngine:
        return HttpxEngine(self.target, self._limits)

    def run(self, coroutine: Any) -> Any:
        return self._runner.run(asyncio.wait_for(coroutine, BOUND_S))

    def exchange(self, request: Request | None = None, fed: Fed | None = None) -> Fed:
        """Perform one exchange; return what was fed."""
        request = request or request_to(self.target)
        fed = fed or Fed()
        self.run(self.engine.exchange(request, fed, None))
        assert fed.is_over
        return fed

    def exchanges(self, count: int) -> list[Fed]:
        """Perform that many, one right after the other."""
        return list(self.run(self._one_by_one(count)))

    async def _one_by_one(self, count: int) -> list[Fed]:
        feds = [Fed() for _ in range(count)]
        for fed in feds:
            await self.engine.exchange(request_to(self.target), fed, None)
        return feds

    def close_engine(self) -> None:
        self.run(self.engine.aclose())

    def close_client(self) -> None:
        self.run(self.client.aclose())

    def close(self) -> None:
        if self.engine is not None:
            is_closed = getattr(self.client, "is_closed", None)
            self.close_engine()
            assert getattr(self.client, "is_closed", None) is is_closed, "not ours"
        if type(self.client) is httpx.AsyncClient:
            self.close_client()
        self._runner.close()


def answering(*answers: bytes) -> Callable[[Any], None]:
    """Return a script that sends these, one per request, and the last for ever."""
    left = list(answers)

    def script(conn: Any) -> None:
        while conn.receive(timeout=None) is not None:
            conn.send(left.pop(0) if len(left) > 1 else left[0])

    return script


def forget_proxies(monkeypatch: Any) -> None:
    """Let the environment name no proxy."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@contextlib.contextmanager
def exchanges(
    url: str,
    *,
    limits: Limits = DEFAULT_LIMITS,
    client: Any = None,
    **options: Any,
) -> Iterator[Exchanges]:
    """Give an open engine, and close it.

    Args:
        url: Where to.
        limits: The engine's.
        client: The user's: options for one, or one.
        **options: The target's.
    """
    made = Exchanges(url, limits, client, options)
    try:
        made.open()
        yield made
    finally:
        made.close()
