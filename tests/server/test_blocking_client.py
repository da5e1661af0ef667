"""A server in the memory of a blocking client, whose threads take turns at its loop."""

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
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join(BOUND_S)
    return found[0]


def test_progress_comes_before_the_result_from_any_thread(server):
    seen = []

    def call():
        return client.call_tool("work", on_progress=lambda *told: seen.append(told))

    with mcpwire.sync.Client(server) as client:
        assert call().text == in_thread(call).text == "done"
    assert len(seen) == 2


def test_what_would_stop_the_loop_is_refused_in_any_thread(server):
    with mcpwire.sync.Client(server, timeout=BOUND_S) as client:
        result = in_thread(lambda: client.call_tool("asks_wrongly"))
    assert result.is_error
