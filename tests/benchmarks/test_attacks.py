"""Attacks are measured: small ones run against ours; the verdict and the tables."""

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
def scene(benchmark_module):
    return benchmark_module("attacks.scene")


@pytest.fixture
def outcome(benchmark_module):
    return benchmark_module("attacks.outcome")


@pytest.fixture
def program(benchmark_module):
    return benchmark_module("attack")


@pytest.fixture
def figures(scene):
    calm = scene.Latency(1.0, 2.0, 3.0, 4.0, 0)
    state = scene.State(40.0, 10)
    told = scene.Outcome("nothing came of it", holds=True)
    return scene.Figures(state, state, state, (calm, calm, calm), 2.0, 0, told)


# A real run of each kind: the server lives, the server is ended, the server's children.
@pytest.mark.parametrize(
    "name",
    ["upgrade to h2c", "half-sent bodies at SIGTERM", "initialize at a gateway"],
)
def test_an_attack_is_watched_from_a_calm_time_to_a_calm_time(scene, program, name):
    (attack,) = program.chosen([name])
    size = replace(scene.SMALL, before=0.3, hold=0.3, settle=2.0)
    ours = scene.programs(attack)[scene.OURS]
    figures = asyncio.run(scene.perform(attack, scene.OURS, ours, size))
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


def test_streams_that_nobody_reads_are_counted_at_the_server(scene, program):
    (attack,) = program.chosen(["event streams unread"])
    size = replace(scene.SMALL, before=0.3, settle=0.3, clock=0.3)
    ours = scene.programs(attack)[scene.OURS]
    figures = asyncio.run(scene.perform(attack, scene.OURS, ours, size))
    assert figures.outcome.text == "2 of 2 connections ended by the server"
    assert figures.outcome.holds


def test_each_attack_has_a_name_and_a_text_of_its_own(program, scene):
    names = [each.name for each in scene.ATTACKS]
    assert len(names) == len(set(names)) >= 20
    for each in program.chosen([]):
        assert each.item in {f"X{number:02}" for number in range(1, 14)}
        assert each.run.__doc__
        assert each.bound
        assert scene.options_for(each, scene.SMALL)["idle"] > 0


def test_a_name_that_no_attack_has_ends_the_program(program):
    with pytest.raises(SystemExit, match="no attack is named like"):
        program.chosen(["nothing of that kind"])


def test_figures_that_come_back_are_no_failure(outcome, figures, scene):
    assert outcome.failures(figures) == []
    ended = replace(figures, after=None)
    assert outcome.failures(ended) == []
    a_little = replace(figures, after=scene.State(44.0, 11))
    assert outcome.failures(a_little) == []


def test_memory_that_stays_is_a_failure_where_a_second_attack_adds_to_it(
    outcome, figures, scene
):
    more = replace(figures, after=scene.State(50.0, 10))
    assert outcome.failures(more) == ["memory: 40 MiB before, 50 MiB after"]
    same = replace(more, second=scene.State(55.0, 10))
    assert outcome.failures(same) == []
    assert outcome.SECOND in outcome.of_server("ours", {"it": same})
    assert "| 40.0 / 40.0 / 50.0 | 55.0 " in outcome.of_server("ours", {"it": same})
    assert outcome.SECOND not in outcome.of_server("theirs", {"it": more})
    grows = replace(more, second=scene.State(55.1, 10))
    assert outcome.failures(grows) == [
        "memory: 40 MiB before, 50 MiB after, 55 MiB after a second attack"
    ]


def test_each_kind_of_harm_is_a_failure(outcome, figures, scene):
    failing = scene.Latency(1.0, 2.0, None, None, 3, ("status 503",))
    calm = figures.latencies[0]
    harmed = replace(
        figures,
        after=scene.State(53.0, 12),
        latencies=(calm, failing, calm),
        log_bytes=100_000,
        outcome=scene.Outcome("all was taken", holds=False),
    )
    assert outcome.failures(harmed) == [
        "outcome: all was taken",
        "memory: 40 MiB before, 53 MiB after",
        "descriptors: 10 before, 12 after",
        "honest calls failed during: 3 (status 503)",
        "log: 100,000 bytes",
    ]
    more_processes = replace(figures, after=scene.State(40.0, 10, processes=2))
    assert outcome.failures(more_processes) == ["descriptors: 10 before, 10 after"]


