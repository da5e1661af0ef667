"""Changing tool lists: the tools shown meanwhile, and the number of list requests."""

import asyncio
import gc

import pytest
from eager import eager
from fake_source import Shelf, lost
from hypothesis import given
from hypothesis import strategies as st
from loop_polling import until

from mcpwire.errors import ConnectionClosed, NameCollision
from mcpwire.tools import ToolSet, toolset
from mcpwire.tools.names import NamePolicy


@pytest.fixture
def shelf():
    return Shelf(a=["x"], b=["y"])


@pytest.fixture(autouse=True, scope="module")
def no_pauses():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolset, "DELAYS_S", (0.0,))
        patch.setattr(toolset, "REBUILD_INTERVAL_FACTOR", 0)
        yield


async def settled(tools):
    async with asyncio.timeout(30):
        while tools._listings:
            await asyncio.wait([each.task for each in tools._listings.values()])


async def loop_iterations(count=1):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.system("L-V6")
async def test_changed_list_is_fetched_again(made, shelf):
    tools = await made(shelf)
    before = tools.generation
    shelf.change("a", ["x", "z"])
    assert tools.names == ("mcp__a__x", "mcp__b__y")
    await settled(tools)
    assert tools.names == ("mcp__a__x", "mcp__a__z", "mcp__b__y")
    assert tools.generation == before + 1
    assert shelf.listed == ["a", "b", "a"]


@pytest.mark.system("L-V6")
async def test_old_tools_stay_until_the_new_list_is_complete(made, shelf):
    tools = await made(shelf)
    shelf.gate = asyncio.Event()
    shelf.change("a", [])
    await loop_iterations()
    assert shelf.listed[2:] == ["a"]
    assert (await tools.call("mcp__a__x")).text == "done"
    assert len(tools) == 2
    shelf.gate.set()
    await settled(tools)
    assert tools.names == ("mcp__b__y",)


async def test_listing_many_servers_enumerates_them_only_twice(made):
    counts = []
    for number in (5, 500):
        shelf = Shelf(**{f"s{n}": [f"x{n}"] for n in range(number)})
        tools = await made(shelf)
        assert len(tools) == number
        counts.append(shelf.enumerated)
    assert counts[0] == counts[1] == 2


@pytest.mark.parametrize("delay", [0.0, 0.001])
async def test_changes_during_a_listing_cause_one_more_listing(
    made, shelf, monkeypatch, delay
):
    monkeypatch.setattr(toolset, "DELAYS_S", (0.0, delay))
    tools = await made(shelf)
    shelf.gate = asyncio.Event()
    for _ in range(100):
        shelf.notify("a")
    await loop_iterations()
    shelf.lists["a"] = ["new"]
    for _ in range(100):
        shelf.notify("a")
    shelf.gate.set()
    await settled(tools)
    assert shelf.listed[2:] == ["a", "a"]
    assert tools.names == ("mcp__a__new", "mcp__b__y")


async def test_failed_listing_keeps_the_tools_and_records_a_problem(made, shelf):
    tools = await made(shelf)
    previous = shelf.lists["a"]
    shelf.change("a", lost())
    await settled(tools)
    assert tools.names == ("mcp__a__x", "mcp__b__y")
    assert tools.problems == {"a": shelf.lists["a"]}
    assert repr(tools) == "<ToolSet of 2 tools of 2 servers, 1 problems>"
    shelf.lists["a"] = previous
    await tools.refresh("a")
    assert tools.problems == {}


@pytest.mark.system("R06")
async def test_failed_listing_of_one_server_does_not_affect_others(made, caplog):
    tools = await made(Shelf(a=lost(), b=["y"]))
    assert tools.names == ("mcp__b__y",)
    assert isinstance(tools.problems["a"], ConnectionClosed)
    (record,) = caplog.records
    assert (record.server, record.levelname) == ("a", "WARNING")


async def test_servers_can_be_added_and_removed(made, shelf):
    tools = await made(shelf)
    shelf.change("c", ["z"])
    await settled(tools)
    assert "mcp__c__z" in tools
    del shelf.lists["a"]
    shelf.notify("a")
    await settled(tools)
    assert tools.names == ("mcp__b__y", "mcp__c__z")
    shelf.lists["b"] = lost()
    await tools.refresh("b")
    assert set(tools.problems) == {"b"}
    del shelf.lists["b"]
    await tools.refresh("b")
    assert tools.names == ("mcp__c__z",)
    assert tools.problems == {}


