"""Servers behind `AsgiTransport` are used as over HTTP, in both eras."""

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
async def test_progress_comes_while_the_tool_still_runs(version):
    server = mcpwire.Server("demo")
    heard = asyncio.Semaphore(0)

    @server.tool
    async def walk(ctx: Context) -> str:
        for step in (1, 2, 3):
            ctx.progress(step, 3)
            await heard.acquire()
        return "there"

    steps = []

    def on_progress(progress, total, _message):
        steps.append((progress, total))
        heard.release()

    async with served(server, version) as client:
        result = await client.call_tool("walk", on_progress=on_progress)
        assert result.text == "there"
    assert steps == [(1, 3), (2, 3), (3, 3)]


@ERAS
async def test_cancelling_a_call_stops_the_tool_and_nothing_else(version):
    server = mcpwire.Server("demo")
    began, stopped = asyncio.Event(), asyncio.Event()

    @server.tool
    async def forever() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with served(server, version) as client:
        call = asyncio.ensure_future(client.call_tool("forever"))
        await began.wait()
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        await stopped.wait()
        assert await client.ping() >= 0


@ERAS
async def test_what_changes_is_told_on_a_stream_of_its_own(version):
    server = mcpwire.Server("demo")
    server.add_resource("memo://1", "one")

    async with served(server, version) as client, client.events() as events:
        await client.subscribe("memo://1")
        server.notify_resource_updated("memo://1")
        async for event in events:
            assert event.method == "notifications/resources/updated"
            assert event.params.uri == "memo://1"
            break


class Cutting:
    """Breaks the connection of the first call behind the first thing it says."""

    def __init__(self, app):
        self.app = app
        self.is_cut = False
        self.resumed = asyncio.Event()
        self.resumed_after = []

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", ()))
        if last := headers.get(b"last-event-id"):
            self.resumed_after.append(last)
            self.resumed.set()

        async def cutting(event):
            await send(event)
            if not self.is_cut and b"progress" in event.get("body", b""):
                self.is_cut = True
                raise BrokenPipeError("cut")

        await self.app(scope, receive, cutting)


async def test_a_stream_that_breaks_is_resumed_and_nothing_of_it_is_lost():
    server = mcpwire.Server("demo")

    @server.tool
    async def walk(ctx: Context) -> str:
        ctx.progress(1, 2)
        await app.resumed.wait()
        ctx.progress(2, 2)
        return "there"

    app = Cutting(server.asgi(retry=0.1))
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
    assert app.is_cut
    assert len(app.resumed_after) == 1
    assert steps == [(1, 2, None), (2, 2, None)]


def test_hours_take_no_time_on_a_virtual_clock():
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
                # A session whose stream is open is not idle.
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
