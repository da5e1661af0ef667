"""An HTTP application whose loop ends or whose startup hangs."""

import asyncio
import threading
from contextlib import asynccontextmanager

from client_paths import OverHttp
from loop_polling import until
from raw_client import request, session

from mcpwire import Server

TIMEOUT_S = 30
REVISION = "2025-11-25"
INITIALIZE = request(0, "initialize", session(REVISION))


def tool(name, id=1):
    return request(id, "tools/call", {"name": name})


def client_of(app):
    return OverHttp(None, REVISION, app=app)


def run(main):
    """Run a coroutine on its own loop."""

    async def bounded():
        async with asyncio.timeout(TIMEOUT_S):
            return await main

    return asyncio.run(bounded())


async def test_response_header_names_are_lower_case():
    # ASGI, "Response Start"; RFC 9113, 8.2.1: anything else breaks HTTP/2.
    answer = await client_of(Server("s", "1").asgi()).visit("POST", INITIALIZE)
    names = [name for name, _ in answer.sent[0]["headers"]]
    assert b"mcp-session-id" in names
    assert names == [name.lower() for name in names]


async def test_hanging_startup_ends_with_the_application():
    begins, ended = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def hang(_):
        begins.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        yield

    app = Server("hangs", "1", lifespan=hang).asgi()
    waiting = client_of(app).begin("POST", INITIALIZE)
    await begins.wait()
    await app.aclose()
    await ended.wait()
    await waiting.done()
    assert waiting.status in {500, 503}


async def test_application_can_be_started_again_after_close():
    app = Server("again", "1").asgi()
    client = client_of(app)
    assert (await client.visit("POST", INITIALIZE)).status == 200
    await app.aclose()
    assert (await client.visit("POST", INITIALIZE)).status == 503
    await app.start()
    assert (await client.visit("POST", INITIALIZE)).status == 200
    await app.aclose()


def test_sessions_end_with_their_event_loop():
    server = Server("loops", "1")

    @server.tool
    async def forever() -> None:
        await asyncio.Event().wait()

    @server.tool
    async def quick() -> str:
        return "done"

    app = server.asgi(session_idle=0.05)

    async def leave_call_running():
        client = await client_of(app).open()
        running = client.begin("POST", tool("forever"))
        await asyncio.sleep(0)
        return client, running

    old, _ = run(leave_call_running())

    async def continue_on_new_loop():
        # The client must open a new session, as after a restart.
        assert (await old.visit("POST", tool("quick"))).status == 404
        answer = None
        while (
            answer is None or answer.status == 404
        ):  # it was idle too long on a loaded machine
            client = await client_of(app).open()
            answer = await client.visit("POST", tool("quick"))
        assert answer.json()["result"]["content"][0]["text"] == "done"
        await asyncio.sleep(0.1)  # longer than it may be idle
        assert (await client.visit("POST", tool("quick", 2))).status == 404
        await app.aclose()

    run(continue_on_new_loop())


def test_tool_concurrency_limit_holds_across_loops():
    server = Server("loops", "1")
    begun, gate = threading.Event(), threading.Event()

    @server.tool(concurrency=1)
    def alone() -> str:
        begun.set()
        return "late" if gate.wait(TIMEOUT_S) else "never"

    app = server.asgi(stream_after=TIMEOUT_S)

    async def leave_call_running():
        client = await client_of(app).open()
        client.begin("POST", tool("alone"))
        await until(begun.is_set, 0.001)

    async def continue_on_new_loop():
        gate.set()
        client = await client_of(app).open()
        answer = await client.visit("POST", tool("alone"))
        assert answer.json()["result"]["content"][0]["text"] == "late"
        await app.aclose()

    run(leave_call_running())
    run(continue_on_new_loop())