async def test_later_name_collision_keeps_the_old_tools(made, shelf):
    tools = await made(shelf, names=NamePolicy("{tool}", on_collision="raise"))
    shelf.change("a", ["x", "y"])
    await settled(tools)
    assert tools.names == ("x", "y")
    assert tools["y"].server == "b"
    assert set(tools.problems) == {"a", "b"}
    with pytest.raises(NameCollision):
        await tools.refresh()
    shelf.lists["b"] = []
    await tools.refresh("b")
    assert [view.server for view in tools] == ["a", "a"]
    assert tools.problems == {}


async def test_all_servers_are_listed_concurrently(made, shelf):
    tools = ToolSet(shelf)
    shelf.gate = asyncio.Event()
    refreshing = asyncio.create_task(tools.refresh())
    await loop_iterations(2)
    assert shelf.listed == ["a", "b"]
    assert len(tools) == 0
    shelf.gate.set()
    await refreshing
    assert len(tools) == 2
    assert tools.generation == 1


async def test_change_during_a_refresh_of_another_server_is_applied(made, shelf):
    tools = await made(shelf)
    shelf.gate = asyncio.Event()
    refreshing = asyncio.create_task(tools.refresh("b"))
    await loop_iterations(2)
    blocked, shelf.gate = shelf.gate, None
    shelf.change("a", ["z"])
    await asyncio.wait([tools._listings["a"].task])
    assert tools.names == ("mcp__a__z", "mcp__b__y")
    assert not refreshing.done()
    blocked.set()
    await refreshing


@pytest.mark.parametrize("has_begun", [False, True])
async def test_cancelled_refresh_cancels_its_own_listing(made, shelf, has_begun):
    tools = await made(shelf)
    shelf.gate = asyncio.Event()
    refreshing = asyncio.create_task(tools.refresh("a"))
    await loop_iterations(2 if has_begun else 1)
    refreshing.cancel()
    await asyncio.wait([refreshing])
    assert refreshing.cancelled()
    assert tools._listings == {}
    shelf.gate.set()
    await tools.refresh("a")
    assert len(tools) == 2


async def test_cancelled_refresh_keeps_listings_of_others(made, shelf):
    tools = await made(shelf)
    shelf.gate = asyncio.Event()
    shelf.lists["b"] = ["new"]
    first = asyncio.create_task(tools.refresh("a"))
    second = asyncio.create_task(tools.refresh("a"))
    shelf.notify("b")
    third = asyncio.create_task(tools.refresh("b"))
    await loop_iterations()
    first.cancel()
    third.cancel()
    await asyncio.wait([first, third])
    shelf.gate.set()
    await second
    await settled(tools)
    assert tools.names == ("mcp__a__x", "mcp__b__new")


async def test_refresh_waits_for_a_new_listing_and_not_for_the_delay(
    made, shelf, monkeypatch
):
    monkeypatch.setattr(toolset, "DELAYS_S", (0.0, 3600.0))
    tools = await made(shelf)
    shelf.gate = asyncio.Event()
    shelf.notify("a")
    await loop_iterations()
    shelf.lists["a"] = ["new"]
    refreshing = asyncio.create_task(tools.refresh("a"))
    await loop_iterations()
    shelf.gate.set()
    async with asyncio.timeout(30):
        await refreshing
    assert shelf.listed[2:] == ["a", "a"]
    assert "mcp__a__new" in tools


@pytest.mark.parametrize("is_early", [True, False])
async def test_list_that_changes_with_each_listing_is_throttled(
    made, shelf, monkeypatch, is_early
):
    monkeypatch.setattr(toolset, "DELAYS_S", (0.0, 3600.0))
    tools = await made(shelf)
    listing = shelf.fetch_tools

    async def list_and_notify(server):
        shelf.notify(server)
        return await listing(server)

    if is_early:
        shelf.fetch_tools = list_and_notify
        shelf.notify("a")
    else:
        shelf.notify("a")
        await settled(tools)
        shelf.notify("a")
    await loop_iterations(50)
    assert shelf.listed[2:] == ["a"]
    # An explicit refresh does not wait that long.
    async with asyncio.timeout(30):
        await tools.refresh("a")
    assert shelf.listed[2:] == ["a", "a"]
    await tools.aclose()


async def test_concurrent_changes_are_rebuilt_together(made, monkeypatch):
    monkeypatch.setattr(toolset, "REBUILD_INTERVAL_FACTOR", 20)
    shelf = Shelf(**{f"s{number}": ["x"] for number in range(50)})
    tools = await made(shelf)
    before = tools.generation
    for server in shelf.lists:
        shelf.change(server, ["y"])
    await settled(tools)
    async with asyncio.timeout(30):
        await until(lambda: "mcp__s49__y" in tools)
    assert tools.generation - before <= 3
    assert {view.tool for view in tools} == {"y"}


