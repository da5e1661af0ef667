"""One event stream over many HTTP responses: its cursor, replays and delays."""

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpwire.limits import Recovery
from mcpwire.protocol.retry import Resumption

RECOVERY = Recovery(backoff_initial=1.0, backoff_max=10.0, attempts=3)
ALMOST_ONE = 1 - 2**-53


@pytest.fixture
def stream():
    """Give a stream that has delivered one event with an id, and ended."""
    resumption = Resumption(RECOVERY)
    assert resumption.add_event("1")
    resumption.record_end(100.0)
    return resumption


@pytest.mark.pain("P22")
def test_empty_resumed_response_keeps_the_cursor(stream):
    for now in range(101, 140):
        stream.record_end(now)
        stream.add_event("1")
        assert stream.cursor == "1"
    stream.record_end(140.0, failed=True)
    assert stream.cursor == "1"


@pytest.mark.attack("S19")
@pytest.mark.parametrize("event_id", ["a\tb", "\x7f", "  ", "x" * 5_000, "\ud800"])
def test_unsendable_id_is_deduplicated_but_not_used_as_cursor(stream, event_id):
    assert stream.add_event(event_id)
    assert stream.cursor == "1"
    stream.record_end(0.0)
    assert not stream.add_event(event_id)


@pytest.mark.system("U23")
@pytest.mark.rule("LHTTP-08")
@pytest.mark.parametrize(
    ("retry_ms", "expected"),
    [
        (None, 0.1),
        (0, 0.1),
        (99, 0.1),
        (500, 0.5),
        (60_000, 60.0),
        (60_001, 60.0),
        (10**12, 60.0),
    ],
)
def test_reconnection_time_of_the_server_is_bounded(stream, retry_ms, expected):
    stream.retry_ms = retry_ms
    assert stream.delay(100.0, ALMOST_ONE) == pytest.approx(expected)
    assert stream.delay(100.0 + expected / 2, 0.0) == pytest.approx(expected / 2)
    assert stream.delay(200.0, 0.0) == 0.0


@pytest.mark.rule("LHTTP-08")
def test_event_with_only_an_id_counts_as_delivered():
    stream = Resumption(RECOVERY)
    stream.retry_ms = 500
    stream.add_event("primed")
    stream.record_end(0.0)
    assert stream.delay(0.0, ALMOST_ONE) == 0.5


@pytest.mark.fault("F31")
def test_stream_without_ids_cannot_be_resumed():
    stream = Resumption(RECOVERY)
    stream.add_event("")
    stream.record_end(0.0)
    assert stream.delay(0.0, 0.0) is None


def test_stream_is_not_resumed_if_resumption_is_off():
    stream = Resumption(Recovery(resume=False))
    stream.add_event("1")
    stream.record_end(0.0)
    assert stream.delay(0.0, 0.0) is None


@pytest.mark.fault("F32")
@pytest.mark.pain("P22")
def test_thousands_of_productive_rounds_take_constant_memory():
    stream = Resumption(RECOVERY)
    stream.retry_ms = 0
    sizes = set()
    for cycle in range(5_000):
        assert stream.add_event(f"{cycle:08}")
        stream.record_end(cycle)
        assert stream.cursor == f"{cycle:08}"
        assert stream.delay(cycle, ALMOST_ONE) == pytest.approx(0.1)
        if cycle >= 2_500:
            sizes.add((len(stream._seen), sys.getsizeof(stream._seen)))
    assert {count for count, _ in sizes} == {1_024}
    assert max(size for _, size in sizes) < 200_000


def test_long_ids_take_no_more_memory_than_short_ones():
    stream = Resumption(RECOVERY)
    for number in range(1_030):
        assert stream.add_event(f"{number:0100000}")
    stream.record_end(0.0)
    assert not stream.add_event(f"{1_029:0100000}")
    assert sum(map(sys.getsizeof, stream._seen)) < 200_000


