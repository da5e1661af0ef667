"""The everything server tells its client: logs, progress, updates; calls given up."""

from __future__ import annotations

import signal

import anyio
import pytest
from hearing import MESSAGE, PATIENCE_S, TOOLS_CHANGED, UPDATED, Heard, next_of

import mcpwire

pytestmark = pytest.mark.servers

LOGGING, UPDATES = "toggle-simulated-logging", "toggle-subscriber-updates"
LONG, SAMPLING = "trigger-long-running-operation", "trigger-sampling-request"
# With a timer or a call of its own still running the server does not leave by itself.
QUICK = mcpwire.Limits(close_grace=0.2)
FIRST, SECOND, THIRD = (f"demo://resource/dynamic/text/{n}" for n in (1, 2, 3))


async def test_simulated_logging_reaches_events_and_callback(real, connect):
    heard = Heard()
    options = {"on_notification": heard}
    async with (
        connect(real("everything"), **options) as client,
        client.events() as events,
    ):
        await client.set_log_level("debug")
        started = await client.call_tool(LOGGING)
        told = await next_of(events, MESSAGE)
        await heard.until(lambda: heard.of(MESSAGE))
        await client.call_tool(LOGGING)
    assert started.text.startswith("Started simulated")
    assert told == heard.of(MESSAGE)[0]
    assert told.data.lower().startswith(told.level)


async def test_progress_comes_with_its_call_and_to_nobody_else(real, connect):
    mine, heard = Heard(), Heard()
    options = {"duration": 0.2, "steps": 4}
    async with (
        connect(real("everything"), on_notification=heard) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(client.call_tool, LONG, options)
        result = await client.call_tool(LONG, options, on_progress=mine)
    assert result.text.endswith("Duration: 0.2 seconds, Steps: 4.")
    assert mine.all == [(step, 4, None) for step in (1, 2, 3, 4)]
    assert {told.method for told in heard.all} <= {TOOLS_CHANGED}


async def test_progress_keeps_a_call_alive_beyond_its_timeout(real, connect):
    """Others may keep the machine from any one attempt, hardly from all."""
    options = {"reset_timeout_on_progress": True}
    async with connect(real("everything"), **options) as client:
        for attempts_left in reversed(range(8)):
            heard = Heard()
            try:
                result = await client.call_tool(
                    LONG, {"duration": 1.8, "steps": 30}, timeout=1.2, on_progress=heard
                )
                break
            except mcpwire.RequestTimeout:
                if not attempts_left:
                    raise
    assert result.text.startswith("Long running operation completed.")
    assert len(heard.all) == 30


async def test_changed_lists_are_told_as_tools_appear_with_what_we_can(real, connect):
    heard = Heard()
    handlers = {"roots": [], "on_notification": heard, "limits": QUICK}
    async with connect(real("everything"), **handlers) as client:
        await heard.until(lambda: heard.of(TOOLS_CHANGED))
        names = [tool.name for tool in await client.list_tools()]
    assert "get-roots-list" in names


# --- calls given up


# --- a server that is killed


@pytest.mark.pain("P04")
async def test_streams_and_watches_go_on_over_a_killed_server(real, connect):
    async with (
        connect(real("everything"), limits=QUICK) as client,
        client.events() as events,
        client.watch(THIRD) as contents,
    ):
        with anyio.fail_after(PATIENCE_S):
            await anext(contents)
            connect.kill()
            renewed = await anext(contents)  # nobody else calls: it reconnects
            await client.call_tool(UPDATES)
            updated = await anext(contents)
        told = await next_of(events, UPDATED)
    assert renewed.text.startswith("Resource 3: ")
    assert updated.text.startswith("Resource 3: ")
    assert told.uri == THIRD


@pytest.mark.pain("P24")
async def test_a_tool_that_only_reads_is_called_again_on_the_new_server(real, connect):
    heard, results = Heard(), []
    arguments = {"duration": 1, "steps": 10}

    async with connect(real("everything")) as client:
        await client.list_tools()  # its hints say that it only reads

        async def read():
            results.append(await client.call_tool(LONG, arguments, on_progress=heard))

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await heard.until(lambda: heard.all)
            connect.kill()
        await client.list_tools()  # the new server said that its tools changed
        heard.all.clear()
        started = await client.start_call(LONG, arguments, on_progress=heard)
        await heard.until(lambda: heard.all)
        before = started.request_id
        connect.kill()
        results.append(await started)
    for result in results:
        assert result.text.startswith("Long running operation completed.")
    assert [step for step, _, _ in heard.all].count(1) == 2
    assert started.request_id != before


async def test_a_server_that_stands_still_is_given_up_and_replaced(real, connect):
    quick = mcpwire.Limits(close_grace=0.1, terminate_grace=0.1)
    async with connect(real("everything"), keepalive=1, limits=quick) as client:
        before = connect.processes().keys()
        connect.kill(signal.SIGSTOP)
        with anyio.fail_after(PATIENCE_S):
            tools = await client.list_tools()
        assert before.isdisjoint(connect.processes())
    assert "echo" in [tool.name for tool in tools]