async def test_pending_rebuild_is_cancelled_at_the_end(made, shelf, monkeypatch):
    tools = await made(shelf)
    monkeypatch.setattr(toolset, "REBUILD_INTERVAL_FACTOR", 1_000_000)
    await tools.refresh()
    shelf.change("a", ["z"])
    await settled(tools)
    assert tools.names == ("mcp__a__x", "mcp__b__y")
    await tools.refresh("b")
    assert tools.names == ("mcp__a__z", "mcp__b__y")
    shelf.change("a", ["x"])
    await settled(tools)
    shelf.notify(None)
    assert tools._rebuild_timer is None


async def test_unexpected_error_is_the_exception_of_the_task(made, shelf):
    tools = await made(shelf)
    shelf.change("a", RuntimeError("a defect"))
    task = tools._listings["a"].task
    await asyncio.wait([task])
    assert task.exception() is shelf.lists["a"]
    assert tools._listings == {}
    with pytest.raises(RuntimeError, match="a defect"):
        await tools.refresh()
    assert len(tools) == 2


async def test_eager_tasks_that_finish_at_once_are_not_awaited(made, shelf):
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", eager))
    try:
        async with asyncio.timeout(30):
            tools = await made(shelf)
            assert shelf.listed == ["a", "b"]
            shelf.change("a", ["x", "z"])
            assert shelf.listed == ["a", "b", "a"]
            await tools.refresh()
    finally:
        loop.set_task_factory(None)
    assert tools.names == ("mcp__a__x", "mcp__a__z", "mcp__b__y")
    assert tools._listings == {}


async def test_tool_set_without_servers_is_empty(made):
    assert len(await made(Shelf())) == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("change"),
            st.sampled_from("abc"),
            st.lists(st.sampled_from("xyz"), unique=True),
        ),
        st.tuples(st.sampled_from(["leave", "fail", "refresh"]), st.sampled_from("ab")),
        st.tuples(st.sampled_from(["turn", "hold", "let go"])),
    ),
    max_size=15,
)


@given(STEPS)
def test_random_changes_end_with_the_tools_of_the_servers(steps):
    asyncio.run(apply_steps(steps))


async def apply_steps(steps):
    shelf = Shelf(a=["x"], b=["y"])
    tools = ToolSet(shelf)
    refreshing = [asyncio.create_task(tools.refresh())]
    gate = asyncio.Event()
    for name, *rest in steps:
        match name, *rest:
            case "change", server, listed:
                shelf.change(server, listed)
            case "fail", server:
                shelf.change(server, lost())
            case "leave", server:
                shelf.lists.pop(server, None)
                shelf.notify(server)
            case "refresh", server:
                refreshing.append(asyncio.create_task(tools.refresh(server)))
            case ("turn",):
                await loop_iterations()
            case ("hold",):
                shelf.gate = gate
            case ("let go",):
                gate.set()
    gate.set()
    await asyncio.wait(refreshing)
    await settled(tools)
    failing = {name for name, each in shelf.lists.items() if not isinstance(each, list)}
    assert set(tools.problems) == failing
    for server in shelf.lists.keys() - failing:
        assert [view.tool for view in tools.of_server(server)] == shelf.lists[server]
    assert {view.server for view in tools} <= set(shelf.lists)
    await tools.aclose()
    assert len(asyncio.all_tasks()) == 1


# --- the end ---------------------------------------------------------------------


async def test_closed_source_cancels_the_listings(made, shelf):
    tools = await made(shelf)
    shelf.gate = asyncio.Event()
    shelf.notify("a")
    refreshing = asyncio.create_task(tools.refresh("b"))
    await loop_iterations()
    tasks = [each.task for each in tools._listings.values()]
    shelf.notify(None)
    await asyncio.wait([*tasks, refreshing])
    assert all(task.cancelled() for task in tasks)
    assert tools._listings == {}
    assert not shelf.tool_sets
    assert len(tools) == 2


@pytest.mark.parametrize("has_begun", [False, True])
async def test_closing_twice_cancels_the_listings(made, shelf, has_begun):
    tools = await made(shelf)
    before = asyncio.all_tasks()
    shelf.gate = asyncio.Event()
    shelf.notify("a")
    if has_begun:
        await loop_iterations()
    await tools.aclose()
    await tools.aclose()
    assert asyncio.all_tasks() == before
    assert not shelf.tool_sets
    assert (await tools.call("mcp__a__x")).text == "done"


async def test_source_does_not_keep_tool_sets_alive(shelf):
    tools = ToolSet(shelf)
    await tools.refresh()
    assert len(shelf.tool_sets) == 1
    del tools
    gc.collect()
    assert not shelf.tool_sets
    shelf.notify("a")
