"""Notifications of a server on the official Python SDK, in both eras.

In a session it sends them at any time; at 2026-07-28 they belong to a request: logs to
each request, changes of lists and resources to `subscriptions/listen`.
"""

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

NOTE = "note://shared"
LEVELS = ["warning", "error", "critical", "alert", "emergency"]
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
ALL_LISTS = {TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED}

stateless = pytest.mark.parametrize("mode", ["stateless"])


@pytest.mark.rule("LOG-05")
async def test_logs_start_at_the_level_that_was_set(sdk, mode):
    recorder, progress = Recorder(), Recorder()
    async with sdk(on_notification=recorder) as client:
        await client.call_tool("work", {"steps": 1})
        if mode == "session":  # the callback may run after the result
            await recorder.until(
                lambda: {"step": 1} in [one.data for one in recorder.of(MESSAGE)]
            )
        first = [one.data for one in recorder.of(MESSAGE)]
        await client.set_log_level("warning")
        recorder.all.clear()
        result = await client.call_tool("work", {"steps": 2}, on_progress=progress)
        await recorder.until(lambda: len(recorder.of(MESSAGE)) == len(LEVELS))
        await client.set_log_level("info")
        await client.call_tool("work", {"steps": 1})
        await recorder.until(
            lambda: {"step": 1} in [one.data for one in recorder.of(MESSAGE)]
        )
    # By default a session server logs everything, a stateless server nothing.
    assert bool(first) == (mode == "session")
    assert result.text == "2 steps"
    messages = recorder.of(MESSAGE)[: len(LEVELS)]
    assert [(one.level, one.data) for one in messages] == [
        (level, f"about {level}") for level in LEVELS
    ]
    assert {one.logger for one in messages} == {"work"}
    assert progress.all == [(1, 2, "step 1"), (2, 2, "step 2")]
    assert {one.method for one in recorder.all} == {MESSAGE}


async def test_updates_arrive_while_subscribed(sdk, mode):
    recorder = Recorder()
    async with sdk(on_notification=recorder) as client:
        await client.call_tool("write", {"text": "unheard"})
        await client.subscribe(NOTE)
        await client.call_tool("write", {"text": "heard"})
        await recorder.until(lambda: recorder.of(UPDATED))
        subscribed = (await client.call_tool("subscriptions")).structured_content
        await client.unsubscribe(NOTE)
        await client.call_tool("write", {"text": "unheard again"})
        await client.ping()
        left = (await client.call_tool("subscriptions")).structured_content
        with pytest.raises(mcpwire.LocalProtocolError):
            await client.unsubscribe(NOTE)
    assert [update.uri for update in recorder.of(UPDATED)] == [NOTE]
    assert subscribed == {"result": [NOTE] if mode == "session" else []}
    assert left == {"result": []}


async def test_a_watch_yields_the_current_contents(sdk):
    async with sdk() as client, client.watch(NOTE) as contents:
        seen = []
        with anyio.fail_after(TIMEOUT_S):
            seen.append((await anext(contents)).text)
            for text in ("second", "third"):
                await client.call_tool("write", {"text": text})
                seen.append((await anext(contents)).text)
    assert seen == ["first", "second", "third"]


@pytest.mark.rule("SUB-01", "SUB-08")
async def test_list_changes_reach_each_consumer_that_chose_them(sdk):
    recorder = Recorder()
    async with (
        sdk(on_notification=recorder) as client,
        client.events() as events,
        client.listen([NOTE], prompts=True) as changes,
    ):
        acknowledged, refused = changes.acknowledged, changes.refused
        assert "new" not in [tool.name for tool in await client.list_tools()]
        await client.call_tool("grow", {"name": "new"})
        await client.call_tool("write", {"text": "changed"})
        assert "new" in [tool.name for tool in await client.list_tools()]
        await recorder.until(lambda: {one.method for one in recorder.all} >= ALL_LISTS)
        with anyio.fail_after(TIMEOUT_S):
            chosen = [(await anext(changes)).method for _ in range(2)]
            every = {(await anext(events)).method for _ in range(4)}
    assert acknowledged == mcpwire.Filter(prompts=True, uris={NOTE})
    assert refused == mcpwire.Filter()
    assert chosen == [PROMPTS_CHANGED, UPDATED]
    assert every == {*ALL_LISTS, UPDATED}


