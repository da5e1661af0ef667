"""What a blocking group does by a server's name, and what it is like for threads."""

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading

import pytest
from asking import SAMPLE, Asking
from fakes import SILENCE, FakeServer, text
from paced import Pace
from scripted import ECHO_LOOP, scripted
from waiting import until

import mcpwire
from mcpwire.errors import (
    ConnectError,
    InvalidParams,
    LocalProtocolError,
    RequestTimeout,
    ToolError,
)
from mcpwire.group import Member, NotConnected
from mcpwire.protocol.many.errors import UnknownServer
from mcpwire.sync import Group
from mcpwire.types import CreateMessageResult, PromptReference, TextContent

TOOL = {"name": "x", "inputSchema": {"type": "object"}}


def hang_up(_, fake):
    """Close the connection instead of answering."""
    fake.channel._other._hang_up()
    return SILENCE


METHODS = {
    "tools/list": lambda *_: {"tools": [TOOL]},
    "tools/call": lambda params, _: {
        **text(params["name"]),
        "isError": params["name"] == "bad",
    },
    "resources/list": lambda *_: {"resources": [{"uri": "a://1", "name": "one"}]},
    "resources/templates/list": lambda *_: {
        "resourceTemplates": [{"uriTemplate": "a://{n}", "name": "any"}]
    },
    "resources/read": lambda params, _: {
        "contents": [{"uri": params["uri"], "text": "t"}]
    },
    "resources/subscribe": lambda *_: {},
    "resources/unsubscribe": lambda *_: {},
    "prompts/list": lambda *_: {"prompts": [{"name": "p"}]},
    "prompts/get": lambda params, _: {
        "messages": [{"role": "user", "content": {"type": "text", "text": str(params)}}]
    },
    "completion/complete": lambda params, _: {
        "completion": {"values": [params["ref"]["type"], params["argument"]["value"]]}
    },
    "logging/setLevel": lambda *_: {},
}

CAPABILITIES = {
    "tools": {},
    "resources": {"subscribe": True},
    "prompts": {},
    "completions": {},
    "logging": {},
}


def server(methods=None, **members):
    """Return a server that can do everything."""
    given = {"capabilities": CAPABILITIES, **members}
    return FakeServer({**METHODS, **(methods or {})}, **given)


# By name...

VERBS = [
    (lambda g: g.call_tool("a", "x").text, "x"),
    (lambda g: g.call_tool("a", "x", {"n": 1}, timeout=5).text, "x"),
    (lambda g: [tool.name for tool in g.list_tools("a")], ["x"]),
    (lambda g: [one.uri for one in g.list_resources("a")], ["a://1"]),
    (lambda g: [one.name for one in g.list_resource_templates("a")], ["any"]),
    (lambda g: g.read_resource("a", "a://1").text, "t"),
    (lambda g: (g.subscribe("a", "a://1"), g.unsubscribe("a", "a://1")), (None, None)),
    (lambda g: [prompt.name for prompt in g.list_prompts("a")], ["p"]),
    (
        lambda g: g.get_prompt("a", "p", {"n": "1"}).messages[0].content.text,
        "{'name': 'p', 'arguments': {'n': '1'}}",
    ),
    (
        lambda g: g.complete("a", PromptReference("p"), "n", "v").completion.values,
        ["ref/prompt", "v"],
    ),
    (
        lambda g: (
            g.complete(
                "a", {"type": "ref/resource", "uri": "a://{n}"}, "n", context={"m": "1"}
            ).completion.values
        ),
        ["ref/resource", ""],
    ),
    (lambda g: 0 <= g.ping("a") < 10, True),
    (lambda g: g.set_log_level("a", "info"), None),
    (lambda g: g.server_info("a")["serverInfo"], {"name": "fake", "version": "1"}),
]


def test_everything_can_be_asked_by_a_servers_name():
    with Group({"a": server()}) as group:
        assert [ask(group) for ask, _ in VERBS] == [answer for _, answer in VERBS]


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.call_tool("nobody", "x", ["no object"]),
        lambda g: g.get_prompt("nobody", "x", "no object"),
        lambda g: g.complete("nobody", {"type": "ref/nothing"}, "n"),
    ],
)
def test_what_is_wrong_with_arguments_is_said_before_a_server_is_looked_for(call):
    with Group({"a": server()}) as group, pytest.raises(LocalProtocolError):
        call(group)


def test_an_unknown_server_is_told_with_those_that_are_known(caplog):
    with Group({"a": server()}) as group:
        with pytest.raises(UnknownServer, match=r"no server named 'b' \(known: 'a'\)"):
            group.call_tool("b", "x")
        (record,) = caplog.records
        assert (record.server, record.tool) == ("b", "x")
        with pytest.raises(UnknownServer):
            group.server_info("b")


