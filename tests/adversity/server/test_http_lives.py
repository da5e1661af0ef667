"""An application over HTTP whose loop ends, whose start hangs, or that is stalled."""

import asyncio
import json
import threading
from contextlib import asynccontextmanager

from asgi_driver import Visit, scope
from turns import until

from mcpwire import Server

PATIENCE = 30
REVISION = "2025-11-25"

INITIALIZE = {
    "protocolVersion": REVISION,
    "capabilities": {},
    "clientInfo": {"name": "review", "version": "1"},
}


def message(method, params=None, id=None):
    made = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return made if id is None else {**made, "id": id}


def tool(name, id=1):
    return message("tools/call", {"name": name, "arguments": {}}, id)


def visit(body, session=None, verb="POST"):
    accept = "text/event-stream" if verb == "GET" else "application/json, "
    fields = [
        ("host", "127.0.0.1:8000"),
        ("content-type", "application/json"),
        ("accept", f"{accept}, text/event-stream"),
    ]
    if session is not None:
        fields += [("mcp-session-id", session), ("mcp-protocol-version", REVISION)]
    return Visit(scope(verb, headers=fields), json.dumps(body).encode())


async def post(app, body, session=None):
    return await visit(body, session).begin(app).done()


async def opened(app):
    """Open a session and return its id."""
    answer = await post(app, message("initialize", INITIALIZE, 0))
    session = answer.headers["mcp-session-id"]
    await post(app, message("notifications/initialized"), session)
    return session


def run(main):
    """Run a coroutine on a loop of its own."""

    async def bounded():
        async with asyncio.timeout(PATIENCE):
            return await main

    return asyncio.run(bounded())


async def test_the_names_of_fields_are_in_lower_case():
    # ASGI, "Response Start"; RFC 9113, 8.2.1: anything else breaks HTTP/2.
    answer = await post(Server("s", "1").asgi(), message("initialize", INITIALIZE, 0))
    names = [name for name, _ in answer.events[0]["headers"]]
    assert b"mcp-session-id" in names
    assert names == [name.lower() for name in names]


async def test_a_start_that_hangs_does_not_outlive_the_application():
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
    waiting = visit(message("initialize", INITIALIZE, 0)).begin(app)
    await begins.wait()
    await app.aclose()
    await ended.wait()
    await waiting.done()
    assert waiting.status in {500, 503}


async def test_it_can_be_started_again_after_its_end():
    app = Server("again", "1").asgi()
    initialize = message("initialize", INITIALIZE, 0)
    assert (await post(app, initialize)).status == 200
    await app.aclose()
    assert (await post(app, initialize)).status == 503
    await app.start()
    assert (await post(app, initialize)).status == 200
    await app.aclose()


def test_sessions_do_not_outlive_the_loop_that_they_ran_on():
    server = Server("loops", "1")

    @server.tool
    async def forever() -> None:
        await asyncio.Event().wait()

    @server.tool
    async def quick() -> str:
        return "done"

    app = server.asgi(session_idle=0.05)

    async def leave():
        session = await opened(app)
        running = visit(tool("forever"), session).begin(app)
        await asyncio.sleep(0)
        return session, running

    old, _ = run(leave())

    async def go_on():
        # Whoever had one opens another, as after any restart.
        assert (await post(app, tool("quick"), old)).status == 404
        answer = None
        while answer is None or answer.status == 404:  # it idled on a loaded machine
            session = await opened(app)
            answer = await post(app, tool("quick"), session)
        assert answer.json()["result"]["content"][0]["text"] == "done"
        await asyncio.sleep(0.1)  # longer than it may be idle
        assert (await post(app, tool("quick", 2), session)).status == 404
        await app.aclose()

    run(go_on())


def test_a_tool_that_runs_once_at_a_time_does_so_on_the_next_loop_too():
    server = Server("loops", "1")
    begun, gate = threading.Event(), threading.Event()

    @server.tool(concurrency=1)
    def alone() -> str:
        begun.set()
        return "late" if gate.wait(PATIENCE) else "never"

    app = server.asgi(stream_after=PATIENCE)

    async def leave():
        session = await opened(app)
        visit(tool("alone"), session).begin(app)
        await until(begun.is_set, 0.001)

    async def go_on():
        gate.set()
        session = await opened(app)
        answer = await post(app, tool("alone"), session)
        assert answer.json()["result"]["content"][0]["text"] == "late"
        await app.aclose()

    run(leave())
    run(go_on())
