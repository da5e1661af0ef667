"""Notifications of the servers in a group: delivery, order and dropped events."""

import asyncio
import gc
import logging
import weakref

import pytest
from group_servers import BOUND_S, STATELESS, ScriptedServer
from loop_polling import until
from requesting_server import SAMPLE, Asking, model

import mcpwire
from mcpwire.group import Group, GroupEvent, Member

LOG = "notifications/message"
PROGRESS = "notifications/progress"
TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
URI = "file:///a"

PARAMS = {
    PROGRESS: {"progressToken": "t", "progress": 1.5, "total": 3, "message": "half"},
    LOG: {"level": "notice", "logger": "l", "data": {"deep": [None]}},
    UPDATED: {"uri": URI},
    TOOLS: {},
    "notifications/prompts/list_changed": {},
    "notifications/resources/list_changed": {},
    "notifications/of/its/own": {"x": 1},
}


def about(event):
    return event.server, event.notification.method


@pytest.mark.system("A40", "A41", "A42", "A43", "A17")
@pytest.mark.parametrize("method", PARAMS)
async def test_each_notification_is_delivered_with_its_server(method):
    received = []
    servers = {name: ScriptedServer() for name in "abc"}
    async with Group(servers, on_notification=received.append) as group:
        events = group.events()
        for name in "cab":
            servers[name].notify(method, **PARAMS[method])
            await group.ping(name)
        assert [about(event) for event in received] == [
            (name, method) for name in "cab"
        ]
        assert type(received[0]) is GroupEvent
        streamed = [await events.next(1) for _ in range(3)]
        assert sorted(map(about, streamed)) == sorted(map(about, received))
        assert received[0] in streamed
        params = received[0].notification.params
        if method == PROGRESS:
            assert (params.progress_token, params.progress) == ("t", 1.5)
            assert (params.total, params.message) == (3, "half")
        elif method == LOG:
            assert (params.level, params.logger) == ("notice", "l")
            assert params.data == {"deep": [None]}
        elif method == UPDATED:
            assert params.uri == URI


@pytest.mark.system("A44", "A46", "A47", "L-A10")
async def test_events_for_a_slow_callback_are_bounded_and_in_order(caplog):
    caplog.set_level(logging.INFO, "mcpwire")
    received, release = [], asyncio.Event()

    async def slow(event):
        received.append(event)
        await release.wait()

    server, other = ScriptedServer(), ScriptedServer()
    servers = {"a": server, "b": other}
    async with Group(servers, on_notification=slow) as group:
        waiting = group._delivery._waiting._buffers
        for number in range(10_000):
            server.notify(PROGRESS, progressToken=1, progress=number)
            if number % 1_000 == 0:
                server.notify(TOOLS)
                other.notify(LOG, level="info", data=number)
                assert await group.ping("a") < BOUND_S  # reading goes on
                assert sum(len(buffer._pending) for buffer in waiting.values()) < 1_040
        await group.ping("a")
        assert group.dropped == 10_000 - 1_024 - 1  # one is in the callback
        release.set()
        await group.ping("a")
        await until(lambda: len(received) >= 1_024 + 1 + 1 + 10)
    own = [event for event in received if event.server == "a"]
    progress = [
        each.notification for each in own if each.notification.method == PROGRESS
    ]
    numbers = [each.params.progress for each in progress]
    assert numbers == [0, *range(10_000 - 1_024, 10_000)]
    assert [each.notification.method for each in own].count(TOOLS) == 1
    logs = [each.notification.params.data for each in received if each.server == "b"]
    assert logs == list(range(0, 10_000, 1_000))
    assert "logged" not in caplog.text  # the callback has them


async def test_invalid_notification_is_dropped_and_logged(caplog):
    received = []
    server = ScriptedServer()
    async with Group({"a": server}, on_notification=received.append) as group:
        events = group.events()
        server.notify(LOG, level="info")
        server.notify(TOOLS)
        await group.ping("a")
        assert [about(event) for event in received] == [("a", TOOLS)]
        assert about(await events.next(1)) == ("a", TOOLS)
    assert {each.server for each in caplog.records} == {"a"}


@pytest.mark.system("A43", "L-A10")
async def test_unread_stream_keeps_list_changes_and_subscribed_updates():
    server = ScriptedServer()
    limits = mcpwire.Limits(notifications=2)
    async with Group({"a": server}, limits=limits) as group:
        await group.subscribe("a", URI)
        async with group.events() as events:
            for number in range(5):
                server.notify(TOOLS)
                server.notify(UPDATED, uri=URI)
                server.notify(UPDATED, uri=f"file:///{number}")
                server.notify(LOG, level="info", data=number)
            await group.ping("a")
            received = []
            while (event := await events.next(0.01)) is not None:
                received.append(event.notification)
            assert [each.method for each in received] == [TOOLS, UPDATED, UPDATED, LOG]
            assert received[1].params.uri == URI
            assert (received[2].params.uri, received[3].params.data) == ("file:///4", 4)
            assert events.dropped == events.dropped_of("a") == 8
            assert not events.is_closed
        assert events.is_closed


async def test_stream_iteration_ends_when_the_group_is_closed():
    server = ScriptedServer()
    received = []

    async def iterate(events):
        async for event in events:
            received.append(about(event))  # noqa: PERF401 - as each comes

    async with Group({"a": server}) as group:
        events = group.events()
        reading = [asyncio.ensure_future(iterate(events)) for _ in range(2)]
        await asyncio.sleep(0)  # one loop iteration
        server.notify(TOOLS)
        await until(lambda: received)
        server.notify(LOG, level="info", data=1)
        await group.ping("a")
    await asyncio.wait_for(asyncio.gather(*reading), BOUND_S)
    assert received == [("a", TOOLS), ("a", LOG)]
    assert events.is_closed
    assert await events.next(1) is None


