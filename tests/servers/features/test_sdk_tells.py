"""A server on the official Python SDK tells its client, in both eras.

In a session what it tells comes unasked; at 2026-07-28 it rides on a request that asks
for it: logs on each request, lists and resources on `subscriptions/listen`.
"""

from __future__ import annotations

import anyio
import pytest
from hearing import MESSAGE, PATIENCE_S, TOOLS_CHANGED, UPDATED, Heard, next_of

import mcpwire

pytestmark = pytest.mark.servers

NOTE = "note://shared"
LEVELS = ["warning", "error", "critical", "alert", "emergency"]
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
ALL_LISTS = {TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED}

both = pytest.mark.parametrize("mode", ["session", "stateless"])
stateless = pytest.mark.parametrize("mode", ["stateless"])


@pytest.mark.rule("LOG-05")
@both
async def test_logs_come_from_the_level_that_was_set(warm, connect, mode):
    heard, progress = Heard(), Heard()
    options = {"mode": mode, "on_notification": heard}
    async with connect(warm("sdk_interactive"), **options) as client:
        await client.call_tool("work", {"steps": 1})
        if mode == "session":  # a handler may hear it after the result has come
            await heard.until(
                lambda: {"step": 1} in [one.data for one in heard.of(MESSAGE)]
            )
        first = [one.data for one in heard.of(MESSAGE)]
        await client.set_log_level("warning")
        heard.all.clear()
        result = await client.call_tool("work", {"steps": 2}, on_progress=progress)
        await heard.until(lambda: len(heard.of(MESSAGE)) == len(LEVELS))
        await client.set_log_level("info")
        await client.call_tool("work", {"steps": 1})
        await heard.until(
            lambda: {"step": 1} in [one.data for one in heard.of(MESSAGE)]
        )
    # Unless told otherwise a session's server logs all, one of 2026-07-28 nothing.
    assert bool(first) == (mode == "session")
    assert result.text == "2 steps"
    told = heard.of(MESSAGE)[: len(LEVELS)]
    assert [(one.level, one.data) for one in told] == [
        (level, f"about {level}") for level in LEVELS
    ]
    assert {one.logger for one in told} == {"work"}
    assert progress.all == [(1, 2, "step 1"), (2, 2, "step 2")]
    assert {one.method for one in heard.all} == {MESSAGE}


@both
async def test_updates_arrive_while_one_is_subscribed(warm, connect, mode):
    heard = Heard()
    options = {"mode": mode, "on_notification": heard}
    async with connect(warm("sdk_interactive"), **options) as client:
        await client.call_tool("write", {"text": "unheard"})
        await client.subscribe(NOTE)
        await client.call_tool("write", {"text": "heard"})
        await heard.until(lambda: heard.of(UPDATED))
        subscribed = (await client.call_tool("subscriptions")).structured_content
        await client.unsubscribe(NOTE)
        await client.call_tool("write", {"text": "unheard again"})
        await client.ping()
        left = (await client.call_tool("subscriptions")).structured_content
        with pytest.raises(mcpwire.LocalProtocolError):
            await client.unsubscribe(NOTE)
    assert [told.uri for told in heard.of(UPDATED)] == [NOTE]
    assert subscribed == {"result": [NOTE] if mode == "session" else []}
    assert left == {"result": []}


@both
async def test_a_watch_yields_what_the_resource_holds_now(warm, connect, mode):
    async with (
        connect(warm("sdk_interactive"), mode=mode) as client,
        client.watch(NOTE) as contents,
    ):
        seen = []
        with anyio.fail_after(PATIENCE_S):
            seen.append((await anext(contents)).text)
            for text in ("second", "third"):
                await client.call_tool("write", {"text": text})
                seen.append((await anext(contents)).text)
    assert seen == ["first", "second", "third"]


@pytest.mark.rule("SUB-01", "SUB-08")
@both
async def test_changed_lists_reach_each_consumer_that_asked(warm, connect, mode):
    heard = Heard()
    options = {"mode": mode, "on_notification": heard}
    async with (
        connect(warm("sdk_interactive"), **options) as client,
        client.events() as events,
        client.listen([NOTE], prompts=True) as changes,
    ):
        acknowledged, refused = changes.acknowledged, changes.refused
        assert "new" not in [tool.name for tool in await client.list_tools()]
        await client.call_tool("grow", {"name": "new"})
        await client.call_tool("write", {"text": "changed"})
        assert "new" in [tool.name for tool in await client.list_tools()]
        await heard.until(lambda: {one.method for one in heard.all} >= ALL_LISTS)
        with anyio.fail_after(PATIENCE_S):
            chosen = [(await anext(changes)).method for _ in range(2)]
            every = {(await anext(events)).method for _ in range(4)}
    assert acknowledged == mcpwire.Filter(prompts=True, uris={NOTE})
    assert refused == mcpwire.Filter()
    assert chosen == [PROMPTS_CHANGED, UPDATED]
    assert every == {*ALL_LISTS, UPDATED}


