"""What servers of a blocking group ask and tell, and who hears it."""

import threading

import pytest
from able_servers import TOOL, hang_up, server
from asking import SAMPLE, Asking
from fakes import SILENCE, FakeServer, text
from waiting import until

import mcpwire
from mcpwire.errors import (
    LocalProtocolError,
)
from mcpwire.group import Member
from mcpwire.sync import Group
from mcpwire.types import CreateMessageResult, TextContent


def test_servers_are_answered_by_handlers_that_can_be_replaced_at_any_time():
    def answer(said):
        return lambda _: CreateMessageResult("assistant", TextContent(said), "m")

    one, two = (
        Asking("sampling/createMessage", SAMPLE),
        Asking("sampling/createMessage", SAMPLE),
    )
    servers = {"a": one, "b": Member(two, sampling=answer("own"))}
    with Group(servers, sampling=answer("all")) as group:
        asked = []
        for change in (None, answer("new")):
            if change is not None:
                group.set_handlers("a", sampling=change)
            group.call_tool("a", "x")
            group.call_tool("b", "x")
            asked.append(
                [each.answered["result"]["content"]["text"] for each in (one, two)]
            )
        assert asked == [["all", "own"], ["new", "own"]]
        with pytest.raises(ValueError, match="sampling must be a plain function"):
            group.set_handlers(sampling=later)


async def later(*_):
    """Be what nobody here could await."""


def log(level, data):
    """Return what answers a call after a log message."""

    def call(_, fake):
        fake.notify("notifications/message", level=level, data=data)
        return text("logged")

    return call


def test_each_notification_says_which_server_it_is_of():
    heard = []
    servers = {name: server({"tools/call": log("info", name)}) for name in "abc"}
    with Group(servers, on_notification=heard.append) as group:
        for name in "cab":
            group.call_tool(name, "x")
        until(lambda: len(heard) == 3)
        assert [(e.server, e.notification.params.data) for e in heard] == [
            ("c", "c"),
            ("a", "a"),
            ("b", "b"),
        ]
        assert group.dropped == 0


def test_log_messages_that_nobody_hears_are_logged(caplog):
    with Group({"a": server({"tools/call": log("warning", "careful")})}) as group:
        group.call_tool("a", "x")
        until(lambda: caplog.records)
        assert group.dropped == 0
    assert "server 'a' logged: 'careful'" in caplog.text


def test_events_come_of_all_servers_and_end_with_the_group():
    servers = {name: server({"tools/call": log("info", name)}) for name in "ab"}
    with Group(servers, background=True) as group:
        with group.events() as other:
            events = group.events()
            assert events.next(timeout=0.001) is None
            group.call_tool("a", "x")
            assert events.next(timeout=30).server == "a"
            assert other.next(timeout=30).server == "a"
        assert other.is_closed
        assert list(other) == []
        group.call_tool("b", "x")
        assert next(events).server == "b"
        assert (events.dropped, events.dropped_of("b")) == (0, 0)
        waiting = threading.Timer(0.02, group.close)
        waiting.start()
        assert list(events) == []
        waiting.join(30)
    assert events.is_closed


def test_events_against_the_rules_are_passed_over(caplog):
    def call(_, fake):
        fake.notify("notifications/message", level=5)
        fake.notify("notifications/message", level="info", data="fine")
        return text("told")

    with Group({"a": server({"tools/call": call})}, background=True) as group:
        events = group.events()
        group.call_tool("a", "x")
        assert events.next(timeout=30).notification.params.data == "fine"
        assert "reading a notification failed" in caplog.text


def test_waiting_for_events_needs_somebody_who_reads():
    with (
        Group({"a": server()}) as group,
        pytest.raises(LocalProtocolError, match="background=True"),
    ):
        group.events()


def test_a_callback_that_still_runs_is_waited_for():
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def hear(_):
        begun.set()
        assert go_on.wait(30)
        ended.set()

    group = Group({"a": server({"tools/call": log("info", 1)})}, on_notification=hear)
    group.connect_all()
    group.call_tool("a", "x")
    assert begun.wait(30)
    threading.Timer(0.02, go_on.set).start()
    group.close()
    assert ended.is_set()


def test_tools_that_change_are_listed_again():
    def call(_, fake):
        fake.methods["tools/list"] = lambda *_: {"tools": [TOOL, {**TOOL, "name": "y"}]}
        fake.notify("notifications/tools/list_changed")
        return text("changed")

    one = server({"tools/call": call}, capabilities={"tools": {"listChanged": True}})
    with Group({"a": one}, confirm=True) as group:
        tools = group.tools(confirm=())
        tools.call("mcp__a__x")
        until(lambda: tools.names == ("mcp__a__x", "mcp__a__y"))
        group.connect("b", server())
        until(lambda: "mcp__b__x" in tools)
        group.disconnect("b")
        until(lambda: "mcp__b__x" not in tools)
        assert group.tools().needs_confirmation("mcp__a__x")


def test_tools_of_a_server_that_comes_back_are_listed_again():
    one = server({"tools/call": hang_up})
    with Group({"a": one}) as group:
        tools = group.tools()
        with pytest.raises(mcpwire.TransportError):
            tools.call("mcp__a__x")
        one.methods["tools/list"] = lambda *_: {"tools": [{**TOOL, "name": "z"}]}
        group.ping("a")
        until(lambda: tools.names == ("mcp__a__z",))


def test_a_server_without_tools_is_not_asked_for_any():
    one = server(capabilities={"resources": {}, "prompts": {}})
    with Group({"a": one, "b": server()}) as group:
        tools = group.tools(resources_as_tools=True)
        assert one.requests("tools/list") == []
        assert "mcp__a__mcp_read_resource" in tools
        result = tools.call("mcp__a__mcp_read_resource", {"uri": "a://1"})
        assert result.text == "t"


def test_nothing_is_asked_of_servers_that_are_not_to_tell():
    def listening(*_):
        return SILENCE

    def made(**options):
        one = FakeServer(
            {"subscriptions/listen": listening},
            version="2026-07-28",
            capabilities={"tools": {"listChanged": True}},
        )
        with Group({"a": one}, **options) as group:
            assert group.status()["a"].state == "ready"
        return one.requests("subscriptions/listen")

    assert len(made()) == 1
    assert made(listen=False) == []


def test_a_configuration_makes_a_group():
    config = {
        "mcpServers": {"a": {"command": "x"}, "b": {"command": "y", "disabled": True}}
    }
    group = Group.from_config(config, timeout=3, only=["a"])
    assert list(group.status()) == ["a"]
    assert repr(group) == "<mcpwire.sync.Group a idle>"
