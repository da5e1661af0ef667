"""The tool set without a loop: listing, hearing of changes, calling, from threads."""

import gc
import threading
import weakref

import pytest
from blocking_shelf import BlockingShelf
from waiting import until

from mcpwire.errors import (
    ConnectionClosed,
    InvalidParams,
    LocalProtocolError,
)
from mcpwire.protocol.many.errors import (
    NameCollision,
    NeedsConfirmation,
    NotAllowed,
    UnknownTool,
)
from mcpwire.protocol.many.names import NamePolicy
from mcpwire.sync import ToolSet
from mcpwire.sync.group import toolset
from mcpwire.tools import toolset as asyncio_toolset
from mcpwire.tools.lock import ToolLock
from mcpwire.types import CallToolResult, TextContent, Tool


@pytest.fixture
def shelf():
    return BlockingShelf(a=["x"], b=["y"])


@pytest.fixture
def made():
    """Return what makes a set of the tools of a shelf, all listed once."""
    sets = []

    def make(shelf, **options):
        tools = ToolSet(shelf, **options)
        sets.append(tools)
        tools.refresh()
        return tools

    yield make
    for tools in sets:
        tools.close()


def settled(tools):
    """Wait until no list is fetched any more."""
    until(lambda: tools._thread is None)


def lost():
    """Return the error of a connection that went away."""
    return ConnectionClosed("gone", sent=True)


# Listing...


def test_all_servers_list_their_tools_in_threads_that_end(made):
    shelf = BlockingShelf(a=["x"], b=["y"], c=["z"])
    before = threading.active_count()
    meeting = threading.Barrier(3)
    shelf.on_list = lambda server: meeting.wait(30)
    tools = made(shelf)
    assert tools.names == ("mcp__a__x", "mcp__b__y", "mcp__c__z")
    assert shelf.threads == {"mcpwire-group"}
    until(lambda: threading.active_count() == before)


def test_one_server_alone_is_listed_by_the_thread_that_asks(made):
    shelf = BlockingShelf(a=["x"])
    made(shelf)
    assert shelf.threads == {threading.current_thread().name}


def test_many_servers_are_listed_without_going_through_all_for_each(made):
    counts = []
    for number in (5, 100):
        shelf = BlockingShelf(**{f"s{n}": [f"x{n}"] for n in range(number)})
        assert len(made(shelf)) == number
        counts.append(shelf.enumerated)
    assert counts[0] == counts[1] == 2


def test_the_pauses_are_those_of_the_asyncio_set():
    assert toolset.PAUSES == asyncio_toolset.PAUSES


def test_a_list_that_changed_is_fetched_again_in_a_thread_that_ends(made, shelf):
    tools = made(shelf)
    generation = tools.generation
    shelf.lists["a"] = ["x", "z"]
    shelf.tell("a")
    settled(tools)
    assert tools.names == ("mcp__a__x", "mcp__a__z", "mcp__b__y")
    assert tools.generation == generation + 1
    assert shelf.listed[2:] == ["a"]
    until(lambda: "mcpwire-tools" not in [t.name for t in threading.enumerate()])


def test_the_old_tools_stay_until_the_new_list_is_whole(made, shelf):
    tools = made(shelf)
    shelf.gate.clear()
    shelf.lists["a"] = []
    shelf.tell("a")
    until(lambda: shelf.listed[2:] == ["a"])
    assert tools.call("mcp__a__x").text == "done"
    shelf.gate.set()
    settled(tools)
    assert tools.names == ("mcp__b__y",)


def test_what_changes_during_a_listing_causes_one_more(made, shelf, monkeypatch):
    monkeypatch.setattr(toolset, "PAUSES", (0.0, 0.001))
    tools = made(shelf)
    shelf.gate.clear()
    shelf.tell("a")
    until(lambda: shelf.listed[2:] == ["a"])
    shelf.lists["a"] = ["new"]
    for _ in range(100):
        shelf.tell("a")
    shelf.gate.set()
    settled(tools)
    assert shelf.listed[2:] == ["a", "a"]
    assert tools.names == ("mcp__a__new", "mcp__b__y")


def test_a_listing_that_ends_after_a_later_one_changes_nothing(made, shelf):
    tools = made(shelf)
    first_lists = threading.Event()
    later_is_done = threading.Event()

    def wait(_):
        shelf.on_list = lambda server: None
        first_lists.set()
        assert later_is_done.wait(30)

    shelf.on_list = wait
    slow = threading.Thread(target=tools.refresh, args=("a",))
    slow.start()
    assert first_lists.wait(30)
    shelf.lists["a"] = ["newest"]
    tools.refresh("a")
    later_is_done.set()
    slow.join(30)
    assert tools.names == ("mcp__a__newest", "mcp__b__y")


