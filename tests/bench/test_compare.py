"""Comparison of results: real differences are found, random ones are not."""

import itertools
import random
from collections import Counter
from functools import lru_cache

import attrs
import pytest
from made_results import pair, result, slice_of, subject

from mcpwire.bench import Result, compare, differences
from mcpwire.bench.compare import median_distribution
from mcpwire.bench.results import FIGURES

TRIALS = 100
COMPARED = [name for name, figure in FIGURES.items() if figure.is_compared]
SAME = {"no difference shown"}


def verdicts(found, figure="p50"):
    return [each.verdict for each in found if each.figure == figure]


@lru_cache
def trials(factor):
    """Return runs of two servers, of which the second is slower by a factor."""
    return [pair(seed, factor) for seed in range(TRIALS)]


def by_round(one):
    return one.round


def as_separate_runs(run):
    """Return the servers of one run as separate runs."""
    return [result(one) for one in run.subjects]


def test_slowdown_of_15_percent_is_found_in_95_of_100_trials():
    found = [verdicts(differences(run, ["p50"])) for run in trials(1.15)]
    assert sum(each == ["worse"] for each in found) >= 95
    whole = [compare(*as_separate_runs(run)) for run in trials(1.15)]
    assert sum(any(e.verdict == "worse" for e in each) for each in whole) >= 95


@pytest.mark.parametrize("figures", [["p50"], list(COMPARED)])
def test_equal_servers_differ_in_at_most_5_of_100_trials(figures):
    for found in (
        [differences(run, figures) for run in trials(1.0)],
        [compare(*as_separate_runs(run), figures) for run in trials(1.0)],
    ):
        assert all([one.figure for one in each] == figures for each in found)
        wrong = [each for each in found if {one.verdict for one in each} != SAME]
        assert len(wrong) <= 5


def test_interval_is_corrected_for_the_number_of_figures():
    run = pair(1, 1.0)
    (alone,) = differences(run, ["p50"])
    jointly = next(each for each in differences(run) if each.figure == "p50")
    assert jointly.ratio == alone.ratio
    assert jointly.low < alone.low < alone.ratio < alone.high < jointly.high


def test_interval_is_corrected_for_the_number_of_comparisons():
    runs = as_separate_runs(pair(1, 1.0))
    (alone,) = compare(*runs, ["p50"])
    (jointly,) = compare(*runs, ["p50"], comparisons=100)
    assert jointly.ratio == alone.ratio
    assert jointly.low < alone.low < alone.ratio < alone.high < jointly.high


def test_median_distribution_matches_all_possible_draws():
    groups = [[1.0, 4.0], [2.0, 2.0], [3.0, 9.0]]
    counts = Counter()
    for rounds in itertools.product(groups, repeat=3):
        for values in itertools.product(*(one for one in rounds for _ in range(2))):
            low, high = sorted(values)[2:4]
            counts.update((low, high))
    whole = counts.total()
    found = dict(median_distribution(groups))
    assert found.keys() == {1.0, 2.0, 3.0, 4.0, 9.0}
    assert found == {v: pytest.approx(n / whole) for v, n in counts.items()}


def test_many_slices_are_merged_with_their_neighbours():
    slow = subject("against", random.Random(6), 2)
    many = [attrs.evolve(one, slices=one.slices * 20) for one in (slow, slow)]
    many = [attrs.evolve(o, slices=sorted(o.slices, key=by_round)) for o in many]
    for found in (
        *differences(result(*many)),
        *compare(*as_separate_runs(result(*many))),
    ):
        assert found.low <= 1 <= found.high
        assert found.verdict == "no difference shown"


def test_runs_are_compared_by_their_multiples_of_the_floor():
    chance = random.Random(3)
    before = result(subject("floor", chance), subject("target", chance, 2))
    # The machine is half as fast, the server is unchanged.
    after = result(subject("floor", chance, 2), subject("target", chance, 4))
    assert set(verdicts(compare(before, after))) == {"no difference shown"}
    slower = result(subject("floor", chance, 2), subject("target", chance, 5))
    (found,) = [each for each in compare(before, slower) if each.figure == "p50"]
    assert found.verdict == "worse"
    assert found.low < 1.25 < found.high


