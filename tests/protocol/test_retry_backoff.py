"""When a stream is opened again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.limits import Recovery
from mcpwire.protocol.retry import (
    StreamBackoff,
)

RECOVERY = Recovery(backoff_initial=1.0, backoff_max=10.0, attempts=3)
ALMOST_ONE = 1 - 2**-53


def opened(*, in_vain=0, now=0.0, recovery=RECOVERY):
    """Return the state of a stream that lived, and was then so often in vain."""
    made = StreamBackoff(recovery)
    made.record_open(now)
    made.record_message()
    made.record_end(now)
    for _ in range(in_vain):
        made.record_end(now)
    return made


def test_the_first_opening_waits_for_nothing():
    assert StreamBackoff(RECOVERY).delay(5.0, 0.9) == 0.0


@pytest.mark.pain("P21")
@pytest.mark.parametrize(
    ("stood", "message", "in_vain"), [(29.9, False, 4), (30.0, False, 0), (0, True, 0)]
)
def test_a_stream_that_lived_or_brought_a_message_starts_anew(stood, message, in_vain):
    made = opened(in_vain=3)
    made.record_open(100.0)
    if message:
        made.record_message()
    made.record_end(100.0 + stood)
    assert made._failures == in_vain
    bound = 1.0 if in_vain == 0 else 8.0
    assert made.delay(100.0 + stood, 0.5) == pytest.approx(0.1 + bound / 2)


def test_a_message_on_the_stream_before_says_nothing_of_this_one():
    made = opened()
    made.record_open(1.0)
    made.record_end(1.0)
    assert made._failures == 1


@pytest.mark.pain("P21")
def test_each_failed_opening_waits_longer_up_to_the_longest_delay():
    bounds = []
    made = opened()
    for turn in range(6):
        now = 1000.0 * turn
        made.record_open(now)
        made.record_end(now)
        bounds.append(made.delay(now, 0.5) - 0.1)
        assert made.delay(now, ALMOST_ONE) <= 10.0
    assert bounds == pytest.approx([0.5, 1.0, 2.0, 4.0, 5.0, 5.0])


@pytest.mark.pain("P21")
def test_what_the_server_asks_to_wait_is_not_gone_below():
    made = opened(in_vain=1)
    assert made.delay(0.0, 0.5, retry_ms=5_000) == pytest.approx(5.5)
    assert made.delay(0.0, 0.5, retry_ms=10**12) == 60.0
    assert made.delay(0.0, 0.5, retry_after=7.0) == pytest.approx(7.5)
    assert made.delay(0.0, 0.5, retry_ms=9_000, retry_after=7.0) == pytest.approx(9.5)
    assert made.delay(0.0, 0.5, retry_after=1e9) == 1e9
    assert made.delay(0.0, 0.5, retry_after=0.0) == pytest.approx(0.6)


def test_what_has_passed_since_the_end_is_not_waited_for_again():
    made = opened(in_vain=3, now=50.0)
    assert made.delay(50.0, 0.5) == pytest.approx(2.1)
    assert made.delay(51.6, 0.5) == pytest.approx(0.5)
    assert made.delay(53.0, 0.5) == 0.0


@pytest.mark.fault("F29")
@pytest.mark.pain("P20")
def test_a_stream_that_was_refused_is_never_asked_for_again():
    made = opened()
    made.record_refusal()
    assert made.delay(1e9, 0.0) is None
    made = StreamBackoff(RECOVERY)
    made.record_refusal()
    made.record_end(0.0)
    assert made.delay(1e9, 0.0) is None


@pytest.mark.fault("F29")
def test_a_stream_that_never_opened_is_given_up_after_so_many_attempts():
    made = StreamBackoff(RECOVERY)
    for turn in range(RECOVERY.attempts):
        assert made.delay(turn, 0.0) is not None
        made.record_end(turn)
    assert made.delay(1e9, 0.0) is None


@pytest.mark.system("L-U9")
def test_a_stream_that_once_was_open_is_waited_for_as_long_as_it_takes():
    made = StreamBackoff(RECOVERY)
    made.record_open(0.0)
    for turn in range(1_000):
        made.record_end(turn)
    assert made.delay(1_000.0, 0.5) is not None


CHANCES = st.floats(0, ALMOST_ONE)


@pytest.mark.pain("P21")
@given(
    st.lists(
        st.tuples(
            CHANCES,
            st.none() | st.integers(0, 10**6),
            st.none() | st.floats(0, 100),
            st.booleans(),
            st.floats(0, 1),
        ),
        min_size=20,
        max_size=20,
    ),
    st.floats(0.001, 100),
)
def test_a_stream_that_is_closed_at_once_is_opened_at_most_8_times_a_minute(
    turns, longest
):
    recovery = Recovery(backoff_initial=0.001, backoff_max=longest)
    made = StreamBackoff(recovery)
    now = 0.0
    openings = []
    for chance, retry_ms, retry_after, opens, stood in turns:
        openings.append(now)
        if opens or len(openings) == 1:
            made.record_open(now)
        made.record_end(now + stood)
        delay = made.delay(now + stood, chance, retry_ms, retry_after)
        assert delay <= max(60.0, longest, 101.0)
        now += stood + delay
        assert made.delay(now, chance, retry_ms, retry_after) == pytest.approx(
            0.0, abs=1e-6
        )
    for index in range(len(openings) - 8):
        assert openings[index + 8] - openings[index] >= 60.0 - 1e-6
