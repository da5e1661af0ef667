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


@pytest.mark.rule("LOG-05")
async def test_the_log_level_decides_what_the_server_tells(real, connect):
    async with connect(real("everything")) as client, client.events() as events:
        await client.set_log_level("error")
        await client.subscribe(FIRST)  # logged as info: not told
        await client.set_log_level("info")
        await client.subscribe(SECOND)
        told = await next_of(events, MESSAGE)
        with pytest.raises(mcpwire.LocalProtocolError):
            await client.set_log_level("verbose")
    assert told.level == "info"
    assert told.data.startswith(
        f"Received Subscribe Resource request for URI: {SECOND}"
    )


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


async def test_updates_of_what_was_subscribed_to_arrive_and_then_no_more(real, connect):
    async with connect(real("everything")) as client, client.events() as events:
        await client.subscribe(FIRST)
        await client.subscribe(SECOND)
        await client.unsubscribe(FIRST)
        with pytest.raises(mcpwire.LocalProtocolError):
            await client.unsubscribe(FIRST)
        await client.call_tool(UPDATES)
        assert (await next_of(events, UPDATED)).uri == SECOND
        await client.call_tool(UPDATES)


async def test_a_subscription_of_ones_own_hears_only_what_it_asked_for(real, connect):
    async with (
        connect(real("everything")) as client,
        client.listen([FIRST], tools=True) as changes,
    ):
        acknowledged = changes.acknowledged
        await client.subscribe(SECOND)
        await client.call_tool(UPDATES)
        assert (await next_of(changes, UPDATED)).uri == FIRST
        await client.call_tool(UPDATES)
    assert acknowledged == mcpwire.Filter(tools=True, uris={FIRST})


async def test_a_watch_reads_anew_after_each_update(real, connect):
    async with (
        connect(real("everything")) as client,
        client.watch(THIRD) as contents,
    ):
        with anyio.fail_after(PATIENCE_S):
            first = await anext(contents)
            await client.call_tool(UPDATES)
            second = await anext(contents)
        await client.call_tool(UPDATES)
    assert first.text.startswith("Resource 3: This is a plaintext resource")
    assert second.text.startswith("Resource 3: ")


async def test_changed_lists_are_told_as_tools_appear_with_what_we_can(real, connect):
    heard = Heard()
    handlers = {"roots": [], "on_notification": heard, "limits": QUICK}
    async with connect(real("everything"), **handlers) as client:
        await heard.until(lambda: heard.of(TOOLS_CHANGED))
        names = [tool.name for tool in await client.list_tools()]
    assert "get-roots-list" in names


# --- calls given up


@pytest.mark.pain("P09")
async def test_a_started_call_that_is_cancelled_ends_at_once(real, connect):
    """The server works on, for its tool never asks; the SDK keeps the answer back."""
    sent, heard = Heard(), Heard()
    options = {"trace": sent, "limits": QUICK}
    async with connect(real("everything"), **options) as client:
        call = await client.start_call(
            LONG, {"duration": 60, "steps": 600}, on_progress=heard, timeout=None
        )
        await heard.until(lambda: heard.all)
        assert not call.done
        call.cancel("no longer needed")
        with anyio.fail_after(PATIENCE_S):
            with pytest.raises(mcpwire.CallCancelled) as cancelled:
                await call
        assert call.done
        assert (await client.call_tool("echo", {"message": "on"})).text == "Echo: on"
        count = len(heard.all)
        await client.ping()
        assert len(heard.all) == count
    assert cancelled.value.reason == "no longer needed"
    assert cancelled.value.method == "tools/call"
    lines = [bytes(data) for event, data in sent.all if event == "send"]
    (notice,) = [line for line in lines if b"notifications/cancelled" in line]
    assert f'"requestId":{call.request_id}'.encode() in notice
    assert b'"reason":"no longer needed"' in notice


async def test_a_started_call_that_is_not_cancelled_gives_its_result(real, connect):
    async with connect(real("everything")) as client:
        call = await client.start_call(LONG, {"duration": 0.2, "steps": 2})
        echo = await client.call_tool("echo", {"message": "meanwhile"})
        result = await call
        again = await call
        call.cancel()
    assert echo.text == "Echo: meanwhile"
    assert result.text.startswith("Long running operation completed.")
    assert again is result


# --- a server that is killed


@pytest.mark.pain("P04")
async def test_a_killed_server_is_started_again_and_told_what_it_has_to_know(
    real, connect
):
    heard = Heard()
    options = {
        "on_notification": heard,
        "sampling": lambda _: None,
        "limits": QUICK,
    }
    async with connect(real("everything"), **options) as client:
        await client.set_log_level("error")
        await client.subscribe(FIRST)
        before = connect.processes().keys()
        connect.kill()
        offered = [tool.name for tool in await client.list_tools()]
        assert SAMPLING in offered
        assert before.isdisjoint(connect.processes())
        await client.call_tool(UPDATES)
        await heard.until(lambda: heard.of(UPDATED))
        assert heard.of(UPDATED)[0].uri == FIRST
        # Subscribing anew was logged as info; the level was told before.
        assert heard.of(MESSAGE) == []
        assert client.is_connected


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


@pytest.mark.pain("P02")
async def test_a_call_that_may_have_run_fails_and_the_next_one_works(real, connect):
    async with connect(real("everything")) as client:
        heard = Heard()
        call = await client.start_call(
            LONG, {"duration": 60, "steps": 600}, on_progress=heard
        )
        await heard.until(lambda: heard.all)
        connect.kill()
        with anyio.fail_after(PATIENCE_S):
            with pytest.raises(mcpwire.ConnectionClosed) as lost:
                await call
        assert (await client.call_tool("echo", {"message": "on"})).text == "Echo: on"
    assert lost.value.sent
    assert lost.value.exit_code == -signal.SIGKILL


async def test_a_server_that_stands_still_is_given_up_and_replaced(real, connect):
    quick = mcpwire.Limits(close_grace=0.1, terminate_grace=0.1)
    async with connect(real("everything"), keepalive=1, limits=quick) as client:
        before = connect.processes().keys()
        connect.kill(signal.SIGSTOP)
        with anyio.fail_after(PATIENCE_S):
            tools = await client.list_tools()
        assert before.isdisjoint(connect.processes())
    assert "echo" in [tool.name for tool in tools]
