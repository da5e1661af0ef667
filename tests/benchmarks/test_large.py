"""The large-result benchmark: its points, call counts and growth."""

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


def test_slice_has_fewer_calls_for_larger_results(bench, points):
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


def test_peer_is_measured_only_up_to_its_size_limit(bench):
    transports = {transport.name: transport for transport in bench.TRANSPORTS}
    largest = {
        name: max(
            point.kib
            for point in bench.points_of(f"{name}: {program}", transports[name])
        )
        for name, program in (
            ("stdio", bench.PEER),
            ("SSE", bench.PEER),
            ("SSE", "floor"),
        )
        if program == bench.PEER or name == "SSE"
    }
    assert largest == {"stdio": 1210, "SSE": 32768}
    assert [
        p.kib for p in bench.points_of(f"SSE: {bench.PEER}", transports["SSE"])
    ] == [1, 64]


def figures(small, large):
    names = {"cpu_us@kib=1024": small, "cpu_us@kib=32768": large}
    return {name: {"value": value, "ratio": 1.0} for name, value in names.items()}


def test_growth_is_the_cost_per_byte_relative_to_the_floor(bench):
    variant = bench.Variant
    variants = [
        variant("floor", "", "", "floor"),
        variant("ours", "", "", "floor"),
        variant("peer", "", "", "floor"),
    ]
    peers = {"cpu_us@kib=1024": {"value": 9.0, "ratio": 9.0}}
    found = {"floor": figures(10, 640), "ours": figures(20, 1920), "peer": peers}
    with_growth = bench.with_growth(variants, found)
    assert with_growth["floor"]["growth"] == {"value": 2.0, "ratio": 1.0}
    assert with_growth["ours"]["growth"] == {"value": 3.0, "ratio": 1.5}
    assert "growth" not in with_growth["peer"]


def test_each_transport_has_budgets_for_growth_and_largest_result(bench):
    lines = {(budget.variant, budget.figure) for budget in bench.budgets()}
    assert len(lines) == 2 * len(bench.TRANSPORTS)
    assert ("memory: mcpwire", "growth") in lines


def test_each_transport_has_a_floor_and_ours_with_unique_names(bench):
    names = [variant.name for variant in bench.variants()]
    assert len(set(names)) == len(names)
    for transport in bench.TRANSPORTS:
        assert {f"{transport.name}: floor", f"{transport.name}: mcpwire"} <= set(names)


def test_variant_argument_survives_a_round_trip(points):
    parsed = points.parse_argument(points.format_argument("null", points.TEXTS[:2]))
    assert parsed == ("null", points.TEXTS[:2])


def test_each_point_is_measured_with_its_number_of_calls(points, monkeypatch):
    calls = dict.fromkeys(("kib=1", "kib=64"), 0)

    def counting(name):
        async def call():
            calls[name] += 1

        return call

    clock = iter(range(0, 10_000_000, 1_000_000)).__next__
    monkeypatch.setattr(points, "process_time_ns", clock)
    measured = points.PointCalls({name: counting(name) for name in calls})
    found = asyncio.run(measured.measure({"kib=1": 4, "kib=64": 1}))
    assert calls == {"kib=1": 5, "kib=64": 2}  # one warm-up call each
    assert (found["cpu_us@kib=1"], found["cpu_us@kib=64"]) == (250.0, 1000.0)


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read on Linux only")
def test_peak_memory_is_a_multiple_of_the_result_size(points):
    async def call():
        # New memory, which cannot come from memory freed before.
        with mmap.mmap(-1, 32 * 1024 * 1024) as pages:
            pages.write(b"x" * len(pages))

    found = asyncio.run(points.PointCalls({"kib=32768": call}).peak(["kib=32768"]))
    assert 0.5 < found["peak@kib=32768"] < 2.5


@pytest.mark.parametrize("pages", [1, 3])
def test_null_server_lists_the_requested_tools_and_pages(compiled, pages):
    floors = compiled("large.floors")
    server = str(compiled("null.build").build("stdio_null"))

    async def list_tools_twice():
        with floors.bare_pipe(server, "--tools", "10", "--pages", str(pages)) as ask:
            return [await floors.list_all_tools(ask) for _ in range(2)]

    for tools in asyncio.run(list_tools_twice()):
        assert [tool["name"] for tool in tools] == [f"tool_{n}" for n in range(10)]
        assert json.dumps(tools)
