"""When a stream is opened again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.limits import Recovery
from mcpwire.protocol.retry import StreamBackoff

RECOVERY = Recovery(backoff_initial=1.0, backoff_max=10.0, attempts=3)
ALMOST_ONE = 1 - 2**-53


def failed_stream(*, failures=0, now=0.0, recovery=RECOVERY):
    """Return the backoff of a stream that once worked and then failed so often."""
    backoff = StreamBackoff(recovery)
    backoff.record_open(now)
    backoff.record_message()
    backoff.record_end(now)
    for _ in range(failures):
        backoff.record_end(now)
    return backoff


def test_first_opening_has_no_delay():
    assert StreamBackoff(RECOVERY).delay(5.0, 0.9) == 0.0


@pytest.mark.pain("P21")
@pytest.mark.parametrize(
    ("age", "message", "failures"), [(29.9, False, 4), (30.0, False, 0), (0, True, 0)]
)
def test_long_lived_stream_or_a_message_resets_the_backoff(age, message, failures):
    backoff = failed_stream(failures=3)
    backoff.record_open(100.0)
    if message:
        backoff.record_message()
    backoff.record_end(100.0 + age)
    assert backoff._failures == failures
    bound = 1.0 if failures == 0 else 8.0
    assert backoff.delay(100.0 + age, 0.5) == pytest.approx(0.1 + bound / 2)


def test_message_on_an_earlier_stream_does_not_reset_the_backoff():
    backoff = failed_stream()
    backoff.record_open(1.0)
    backoff.record_end(1.0)
    assert backoff._failures == 1


@pytest.mark.pain("P21")
def test_each_failed_opening_waits_longer_up_to_the_maximum():
    bounds = []
    backoff = failed_stream()
    for attempt in range(6):
        now = 1000.0 * attempt
        backoff.record_open(now)
        backoff.record_end(now)
        bounds.append(backoff.delay(now, 0.5) - 0.1)
        assert backoff.delay(now, ALMOST_ONE) <= 10.0
    assert bounds == pytest.approx([0.5, 1.0, 2.0, 4.0, 5.0, 5.0])


@pytest.mark.pain("P21")
def test_server_delay_is_a_lower_bound():
    backoff = failed_stream(failures=1)
    assert backoff.delay(0.0, 0.5, retry_ms=5_000) == pytest.approx(5.5)
    assert backoff.delay(0.0, 0.5, retry_ms=10**12) == 60.0
    assert backoff.delay(0.0, 0.5, retry_after=7.0) == pytest.approx(7.5)
    assert backoff.delay(0.0, 0.5, retry_ms=9_000, retry_after=7.0) == pytest.approx(
        9.5
    )
    assert backoff.delay(0.0, 0.5, retry_after=1e9) == 1e9
    assert backoff.delay(0.0, 0.5, retry_after=0.0) == pytest.approx(0.6)


def test_time_since_the_end_counts_towards_the_delay():
    backoff = failed_stream(failures=3, now=50.0)
    assert backoff.delay(50.0, 0.5) == pytest.approx(2.1)
    assert backoff.delay(51.6, 0.5) == pytest.approx(0.5)
    assert backoff.delay(53.0, 0.5) == 0.0


@pytest.mark.fault("F29")
@pytest.mark.pain("P20")
def test_refused_stream_is_never_opened_again():
    backoff = failed_stream()
    backoff.record_refusal()
    assert backoff.delay(1e9, 0.0) is None
    backoff = StreamBackoff(RECOVERY)
    backoff.record_refusal()
    backoff.record_end(0.0)
    assert backoff.delay(1e9, 0.0) is None


@pytest.mark.fault("F29")
def test_never_opened_stream_is_given_up_after_the_attempts():
    backoff = StreamBackoff(RECOVERY)
    for attempt in range(RECOVERY.attempts):
        assert backoff.delay(attempt, 0.0) is not None
        backoff.record_end(attempt)
    assert backoff.delay(1e9, 0.0) is None


@pytest.mark.system("L-U9")
def test_once_opened_stream_is_retried_without_limit():
    backoff = StreamBackoff(RECOVERY)
    backoff.record_open(0.0)
    for attempt in range(1_000):
        backoff.record_end(attempt)
    assert backoff.delay(1_000.0, 0.5) is not None


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
def test_stream_closed_at_once_is_opened_at_most_8_times_a_minute(attempts, longest):
    recovery = Recovery(backoff_initial=0.001, backoff_max=longest)
    backoff = StreamBackoff(recovery)
    now = 0.0
    openings = []
    for chance, retry_ms, retry_after, opens, age in attempts:
        openings.append(now)
        if opens or len(openings) == 1:
            backoff.record_open(now)
        backoff.record_end(now + age)
        delay = backoff.delay(now + age, chance, retry_ms, retry_after)
        assert delay <= max(60.0, longest, 101.0)
        now += age + delay
        assert backoff.delay(now, chance, retry_ms, retry_after) == pytest.approx(
            0.0, abs=1e-6
        )
    for index in range(len(openings) - 8):
        assert openings[index + 8] - openings[index] >= 60.0 - 1e-6