def test_latencies_are_those_of_the_calls_that_began_meanwhile(scene):
    calls = [
        {"kind": "kept", "at": 0.9, "ms": 100.0},
        {"kind": "kept", "at": 1.0, "ms": 1.0},
        {"kind": "kept", "at": 1.5, "ms": 5.0},
        {"kind": "kept", "at": 1.6, "error": "status 503"},
        {"kind": "new", "at": 1.7, "ms": 7.0},
        {"kind": "new", "at": 2.0, "ms": 100.0},
    ]
    found = scene.latency(calls, 1.0, 2.0)
    assert found == scene.Latency(3.0, 5.0, 7.0, 7.0, 1, ("status 503",))
    assert scene.latency([], 0.0, 1.0) == scene.Latency(None, None, None, None, 0)


def test_a_table_has_the_figures_of_each_part_and_the_tests(
    outcome, figures, scene, tmp_path
):
    (tmp_path / "tests" / "server").mkdir(parents=True)
    marked = tmp_path / "tests" / "server" / "test_heads.py"
    marked.write_text('@pytest.mark.attack("X03")\ndef test_it(): ...\n')
    attack = scene.Attack("a trailer", "X03", figures_of, "the head's bound")
    measured = {scene.OURS: {"a trailer": figures}, scene.SDK: {}}
    text = outcome.render([attack], measured, tmp_path)
    assert "[test_heads](../../tests/server/test_heads.py)" in text
    assert "| holds " in text
    assert "| 40.0 / 40.0 / 40.0 | 10 / 10 / 10 " in text
    assert "### mcpwire" in text
    assert "Python SDK" not in text
    assert "not run" in outcome.render([attack], {}, tmp_path)
    page = outcome.written(f"a\n{outcome.BEGIN}\nold\n{outcome.END}\nb\n", text)
    assert page == f"a\n{outcome.BEGIN}\n\n{text}\n\n{outcome.END}\nb\n"
    with pytest.raises(ValueError, match=r"no .* to write between"):
        outcome.written("no marks", text)


async def figures_of(_):
    """Send a trailer."""


@pytest.fixture
def page(program, outcome, monkeypatch, tmp_path):
    file = tmp_path / "attacks.md"
    file.write_text(f"{outcome.BEGIN}\n{outcome.END}")
    monkeypatch.setattr(program, "DOCUMENT", file)
    return file


def test_the_program_fails_where_ours_is_harmed(
    program, scene, figures, page, monkeypatch
):
    asked = []

    async def performed(attack, name, target, size):
        asked.append((attack.name, name, size))
        return harmed if name == scene.OURS else figures

    monkeypatch.setattr(program, "perform", performed)
    harmed = figures
    words = ["--small", "--only", "h2c", "--write"]
    assert program.main(words) == 0
    assert asked == [("upgrade to h2c", scene.OURS, scene.SMALL)]
    assert "nothing came of it" in page.read_text()
    harmed = replace(figures, after=scene.State(400.0, 10))
    assert program.main(words) == 1
    assert "memory: 40 MiB before, 400 MiB after" in page.read_text()
    assert program.main(["--only", "h2c", "--server", scene.SDK]) == 0


def test_a_server_that_does_not_start_is_left_out(program, scene, monkeypatch, capsys):
    async def performed(*_):
        raise ConnectionError("nobody listens on port 1")

    monkeypatch.setattr(program, "perform", performed)
    assert program.main(["--small", "--only", "h2c"]) == 0
    assert "left out: nobody listens" in capsys.readouterr().err


def test_what_is_not_installed_is_left_out(scene, program, monkeypatch, tmp_path):
    monkeypatch.setattr(scene, "PEERS", tmp_path)
    (attack,) = program.chosen(["h2c"])
    assert list(scene.programs(attack)) == [scene.OURS]
    assert Path(scene.programs(attack)[scene.OURS].command[1]).exists()
