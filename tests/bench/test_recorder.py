"""The recorder of a worker: latencies, rates, memory slopes and phases."""

import asyncio
import random
import time
import tracemalloc

import pytest
from hdrh.histogram import HdrHistogram

from mcpwire.bench.histogram import MAX_NS, histogram, merge_histograms, percentiles
from mcpwire.bench.load import Call
from mcpwire.bench.results import FIGURES, Sample, Subject
from mcpwire.bench.worker import PhaseSampler, Recorder

SECOND = 10**9


@pytest.fixture
def record(monkeypatch):
    """Return a function that records calls, given as due, start and answer times."""

    def recorded(*calls):
        recorder = Recorder()
        with monkeypatch.context() as patch:
            for due, started, answered in calls:
                patch.setattr(time, "monotonic_ns", lambda now=answered: now)
                recorder.offered += 1
                recorder.record_answer(due, started, None)
        return recorder

    return recorded


def peak(recorder):
    """Return the peak memory of a summary in bytes."""
    tracemalloc.start()
    try:
        recorder.summary(0, 0.0, SECOND, is_open=True)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_summary_memory_does_not_grow_with_the_run_time(record):
    chance = random.Random(1)

    def record_seconds(seconds):
        ends = [n * SECOND // 1_000 for n in range(1_000 * seconds)]
        return record(*((end - chance.randrange(10**7), end, end) for end in ends))

    short, long = peak(record_seconds(1)), peak(record_seconds(8))
    assert long < 1.5 * short


def test_histogram_equals_that_of_hdrhistogram():
    chance = random.Random(2)
    values = [int(2 ** chance.uniform(0, 42)) for _ in range(5_000)]
    values += [0, -1, 63, 64, MAX_NS - 1, MAX_NS, MAX_NS + 1]
    plain = HdrHistogram(100, MAX_NS, 3)
    for value in values:
        plain.record_value(min(max(value, 0), MAX_NS))
    assert histogram(values).encode() == plain.encode()


def test_histograms_of_different_lengths_are_merged():
    values = [[5_000, MAX_NS], [], [100], [3 * SECOND] * 4]
    texts = [histogram(each).encode().decode() for each in values]
    for chosen in (texts, texts[::-1], texts[:1], texts[1:2], []):
        held = [
            v
            for each, text in zip(values, texts, strict=True)
            if text in chosen
            for v in each
        ]
        assert merge_histograms(chosen).encode() == histogram(held).encode()


@pytest.mark.parametrize("count", [0, 1, 7, 1_000])
@pytest.mark.parametrize("bits", [6, 11, 17, 25, 41])
def test_percentiles_equal_those_of_hdrhistogram(count, bits):
    chance = random.Random(count)
    values = [int(2 ** chance.uniform(bits - 1, bits)) for _ in range(count)]
    found = histogram(values)
    wanted_percentiles = [50.0, 90.0, 99.0, 99.9, 100.0]
    assert percentiles(found, wanted_percentiles) == found.get_percentile_to_value_dict(
        wanted_percentiles
    )


def test_windows_count_the_calls_answered_in_each_second(record):
    half = SECOND // 2
    ends = (half, half + 100, 3 * SECOND)
    recorder = record(*((end - 5_000, end, end) for end in ends))
    windows = recorder.summary(0, 7.0, 1, is_open=True)["windows"]
    assert windows == [(7.0, 2, 0, 5.0, 5.0), (10.0, 1, 0, 5.0, 5.0)]


def in_time(recorder, *, is_open):
    """Return the number of calls that count for the rate of a one-second slice."""
    return recorder.summary(0, 0.0, SECOND, is_open=is_open)["in_time"]


def test_hanging_call_lowers_only_its_own_users_rate(record):
    quick = [(n * SECOND // 10,) * 2 + ((n + 1) * SECOND // 10,) for n in range(10)]
    # A second user's only call begins in the middle of the slice and takes 20 times
    # the rest of it.
    hanging = (SECOND // 2, SECOND // 2, SECOND // 2 + 10 * SECOND)
    assert in_time(record(*quick), is_open=False) == 10
    assert in_time(record(*quick, hanging), is_open=False) == 10 + 1 / 20


def test_closed_loop_calls_longer_than_a_slice_have_a_rate(record):
    user = (0, 0, 4 * SECOND)
    assert in_time(record(user, user), is_open=False) == 2 / 4


def test_open_loop_rate_is_independent_of_the_latency(record):
    slow = [(at, at, at + 3 * SECOND) for at in range(0, SECOND, SECOND // 10)]
    straggler = (0, 0, 5 * SECOND)
    assert in_time(record(*slow, straggler), is_open=True) == 10
    assert in_time(record((0, 0, 1), *slow), is_open=True) == 10
    assert in_time(record(), is_open=True) == in_time(record(), is_open=False) == 0


def test_open_loop_rate_of_an_overloaded_server_is_its_speed(record):
    calls = [(at // 2, at // 2, at) for at in range(0, 2 * SECOND, SECOND // 10)]
    assert in_time(record(*calls), is_open=True) == pytest.approx(10, abs=1)


def held(*memory, at=0):
    """Return a sample for each second of a round."""
    return [
        Sample(at=at + second, memory=each, descriptors=1)
        for second, each in enumerate(memory)
    ]


@pytest.mark.parametrize(
    ("rounds", "slope"),
    [
        ([], None),
        ([held(500)], None),
        ([held(500), held(900)], None),
        ([held(500, 503, 506)], 3),
        # Each round's server starts with more memory, and does not grow.
        ([held(500, 500), held(900, 900, 900), held(700)], 0),
        ([held(500, 505), held(900, 905, 910)], 5),
    ],
)
def test_memory_slope_is_computed_within_rounds(rounds, slope):
    samples = tuple(sample for each in rounds for sample in each)
    one = Subject(name="target", target="x", server={}, slices=(), samples=samples)
    assert one.memory_slope() == (slope if slope is None else pytest.approx(slope))


def slope_of(*rounds):
    """Return the slope of memory and the bounds of its interval."""
    samples = tuple(sample for each in rounds for sample in each)
    one = Subject(name="target", target="x", server={}, slices=(), samples=samples)
    ends = [FIGURES[f"memory slope {end}"].compute(one) for end in ("low", "high")]
    return one.memory_slope(), *ends


def test_memory_slope_interval_needs_enough_samples():
    assert slope_of(held(5, 5, 5, 5, 5)) == (0, None, None)
    assert slope_of(held(5, 5, 5, 5, 5, 5)) == (0, 0, 0)
    assert slope_of(held(1, 2, 3), held(2, 3, 4)) == (1, None, None)
    assert slope_of(*[held(1, 2, 3)] * 4) == pytest.approx((1, 1, 1))


def test_slope_interval_covers_95_percent_of_cases():
    chance, found = random.Random(3), 0
    for _ in range(1_000):
        levels = [[100 * at + chance.gauss(0, 500) for at in range(4)] for _ in "abcde"]
        _, low, high = slope_of(*(held(*each) for each in levels))
        found += low <= 100 <= high
    assert 930 <= found <= 970


def test_memory_step_has_an_interval_including_zero():
    for count in (20, 600):
        slope, low, high = slope_of(held(*[0] * (count // 3), *[5_000] * count))
        assert low < 0 < slope < high


def test_steady_memory_growth_has_a_positive_interval():
    slope, low, high = slope_of(held(*(4_096 * (at // 3) for at in range(60))))
    assert 0 < low < slope < high < 2 * slope
    assert low < 4_096 / 3 < high


class Replayed:
    """A client that passes the given events to its hook, each at its time."""

    def __init__(self, hook, patch, events):
        self._hook, self._patch, self._events = hook, patch, events

    async def ping(self):
        for at, event, data in self._events:
            self._patch.setattr(time, "monotonic_ns", lambda now=at: now)
            self._hook(event, data)


OWN_REQUEST = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'
OTHER_MESSAGES = [
    (30, "receive", b'{"jsonrpc":"2.0","id":6,"result":{"id":7}}'),
    (31, "receive", b'{"jsonrpc":"2.0","method":"note","params":{"id":7}}'),
    (32, "receive", b'[{"id":7}]'),
    (33, "receive", b'7 is no "id" of a message'),
]


@pytest.mark.parametrize(
    ("events", "phases"),
    [
        ([(20, "written", 9), *OTHER_MESSAGES], [10, 20, 10]),
        ([(20, "written", 9), (35, "written", 99)], [10, 20, 10]),
        ([], [5, 25, 10]),  # as over HTTP: from the time of sending
    ],
)
def test_phases_of_a_call_use_only_its_own_messages(monkeypatch, events, phases):
    sampler = PhaseSampler()
    answer = [(40, "receive", b'{"jsonrpc":"2.0","id":7,"result":{}}'), (50, "", b"")]
    all_events = [(15, "send", OWN_REQUEST), *events, *answer]
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic_ns", lambda: 10)
        client = Replayed(sampler, patch, all_events)
        asyncio.run(sampler.perform(client, Call("ping")))
    assert [list(each) for each in sampler.durations.values()] == [[n] for n in phases]


def test_unanswered_call_has_no_phases(monkeypatch):
    sampler = PhaseSampler()
    client = Replayed(
        sampler, monkeypatch, [(15, "send", OWN_REQUEST), *OTHER_MESSAGES]
    )
    asyncio.run(sampler.perform(client, Call("ping")))
    assert all(not each for each in sampler.durations.values())
