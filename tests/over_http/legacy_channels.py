"""HTTP+SSE channels, alone or with a server.

async with legacy(engine) as (server, client):
    await client.call("ping")
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from engines import BOUND_S, ENGINES
from legacy_server import LegacyServer, legacy_server

from mcpwire.limits import Limits
from mcpwire.protocol.deadline import Deadline
from mcpwire.transports.http.legacy_sse import LegacyChannel
from mcpwire.transports.http.target import Http
from mcpwire.versions import REVISIONS

QUICK: Final = Limits(close_grace=0.5, terminate_grace=0.5)

INITIALIZE: Final = {
    "protocolVersion": "2024-11-05",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Recorder:
    """Records messages of the server; responds to the methods in `answers`."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers = answers or {}
        self.notes: list[tuple[str, Any]] = []
        self.losses: list[Exception] = []

    def notification(self, method: str, params: Any, call: Any) -> None:
        self.notes.append((method, params))

    def request(self, id: Any, method: str, params: Any, reply: Any, call: Any) -> None:
        if method in self.answers:
            reply(self.answers[method])

    def lost(self, error: Exception) -> None:
        self.losses.append(error)

    def cancelled(self, id: Any) -> None: ...

    def missed(self) -> None: ...


class LegacyClient:
    def __init__(self, target: Http, engine: str, inbound: Any, limits: Limits) -> None:
        self.inbound = inbound
        engine = ENGINES[engine](target, limits)
        self.channel = LegacyChannel(target, engine, inbound, limits)
        self.channel.revision = REVISIONS[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.channel, name)

    def begin(
        self,
        method: str,
        params: Any = None,
        *,
        seconds: float | None = BOUND_S,
        **more: Any,
    ) -> asyncio.Task[Any]:
        deadline = Deadline(asyncio.get_running_loop().time(), seconds)
        call = self.channel.call(method, params, deadline=deadline, **more)
        return asyncio.create_task(call)

    async def call(self, method: str, params: Any = None, **more: Any) -> Any:
        return await self.begin(method, params, **more)

    def tool(self, text: str = "", **more: Any) -> asyncio.Task[Any]:
        params = {"name": "echo", "arguments": {"text": text}}
        return self.begin("tools/call", params, **more)


async def tool_text(call: asyncio.Task[Any]) -> str:
    return (await call)["content"][0]["text"]


async def failure(call: asyncio.Task[Any]) -> BaseException:
    await asyncio.wait([call], timeout=BOUND_S)
    error = call.exception()
    assert error is not None, "the call succeeded"
    return error


@contextlib.asynccontextmanager
async def opened(
    url: str | Http,
    engine: str = "direct",
    *,
    inbound: Any = None,
    limits: Limits = QUICK,
    **options: Any,
) -> AsyncIterator[LegacyClient]:
    """Open a channel, and close it in any case; no task of it may be left."""
    before = asyncio.all_tasks()
    target = url if isinstance(url, Http) else Http(url, **options)
    client = LegacyClient(target, engine, inbound or Recorder(), limits)
    try:
        async with asyncio.timeout(BOUND_S):
            yield client
    finally:
        await client.aclose()
    for _ in range(20):
        await asyncio.sleep(0)  # one loop iteration
    left = [task.get_name() for task in asyncio.all_tasks() - before]
    assert not [name for name in left if name.startswith("mcpwire")]


@contextlib.asynccontextmanager
async def legacy(
    engine: str = "direct", **options: Any
) -> AsyncIterator[tuple[LegacyServer, LegacyClient]]:
    with legacy_server() as server:
        async with opened(server.url, engine, **options) as client:
            yield server, client


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture
def gate():
    """Yield an event that is set in any case, so that no script waits forever."""
    event = threading.Event()
    yield event
    event.set()