def test_figure_is_not_compared_with_zero():
    chance = random.Random(3)
    floor, server, other = (subject(n, chance) for n in ("floor", "target", "against"))
    idle = attrs.evolve(
        server, slices=tuple(slice_of(each.round, []) for each in server.slices)
    )
    paused = attrs.evolve(server, slices=(*server.slices[1:], idle.slices[-1]))
    paused_floor = attrs.evolve(paused, name="floor")
    for first in (idle, paused):
        assert differences(result(first, other)) == []
        assert compare(result(first), result(server)) == []
    usual = result(floor, server)
    assert compare(usual, result(paused_floor, server)) == []
    # The second server may stop.
    assert [each.ratio for each in compare(result(server), result(idle))] == [0]


def test_more_calls_per_second_are_better():
    chance = random.Random(4)
    server = subject("target", chance)
    faster = subject("against", chance, 0.5)
    assert set(verdicts(differences(result(server, faster)))) == {"better"}


def test_fewer_than_three_rounds_show_no_difference():
    chance = random.Random(5)
    few = [
        subject(name, chance, factor)
        for name, factor in (("target", 1), ("against", 9))
    ]
    run = result(*(attrs.evolve(one, slices=one.slices[:8]) for one in few))
    assert set(verdicts(differences(run))) == {"no difference shown"}


def test_different_loads_cannot_be_compared():
    one = result(subject("target", random.Random(1)))
    other = result(subject("target", random.Random(1)), title="ping, 2 users")
    with pytest.raises(
        ValueError, match="the loads differ: 'ping, 1 user' and 'ping, 2"
    ):
        compare(one, other)
    with pytest.raises(ValueError, match="must have measured one server"):
        compare(one, pair(1, 1))
    with pytest.raises(ValueError, match=r"measured with \(none\), got None"):
        differences(one)


def test_first_server_is_compared_with_the_named_one():
    chance = random.Random(4)
    named = {"target": 1, "slow": 2, "fast": 0.5}
    run = result(*(subject(name, chance, factor) for name, factor in named.items()))
    assert set(verdicts(differences(run, against="slow"))) == {"worse"}
    assert set(verdicts(differences(run, against="fast"))) == {"better"}
    with pytest.raises(ValueError, match=r"\(slow, fast\), got None"):
        differences(run)
    with pytest.raises(ValueError, match=r"\(slow, fast\), got 'target'"):
        differences(run, against="target")


def test_result_survives_a_json_round_trip():
    run = pair(1, 1.5)
    again = Result.from_json(run.to_json())
    assert again == run
    assert again.subjects[0].figures() == run.subjects[0].figures()


@pytest.mark.parametrize("text", [b"{", b"[]", b"{}", b'{"format": 1, "subjects": 3}'])
def test_json_that_is_not_a_result_is_refused(text):
    with pytest.raises(ValueError, match="not a result of mcpwire bench"):
        Result.from_json(text)


def test_result_of_another_format_is_refused():
    with pytest.raises(ValueError, match="a result of format 99, expected 1"):
        Result.from_json(b'{"format": 99}')


@pytest.fixture
def files(tmp_path):
    """Two results in files: the second server is slower."""
    paths = []
    for one in as_separate_runs(pair(1, 2.0)):
        paths.append(str(tmp_path / f"{one.targets[0].name}.json"))
        (tmp_path / paths[-1]).write_bytes(one.to_json())
    return paths


def test_compare_command_prints_its_confidence_and_exits_with_9(cli, files):
    code, out, _ = cli("bench", "compare", *files)
    assert code == 9
    first, _, *rows = out.splitlines()
    assert first == "In 99 of 100 cases all 6 intervals contain the true ratio."
    assert [row.split()[0] for row in rows] == COMPARED
    assert {row.split()[-1] for row in rows} == {"worse"}
    assert cli("bench", "compare", *files[::-1])[0] == 0
    assert cli("bench", "compare", *files[:1] * 2)[0] == 0


def test_compare_command_can_select_figures(cli, files):
    code, out, _ = cli("bench", "compare", "--on", "p50, cpu", *files)
    assert code == 9
    sentence = "In 99 of 100 cases all 2 intervals contain the true ratio.\n"
    assert out.startswith(sentence)
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["p50", "cpu"]
    _, out, _ = cli("bench", "compare", "--on", "p50", *files)
    assert out.startswith("In 99 of 100 cases the interval contains the true ratio.\n")
    for name in ("p98", "memory"):
        code, _, err = cli("bench", "compare", "--on", name, *files)
        assert code == 2
        assert f"--on {name}: the results have no such figure to compare" in err
