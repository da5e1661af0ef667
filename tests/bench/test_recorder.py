"""What a worker notes of its calls, and what it makes of that."""

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
    """Record calls of the times when they were due, begun and answered."""

    def recorded(*calls):
        recorder = Recorder()
        with monkeypatch.context() as patch:
            for due, begun, answered in calls:
                patch.setattr(time, "monotonic_ns", lambda now=answered: now)
                recorder.offered += 1
                recorder.record_answer(due, begun, None)
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
        ends = [n * SECOND // 1_000 for n in range(1_000 * seconds)]
        return record(*((end - chance.randrange(10**7), end, end) for end in ends))

    short, long = peak(over(1)), peak(over(8))
    assert long < 1.5 * short


def test_times_are_counted_as_the_package_would():
    chance = random.Random(2)
    values = [int(2 ** chance.uniform(0, 42)) for _ in range(5_000)]
    values += [0, -1, 63, 64, MAX_NS - 1, MAX_NS, MAX_NS + 1]
    plain = HdrHistogram(100, MAX_NS, 3)
    for value in values:
        plain.record_value(min(max(value, 0), MAX_NS))
    assert histogram(values).encode() == plain.encode()


def test_histograms_are_merged_whatever_their_lengths():
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
def test_percentiles_are_those_of_the_package(count, bits):
    chance = random.Random(count)
    values = [int(2 ** chance.uniform(bits - 1, bits)) for _ in range(count)]
    found = histogram(values)
    asked = [50.0, 90.0, 99.0, 99.9, 100.0]
    assert percentiles(found, asked) == found.get_percentile_to_value_dict(asked)


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
        # Each round's server holds more from the begin on, and none grows.
        ([held(500, 500), held(900, 900, 900), held(700)], 0),
        ([held(500, 505), held(900, 905, 910)], 5),
    ],
)
def test_the_slope_of_memory_is_that_within_the_rounds(rounds, slope):
    samples = tuple(sample for each in rounds for sample in each)
    one = Subject(name="target", target="x", server={}, slices=(), samples=samples)
    assert one.memory_slope() == (slope if slope is None else pytest.approx(slope))


def slope_of(*rounds):
    """Return the slope of memory with the ends of its interval."""
    samples = tuple(sample for each in rounds for sample in each)
    one = Subject(name="target", target="x", server={}, slices=(), samples=samples)
    ends = [FIGURES[f"memory slope {end}"].compute(one) for end in ("low", "high")]
    return one.memory_slope(), *ends


def test_the_slope_of_memory_has_an_interval_from_six_samples_in_a_round_on():
    assert slope_of(held(5, 5, 5, 5, 5)) == (0, None, None)
    assert slope_of(held(5, 5, 5, 5, 5, 5)) == (0, 0, 0)
    assert slope_of(held(1, 2, 3), held(2, 3, 4)) == (1, None, None)
    assert slope_of(*[held(1, 2, 3)] * 4) == pytest.approx((1, 1, 1))


def test_the_interval_of_the_slope_holds_it_in_95_of_100_cases():
    chance, found = random.Random(3), 0
    for _ in range(1_000):
        levels = [[100 * at + chance.gauss(0, 500) for at in range(4)] for _ in "abcde"]
        _, low, high = slope_of(*(held(*each) for each in levels))
        found += low <= 100 <= high
    assert 930 <= found <= 970


def test_memory_that_grows_in_one_step_is_not_sure_to_go_on():
    for count in (20, 600):
        slope, low, high = slope_of(held(*[0] * (count // 3), *[5_000] * count))
        assert low < 0 < slope < high


def test_memory_that_grows_all_the_time_is_sure_to():
    slope, low, high = slope_of(held(*(4_096 * (at // 3) for at in range(60))))
    assert 0 < low < slope < high < 2 * slope
    assert low < 4_096 / 3 < high


class Replayed:
    """A client that passes given events to its hook, each at its time."""

    def __init__(self, hook, patch, events):
        self._hook, self._patch, self._events = hook, patch, events

    async def ping(self):
        for at, event, data in self._events:
            self._patch.setattr(time, "monotonic_ns", lambda now=at: now)
            self._hook(event, data)


OURS = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'
OTHERS = [
    (30, "receive", b'{"jsonrpc":"2.0","id":6,"result":{"id":7}}'),
    (31, "receive", b'{"jsonrpc":"2.0","method":"note","params":{"id":7}}'),
    (32, "receive", b'[{"id":7}]'),
    (33, "receive", b'7 is no "id" of a message'),
]


@pytest.mark.parametrize(
    ("events", "phases"),
    [
        ([(20, "written", 9), *OTHERS], [10, 20, 10]),
        ([(20, "written", 9), (35, "written", 99)], [10, 20, 10]),
        ([], [5, 25, 10]),  # as over HTTP: from when it is sent
    ],
)
def test_the_phases_of_a_call_end_with_its_own_messages(monkeypatch, events, phases):
    sampler = PhaseSampler()
    answer = [(40, "receive", b'{"jsonrpc":"2.0","id":7,"result":{}}'), (50, "", b"")]
    told = [(15, "send", OURS), *events, *answer]
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic_ns", lambda: 10)
        client = Replayed(sampler, patch, told)
        asyncio.run(sampler.perform(client, Call("ping")))
    assert [list(each) for each in sampler.durations.values()] == [[n] for n in phases]


def test_a_call_without_an_answer_has_no_phases(monkeypatch):
    sampler = PhaseSampler()
    client = Replayed(sampler, monkeypatch, [(15, "send", OURS), *OTHERS])
    asyncio.run(sampler.perform(client, Call("ping")))
    assert all(not each for each in sampler.durations.values())
