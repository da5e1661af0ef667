"""Differences that are there are found, and those that are not are not."""

import random

import pytest
from measured import pair, result, subject

from mcpwire.bench import Result, compare, differences

TRIALS = 100


def verdicts(found, figure="p50"):
    return [each.verdict for each in found if each.figure == figure]


def count(verdict, factor):
    """Say how many of the trials came to a verdict on p50."""
    found = (
        verdicts(differences(pair(seed, factor), ["p50"])) for seed in range(TRIALS)
    )
    return sum(each == [verdict] for each in found)


def test_a_slowdown_of_15_percent_is_found_in_95_of_100_trials():
    assert count("worse", 1.15) >= 95


def test_of_two_equal_servers_at_most_5_of_100_are_called_different():
    assert count("no difference shown", 1.0) >= 95


def test_two_runs_are_compared_by_their_multiples_of_the_floor():
    chance = random.Random(3)
    before = result(subject("floor", chance), subject("target", chance, 2))
    # The machine has become half as fast, and the server has not changed.
    after = result(subject("floor", chance, 2), subject("target", chance, 4))
    assert set(verdicts(compare(before, after))) == {"no difference shown"}
    slower = result(subject("floor", chance, 2), subject("target", chance, 5))
    (found,) = [each for each in compare(before, slower) if each.figure == "p50"]
    assert found.verdict == "worse"
    assert found.low < 1.25 < found.high


def test_more_calls_a_second_are_better():
    chance = random.Random(4)
    server = subject("target", chance)
    faster = subject("against", chance, 0.5)
    assert set(verdicts(differences(result(server, faster)))) == {"better"}


def test_fewer_than_three_rounds_show_nothing():
    chance = random.Random(5)
    few = [
        subject(name, chance, factor)
        for name, factor in (("target", 1), ("against", 9))
    ]
    import attrs

    run = result(*(attrs.evolve(one, slices=one.slices[:8]) for one in few))
    assert set(verdicts(differences(run))) == {"no difference shown"}


def test_loads_that_differ_cannot_be_compared():
    one = result(subject("target", random.Random(1)))
    other = result(subject("target", random.Random(1)), title="ping, 2 users")
    with pytest.raises(
        ValueError, match="the loads differ: 'ping, 1 user' and 'ping, 2"
    ):
        compare(one, other)
    with pytest.raises(ValueError, match="must have measured one server"):
        compare(one, pair(1, 1))
    with pytest.raises(ValueError, match="did not measure two servers"):
        differences(one)


def test_a_result_is_read_as_it_was_written():
    run = pair(1, 1.5)
    again = Result.from_json(run.to_json())
    assert again == run
    assert again.subjects[0].figures() == run.subjects[0].figures()


@pytest.mark.parametrize("text", [b"{", b"[]", b"{}", b'{"format": 1, "subjects": 3}'])
def test_what_is_no_result_is_refused(text):
    with pytest.raises(ValueError, match="not a result of mcpwire bench"):
        Result.from_json(text)


def test_a_result_of_another_format_is_refused():
    with pytest.raises(ValueError, match="a result of format 99, expected 1"):
        Result.from_json(b'{"format": 99}')
