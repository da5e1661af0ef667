"""An in-memory server of a blocking client whose threads share its loop."""

import threading

import pytest

import mcpwire
import mcpwire.sync

BOUND_S = 30.0


@pytest.fixture
def server():
    server = mcpwire.Server("demo")

    @server.tool
    async def work(ctx: mcpwire.Context) -> str:
        await ctx.report_progress(1, 2)
        return "done"

    @server.tool
    async def asks_wrongly(ctx: mcpwire.Context) -> str:
        ctx.sync.elicit("What?", str)
        return "not reached"

    return server


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join(BOUND_S)
    return results[0]


def test_progress_arrives_before_the_result_in_any_thread(server):
    updates = []

    def call():
        return client.call_tool(
            "work", on_progress=lambda *update: updates.append(update)
        )

    with mcpwire.sync.Client(server) as client:
        assert call().text == in_thread(call).text == "done"
    assert len(updates) == 2


def test_sync_call_from_async_handler_fails_in_any_thread(server):
    with mcpwire.sync.Client(server, timeout=BOUND_S) as client:
        result = in_thread(lambda: client.call_tool("asks_wrongly"))
    assert result.is_error