@pytest.mark.parametrize("event_id", ["2", ""])
def test_empty_rounds_back_off_and_are_never_given_up(stream, event_id):
    bounds = []
    for _ in range(50):
        stream.record_end(100.0)
        assert stream.delay(100.0, 0.0) == pytest.approx(0.1)
        bounds.append(stream.delay(100.0, 0.5) - 0.1)
    assert bounds == pytest.approx([0.5, 1.0, 2.0, 4.0] + [5.0] * 46)
    stream.add_event(event_id)
    stream.record_end(100.0)
    assert stream.delay(100.0, 0.5) == pytest.approx(0.1)


@pytest.mark.pain("P21", "P24")
def test_consecutive_failures_back_off_and_are_given_up(stream):
    stream.record_end(100.0, failed=True)
    assert stream.delay(100.0, 0.5) == pytest.approx(0.1 + 0.5)
    stream.record_end(100.0, failed=True)
    assert stream.delay(100.0, 0.5) == pytest.approx(0.1 + 1.0)
    stream.record_end(100.0, failed=True)
    assert stream.delay(100.0, 0.5) is None
    assert stream.cursor == "1"


def test_opened_stream_resets_the_count_of_failures(stream):
    for _ in range(20):
        stream.record_end(100.0, failed=True)
        stream.record_end(100.0, failed=True)
        stream.record_end(100.0)
    assert stream.delay(100.0, 0.5) == pytest.approx(0.1 + 5.0)


def test_failure_after_an_event_does_not_count_as_failure(stream):
    for cycle in range(20):
        stream.add_event(f"c-{cycle}")
        stream.record_end(100.0 + cycle, failed=True)
        assert stream.delay(100.0 + cycle, 0.5) == pytest.approx(0.1)


@pytest.mark.fault("F36")
def test_retry_after_of_a_refusal_applies_once(stream):
    stream.record_end(100.0, failed=True, retry_after=7.0)
    assert stream.delay(100.0, 0.5) == pytest.approx(7.0 + 0.5)
    stream.record_end(200.0, failed=True, retry_after=0.01)
    assert stream.delay(200.0, 0.0) == pytest.approx(0.1)
    stream.add_event("2")
    stream.record_end(300.0)
    assert stream.delay(300.0, 0.0) == pytest.approx(0.1)


EVENTS = st.one_of(
    st.tuples(st.just("take"), st.text("abc\t", max_size=2)),
    st.tuples(st.just("ended"), st.booleans(), st.none() | st.floats(0, 100)),
    st.tuples(st.just("retry"), st.none() | st.integers(0, 10**12)),
)


def steps_of(*messages):
    """Return the steps of some responses, each of which ends."""
    return [
        step
        for ids in messages
        for step in (*(("take", id) for id in ids), ("ended", False, None))
    ]


@pytest.mark.fault("F33")
@pytest.mark.pain("P22")
@pytest.mark.rule("LHTTP-21")
@example(steps_of("1234", "2345", "2"), 0.0)  # replayed events are accepted once
@example(steps_of("1", "1"), 0.0)  # also the newest one, in the next response
@example(steps_of("56567"), 0.0)  # a replay and the live event are one event
@example(steps_of(["", "", *"1112"], ["", "1", "1"]), 0.0)  # no ids of their own
@example(steps_of(["1", "größe", ""]), 0.0)  # an empty id keeps the cursor
@given(st.lists(EVENTS, max_size=40), st.floats(0, ALMOST_ONE))
def test_cursor_and_delay_are_correct_for_any_order_of_events(events, chance):
    stream = Resumption(RECOVERY)
    cursor, seen_ids, last = "", set(), ""
    for now, (event, *event_args) in enumerate(events):
        if event == "take":
            (event_id,) = event_args
            is_new = event_id not in seen_ids
            assert stream.add_event(event_id) == (is_new or event_id in {"", last})
            seen_ids.add(event_id)
            last = event_id or last
            if event_id and is_new and "\t" not in event_id:
                cursor = event_id
        elif event == "ended":
            stream.record_end(now, failed=event_args[0], retry_after=event_args[1])
            last = ""
        else:
            stream.retry_ms = event_args[0]
        assert stream.cursor == cursor
        if event == "ended":
            delay = stream.delay(now, chance)
            assert delay is None or 0.099 <= delay <= 110.0
            assert delay is None or cursor
