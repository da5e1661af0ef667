"""What a worker notes of its calls, and what it makes of that."""

import random
import time
import tracemalloc

import pytest
from hdrh.histogram import HdrHistogram

from mcpwire.bench.histogram import LONGEST_NS, histogram
from mcpwire.bench.worker import Recorder

SECOND = 10**9


@pytest.fixture
def record(monkeypatch):
    """Record calls of the times when they were due, begun and answered."""

    def recorded(*calls):
        recorder = Recorder()
        with monkeypatch.context() as patch:
            for due, begun, answered in calls:
                patch.setattr(time, "monotonic_ns", lambda now=answered: now)
                recorder.offered += 1
                recorder.answered(due, begun, None)
        return recorder

    return recorded


def peak(recorder):
    """Return the bytes that summing up needs at most."""
    tracemalloc.start()
    try:
        recorder.summary(0, 0.0, SECOND, is_open=True)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_summing_up_does_not_hold_the_calls_of_all_seconds_again(record):
    chance = random.Random(1)

    def over(seconds):
        ends = [n * SECOND // 5_000 for n in range(5_000 * seconds)]
        return record(*((end - chance.randrange(10**7), end, end) for end in ends))

    short, long = peak(over(1)), peak(over(8))
    assert long < 1.5 * short


def test_times_are_counted_as_the_package_would():
    chance = random.Random(2)
    values = [int(2 ** chance.uniform(0, 42)) for _ in range(5_000)]
    values += [0, -1, 63, 64, LONGEST_NS - 1, LONGEST_NS, LONGEST_NS + 1]
    plain = HdrHistogram(100, LONGEST_NS, 3)
    for value in values:
        plain.record_value(min(max(value, 0), LONGEST_NS))
    assert histogram(values).encode() == plain.encode()


def test_each_second_has_the_calls_that_were_answered_in_it(record):
    half = SECOND // 2
    ends = (half, half + 100, 3 * SECOND)
    recorder = record(*((end - 5_000, end, end) for end in ends))
    windows = recorder.summary(0, 7.0, 1, is_open=True)["windows"]
    assert windows == [(7.0, 2, 0, 5.0, 5.0), (10.0, 1, 0, 5.0, 5.0)]


def in_time(recorder, *, is_open):
    """Return how many calls of a slice of a second make its rate."""
    return recorder.summary(0, 0.0, SECOND, is_open=is_open)["in_time"]


def test_a_hanging_call_of_a_closed_loop_lowers_the_rate_by_its_own_user_alone(record):
    quick = [(n * SECOND // 10,) * 2 + ((n + 1) * SECOND // 10,) for n in range(10)]
    # A second user's only call begins after half of the slice and takes 20 times as
    # long as is left of it.
    hanging = (SECOND // 2, SECOND // 2, SECOND // 2 + 10 * SECOND)
    assert in_time(record(*quick), is_open=False) == 10
    assert in_time(record(*quick, hanging), is_open=False) == 10 + 1 / 20


def test_calls_of_a_closed_loop_that_take_longer_than_a_slice_have_a_rate(record):
    user = (0, 0, 4 * SECOND)
    assert in_time(record(user, user), is_open=False) == 2 / 4


def test_an_open_loop_counts_answers_from_the_first_one_on(record):
    slow = [(at, at, at + 3 * SECOND) for at in range(0, SECOND, SECOND // 10)]
    straggler = (0, 0, 5 * SECOND)
    assert in_time(record(*slow, straggler), is_open=True) == 10
    assert in_time(record(), is_open=True) == in_time(record(), is_open=False) == 0