def test_failures_are_logged_and_raised_and_results_of_failure_are_not(caplog):
    refused = InvalidParams("no", code=-32602)
    with Group({"a": server({"resources/read": lambda *_: refused})}) as group:
        assert group.call_tool("a", "bad").is_error
        with pytest.raises(ToolError):
            group.call_tool("a", "bad", check=True)
        assert caplog.records == []
        with pytest.raises(InvalidParams):
            group.read_resource("a", "a://1")
        (record,) = caplog.records
        assert (record.server, record.uri) == ("a", "a://1")


def test_calls_are_logged_where_somebody_looks(caplog):
    caplog.set_level(logging.DEBUG, "mcpwire")
    with Group({"a": server()}) as group:
        group.call_tool("a", "bad")
    events = [
        (r.event, getattr(r, "ok", None)) for r in caplog.records if hasattr(r, "event")
    ]
    assert events == [("mcp_call", None), ("mcp_result", False)]


def test_cancelling_and_telling_of_roots_never_raise(caplog):
    one = server()
    with Group({"a": one, "b": server()}, roots=["file:///x"]) as group:
        group.cancel("a", None)
        group.cancel("a", 12345)
        group.cancel("nobody", 1)
        group.notify_roots_changed("a")
        group.notify_roots_changed("nobody")
        group.notify_roots_changed()
        group.ping("a")
        sent = [m["method"] for m in one.received if "method" in m]
        assert sent.count("notifications/roots/list_changed") == 2
        assert "notifications/cancelled" not in sent
        assert [r.server for r in caplog.records] == ["nobody", "nobody"]


def test_a_server_says_how_it_wants_to_be_used():
    with Group({"a": server(instructions="Gently."), "b": server()}) as group:
        assert group.instructions() == {"a": "Gently."}
        assert group.server_info("a")["instructions"] == "Gently."


# State...


def test_a_lost_connection_is_opened_again_by_the_next_call():
    one = server({"tools/call": hang_up})
    with Group({"a": one}) as group:
        with pytest.raises(mcpwire.TransportError):
            group.call_tool("a", "x")
        assert group.status()["a"].state == "lost"
        assert "a" in group.problems
        assert "a" in group
        one.methods["tools/call"] = METHODS["tools/call"]
        assert group.call_tool("a", "x").text == "x"
        status = group.status()["a"]
        assert (status.state, status.restarts, status.calls) == ("ready", 1, 2)
        assert (status.in_flight, status.error) == (0, None)
        assert group.problems == {}


def test_a_client_that_somebody_closed_leaves_the_group():
    with Group({"a": server()}) as group:
        group["a"].close()
        assert "a" not in group
        assert group.status()["a"].state == "idle"
        with pytest.raises(NotConnected):
            group.call_tool("a", "x")
        group.connect_all()
        assert group.call_tool("a", "x").text == "x"


def test_who_has_to_log_in_is_told_apart():
    pace = Pace()
    group = Group({"a": server()}, on_error="skip", make_client=pace)
    pace.meeting = threading.Barrier(1, action=require_login)
    group.connect_all()
    assert group.status()["a"].state == "needs_auth"


def require_login():
    """Fail as a server does that wants to know who it is."""
    raise mcpwire.AuthRequired("log in first")


# Lazy...


def test_a_lazy_server_is_connected_by_its_first_use():
    pace = Pace()
    with Group({"a": server(), "b": server()}, start="lazy", make_client=pace) as group:
        assert list(group) == ["a", "b"]
        assert pace.order == []
        with pytest.raises(NotConnected):
            group.server_info("a")
        assert group.call_tool("a", "x", timeout=None).text == "x"
        assert group.status()["a"].state == "ready"
        assert group.status()["b"].state == "idle"
        assert group.client("b") is group["b"]
        assert group.client("b") is group["b"]
        assert pace.order == ["a", "b"]
    with group:
        assert group.call_tool("a", "x", timeout=9).text == "x"


def test_connecting_for_a_call_is_in_the_calls_own_time():
    silent = FakeServer({"initialize": lambda *_: SILENCE})
    with Group({"a": silent}, start="lazy", mode="session") as group:
        with pytest.raises(RequestTimeout, match="the server was being connected"):
            group.call_tool("a", "x", timeout=0.05)
        assert group.status()["a"].state == "idle"


def test_a_lazy_server_that_cannot_be_connected_stays_and_says_why():
    with Group({"a": "/there/is/no/such/program"}, start="lazy") as group:
        for _ in range(2):
            with pytest.raises(ConnectError):
                group.call_tool("a", "x")
        assert group.status()["a"].state == "failed"
        assert isinstance(group.problems["a"], ConnectError)


# Threads and loops...


