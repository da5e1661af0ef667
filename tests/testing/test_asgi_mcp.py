"""Servers behind `AsgiTransport` work as over HTTP, in both eras."""

import asyncio
import contextlib

import httpx
import pytest

import mcpwire
from mcpwire import Context
from mcpwire.testing import AsgiTransport, VirtualClockLoop, leak_check

BOUND_S = 30.0
URL = "http://localhost/mcp"

ERAS = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])


@contextlib.asynccontextmanager
async def served(server, version):
    """Give a client of the server, over HTTP without a socket."""
    transport = AsgiTransport(server.asgi(stream_after=0.1))
    async with (
        asyncio.timeout(BOUND_S),
        leak_check(),
        httpx.AsyncClient(transport=transport) as http_client,
    ):
        target = mcpwire.Http(URL, http_client=http_client)
        async with mcpwire.Client(target, mode=version) as client:
            assert client.protocol_version == version
            yield client


@ERAS
async def test_progress_arrives_while_the_tool_runs(version):
    server = mcpwire.Server("demo")
    received = asyncio.Semaphore(0)

    @server.tool
    async def walk(ctx: Context) -> str:
        for step in (1, 2, 3):
            ctx.progress(step, 3)
            await received.acquire()
        return "there"

    steps = []

    def on_progress(progress, total, _message):
        steps.append((progress, total))
        received.release()

    async with served(server, version) as client:
        result = await client.call_tool("walk", on_progress=on_progress)
        assert result.text == "there"
    assert steps == [(1, 3), (2, 3), (3, 3)]


@ERAS
async def test_cancelling_a_call_stops_only_its_tool(version):
    server = mcpwire.Server("demo")
    started, stopped = asyncio.Event(), asyncio.Event()

    @server.tool
    async def forever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with served(server, version) as client:
        call = asyncio.ensure_future(client.call_tool("forever"))
        await started.wait()
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        await stopped.wait()
        assert await client.ping() >= 0


@ERAS
async def test_resource_update_arrives_on_the_event_stream(version):
    server = mcpwire.Server("demo")
    server.add_resource("memo://1", "one")

    async with served(server, version) as client, client.events() as events:
        await client.subscribe("memo://1")
        server.notify_resource_updated("memo://1")
        async for event in events:
            assert event.method == "notifications/resources/updated"
            assert event.params.uri == "memo://1"
            break


class DisconnectingApp:
    """Breaks the connection of the first call after its first notification."""

    def __init__(self, app):
        self.app = app
        self.is_broken = False
        self.resumed = asyncio.Event()
        self.resumed_after = []

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", ()))
        if last := headers.get(b"last-event-id"):
            self.resumed_after.append(last)
            self.resumed.set()

        async def send_then_break(event):
            await send(event)
            if not self.is_broken and b"progress" in event.get("body", b""):
                self.is_broken = True
                raise BrokenPipeError("cut")

        await self.app(scope, receive, send_then_break)


async def test_broken_stream_is_resumed_without_loss():
    server = mcpwire.Server("demo")

    @server.tool
    async def walk(ctx: Context) -> str:
        ctx.progress(1, 2)
        await app.resumed.wait()
        ctx.progress(2, 2)
        return "there"

    app = DisconnectingApp(server.asgi(retry=0.1))
    steps = []
    async with (
        leak_check(),
        httpx.AsyncClient(transport=AsgiTransport(app)) as http_client,
        mcpwire.Client(
            mcpwire.Http(URL, http_client=http_client), mode="2025-11-25"
        ) as client,
    ):
        result = await client.call_tool(
            "walk", on_progress=lambda *at: steps.append(at)
        )
        assert result.text == "there"
    assert app.is_broken
    assert len(app.resumed_after) == 1
    assert steps == [(1, 2, None), (2, 2, None)]


def test_virtual_clock_skips_hours_of_idle_time():
    server = mcpwire.Server("demo")

    @server.tool
    async def slow() -> str:
        await asyncio.sleep(600)
        return "at last"

    async def main():
        app = server.asgi(session_idle=1_800)
        async with (
            httpx.AsyncClient(transport=AsgiTransport(app)) as http_client,
            mcpwire.Client(
                # A session with an open stream is not idle.
                mcpwire.Http(URL, http_client=http_client, server_stream="never"),
                mode="session",
                timeout=900,
            ) as client,
        ):
            assert (await client.call_tool("slow")).text == "at last"
            session = client.session_id
            await asyncio.sleep(3_600)
            await client.ping()
            assert client.session_id != session

    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        runner.run(main())