async def test_garbage_collected_stream_is_removed():
    async with Group({"a": ScriptedServer()}) as group:
        events = weakref.ref(group.events())
        gc.collect()
        assert events() is None


async def test_cancelled_wait_for_an_event_loses_no_event():
    server = ScriptedServer()
    async with Group({"a": server}) as group:
        events = group.events()
        waiting = asyncio.ensure_future(events.next())
        await asyncio.sleep(0)  # one loop iteration
        waiting.cancel()
        await asyncio.wait([waiting])
        server.notify(TOOLS)
        assert about(await events.next(1)) == ("a", TOOLS)
        with pytest.raises(ValueError, match="timeout"):
            await events.next(0)


async def test_notification_of_a_disconnected_server_is_dropped():
    received = []
    server = ScriptedServer()
    async with Group({"a": server}, on_notification=received.append) as group:
        client = group["a"]
        leaving = asyncio.ensure_future(group.disconnect("a"))
        await asyncio.sleep(0)  # one loop iteration
        client._connection.inbound.notification(TOOLS, None, None)
        await leaving
    assert received == []


async def test_hanging_callback_does_not_block_closing_the_group():
    hanging = asyncio.Event()

    async def hang(_):
        hanging.set()
        await asyncio.Event().wait()

    server = ScriptedServer()
    async with Group({"a": server}, on_notification=hang):
        server.notify(TOOLS)
        await hanging.wait()


async def test_callback_can_close_the_group():
    closed = asyncio.Event()

    async def close(_):
        await group.aclose()
        closed.set()

    server = ScriptedServer()
    async with Group({"a": server}, on_notification=close) as group:
        server.notify(TOOLS)
        await closed.wait()
        assert len(group) == 0


LEVELS = {
    "debug": "DEBUG",
    "info": "INFO",
    "notice": "INFO",
    "warning": "WARNING",
    "error": "ERROR",
    "critical": "CRITICAL",
    "emergency": "CRITICAL",
}


@pytest.mark.system("A41", "A46", "A47")
@pytest.mark.parametrize("level", LEVELS)
async def test_log_message_without_a_consumer_goes_to_the_python_log(level, caplog):
    caplog.set_level(logging.DEBUG, "mcpwire")
    server = ScriptedServer()
    async with Group({"a": server}) as group:
        server.notify(LOG, level=level, logger="theirs", data="line\nbreak \x1b[1m")
        server.notify(TOOLS)  # dropped: without a consumer no event is kept
        await group.ping("a")
        (record,) = (each for each in caplog.records if "logged" in each.message)
        assert record.levelname == LEVELS[level]
        assert (record.server, record.logger) == ("a", "theirs")
        assert "\n" not in record.message
        assert "\x1b" not in record.message
        caplog.clear()
        events = group.events()
        server.notify(LOG, level=level, data=1)
        await group.ping("a")
        assert not [each for each in caplog.records if "logged" in each.message]
        assert about(await events.next(1)) == ("a", LOG)


async def test_long_log_message_is_truncated_and_invalid_ones_are_harmless(caplog):
    server = ScriptedServer()
    async with Group({"a": server}) as group:
        server.notify(LOG, level="error", data="x" * 9_000)
        server.notify(LOG, level=["error"], data="y")
        server.notify(LOG)
        await group.ping("a")
    assert len(caplog.records[0].message) < 2_100


@pytest.mark.system("A17", "A50", "A53")
@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
async def test_handlers_can_be_set_per_server_at_any_time(version):
    a, b, late = (Asking("sampling/createMessage", SAMPLE, version) for _ in range(3))
    async with Group({"a": a, "b": b}, sampling=model("all")) as group:

        async def reply_of(name, server):
            await group.call_tool(name, "x")
            return server.answered["result"]["content"]["text"]

        assert (await reply_of("a", a), await reply_of("b", b)) == ("all", "all")
        group.set_handlers("a", sampling=model("own"))
        group.set_handlers("late", sampling=model("late"))
        assert (await reply_of("a", a), await reply_of("b", b)) == ("own", "all")
        group.set_handlers(sampling=model("new"))
        assert (await reply_of("a", a), await reply_of("b", b)) == ("own", "new")
        await group.connect("late", late)
        assert await reply_of("late", late) == "late"
        with pytest.raises(ValueError, match="sampling"):
            group.set_handlers(sampling=3)
        assert await reply_of("b", b) == "new"


@pytest.mark.system("A50", "A51", "A54", "L-A7")
async def test_capability_is_declared_only_with_a_handler():
    servers = {
        "none": ScriptedServer(),
        "roots": ScriptedServer(),
        "own": ScriptedServer(),
    }
    members = {
        "none": Member(servers["none"], sampling=None),
        "roots": Member(servers["roots"], sampling=None, roots=["file:///a"]),
        "own": servers["own"],
    }
    async with Group(members, sampling=model("x")) as group:
        declared = {
            name: server.requests("initialize")[0]["capabilities"]
            for name, server in servers.items()
        }
        assert declared == {
            "none": {},
            "roots": {"roots": {"listChanged": True}},
            "own": {"sampling": {}},
        }
        group.set_handlers("none", roots=[])
        await group.connect("none", replace=True)
        again = servers["none"].requests("initialize")[1]["capabilities"]
        assert again == {"roots": {"listChanged": True}}
