"""Notifications of the everything server: logs, progress, updates; lost servers."""

import signal

import anyio
import pytest
from notification_log import (
    MESSAGE,
    TIMEOUT_S,
    TOOLS_CHANGED,
    UPDATED,
    Recorder,
    next_of,
)

import mcpwire

pytestmark = pytest.mark.servers

LOGGING, UPDATES = "toggle-simulated-logging", "toggle-subscriber-updates"
LONG, SAMPLING = "trigger-long-running-operation", "trigger-sampling-request"
# The server does not exit by itself while its own timer or call is running.
QUICK = mcpwire.Limits(close_grace=0.2)
FIRST, SECOND, THIRD = (f"demo://resource/dynamic/text/{n}" for n in (1, 2, 3))


async def test_simulated_logging_reaches_events_and_callback(real, connect):
    recorder = Recorder()
    options = {"on_notification": recorder}
    async with (
        connect(real("everything"), **options) as client,
        client.events() as events,
    ):
        await client.set_log_level("debug")
        started = await client.call_tool(LOGGING)
        params = await next_of(events, MESSAGE)
        await recorder.until(lambda: recorder.of(MESSAGE))
        await client.call_tool(LOGGING)
    assert started.text.startswith("Started simulated")
    assert params == recorder.of(MESSAGE)[0]
    assert params.data.lower().startswith(params.level)


async def test_progress_is_delivered_to_its_own_call_only(real, connect):
    own, recorder = Recorder(), Recorder()
    options = {"duration": 0.2, "steps": 4}
    async with (
        connect(real("everything"), on_notification=recorder) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(client.call_tool, LONG, options)
        result = await client.call_tool(LONG, options, on_progress=own)
    assert result.text.endswith("Duration: 0.2 seconds, Steps: 4.")
    assert own.all == [(step, 4, None) for step in (1, 2, 3, 4)]
    assert {notification.method for notification in recorder.all} <= {TOOLS_CHANGED}


async def test_progress_keeps_a_call_alive_beyond_its_timeout(real, connect):
    """One attempt may fail on a busy machine, but hardly all of them."""
    options = {"reset_timeout_on_progress": True}
    async with connect(real("everything"), **options) as client:
        for attempts_left in reversed(range(8)):
            recorder = Recorder()
            try:
                result = await client.call_tool(
                    LONG,
                    {"duration": 1.8, "steps": 30},
                    timeout=1.2,
                    on_progress=recorder,
                )
                break
            except mcpwire.RequestTimeout:
                if not attempts_left:
                    raise
    assert result.text.startswith("Long running operation completed.")
    assert len(recorder.all) == 30


async def test_new_tools_for_our_capabilities_send_list_changed(real, connect):
    recorder = Recorder()
    handlers = {"roots": [], "on_notification": recorder, "limits": QUICK}
    async with connect(real("everything"), **handlers) as client:
        await recorder.until(lambda: recorder.of(TOOLS_CHANGED))
        names = [tool.name for tool in await client.list_tools()]
    assert "get-roots-list" in names


@pytest.mark.pain("P04")
async def test_streams_and_watches_continue_over_a_killed_server(real, connect):
    async with (
        connect(real("everything"), limits=QUICK) as client,
        client.events() as events,
        client.watch(THIRD) as contents,
    ):
        with anyio.fail_after(TIMEOUT_S):
            await anext(contents)
            connect.kill()
            renewed = await anext(contents)  # it reconnects without another call
            await client.call_tool(UPDATES)
            updated = await anext(contents)
        update = await next_of(events, UPDATED)
    assert renewed.text.startswith("Resource 3: ")
    assert updated.text.startswith("Resource 3: ")
    assert update.uri == THIRD


@pytest.mark.pain("P24")
async def test_a_read_only_tool_is_retried_on_the_new_server(real, connect):
    recorder, results = Recorder(), []
    arguments = {"duration": 1, "steps": 10}

    async with connect(real("everything")) as client:
        await client.list_tools()  # its hints declare it as read-only

        async def read():
            results.append(
                await client.call_tool(LONG, arguments, on_progress=recorder)
            )

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await recorder.until(lambda: recorder.all)
            connect.kill()
        await client.list_tools()  # the new server has sent list_changed
        recorder.all.clear()
        started = await client.start_call(LONG, arguments, on_progress=recorder)
        await recorder.until(lambda: recorder.all)
        before = started.request_id
        connect.kill()
        results.append(await started)
    for result in results:
        assert result.text.startswith("Long running operation completed.")
    assert [step for step, _, _ in recorder.all].count(1) == 2
    assert started.request_id != before


async def test_a_stopped_server_is_replaced(real, connect):
    quick = mcpwire.Limits(close_grace=0.1, terminate_grace=0.1)
    async with connect(real("everything"), keepalive=1, limits=quick) as client:
        before = connect.processes().keys()
        connect.kill(signal.SIGSTOP)
        with anyio.fail_after(TIMEOUT_S):
            tools = await client.list_tools()
        assert before.isdisjoint(connect.processes())
    assert "echo" in [tool.name for tool in tools]
