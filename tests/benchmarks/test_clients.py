"""The client benchmark: measured peers, their legs and budgets."""

import os
import subprocess

import pytest

from mcpwire.bench import measure_code

ONE_LEG_EACH = {
    "Python SDK": "JSON, 2026-07-28",
    "FastMCP": "SSE",
    "TypeScript SDK": "stdio",
}


@pytest.fixture
def bench(compiled):
    return compiled("bench_clients")


async def test_clients_in_other_environments_have_all_figures(bench):
    """Each peer of the test environments on one leg only: they start slowly."""
    chosen = {}
    for variant in bench.variants():
        leg, _, name = variant.name.partition(": ")
        if ONE_LEG_EACH.get(name) == leg:
            chosen[name] = variant
    if os.environ.get("CI"):
        assert chosen.keys() == ONE_LEG_EACH.keys(), "run `make peers`"
    results = await measure_code(
        {name: variant.code() for name, variant in chosen.items()},
        users=(1, 3),
        seconds=0.02,
        rounds=1,
        warm_up=0.0,
        slice_seconds=0.02,
    )
    for result in results:
        for subject in result.targets:
            figures = subject.figures()
            assert min(figures["cpu"], figures["rate"], figures["p50"]) > 0


@pytest.mark.parametrize("shape", ["stdio", "json", "sse"])
def test_widths_of_each_client_are_measured_widths(bench, shape):
    for peer in bench.CLIENTS.values():
        assert set(peer.widths.get(shape, ())) <= set(bench.WIDTHS)


def test_absent_clients_are_skipped_and_named(bench, monkeypatch, capsys):
    absent = bench.ROOT / ".peers/absent"
    for name, peer in bench.CLIENTS.items():
        changed = {**vars(peer), "needs": absent}
        monkeypatch.setitem(bench.CLIENTS, name, bench.Peer(**changed))
    run_variants = []
    monkeypatch.setattr(
        bench, "run", lambda _, found, *__, **___: run_variants.extend(found)
    )
    bench.main()
    assert [v.name.partition(": ")[2] for v in run_variants] == ["floor", "mcpwire"] * 6
    output = capsys.readouterr().out
    for name in bench.CLIENTS:
        assert f"{name}: left out: no .peers/absent" in output


def test_session_only_clients_are_measured_on_session_legs(bench):
    for name, peer in bench.CLIENTS.items():
        legs = [
            leg
            for leg in bench.LEGS
            if (f"{leg}: {name}", f"{leg}: mcpwire") in bench.PAIRS
        ]
        assert len(legs) == (6 if peer.is_modern else 3)
        assert peer.is_modern or "2026" not in "".join(legs)


def test_each_budget_refers_to_measured_variants(bench):
    names = {f"{leg}: {name}" for leg in bench.LEGS for name in bench.CLIENTS}
    names |= {f"{leg}: mcpwire" for leg in bench.LEGS}
    found = list(bench.budgets())
    assert {name for each in found for name in (each.variant, each.against)} <= names
    limits = [each.limit for each in found if "SDK" in each.against + each.variant]
    assert sorted({limit for limit in limits if limit > 1}) == [10, 15, 20, 25]


def test_peer_budget_uses_the_figure_with_the_smallest_lead(bench):
    def figures(**values):
        return {name: {"value": value} for name, value in values.items()}

    rounds = [
        {
            "ours": figures(cpu_us=10, p50_us=20, calls_per_s=900),
            "theirs": figures(cpu_us=40, p50_us=50, calls_per_s=300),
            "partly": figures(cpu_us=5),
        }
    ]
    assert bench.PeerBudget("ours", against="theirs").ratio(rounds) == 2.5
    partly = bench.PeerBudget("ours", against="partly").verdict(rounds)
    assert (partly["ratio"], partly["holds"]) == (0.5, False)
    assert bench.PeerBudget("ours", against="absent").ratio(rounds) is None


def test_missing_compiler_exits_with_one_line(bench, monkeypatch):
    def refuse(_):
        raise subprocess.CalledProcessError(1, "cc")

    monkeypatch.setattr(bench.build, "build", refuse)
    with pytest.raises(SystemExit, match=r"^bench_clients\.py: Command 'cc'"):
        bench.main()
