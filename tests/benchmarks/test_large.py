"""Large results: what is asked for, how often, and what growth is."""

import asyncio
import json
import mmap
import sys

import pytest


@pytest.fixture
def bench(benchmark_module):
    return benchmark_module("bench_large")


@pytest.fixture
def points(benchmark_module):
    return benchmark_module("large.points")


def test_a_slice_has_fewer_calls_where_results_are_larger_and_one_at_least(
    bench, points
):
    calls_by_point = bench.calls_by_point(
        "stdio: mcpwire", [*points.TEXTS, *points.LISTS], 100
    )
    assert list(calls_by_point) == [
        *("kib=1", "kib=64", "kib=1024", "kib=8192", "kib=32768"),
        *("pages=1", "pages=100"),
    ]
    assert list(calls_by_point.values()) == [100, 100, 6, 1, 1, 5, 5]
    peers = bench.calls_by_point(f"stdio: {bench.PEER}", points.TEXTS, 100)
    assert list(peers.values()) == [10, 10, 1, 1, 1]


def test_who_cannot_do_the_largest_is_not_asked_for_them(bench):
    ways = {way.name: way for way in bench.TRANSPORTS}
    most = {
        name: max(point.kib for point in bench.points_of(f"{name}: {who}", ways[name]))
        for name, who in (("stdio", bench.PEER), ("SSE", bench.PEER), ("SSE", "floor"))
        if who == bench.PEER or name == "SSE"
    }
    assert most == {"stdio": 1210, "SSE": 32768}
    assert [p.kib for p in bench.points_of(f"SSE: {bench.PEER}", ways["SSE"])] == [
        1,
        64,
    ]


def figures(small, large):
    names = {"cpu_us@kib=1024": small, "cpu_us@kib=32768": large}
    return {name: {"value": value, "ratio": 1.0} for name, value in names.items()}


def test_growth_is_what_a_byte_costs_more_and_that_beside_the_floor(bench):
    variant = bench.Variant
    those = [
        variant("floor", "", "", "floor"),
        variant("ours", "", "", "floor"),
        variant("peer", "", "", "floor"),
    ]
    peers = {"cpu_us@kib=1024": {"value": 9.0, "ratio": 9.0}}
    found = {"floor": figures(10, 640), "ours": figures(20, 1920), "peer": peers}
    grown = bench.with_growth(those, found)
    assert grown["floor"]["growth"] == {"value": 2.0, "ratio": 1.0}
    assert grown["ours"]["growth"] == {"value": 3.0, "ratio": 1.5}
    assert "growth" not in grown["peer"]


def test_each_way_has_a_budget_for_its_growth_and_for_the_largest(bench):
    lines = {(budget.variant, budget.figure) for budget in bench.budgets()}
    assert len(lines) == 2 * len(bench.TRANSPORTS)
    assert ("memory: mcpwire", "growth") in lines


def test_each_way_has_a_floor_and_ours_and_none_is_named_twice(bench):
    names = [variant.name for variant in bench.variants()]
    assert len(set(names)) == len(names)
    for way in bench.TRANSPORTS:
        assert {f"{way.name}: floor", f"{way.name}: mcpwire"} <= set(names)


def test_what_a_variant_is_told_comes_back(points):
    told = points.parse_argument(points.format_argument("null", points.TEXTS[:2]))
    assert told == ("null", points.TEXTS[:2])


def test_a_call_is_measured_at_each_point_as_often_as_wanted(points, monkeypatch):
    calls = dict.fromkeys(("kib=1", "kib=64"), 0)

    def counting(name):
        async def call():
            calls[name] += 1

        return call

    clock = iter(range(0, 10_000_000, 1_000_000)).__next__
    monkeypatch.setattr(points, "process_time_ns", clock)
    measured = points.PointCalls({name: counting(name) for name in calls})
    found = asyncio.run(measured.measure({"kib=1": 4, "kib=64": 1}))
    assert calls == {"kib=1": 5, "kib=64": 2}  # one goes before
    assert (found["cpu_us@kib=1"], found["cpu_us@kib=64"]) == (250.0, 1000.0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the most memory")
def test_the_peak_of_a_call_is_told_in_sizes_of_its_result(points):
    async def call():
        # Memory of its own, which nothing that was freed before can serve.
        with mmap.mmap(-1, 32 * 1024 * 1024) as pages:
            pages.write(b"x" * len(pages))

    found = asyncio.run(points.PointCalls({"kib=32768": call}).peak(["kib=32768"]))
    assert 0.5 < found["peak@kib=32768"] < 2.5


@pytest.mark.parametrize("pages", [1, 3])
def test_a_null_server_lists_as_many_tools_on_as_many_pages_as_it_is_told(
    compiled, pages
):
    floors = compiled("large.floors")
    server = str(compiled("null.build").build("stdio_null"))

    async def listed():
        with floors.bare_pipe(server, "--tools", "10", "--pages", str(pages)) as ask:
            return [await floors.list_all_tools(ask) for _ in range(2)]

    for tools in asyncio.run(listed()):
        assert [tool["name"] for tool in tools] == [f"tool_{n}" for n in range(10)]
        assert json.dumps(tools)
