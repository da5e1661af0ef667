"""A blocking group of servers and its tools, used from any thread."""

import asyncio
import threading

import pytest
from able_server import TOOL, hang_up, server
from child_python import finished
from echoing import command
from fakes import SILENCE, FakeServer, text
from requesting_server import SAMPLE, Asking, model, sampled
from scripted import ECHO_LOOP, scripted
from waiting import BOUND_S, collect, own_threads, until

import mcpwire
from mcpwire.errors import (
    ConnectError,
    ConnectionClosed,
    LocalProtocolError,
    NotAllowed,
    UnknownServer,
)
from mcpwire.group import Member, NotConnected
from mcpwire.group.backoff import Backoff
from mcpwire.sync import Client, Group
from mcpwire.tools.lock import ToolLock
from mcpwire.types import PromptReference

MISSING = "/there/is/no/such/program"


def named(name="x", **members):
    return FakeServer({"tools/call": lambda *_: text(name)}, **members)


def servers(names):
    return {name: named(name) for name in names}


VERBS = [
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
    (lambda g: 0 <= g.ping("a") < 10, True),
    (lambda g: g.set_log_level("a", "info"), None),
    (lambda g: g.server_info("a")["serverInfo"], {"name": "fake", "version": "1"}),
    (lambda g: g.instructions(), {"a": "Gently."}),
    (lambda g: g.cancel("a", 4711), None),
    (lambda g: g.notify_roots_changed(), None),
]


@pytest.mark.parametrize("background", [False, True])
def test_each_group_method_takes_a_server_name(background):
    target = server(instructions="Gently.")
    with Group({"a": target}, background=background) as group:
        assert [use(group) for use, _ in VERBS] == [answer for _, answer in VERBS]
    assert not own_threads()


def test_members_are_blocking_clients_by_name():
    with Group(servers("ab")) as group:
        assert list(group) == ["a", "b"]
        assert len(group) == 2
        assert "a" in group
        assert "c" not in group
        assert type(group["b"]) is Client
        assert group["b"] is group["b"] is group.client("b")
        assert group["b"].call_tool("x").text == "b"
        assert repr(group) == "<mcpwire.sync.Group a ready, b ready>"
        joined = group.connect("c", named("c"))
        assert joined.call_tool("x").text == "c"
        group.disconnect("a")
        assert list(group) == ["b", "c"]
        with pytest.raises(UnknownServer):
            group.call_tool("d", "x")
    assert len(group) == 0
    with group:
        assert group.call_tool("a", "x").text == "a"


def test_servers_are_connected_concurrently_without_threads(tmp_path):
    """Each child waits until the other two have begun."""
    body = f"""
import pathlib
folder = pathlib.Path({str(tmp_path)!r})
(folder / sys.argv[1]).touch()
while len(list(folder.iterdir())) < 3: time.sleep(0.01)
handshake()
"""
    targets = {name: scripted(body + ECHO_LOOP, name) for name in "abc"}
    with Group(targets) as group:
        assert group.report.ok == ("a", "b", "c")
        assert own_threads() == []


@pytest.mark.system("V10")
def test_a_failed_member_is_skipped(caplog):
    with Group({**servers("ac"), "b": MISSING}, on_error="skip") as group:
        assert group.report.ok == ("a", "c")
        assert list(group.report.failed) == ["b"]
        assert group.problems == group.report.failed
        assert group.status()["b"].state == "failed"
        with pytest.raises(NotConnected, match="ConnectError"):
            group["b"]


@pytest.mark.parametrize("is_async", [False, True])
def test_an_on_error_function_decides_about_failures(is_async):
    failures = []

    def decide(name, error):
        failures.append((name, type(error)))
        if name == "c":
            raise RuntimeError(f"not without {name}") from error

    async def decide_async(name, error):
        decide(name, error)

    group = Group(
        {**servers("a"), "b": MISSING, "c": MISSING},
        on_error=decide_async if is_async else decide,
        concurrency=1,
    )
    with pytest.raises(RuntimeError, match="not without c"):
        group.connect_all()
    assert failures == [("b", ConnectError), ("c", ConnectError)]
    assert list(group) == []
    group.close()


def test_make_client_may_return_a_subclass():
    class Loud(Client):
        pass

    made = []

    def make(name, target, **options):
        made.append(name)
        return Loud(target, **options)

    with Group(servers("ab"), make_client=make) as group:
        assert type(group["a"]) is Loud
        assert group["a"].call_tool("x").text == "a"
        assert group.call_tool("b", "x").text == "b"
    assert made == ["a", "b"]


