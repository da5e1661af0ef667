"""Parsing and evaluation of conditions on figures."""

import pytest

from mcpwire.bench import parse_condition, parse_failure


@pytest.mark.parametrize(
    ("text", "figures", "holds"),
    [
        ("p99 < 20ms", {"p99": 19_999.0}, True),
        ("p99 < 20ms", {"p99": 20_000.0}, False),
        ("p99<=20ms", {"p99": 20_000.0}, True),
        ("p99.9 > 1.5s", {"p99.9": 1_600_000.0}, True),
        ("rate < 2000/s", {"rate": 1_999.0}, True),
        ("rate>2000", {"rate": 1_999.0}, False),
        ("memory > 64MiB", {"memory": 65 * 2**20}, True),
        ("memory slope > 1KiB/s", {"memory slope": 1_000.0}, False),
        ("errors > 0.1%", {"errors": 0.2}, True),
        ("cpu>250us", {"cpu": 251.0}, True),
    ],
)
def test_condition_is_parsed_and_evaluated(text, figures, holds):
    assert parse_condition(text).is_true(figures) is holds


def test_condition_on_an_unmeasured_figure_is_an_error():
    with pytest.raises(ValueError, match="'cpu > 1us': cpu was not measured"):
        parse_condition("cpu > 1us").is_true({"p50": 1.0})


@pytest.mark.parametrize(
    ("ratio", "grew", "fell"),
    [(1.2, True, False), (1.0, False, False), (0.8, False, True)],
)
def test_change_condition_depends_on_its_direction(ratio, grew, fell):
    assert parse_failure("p99 +10% vs base.json").is_true(ratio) is grew
    assert parse_failure("rate -10% vs my base.json").is_true(ratio) is fell
    assert parse_failure("p99 +0% vs base.json").is_true(ratio) is grew
    assert parse_failure("rate -0% vs base.json").is_true(ratio) is fell


def test_change_condition_names_its_file():
    assert parse_failure(" p99 +10% vs my base.json ").file == "my base.json"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p99", "a condition is FIGURE < VALUE UNIT"),
        ("p98 < 3ms", "no figure is named 'p98'; there are p50"),
        ("p99 < three ms", "a condition is FIGURE"),
        ("p99 < 3kg", "the units of p99 are us, ms, s, got 'kg'"),
        ("p99 < 3", "the units of p99 are us, ms, s, got ''"),
        ("p98 +1% vs a", "no figure is named 'p98'"),
        ("p99 < 1.2.3ms", "units of p99 are us, ms, s, got '.3ms'"),
    ],
)
def test_invalid_condition_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_failure(text)
