"""Calls from several threads: floors and clients do the same work."""

import pytest

from mcpwire.bench.code_child import Measurement, run_threads


def calls_made(call, users):
    """Return the number of measured calls for a request of 30 calls."""
    answer = run_threads(call, Measurement(call, users=users, calls=30))
    return len(answer["latencies"])


@pytest.mark.parametrize("era", ["--legacy", "--modern"])
@pytest.mark.parametrize("shape", ["stdio", "json", "sse"])
def test_floor_and_client_make_equal_calls_from_threads(benchmark_module, era, shape):
    argument = benchmark_module("null.build").leg_argument(f"{shape} {era}")
    floor = benchmark_module("floor_blocking").shared
    for function in (floor, benchmark_module("mcpwire_variants").blocking):
        with function(argument) as call:
            assert [calls_made(call, users) for users in (1, 3)] == [30, 30]


def test_variant_on_a_loop_thread_is_callable_from_other_threads(benchmark_module):
    argument = benchmark_module("null.build").leg_argument("stdio --legacy")
    portal = benchmark_module("portal").portal
    with portal(benchmark_module("mcpwire_variants").typed, argument) as call:
        assert calls_made(call, 3) == 30


def test_every_baseline_and_budget_refers_to_a_variant(benchmark_module, monkeypatch):
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
