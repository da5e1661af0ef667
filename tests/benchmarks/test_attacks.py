"""The attack benchmark: small runs against our server, verdicts and tables."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="memory and descriptors are read from /proc"
)


@pytest.fixture
def runner(benchmark_module):
    return benchmark_module("attacks.runner")


@pytest.fixture
def report(benchmark_module):
    return benchmark_module("attacks.report")


@pytest.fixture
def program(benchmark_module):
    return benchmark_module("attack")


@pytest.fixture
def figures(runner):
    calm = runner.Latency(1.0, 2.0, 3.0, 4.0, 0)
    state = runner.State(40.0, 10)
    outcome = runner.Outcome("nothing came of it", holds=True)
    return runner.Figures(state, state, state, (calm, calm, calm), 2.0, 0, outcome)


# One real run of each kind: the server survives, is stopped, or has child processes.
@pytest.mark.parametrize(
    "name", ["upgrade to h2c", "half-sent bodies at SIGTERM", "initialize at a gateway"]
)
def test_attack_is_measured_before_during_and_after(runner, program, name):
    (attack,) = program.select_attacks([name])
    size = replace(runner.SMALL, before=0.3, hold=0.3, settle=2.0)
    target = runner.programs(attack)[runner.OURS]
    figures = asyncio.run(runner.perform(attack, runner.OURS, target, size))
    assert figures.outcome.text
    assert figures.before.rss_mib > 5
    assert figures.peak.rss_mib >= figures.before.rss_mib
    assert figures.before.descriptors > 3
    before, _, after = figures.latencies
    assert 0 < before.median_ms <= before.worst_ms
    if attack.stops:
        assert figures.after is None
    else:
        assert 0 < after.median_ms <= after.worst_ms
        assert figures.after.descriptors > 3


def test_unread_event_streams_are_ended_by_the_server(runner, program):
    (attack,) = program.select_attacks(["event streams unread"])
    size = replace(runner.SMALL, before=0.3, settle=0.3, timeout=0.3)
    target = runner.programs(attack)[runner.OURS]
    figures = asyncio.run(runner.perform(attack, runner.OURS, target, size))
    assert figures.outcome.text == "2 of 2 connections ended by the server"
    assert figures.outcome.holds


def test_each_attack_has_a_unique_name_and_a_description(program, runner):
    names = [each.name for each in runner.ATTACKS]
    assert len(names) == len(set(names)) >= 20
    for each in program.select_attacks([]):
        assert each.item in {f"X{number:02}" for number in range(1, 14)}
        assert each.run.__doc__
        assert each.bound
        assert runner.options_for(each, runner.SMALL)["idle"] > 0


def test_unknown_attack_name_exits_the_program(program):
    with pytest.raises(SystemExit, match="no attack is named like"):
        program.select_attacks(["nothing of that kind"])


def test_figures_that_recover_are_not_a_failure(report, figures, runner):
    assert report.failures(figures) == []
    ended = replace(figures, after=None)
    assert report.failures(ended) == []
    a_little = replace(figures, after=runner.State(44.0, 11))
    assert report.failures(a_little) == []


def test_unreleased_memory_fails_only_if_a_second_attack_adds_more(
    report, figures, runner
):
    more = replace(figures, after=runner.State(50.0, 10))
    assert report.failures(more) == ["memory: 40 MiB before, 50 MiB after"]
    same = replace(more, second=runner.State(55.0, 10))
    assert report.failures(same) == []
    assert report.SECOND in report.server_table("ours", {"it": same})
    assert "| 40.0 / 40.0 / 50.0 | 55.0 " in report.server_table("ours", {"it": same})
    assert report.SECOND not in report.server_table("theirs", {"it": more})
    grows = replace(more, second=runner.State(55.1, 10))
    assert report.failures(grows) == [
        "memory: 40 MiB before, 50 MiB after, 55 MiB after a second attack"
    ]


def test_each_kind_of_harm_is_a_failure(report, figures, runner):
    failing = runner.Latency(1.0, 2.0, None, None, 3, ("status 503",))
    calm = figures.latencies[0]
    harmed = replace(
        figures,
        after=runner.State(53.0, 12),
        latencies=(calm, failing, calm),
        log_bytes=100_000,
        outcome=runner.Outcome("all was taken", holds=False),
    )
    assert report.failures(harmed) == [
        "outcome: all was taken",
        "memory: 40 MiB before, 53 MiB after",
        "descriptors: 10 before, 12 after",
        "honest calls failed during: 3 (status 503)",
        "log: 100,000 bytes",
    ]
    more_processes = replace(figures, after=runner.State(40.0, 10, processes=2))
    assert report.failures(more_processes) == ["descriptors: 10 before, 10 after"]


def test_latencies_include_only_calls_started_in_the_window(runner):
    calls = [
        {"kind": "persistent", "at": 0.9, "ms": 100.0},
        {"kind": "persistent", "at": 1.0, "ms": 1.0},
        {"kind": "persistent", "at": 1.5, "ms": 5.0},
        {"kind": "persistent", "at": 1.6, "error": "status 503"},
        {"kind": "new", "at": 1.7, "ms": 7.0},
        {"kind": "new", "at": 2.0, "ms": 100.0},
    ]
    found = runner.latency(calls, 1.0, 2.0)
    assert found == runner.Latency(3.0, 5.0, 7.0, 7.0, 1, ("status 503",))
    assert runner.latency([], 0.0, 1.0) == runner.Latency(None, None, None, None, 0)


def test_table_has_the_figures_of_each_phase_and_the_tests(
    report, figures, runner, tmp_path
):
    (tmp_path / "tests" / "server").mkdir(parents=True)
    marked = tmp_path / "tests" / "server" / "test_heads.py"
    marked.write_text('@pytest.mark.attack("X03")\ndef test_it(): ...\n')
    attack = runner.Attack("a trailer", "X03", figures_of, "the head's bound")
    measured = {runner.OURS: {"a trailer": figures}, runner.SDK: {}}
    text = report.render([attack], measured, tmp_path)
    assert "[test_heads](../../tests/server/test_heads.py)" in text
    assert "| holds " in text
    assert "| 40.0 / 40.0 / 40.0 | 10 / 10 / 10 " in text
    assert "### mcpwire" in text
    assert "Python SDK" not in text
    assert "not run" in report.render([attack], {}, tmp_path)
    page = report.replace_content(f"a\n{report.BEGIN}\nold\n{report.END}\nb\n", text)
    assert page == f"a\n{report.BEGIN}\n\n{text}\n\n{report.END}\nb\n"
    with pytest.raises(ValueError, match=r"no .* to write between"):
        report.replace_content("no marks", text)


async def figures_of(_):
    """Send a trailer."""


@pytest.fixture
def page(program, report, monkeypatch, tmp_path):
    file = tmp_path / "attacks.md"
    file.write_text(f"{report.BEGIN}\n{report.END}")
    monkeypatch.setattr(program, "DOCUMENT", file)
    return file


def test_program_fails_only_if_our_server_is_harmed(
    program, runner, figures, page, monkeypatch
):
    performed_attacks = []

    async def performed(attack, name, target, size):
        performed_attacks.append((attack.name, name, size))
        return harmed if name == runner.OURS else figures

    monkeypatch.setattr(program, "perform", performed)
    harmed = figures
    words = ["--small", "--only", "h2c", "--write"]
    assert program.main(words) == 0
    assert performed_attacks == [("upgrade to h2c", runner.OURS, runner.SMALL)]
    assert "nothing came of it" in page.read_text()
    harmed = replace(figures, after=runner.State(400.0, 10))
    assert program.main(words) == 1
    assert "memory: 40 MiB before, 400 MiB after" in page.read_text()
    assert program.main(["--only", "h2c", "--server", runner.SDK]) == 0


def test_server_that_does_not_start_is_skipped(program, runner, monkeypatch, capsys):
    async def performed(*_):
        raise ConnectionError("nobody listens on port 1")

    monkeypatch.setattr(program, "perform", performed)
    assert program.main(["--small", "--only", "h2c"]) == 0
    assert "left out: nobody listens" in capsys.readouterr().err


def test_peers_that_are_absent_are_skipped(runner, program, monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "PEERS", tmp_path)
    (attack,) = program.select_attacks(["h2c"])
    assert list(runner.programs(attack)) == [runner.OURS]
    assert Path(runner.programs(attack)[runner.OURS].command[1]).exists()