def test_restart_and_idle_work_between_calls():
    one = server({"tools/call": hang_up})
    with Group({"a": one}, restart=Backoff(first=0.01, maximum=0.02)) as group:
        with pytest.raises(mcpwire.TransportError):
            group.call_tool("a", "x")
        until(lambda: group.status()["a"].state == "ready")
    with Group({"a": server()}, start="lazy", idle=0.05) as group:
        assert group.call_tool("a", "x").text == "x"
        until(lambda: group.status()["a"].state == "idle")
        assert group.call_tool("a", "x").text == "x"


@pytest.mark.system("R04", "L-R2")
@pytest.mark.parametrize("background", [False, True])
def test_many_threads_call_without_new_threads(background, threads):
    echo = scripted(f"handshake()\n{ECHO_LOOP}")
    with Group({"a": echo, "b": echo}, mode="session", background=background) as group:
        start, before = threading.Barrier(10), own_threads()

        def work(number):
            start.wait(BOUND_S)
            counts = set()
            for turn in range(10):
                message = f"{number}-{turn}"
                for name in ("a", "b"):
                    answer = group.call_tool(name, "echo", {"text": message}).text
                    assert answer == message
                counts.add(len(own_threads()))
            return counts

        running = [threads.submit(work, number) for number in range(10)]
        found = set().union(*(each.result(BOUND_S) for each in running))
        assert found == {len(before)} == {int(background)}


@pytest.mark.system("L-R2")
def test_any_thread_may_close_a_group_during_calls(threads):
    one = server({"tools/call": lambda *_: SILENCE})
    group = Group({"a": one, "b": server()})
    group.connect_all()
    calling = threads.submit(group.call_tool, "a", "x")
    until(lambda: group.status()["a"].in_flight == 1)
    threads.submit(group.close).result(BOUND_S)
    assert type(calling.exception(BOUND_S)) is ConnectionClosed
    assert list(group) == []


def test_an_interrupt_undoes_connect_all(interrupted):
    targets = {name: scripted("while True: recv()") for name in "ab"}
    group = Group({**targets, "c": named()})
    interrupted(group.connect_all, after=0.3)
    assert list(group) == []
    assert group.connect("d", named("d")).call_tool("x").text == "d"
    group.close()


def test_a_group_inside_a_running_loop_is_collected_with_a_warning():
    holder = [Group(servers("ab"))]

    async def main():
        holder[0].connect_all()
        return holder[0].call_tool("a", "x").text

    assert asyncio.run(main()) == "a"
    with pytest.warns(ResourceWarning, match="unclosed <mcpwire.sync.Group"):
        collect(holder)
    until(lambda: not own_threads())


EXITING = """
import atexit, threading
import mcpwire.sync
target = mcpwire.Stdio(sys.argv[1], sys.argv[2:])
group = mcpwire.sync.Group({"a": target, "b": target}, mode="session")
group.connect_all()
tools = group.tools()
atexit.register(lambda: (group.close(), print(group, threading.active_count())))
forgotten = mcpwire.sync.Group({"c": target}, mode="session")
forgotten.connect_all()
"""


