"""The fixtures of the shared suite: each transport at both eras."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from facing import TRANSPORTS

import mcpwire
from mcpwire.limits import Recovery

ERAS = ("2025-11-25", "2026-07-28")


class HandlerEvents:
    """What the handlers of the server did; the server may run in its own thread."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.cancelled = threading.Semaphore(0)

    async def wait_for(self, event: threading.Semaphore, count: int = 1) -> bool:
        """Wait until the event has happened `count` times."""

        def take() -> bool:
            return all(event.acquire(timeout=30) for _ in range(count))

        return await asyncio.to_thread(take)


@pytest.fixture
def handlers() -> HandlerEvents:
    return HandlerEvents()


@pytest.fixture
def server(handlers: HandlerEvents) -> mcpwire.Server:
    server = mcpwire.Server("shared", "1.0")

    @server.tool
    async def echo(message: str) -> str:
        return message

    @server.tool
    async def steps(ctx: mcpwire.Context, count: int) -> str:
        for step in range(1, count + 1):
            ctx.progress(step, count)
        return "done"

    @server.tool
    async def fail() -> str:
        raise mcpwire.ToolError("it failed")

    @server.tool
    async def hang() -> str:
        handlers.begun.release()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            handlers.cancelled.release()
            raise
        return "never"

    @server.tool
    async def big(size: int) -> str:
        return "x" * size

    @server.tool
    async def order(ctx: mcpwire.Context) -> str:
        form = {"type": "object", "properties": {"drink": {"type": "string"}}}
        answer = await ctx.elicit("What would you like?", form)
        return str(answer.content["drink"])

    return server


@pytest.fixture(params=TRANSPORTS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def served(kind: str, server: mcpwire.Server, tmp_path: Path) -> Any:
    async with asyncio.timeout(30), TRANSPORTS[kind](server, tmp_path) as served:
        yield served


@pytest.fixture
def client_of(served: Any, era: str) -> Any:
    def make(**options: Any) -> mcpwire.Client:
        options.setdefault("recovery", Recovery(backoff_initial=0.01))
        return mcpwire.Client(served.target, mode=era, **options)

    return make