@stateless
async def test_what_nobody_asked_for_is_not_told(warm, connect, mode):
    sent = Heard()
    options = {"mode": mode, "trace": sent}
    async with connect(warm("sdk_interactive"), **options) as client:
        await client.call_tool("grow", {"name": "unheard"})
        async with client.listen(tools=True) as changes:
            await client.call_tool("grow", {"name": "heard"})
            await next_of(changes, TOOLS_CHANGED)
        await client.call_tool("grow", {"name": "unheard again"})
    received = b"".join(bytes(data) for event, data in sent.all if event == "receive")
    assert received.count(TOOLS_CHANGED.encode()) == 1
    assert PROMPTS_CHANGED.encode() not in received


@stateless
async def test_events_are_heard_from_the_moment_the_stream_is_entered(
    warm, connect, mode
):
    """Regression: changed lists were asked for with the first step only."""
    async with (
        connect(warm("sdk_interactive"), mode=mode) as client,
        client.events() as events,
    ):
        await client.call_tool("grow", {"name": "new"})
        await next_of(events, TOOLS_CHANGED)


@stateless
async def test_a_subscription_ends_where_the_server_ends_it(warm, connect, mode):
    async with (
        connect(warm("sdk_interactive"), mode=mode) as client,
        client.listen(tools=True) as changes,
    ):
        await client.call_tool("hush")
        with anyio.fail_after(PATIENCE_S):
            assert [notification async for notification in changes] == []
        async with client.listen(tools=True) as anew:
            await client.call_tool("grow", {"name": "new"})
            await next_of(anew, TOOLS_CHANGED)


# --- calls given up


@pytest.mark.pain("P09")
@both
async def test_a_started_call_that_is_cancelled_is_cancelled_there(warm, connect, mode):
    heard = Heard()
    async with connect(warm("sdk_interactive"), mode=mode) as client:
        calls = [
            await client.start_call("hang", {"name": name}, on_progress=heard)
            for name in ("first", "second")
        ]
        await heard.until(lambda: len(heard.all) == 2)
        for call in calls:
            call.cancel("not needed")
        with anyio.fail_after(PATIENCE_S):
            for call in calls:
                with pytest.raises(mcpwire.CallCancelled, match="not needed"):
                    await call
            names = []
            while len(names) < 2:
                result = await client.call_tool("cancelled")
                names = result.structured_content["result"]
    assert sorted(names) == ["first", "second"]


# --- a server that is killed


@pytest.mark.pain("P04")
@both
async def test_a_killed_server_is_started_again_and_told_everything(
    real, connect, mode
):
    heard = Heard()
    options = {"mode": mode, "on_notification": heard}
    async with connect(real("sdk_interactive"), **options) as client:
        await client.set_log_level("emergency")
        await client.subscribe(NOTE)
        await client.call_tool("grow", {"name": "lost"})
        await heard.until(lambda: len(heard.all) >= 3)
        heard.all.clear()
        connect.kill()
        assert "lost" not in [tool.name for tool in await client.list_tools()]
        await client.call_tool("write", {"text": "after"})
        await client.call_tool("grow", {"name": "new"})
        await client.call_tool("work", {"steps": 3})
        await heard.until(lambda: len(heard.all) >= 5)
    told = {one.method: one.params for one in heard.all}
    assert told.keys() == {UPDATED, MESSAGE, *ALL_LISTS}
    assert told[UPDATED].uri == NOTE
    assert [one.data for one in heard.of(MESSAGE)] == ["about emergency"]


@pytest.mark.rule("SUB-14")
@stateless
async def test_a_listen_stream_goes_on_over_a_killed_server(real, connect, mode):
    async with (
        connect(real("sdk_interactive"), mode=mode) as client,
        client.listen([NOTE], tools=True) as changes,
    ):
        connect.kill()
        await client.list_tools()  # may be asked again, where a tool may not be called
        await client.call_tool("grow", {"name": "new"})
        await client.call_tool("write", {"text": "after"})
        with anyio.fail_after(PATIENCE_S):
            told = [(await anext(changes)).method for _ in range(2)]
    assert told == [TOOLS_CHANGED, UPDATED]