@pytest.mark.system("L-R2")
def test_a_group_may_be_open_when_the_interpreter_exits():
    lists = "while True:\n    m = recv()\n    if 'id' in m: answer(m, {'tools': []})"
    target = scripted(f"handshake()\n{lists}")
    words = command(EXITING, target.command, *target.args)
    done = finished(*words, timeout=BOUND_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "<mcpwire.sync.Group a idle, b idle> 1\n"


def log(level, data):
    """Return a tool handler that sends a log message first."""

    def call(_, fake):
        fake.notify("notifications/message", level=level, data=data)
        return text("logged")

    return call


def test_handlers_of_a_group_can_be_replaced():
    one, two = (Asking("sampling/createMessage", SAMPLE) for _ in range(2))
    members = {"a": one, "b": Member(two, sampling=model("own"))}
    with Group(members, sampling=model("all")) as group:
        answers = []
        for change in (None, model("new")):
            if change is not None:
                group.set_handlers("a", sampling=change)
            group.call_tool("a", "x")
            group.call_tool("b", "x")
            answers.append(
                [each.answered["result"]["content"]["text"] for each in (one, two)]
            )
        assert answers == [["all", "own"], ["new", "own"]]


def test_each_notification_names_its_server():
    events = []
    targets = {name: server({"tools/call": log("info", name)}) for name in "abc"}
    with Group(targets, on_notification=events.append) as group:
        for name in "cab":
            group.call_tool(name, "x")
        until(lambda: len(events) == 3)
        assert [(e.server, e.notification.params.data) for e in events] == [
            (name, name) for name in "cab"
        ]
        assert group.dropped == 0


@pytest.mark.parametrize("background", [False, True])
def test_events_of_all_servers_end_with_the_group(background, threads):
    targets = {name: server({"tools/call": log("info", name)}) for name in "ab"}
    with Group(targets, background=background) as group:
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
        waiting = threads.submit(list, events)
        threads.submit(group.close).result(BOUND_S)
        assert waiting.result(BOUND_S) == []
    assert events.is_closed


def test_the_deprecated_listen_option_warns():
    with pytest.warns(DeprecationWarning, match="listen= does nothing"):
        Group(servers("a"), listen=False)


def test_a_configuration_makes_a_group():
    config = {
        "mcpServers": {"a": {"command": "x"}, "b": {"command": "y", "disabled": True}}
    }
    group = Group.from_config(config, timeout=3, only=["a"])
    assert list(group.status()) == ["a"]
    assert repr(group) == "<mcpwire.sync.Group a idle>"


def test_tools_are_called_by_their_toolset_names():
    with Group({"a": server(), "b": server()}) as group:
        tools = group.tools(deny="b/*", resources_as_tools=True)
        assert "mcp__a__x" in tools
        assert tools.call("mcp__a__x").text == "x"
        with pytest.raises(NotAllowed):
            tools.call("mcp__b__x")
        assert tools.call("mcp__a__mcp_read_resource", {"uri": "a://1"}).text == "t"
        assert [each.server for each in tools.catalog()] == ["a", "a", "a"]
        assert group.tools(allow="a/x").names == ("mcp__a__x",)
        tools.close()


@pytest.mark.parametrize("background", [False, True])
def test_changed_tools_are_listed_again(background):
    def call(_, fake):
        fake.methods["tools/list"] = lambda *_: {"tools": [TOOL, {**TOOL, "name": "y"}]}
        fake.notify("notifications/tools/list_changed")
        return text("changed")

    one = server({"tools/call": call}, capabilities={"tools": {"listChanged": True}})
    with Group({"a": one}, background=background) as group:
        tools = group.tools()
        tools.call("mcp__a__x")
        poll = lambda: background or group.ping("a")  # noqa: E731 - somebody reads
        until(lambda: poll() and tools.names == ("mcp__a__x", "mcp__a__y"))
        group.connect("b", server())
        until(lambda: poll() and "mcp__b__x" in tools)
        group.disconnect("b")
        until(lambda: poll() and "mcp__b__x" not in tools)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("answer", [True, False, {"path": "/tmp"}])
def test_a_function_approves_calls_plain_or_async(is_async, answer):
    approved, calls = [], []

    def approve(call):
        approved.append(str(call))
        return answer

    async def approve_later(call):
        return approve(call)

    def call(params, _):
        calls.append(params["arguments"])
        return text("done")

    with Group({"a": server({"tools/call": call})}) as group:
        tools = group.tools(approve=approve_later if is_async else approve)
        if answer is False:
            with pytest.raises(NotAllowed):
                tools.call("mcp__a__x", {"path": "/"})
        else:
            assert tools.call("mcp__a__x", {"path": "/"}).text == "done"
            assert calls == [{"path": "/"} if answer is True else answer]
    assert approved == ["[MCP] a.x /"]


def test_many_threads_call_and_list_at_the_same_time(threads):
    with Group({"a": server(), "b": server()}) as group:
        tools = group.tools()

        def work():
            for _ in range(20):
                tools.refresh()
                assert tools.call("mcp__a__x").text == "x"
                assert len(list(tools)) == 2

        for each in [threads.submit(work) for _ in range(4)]:
            each.result(BOUND_S)


def test_a_group_call_on_its_own_loop_is_refused():
    refused = []

    async def sampling(_):
        with pytest.raises(LocalProtocolError, match="can close the"):
            group.ping("a")
        refused.append(1)
        return sampled("x")

    one = Asking("sampling/createMessage", SAMPLE)
    with Group({"a": one}, sampling=sampling) as group:
        group.call_tool("a", "x")
    assert refused == [1]


def test_a_lock_holds_tools_until_they_are_accepted():
    one = server()
    with Group({"a": one}) as group:
        tools = group.tools(lock=ToolLock())
        tools.accept()
        one.methods["tools/list"] = lambda *_: {"tools": [{**TOOL, "title": "new"}]}
        tools.refresh()
        with pytest.raises(NotAllowed):
            tools.call("mcp__a__x")
        tools.accept("a/x")
        assert tools.call("mcp__a__x").text == "x"
        with pytest.raises(LocalProtocolError, match="no lock"):
            group.tools().accept()