@stateless
async def test_unrequested_changes_are_not_sent(sdk):
    sent = Recorder()
    async with sdk(trace=sent) as client:
        await client.call_tool("grow", {"name": "unheard"})
        async with client.listen(tools=True) as changes:
            await client.call_tool("grow", {"name": "heard"})
            await next_of(changes, TOOLS_CHANGED)
        await client.call_tool("grow", {"name": "unheard again"})
    received = b"".join(bytes(data) for event, data in sent.all if event == "receive")
    assert received.count(TOOLS_CHANGED.encode()) == 1
    assert PROMPTS_CHANGED.encode() not in received


@stateless
async def test_events_arrive_as_soon_as_the_stream_is_entered(sdk):
    """Regression: list changes were subscribed to by the first iteration only."""
    async with sdk() as client, client.events() as events:
        await client.call_tool("grow", {"name": "new"})
        await next_of(events, TOOLS_CHANGED)


@stateless
async def test_a_subscription_ended_by_the_server_ends_its_stream(sdk):
    async with sdk() as client, client.listen(tools=True) as changes:
        await client.call_tool("hush")
        with anyio.fail_after(TIMEOUT_S):
            assert [notification async for notification in changes] == []
        async with client.listen(tools=True) as again:
            await client.call_tool("grow", {"name": "new"})
            await next_of(again, TOOLS_CHANGED)


@pytest.mark.pain("P09")
async def test_cancelling_a_started_call_cancels_it_at_the_server(sdk):
    recorder = Recorder()
    async with sdk() as client:
        calls = [
            await client.start_call("hang", {"name": name}, on_progress=recorder)
            for name in ("first", "second")
        ]
        await recorder.until(lambda: len(recorder.all) == 2)
        for call in calls:
            call.cancel("not needed")
        with anyio.fail_after(TIMEOUT_S):
            for call in calls:
                with pytest.raises(mcpwire.CallCancelled, match="not needed"):
                    await call
            names = []
            while len(names) < 2:
                result = await client.call_tool("cancelled")
                names = result.structured_content["result"]
    assert sorted(names) == ["first", "second"]


@pytest.mark.pain("P04")
async def test_a_restarted_server_gets_log_level_and_subscriptions(real, connect, mode):
    recorder = Recorder()
    options = {"mode": mode, "on_notification": recorder}
    async with connect(real("sdk_interactive"), **options) as client:
        await client.set_log_level("emergency")
        await client.subscribe(NOTE)
        await client.call_tool("grow", {"name": "lost"})
        await recorder.until(lambda: len(recorder.all) >= 3)
        recorder.all.clear()
        connect.kill()
        assert "lost" not in [tool.name for tool in await client.list_tools()]
        await client.call_tool("write", {"text": "after"})
        await client.call_tool("grow", {"name": "new"})
        await client.call_tool("work", {"steps": 3})
        await recorder.until(lambda: len(recorder.all) >= 5)
    params = {one.method: one.params for one in recorder.all}
    assert params.keys() == {UPDATED, MESSAGE, *ALL_LISTS}
    assert params[UPDATED].uri == NOTE
    assert [one.data for one in recorder.of(MESSAGE)] == ["about emergency"]


@pytest.mark.rule("SUB-14")
@stateless
async def test_a_listen_stream_continues_over_a_killed_server(real, connect, mode):
    async with (
        connect(real("sdk_interactive"), mode=mode) as client,
        client.listen([NOTE], tools=True) as changes,
    ):
        connect.kill()
        await client.list_tools()  # a list may be retried, a tool call may not
        await client.call_tool("grow", {"name": "new"})
        await client.call_tool("write", {"text": "after"})
        with anyio.fail_after(TIMEOUT_S):
            methods = [(await anext(changes)).method for _ in range(2)]
    assert methods == [TOOLS_CHANGED, UPDATED]