@pytest.mark.system("R04", "L-R2")
def test_many_threads_call_and_no_thread_comes_or_goes():
    echo = scripted(f"handshake()\n{ECHO_LOOP}")
    with Group({"a": echo, "b": echo}, mode="session") as group:
        counts, failures = set(), []
        start = threading.Barrier(10)

        def work(number):
            try:
                start.wait(10)
                for turn in range(10):
                    said = f"{number}-{turn}"
                    for name in ("a", "b"):
                        assert (
                            group.call_tool(name, "echo", {"text": said}).text == said
                        )
                    counts.add(threading.active_count())
            except Exception as error:  # noqa: BLE001 - told in the test's thread
                failures.append(error)

        before = threading.active_count()
        threads = [threading.Thread(target=work, args=(n,)) for n in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert failures == []
        assert max(counts) <= before + 10  # those of the test
        assert threading.active_count() == before
        assert {s.calls for s in group.status().values()} == {100}


@pytest.mark.system("R04", "L-R2")
@pytest.mark.anyio
async def test_it_works_where_a_loop_runs_and_from_its_threads():
    with Group({"a": server()}) as group:
        assert group.call_tool("a", "x").text == "x"
        async with asyncio.timeout(10):
            result = await asyncio.to_thread(group.call_tool, "a", "y")
        assert result.text == "y"
        assert group.tools().call("mcp__a__x").text == "x"


def test_servers_come_and_go_while_other_threads_look():
    with Group({"a": server(instructions="Gently.")}) as group:
        ended = threading.Event()
        failures = []

        def look():
            try:
                while not ended.is_set():
                    group.instructions()
                    group.status()
                    repr(group)
                    for name in group:
                        with contextlib.suppress(UnknownServer):  # it has just left
                            assert group[name].server_info
            except Exception as error:  # noqa: BLE001 - told in the test's thread
                failures.append(error)

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        for turn in range(10):
            group.connect("b", server(instructions="Quickly."))
            group.connect_all({f"c{turn}": server()})
            group.disconnect("b")
        ended.set()
        for thread in threads:
            thread.join(10)
        assert failures == []
        assert len(group) == 11


def test_clients_of_the_callers_own_making_read_all_the_time_too():
    made = []

    def make(name, target, **options):
        made.append((name, options["background"]))
        return mcpwire.sync.Client(target, **options)

    with Group({"a": server()}, background=True, make_client=make) as group:
        assert made == [("a", True)]
        assert group.events().next(timeout=0.001) is None


@pytest.mark.system("L-R2")
def test_any_thread_may_close_it_while_others_call():
    one = server({"tools/call": lambda *_: SILENCE})
    group = Group({"a": one, "b": server()})
    group.connect_all()
    caught = []

    def call():
        try:
            group.call_tool("a", "x")
        except mcpwire.TransportError as error:
            caught.append(error)

    calling = threading.Thread(target=call)
    calling.start()
    until(lambda: group.status()["a"].in_flight == 1)
    closing = threading.Thread(target=group.close)
    closing.start()
    for thread in (calling, closing):
        thread.join(10)
        assert not thread.is_alive()
    assert len(caught) == 1
    assert list(group) == []


EXITING = """
import atexit, sys, threading
import mcpwire.sync
target = mcpwire.Stdio(sys.argv[1], sys.argv[2:])
group = mcpwire.sync.Group({"a": target, "b": target}, mode="session")
group.connect_all()
assert "asyncio" not in sys.modules
tools = group.tools()
atexit.register(lambda: (group.close(), print(group, threading.active_count())))
forgotten = mcpwire.sync.Group({"c": target}, mode="session")
forgotten.connect_all()
"""


@pytest.mark.system("L-R2")
def test_it_can_be_closed_or_forgotten_when_the_interpreter_exits():
    echo = scripted(f"handshake()\n{LISTING_LOOP}")
    done = subprocess.run(
        [sys.executable, "-c", EXITING, echo.command, *echo.args],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "<mcpwire.sync.Group a idle, b idle> 1\n"
    assert "Traceback" not in done.stderr


LISTING_LOOP = """
while True:
    m = recv()
    if "id" in m:
        answer(m, {"tools": []})
"""


# What servers ask and tell...


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
            assert events.next(timeout=10).server == "a"
            assert other.next(timeout=10).server == "a"
        assert other.is_closed
        assert list(other) == []
        group.call_tool("b", "x")
        assert next(events).server == "b"
        assert (events.dropped, events.dropped_of("b")) == (0, 0)
        waiting = threading.Timer(0.02, group.close)
        waiting.start()
        assert list(events) == []
        waiting.join(10)
    assert events.is_closed


def test_events_against_the_rules_are_passed_over(caplog):
    def call(_, fake):
        fake.notify("notifications/message", level=5)
        fake.notify("notifications/message", level="info", data="fine")
        return text("told")

    with Group({"a": server({"tools/call": call})}, background=True) as group:
        events = group.events()
        group.call_tool("a", "x")
        assert events.next(timeout=10).notification.params.data == "fine"
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
        assert go_on.wait(10)
        ended.set()

    group = Group({"a": server({"tools/call": log("info", 1)})}, on_notification=hear)
    group.connect_all()
    group.call_tool("a", "x")
    assert begun.wait(10)
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
