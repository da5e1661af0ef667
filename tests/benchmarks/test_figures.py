"""The benchmarks' arithmetic: percentiles, ratios, budgets and verdicts."""

import json
import platform
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_ratio_is_computed_per_slice_and_not_from_medians(benchmark_module):
    rounds = benchmark_module("harness.rounds")
    floor = rounds.Variant("floor", "m:f", "", "floor")
    own = rounds.Variant("mine", "m:g", "", "floor")
    slices = {"floor": {"cpu_us": [10, 20, 40]}, "mine": {"cpu_us": [12, 30, 44]}}
    summary = rounds.summarize_round([floor, own], slices)
    assert summary["floor"]["cpu_us"] == {"value": 20, "ratio": 1}
    assert summary["mine"]["cpu_us"] == {"value": 30, "ratio": 12 / 10}


def test_summary_has_the_median_and_range_of_the_rounds(benchmark_module):
    figures = benchmark_module("harness.figures")
    rounds = [{"mine": {"cpu_us": {"value": v, "ratio": v / 10}}} for v in (9, 30, 11)]
    assert figures.summarise(rounds)["mine"]["cpu_us"] == {
        "value": {"median": 11, "min": 9, "max": 30},
        "ratio": {"median": 1.1, "min": 0.9, "max": 3},
    }


@pytest.mark.parametrize(
    ("limit", "at_least", "ratio", "holds"),
    [
        (1.3, False, 1.3, True),
        (1.3, False, 1.31, False),
        (1.0, True, 1.0, True),
        (1.0, True, 0.99, False),
    ],
)
def test_budget_holds_up_to_its_limit(benchmark_module, limit, at_least, ratio, holds):
    figures = benchmark_module("harness.figures")
    budget = figures.Budget("mine", "cpu_us", limit, at_least)
    assert budget.holds(ratio) is holds


LOW = (1.0, 1.1, 1.1, 1.1, 1.2)
HIGH = (1.3, 1.35, 1.35, 1.35, 1.4)


@pytest.mark.parametrize(
    ("figure", "before", "after", "expected"),
    [
        ("cpu_us", LOW, (1.0, 1.1, 1.2, 1.2, 1.3), ""),
        ("cpu_us", LOW, HIGH, "WORSE"),
        ("cpu_us", HIGH, LOW, "better"),
        ("calls_per_s@32", LOW, HIGH, "better"),
        ("calls_per_s@32", HIGH, LOW, "WORSE"),
        ("cpu_us", (1.0,) * 4, (2.0,) * 4, "?"),
        ("import_modules", (100,), (104,), ""),
        ("import_modules", (100,), (110,), "WORSE"),
    ],
)
def test_change_is_reported_only_beyond_the_scatter(
    benchmark_module, figure, before, after, expected
):
    compare = benchmark_module("compare")
    change = after[0] / before[0] - 1
    assert compare.verdict_on(figure, list(before), list(after), change) == expected


def test_machine_description_has_no_host_name_or_path(benchmark_module):
    described = json.dumps(benchmark_module("harness.machine").describe())
    assert str(Path.home()) not in described
    assert str(FOLDER.parent) not in described
    assert platform.node() not in json.loads(described).values()


def test_file_that_is_not_a_result_is_refused_by_name(benchmark_module, tmp_path):
    report = benchmark_module("harness.report")
    for text in ("", "[]", '{"format": 0}'):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(ValueError, match=r"^x\.json is no result file of format 1"):
            report.load(tmp_path / "x.json")
