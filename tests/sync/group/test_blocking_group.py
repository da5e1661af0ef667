"""What a blocking group does by a server's name, and what it is like for threads."""

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading

import pytest
from able_servers import METHODS, hang_up, server
from fakes import SILENCE, FakeServer
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
from mcpwire.group import NotConnected
from mcpwire.protocol.many.errors import UnknownServer
from mcpwire.sync import Group
from mcpwire.types import PromptReference

# By name...

VERBS = [
    (lambda g: g.call_tool("a", "x").text, "x"),
    (lambda g: g.call_tool("a", "x", {"n": 1}, timeout=30).text, "x"),
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
        assert group.call_tool("a", "x", timeout=30).text == "x"


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
                start.wait(30)
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
            thread.join(30)
        assert failures == []
        assert max(counts) <= before + 10  # those of the test
        until(lambda: threading.active_count() <= before)
        assert {s.calls for s in group.status().values()} == {100}


@pytest.mark.system("R04", "L-R2")
@pytest.mark.anyio
async def test_it_works_where_a_loop_runs_and_from_its_threads():
    with Group({"a": server()}) as group:
        assert group.call_tool("a", "x").text == "x"
        async with asyncio.timeout(30):
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

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for turn in range(5):
            group.connect("b", server(instructions="Quickly."))
            group.connect_all({f"c{turn}": server()})
            group.disconnect("b")
        ended.set()
        for thread in threads:
            thread.join(30)
        assert failures == []
        assert len(group) == 6


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
        thread.join(30)
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
        timeout=30,
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