def test_a_failure_that_comes_after_a_later_success_is_none(made, shelf):
    tools = made(shelf)
    begun = threading.Event()
    late = threading.Event()

    def wait(_):
        shelf.on_list = lambda server: None
        begun.set()
        assert late.wait(30)

    shelf.on_list = wait
    good, shelf.lists["a"] = shelf.lists["a"], lost()
    slow = threading.Thread(target=tools.refresh, args=("a",))
    slow.start()
    assert begun.wait(30)
    shelf.lists["a"] = good
    tools.refresh("a")
    late.set()
    slow.join(30)
    assert tools.problems == {}


def test_a_list_that_fails_keeps_what_was_there_and_says_so(made, shelf):
    tools = made(shelf)
    shelf.lists["a"] = lost()
    shelf.tell("a")
    settled(tools)
    assert tools.names == ("mcp__a__x", "mcp__b__y")
    assert tools.problems == {"a": shelf.lists["a"]}


def test_a_server_that_left_is_gone_with_the_next_list(made, shelf):
    tools = made(shelf)
    del shelf.lists["a"]
    shelf.tell("a")
    settled(tools)
    assert tools.names == ("mcp__b__y",)


def test_a_collision_that_comes_along_keeps_the_old_tools(made, shelf, caplog):
    tools = made(shelf, names=NamePolicy("{tool}", on_collision="raise"))
    shelf.lists["a"] = ["x", "y"]
    shelf.tell("a")
    settled(tools)
    assert tools.names == ("x", "y")
    assert "the tools stay as they were" in caplog.text
    with pytest.raises(NameCollision):
        tools.refresh()


def test_nothing_is_heard_after_closing_and_calls_go_on(made, shelf):
    tools = made(shelf)
    tools.close()
    tools.close()
    assert shelf.callbacks == []
    tools._hear("a")
    assert tools._thread is None
    assert tools.call("mcp__a__x").text == "done"


def test_closing_ends_a_pause_and_the_thread_that_makes_it(made, shelf, monkeypatch):
    monkeypatch.setattr(toolset, "PAUSES", (60.0,))
    tools = made(shelf)
    shelf.tell("a")
    thread = tools._thread
    assert thread is not None
    tools.close()
    assert not thread.is_alive()
    assert shelf.listed == ["a", "b"]


def test_the_end_of_the_source_is_the_end_of_hearing(made, shelf):
    tools = made(shelf)
    shelf.tell(None)
    assert shelf.callbacks == []
    assert len(tools) == 2


def test_a_failure_while_everything_ends_is_no_problem(made, shelf):
    tools = made(shelf)
    shelf.gate.clear()
    shelf.lists["a"] = lost()
    shelf.tell("a")
    until(lambda: shelf.listed[2:] == ["a"])
    shelf.tell(None)
    shelf.gate.set()
    settled(tools)
    assert tools.problems == {}


def test_a_set_that_nobody_has_any_more_hears_nothing(shelf):
    tools = ToolSet(shelf)
    (tell,) = shelf.callbacks
    known = weakref.ref(tools)
    del tools
    gc.collect()
    assert known() is None
    assert shelf.callbacks == []
    tell("a")  # by a thread that was about to
    assert shelf.listed == []


def test_without_a_thread_to_be_had_the_old_tools_stay(
    made, shelf, monkeypatch, caplog
):
    tools = made(shelf)

    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    shelf.tell("a")
    assert tools._thread is None
    assert "changed tools cannot be listed: can't start new thread" in caplog.text
    tools.refresh()  # in this thread, then
    assert shelf.threads >= {threading.current_thread().name}


def test_a_defect_comes_out_of_a_refresh_and_ends_nothing(made, shelf, caplog):
    tools = made(shelf)
    good, shelf.lists["a"] = shelf.lists["a"], ZeroDivisionError("a defect")
    shelf.lists["b"] = ["y", "z"]
    with pytest.raises(ZeroDivisionError):
        tools.refresh()
    assert tools.names == ("mcp__a__x", "mcp__b__y", "mcp__b__z")
    shelf.tell("a")
    settled(tools)
    assert "listing the tools of 'a' raised" in caplog.text
    shelf.lists["a"] = [*good, "more"]
    shelf.tell("a")
    settled(tools)
    assert "mcp__a__more" in tools


