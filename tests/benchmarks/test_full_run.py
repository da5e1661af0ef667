"""The full run: isolated failures of parts, and tables that match the results."""

import sys
import time
from pathlib import Path

import pytest

from mcpwire.testing.procfs import is_alive

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"

WRITES = """
import sys
output = sys.argv[sys.argv.index("--output") + 1]
open(output, "w").write(" ".join(sys.argv[1:]))
"""
HANGS = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({pid!r}, "w").write(str(child.pid))
{then}
"""


@pytest.fixture
def parts(benchmark_module):
    return benchmark_module("full_run.parts")


@pytest.fixture
def run(benchmark_module):
    return benchmark_module("run")


def is_gone(pid):
    """Return whether a process ends within 30 s."""
    deadline = time.monotonic() + 30
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)  # the reaper of orphans sends no event
    return not is_alive(pid)


def test_failing_part_is_named_and_others_still_run(run, parts, tmp_path, capfd):
    (tmp_path / "bench_bad.py").write_text("raise SystemExit(3)")
    (tmp_path / "bench_good.py").write_text(WRITES)
    two = [parts.Part("bad", "", 1), parts.Part("good", "--rounds 2 --only 'a b'", 1)]
    outcomes = run.run_parts(two, tmp_path, folder=tmp_path)
    assert [(one.name, one.failure) for one in outcomes] == [
        ("bad", "exit code 3"),
        ("good", ""),
    ]
    file = tmp_path / "good.json"
    assert file.read_text() == f"--rounds 2 --only a b --output {file}"
    assert "bench_bad.py  exit code 3" in run.format_times(outcomes)
    assert "== bench_bad.py" in capfd.readouterr().out


def test_short_run_passes_its_options_and_prints_only_failures(
    run, parts, tmp_path, capfd
):
    (tmp_path / "bench_quiet.py").write_text(WRITES + "print('not to be seen')")
    (tmp_path / "bench_bad.py").write_text("raise SystemExit('what went wrong')")
    two = [parts.Part("quiet", "--rounds 9", 1, "--only x"), parts.Part("bad", "", 1)]
    run.run_parts(two, tmp_path, folder=tmp_path, is_short=True)
    words = (tmp_path / "quiet.json").read_text()
    assert words.startswith("--rounds 1 --slices 2 --only x --output")
    shown = capfd.readouterr().out
    assert "what went wrong" in shown
    assert "not to be seen" not in shown


@pytest.mark.parametrize("then", ["time.sleep(600)", "sys.exit(1)"])
def test_child_processes_of_a_part_are_killed_at_its_end(parts, tmp_path, then):
    pid = tmp_path / "pid"
    script = HANGS.format(pid=str(pid), then=then)
    # On a busy machine the child may need more than one second to start.
    for seconds in (1.0, 5.0, 10.0) if then.startswith("time") else (30.0,):
        failure = parts.run([sys.executable, "-c", script], seconds, tmp_path / "log")
        if pid.exists() and pid.read_text():
            break
    assert failure == (
        f"not done after {seconds:g} s" if then.startswith("time") else "exit code 1"
    )
    assert is_gone(int(pid.read_text()))


def test_every_script_has_a_row_and_all_take_below_20_minutes(run):
    scripts = {path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py")}
    assert {part.name for part in run.parts_of_folder(FOLDER)} == scripts
    assert scripts <= {part.name for part in run.PARTS}
    assert sum(part.seconds for part in run.PARTS) < 20 * 60


def test_unknown_part_is_refused_and_known_parts_are_named(run):
    with pytest.raises(SystemExit, match=r"no part is called stdioo; there are stdio,"):
        run.main(["--only", "stdioo"])


def test_script_without_a_row_is_run_too(run, tmp_path):
    (tmp_path / "bench_new.py").touch()
    assert [part.name for part in run.parts_of_folder(tmp_path)] == ["new"]


def spread(value):
    return {"median": value, "min": value, "max": value}


MACHINE = {
    "date": "2026-01-02",
    "commit": "abc",
    "cpu": "Some CPU",
    "cores": 2,
    "load_before": 0,
    "system": "Linux",
    "python": "CPython",
    "event_loop": "epoll",
    "packages": {},
    "pinned": False,
    "peers": {"other": "1.2"},
    "remarks": {"other": "is slow"},
}
FLOOR, OURS, OTHER = "stdio: floor", "stdio: mcpwire", "stdio: other"
FACTORS = {FLOOR: 1, OURS: 2, OTHER: 6}


def result(name="clients", **figures):
    """Return a result of one path: floor, ours and a peer."""

    def of(factor):
        return {
            figure: {"value": spread(value * factor), "ratio": spread(factor)}
            for figure, value in figures.items()
        }

    over = {"limit": 1.5, "at_least": False, "against": "", "ratio": 2, "holds": False}
    thrice = dict.fromkeys(figures, spread(3))
    return {
        "format": 1,
        "benchmark": name,
        "machine": MACHINE,
        "plan": {"rounds": 1, "slices": 2, "calls": 3, "slice": "", "widths": []},
        "baselines": dict.fromkeys(FACTORS, FLOOR),
        "summary": {variant: of(factor) for variant, factor in FACTORS.items()},
        "compared": [{"variant": OTHER, "against": OURS, "figures": thrice}],
        "budgets": [{"variant": OURS, "figure": next(iter(figures)), **over}],
        "rounds": [
            {
                variant: {
                    figure: {"value": value * factor, "ratio": factor}
                    for figure, value in figures.items()
                }
                for variant, factor in FACTORS.items()
            }
        ],
    }


def test_summary_lists_every_budget_and_peer(benchmark_module):
    report = benchmark_module("harness.report")
    one = result(cpu_us=10, **{"calls_per_s@32": 100})
    lines = [
        " ".join(each.split()) for each in report.summary_tables([one]).splitlines()
    ]
    budget_line = (
        "| stdio: mcpwire, CPU/call | stdio: floor | <= 1.5 | 2.0 | **over** |"
    )
    assert budget_line in lines
    (peer,) = [line for line in lines if "stdio: other" in line]
    # Three times the CPU is worse, three times the calls are better.
    assert "| 3.0 " in peer
    assert "not repeated: 0.33, calls/s, 32 in flight" in peer
    assert not report.are_budgets_met(one)


def test_printed_section_has_unpublished_figures_too(benchmark_module):
    report = benchmark_module("harness.report")
    one = result(cpu_us=1, **{"cpu_us@64": 1})
    head = "CPU/call, 64 in flight"
    assert head not in report.section(one)
    assert head in report.section(one, in_full=True)


def test_absent_peer_is_reported_and_its_budgets_are_dropped(
    benchmark_module, tmp_path
):
    command, figures, report = (
        benchmark_module(f"harness.{name}") for name in ("command", "figures", "report")
    )
    file = tmp_path / "clients.json"
    options = command.create_parser("clients").parse_args(
        ["--output", str(file), "--check"]
    )
    rounds = [{OURS: {"cpu_us": {"value": 1.0, "ratio": 1.0}}}]
    plan = benchmark_module("harness.rounds").Plan(1, 1, 1, ())
    budget = figures.Budget(OTHER, "cpu_us", 10, at_least=True, against=OURS)
    own = figures.Budget(OURS, "cpu_us", 1.3)
    code = command.save_and_print(
        options, plan, MACHINE, rounds, {OURS: OURS}, [budget, own]
    )
    assert code == 0
    written = report.load(file)
    assert [one["variant"] for one in written["budgets"]] == [OURS]
    line = f"not measured: clients: {OTHER}, CPU/call, beside {OURS}"
    assert report.unmeasured_lines([written]) == [line]


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--check"], 1)])
def test_check_fails_if_a_budget_is_exceeded(benchmark_module, tmp_path, words, code):
    command = benchmark_module("harness.command")
    file = str(tmp_path / "clients.json")
    options = command.create_parser("clients").parse_args(["--output", file, *words])
    rounds = [{OURS: {"cpu_us": {"value": 1.0, "ratio": 1.31}}}]
    plan = benchmark_module("harness.rounds").Plan(1, 1, 1, ())
    over = benchmark_module("harness.figures").Budget(OURS, "cpu_us", 1.3)
    exit_code = command.save_and_print(
        options, plan, MACHINE, rounds, {OURS: OURS}, [over]
    )
    assert exit_code == code


def test_benchmark_without_slices_has_no_such_option(benchmark_module, capsys):
    parser = benchmark_module("harness.command").create_parser("many", slices=None)
    with pytest.raises(SystemExit):
        parser.parse_args(["--slices", "2"])
    assert "unrecognized arguments: --slices 2" in capsys.readouterr().err


def test_variant_compared_with_a_floor_is_not_a_peer_pair(benchmark_module):
    figures = benchmark_module("harness.figures")
    one = result(cpu_us=10)
    one["compared"] = [{"variant": OURS, "against": FLOOR, "figures": {}}]
    assert figures.peer_pairs(one) == []


def test_text_between_the_marks_is_generated_from_the_results(
    benchmark_module, tmp_path
):
    report, tables = (
        benchmark_module(name) for name in ("harness.report", "full_run.tables")
    )
    report.save(tmp_path / "results" / "clients.json", result(cpu_us=10))
    beside = tmp_path / "results" / "clients.md"
    text = tmp_path / "README.md"
    text.write_text(
        "Before.\n<!-- figures: clients -->\nold\n<!-- end of figures -->\n"
        "Between.\n<!-- figures: none -->\n<!-- end of figures -->\n"
        "<!-- figures: summary -->\n<!-- end of figures -->\nAfter.\n"
    )
    assert tables.write(tmp_path, tmp_path / "results") == [text, beside]
    assert beside.read_text().startswith(
        "# clients\n\n<!-- figures: clients -->\n\nMeasured on 2026"
    )
    written = text.read_text()
    assert tables.write(tmp_path, tmp_path / "results") == []
    assert "old" not in written
    assert written.startswith("Before.\n<!-- figures: clients -->\n\nMeasured on 2026")
    assert written.endswith("<!-- end of figures -->\nAfter.\n")
    assert "Beside it: other 1.2." in written
    assert "- other: is slow." in written
    assert "| stdio: mcpwire, CPU/call | stdio: floor | <= 1.5 | 2.0 | **over** |" in (
        " ".join(line.split()) for line in written.splitlines()
    )
    assert "\n<!-- figures: none -->\n\nNot measured yet.\n\n<!--" in written


def test_tables_in_the_documents_match_the_published_results(benchmark_module):
    tables = benchmark_module("full_run.tables")
    stale = [str(path) for path in tables.outdated_texts(ROOT, FOLDER / "results")]
    assert stale == [], "python benchmarks/run.py --tables writes them"


def test_figure_of_few_slices_has_two_digits(benchmark_module):
    figures = benchmark_module("harness.figures")
    few, many = ({"rounds": 5, "slices": slices} for slices in (5, 6))
    assert figures.digits("cpu_us@32", few) == 2
    assert figures.digits("cpu_us@32", many) == 3
    assert figures.digits("import_modules", few) is None


def test_text_without_missed_budgets_says_so(benchmark_module):
    text = benchmark_module("full_run.headline").missed_budgets([])
    assert text == "Every line is kept in the median."


@pytest.mark.parametrize(
    ("low", "high", "rounds", "expected"),
    [
        (1.1, 1.3, 2, "ahead"),
        (0.9, 1.3, 2, "level"),
        (0.8, 0.9, 2, "BEHIND"),
        (1.1, 1.3, 1, "not repeated"),
    ],
)
def test_verdict_depends_on_the_spread_and_the_rounds(
    benchmark_module, low, high, rounds, expected
):
    report = benchmark_module("harness.report")
    better = {"median": (low + high) / 2, "min": low, "max": high}
    assert report.verdict_of_spread(better, rounds) == expected


@pytest.mark.parametrize(
    ("at_least", "limit", "expected"),
    [
        (False, 2.5, "kept"),
        (False, 2.2, "kept in the median"),
        (False, 1.8, "**missed** in the median"),
        (False, 1.0, "**missed**"),
        (True, 1.0, "kept"),
        (True, 3.0, "**missed**"),
    ],
)
def test_budget_is_kept_in_every_round_or_in_the_median(
    benchmark_module, at_least, limit, expected
):
    headline = benchmark_module("full_run.headline")
    spread = {"median": 2.0, "min": 1.5, "max": 2.4}
    budget = {"at_least": at_least, "limit": limit}
    assert headline.verdict_text(budget, spread) == expected


def test_every_headline_is_a_budget_of_its_benchmark(benchmark_module):
    headline = benchmark_module("full_run.headline")
    for question in {line.question for line in headline.LINES}:
        script = benchmark_module(f"bench_{question}")
        budgets = getattr(script, "BUDGETS", None) or script.budgets()
        budget_keys = {(one.variant, one.figure, one.against) for one in budgets}
        lines = [line for line in headline.LINES if line.question == question]
        assert {(one.variant, one.figure, one.against) for one in lines} <= budget_keys


def test_plots_match_the_published_results(benchmark_module, tmp_path, monkeypatch):
    plot = benchmark_module("plot")
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = {path.name: path.read_text("utf-8") for path in plot.PLOTS.glob("*.svg")}
    assert shown
    assert all(f"plots/{name}" in text for name in shown)
    monkeypatch.setattr(plot, "HERE", tmp_path)
    monkeypatch.setattr(plot, "PLOTS", tmp_path / "plots")
    assert plot.main(FOLDER / "results") == 0
    drawn = {path.name: path.read_text("utf-8") for path in plot.PLOTS.glob("*.svg")}
    assert drawn == shown, "python benchmarks/plot.py draws them"


def test_missing_results_are_not_plotted(benchmark_module, tmp_path, capsys):
    plot = benchmark_module("plot")
    assert plot.main(tmp_path) == 0
    assert capsys.readouterr().out.count("is not drawn") == len(plot.PLOT_FUNCTIONS)


def test_footprint_results_can_be_compared(benchmark_module):
    compare = benchmark_module("compare")
    before = result("footprint", import_ms=10, import_modules=100, blocks_left=0)
    after = result("footprint", import_ms=20, import_modules=110, blocks_left=3)
    for one in (before, after):
        one["baselines"]["stdio: mcpwire"] = "stdio: mcpwire"
    rows = compare.compare(before, after)[1:]
    found = {(row[0], row[1]): row[2:] for row in rows}
    variant = OURS
    assert not any(name == "stdio: floor" for name, _ in found)
    assert found[variant, "import modules"][2:] == ["+10%", "WORSE"]
    assert found[variant, "blocks left"][2:] == ["+600%", "WORSE"]
    assert found[variant, "import (ms)"][2:] == [
        "+100%",
        "?",
    ]  # one round is not enough
    # A ratio to another baseline is compared as a ratio.
    assert found["stdio: other", "import modules"] == ["6", "6", "+0%", ""]
