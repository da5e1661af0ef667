"""Calls from several threads: that floors and clients do the same work."""

import pytest

from mcpwire.bench.code_child import Measurement, run_threads


def calls_made(call, users):
    """Return the number of calls that a request of 30 calls measured."""
    answer = run_threads(call, Measurement(call, users=users, calls=30))
    return len(answer["latencies"])


@pytest.mark.parametrize("era", ["--legacy", "--modern"])
@pytest.mark.parametrize("shape", ["stdio", "json", "sse"])
def test_floor_and_client_do_the_same_work_by_threads(benchmark_module, era, shape):
    argument = benchmark_module("null.build").leg_argument(f"{shape} {era}")
    floor = benchmark_module("floor_blocking").shared
    for function in (floor, benchmark_module("mcpwire_variants").blocking):
        with function(argument) as call:
            assert [calls_made(call, users) for users in (1, 3)] == [30, 30]


def test_a_variant_on_a_loop_in_a_thread_is_called_from_others(benchmark_module):
    argument = benchmark_module("null.build").leg_argument("stdio --legacy")
    portal = benchmark_module("portal").portal
    with portal(benchmark_module("mcpwire_variants").typed, argument) as call:
        assert calls_made(call, 3) == 30


def test_every_variant_has_its_floor_and_every_line_its_variants(
    benchmark_module, monkeypatch
):
    bench = benchmark_module("bench_threads")
    monkeypatch.setattr(bench, "missing_peers", dict)
    variants = bench.variants()
    names = {variant.name for variant in variants}
    assert len(names) == len(variants)
    assert {variant.baseline for variant in variants} <= names
    for budget in bench.BUDGETS:
        assert {budget.variant, budget.against} <= names
    monkeypatch.setattr(bench, "missing_peers", lambda: dict.fromkeys(bench.PEERS))
    left = {variant.name for variant in bench.variants()}
    assert left == {n for n in names if not n.endswith(tuple(bench.PEERS))}