def test_a_lock_holds_tools_until_they_are_accepted(made, shelf):
    tools = made(shelf, lock=ToolLock())
    tools.accept()
    shelf.lists["a"] = [Tool("x", {"type": "object"}, description="another")]
    tools.refresh()
    with pytest.raises(NotAllowed):
        tools.call("mcp__a__x")
    tools.accept("a/x")
    assert tools.call("mcp__a__x").text == "done"


# Calling...


def test_a_call_goes_to_its_server_by_the_servers_own_name(made, shelf):
    tools = made(shelf, strip_arguments=["secret"])
    result = tools.call("mcp__b__y", {"path": "/", "secret": 1}, timeout=3)
    assert result.text == "done"
    assert shelf.calls == [("b", "y", {"path": "/"}, {"timeout": 3})]
    assert tools.costs.of("b", "y").calls == 1


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (UnknownTool, lambda tools: tools.call("nothing")),
        (NotAllowed, lambda tools: tools.call("mcp__a__x")),
        (LocalProtocolError, lambda tools: tools.call("mcp__b__y", ["no object"])),
        (NeedsConfirmation, lambda tools: tools.call("mcp__b__y")),
        (ValueError, lambda tools: tools.call("mcp__b__y", errors="perhaps")),
    ],
)
def test_what_may_not_be_called_is_refused_before_anything_is_sent(
    made, shelf, error, call
):
    tools = made(shelf, deny="a/*", confirm=True)
    with pytest.raises(error):
        call(tools)
    assert shelf.calls == []
    assert tools.call("mcp__b__y", confirmed=True).text == "done"


@pytest.mark.system("V17")
def test_an_error_of_the_server_can_be_a_result(made, shelf):
    tools = made(shelf)
    shelf.answer = InvalidParams("no such file", code=-32602)
    with pytest.raises(InvalidParams):
        tools.call("mcp__a__x")
    result = tools.call("mcp__a__x", errors="result")
    assert result == CallToolResult([TextContent("no such file")], is_error=True)
    shelf.answer = lost()
    with pytest.raises(ConnectionClosed):
        tools.call("mcp__a__x", errors="result")


@pytest.mark.parametrize(
    ("answer", "sent"),
    [(True, {"path": "/"}), ({"path": "/tmp"}, {"path": "/tmp"})],
)
def test_whoever_approves_lets_a_call_through_or_changes_it(made, shelf, answer, sent):
    asked = []

    def approve(call):
        asked.append(str(call))
        return answer

    tools = made(shelf, approve=approve)
    tools.call("mcp__a__x", {"path": "/"})
    assert shelf.calls[0][2] == sent
    assert asked == ["[MCP] a.x /"]


def refuse(_):
    """Raise what an approver would to give its own reason."""
    raise NotAllowed("x", rule="not today")


class LaterYes:
    """Looks like a plain function, and gives back something to be awaited."""

    def __call__(self, _):
        async def yes():
            return True

        return yes()


REFUSALS = [
    (lambda _: False, "approve"),
    (refuse, "not today"),
    (lambda _: 1 / 0, "approve: division by zero"),
    (LaterYes(), "approve: it is no plain function"),
]


def test_a_call_that_is_not_approved_is_not_made(made, shelf):
    for approve, rule in REFUSALS:
        tools = made(shelf, approve=approve)
        with pytest.raises(NotAllowed) as caught:
            tools.call("mcp__a__x")
        assert caught.value.rule == rule
    assert shelf.calls == []


async def _later(*_):
    """Be what nobody here could await."""


@pytest.mark.parametrize("name", ["approve", "trace_context"])
def test_an_async_function_is_refused_at_once(shelf, name):
    with pytest.raises(ValueError, match=f"{name} must be a plain function"):
        ToolSet(shelf, **{name: _later})


def test_resources_can_be_tools(made, shelf):
    tools = made(shelf, resources_as_tools=True)
    result = tools.call("mcp__a__mcp_list_resources")
    assert result.structured_content == {"resources": []}
    assert shelf.calls == [("a", "list_resources", (), {})]


def test_many_threads_call_and_list_at_the_same_time(made, shelf):
    tools = made(shelf)
    failures = []

    def work():
        try:
            for _ in range(20):
                tools.refresh()
                assert tools.call("mcp__a__x").text == "done"
                assert len(list(tools)) == 2
        except Exception as error:  # noqa: BLE001 - told in the test's thread
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert len(shelf.calls) == 80
