"""Benchmarks in memory and of event loops: floors and ours do the same work."""

import asyncio
import sys
from pathlib import Path

import pytest

BOUND_S = 30.0
ERAS = ("session", "stateless")


@pytest.fixture
def bench(benchmark_module):
    return benchmark_module("bench_memory")


def text_of(result):
    if isinstance(result, str):
        return result
    return result["content"][0]["text"] if isinstance(result, dict) else result.text


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "target",
    [
        "memory.floor:through_bytes",
        "memory.floor:bare_task",
        "memory.mcpwire_client:typed",
        "memory.mcpwire_client:raw",
        "memory.mcpwire_client:asgi",
    ],
)
def test_every_in_memory_variant_does_the_same_work(benchmark_module, target, era):
    module, _, name = target.partition(":")
    make = getattr(benchmark_module(module), name)

    async def results():
        async with asyncio.timeout(BOUND_S), make(era) as call:
            return await asyncio.gather(*(call() for _ in range(5)))

    assert {text_of(result) for result in asyncio.run(results())} == {"hi"}


def test_floor_shares_no_object_between_its_ends(benchmark_module):
    floor = benchmark_module("memory.floor")

    async def results():
        async with floor.through_bytes("stateless") as call:
            return await call(), await call()

    first, second = asyncio.run(results())
    assert first == second
    assert first["_meta"] is not floor.SERVED_BY
    assert first["_meta"] is not second["_meta"]


def test_peers_that_are_not_installed_are_skipped_and_named(bench, monkeypatch, capsys):
    absent = bench.ROOT / ".absent"
    monkeypatch.setattr(bench, "peer_python", lambda _: absent)
    run_variants = []
    monkeypatch.setattr(
        bench, "run", lambda _, found, *__, **___: run_variants.extend(found)
    )
    bench.main()
    names = {variant.name for variant in run_variants}
    assert {"floor", "call_tool", "call_tool, 2026-07-28"} <= names
    assert not any(peer in name for peer in bench.FOREIGN_PEERS for name in names)
    output = capsys.readouterr().err
    for peer in bench.FOREIGN_PEERS:
        assert f"{peer} is left out" in output


def test_every_baseline_and_budget_refers_to_a_variant(bench):
    found = {variant.name: variant for variant in bench.variants()}
    assert all(variant.baseline in found for variant in found.values())
    own = {f"call_tool{suffix}" for suffix in bench.ERAS.values()}
    assert {budget.against for budget in bench.BUDGETS} == own <= found.keys()


def test_uvloop_variants_are_compared_with_the_same_on_asyncio(benchmark_module):
    loops = benchmark_module("bench_loops")
    found = {variant.name: variant for variant in loops.server_variants()}
    for name, variant in found.items():
        assert variant.baseline == name.removesuffix(loops.UVLOOP)
        assert found[variant.baseline].leg == variant.leg
    assert {one for pair in loops.PAIRS for one in pair} >= found.keys()


def test_program_runs_on_uvloop_with_its_arguments(benchmark_module):
    loops = benchmark_module("bench_loops")
    python, under, *words = loops.on_uvloop("floor, HTTP by h11").command
    assert python == sys.executable
    assert Path(under).name == "under_uvloop.py"
    assert words == list(loops.bench_server.PROGRAMS["floor, HTTP by h11"].command[1:])


def test_missing_uvloop_skips_the_loop_benchmark(benchmark_module, monkeypatch, capsys):
    loops = benchmark_module("bench_loops")
    monkeypatch.setattr(loops.importlib.util, "find_spec", lambda _: None)
    assert loops.main() == 0
    assert "left out: no uvloop" in capsys.readouterr().err
