"""Deadlines: absolute, extended by progress, stopped while a person is asked."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.protocol.deadline import Deadline

START = 1_000.0


def test_a_deadline_expires_exactly_when_its_timeout_has_passed():
    deadline = Deadline(START, 30.0)

    assert not deadline.expired(START + 29.999)
    assert deadline.expired(START + 30.0)
    assert deadline.at == START + 30.0
    assert deadline.timeout == 30.0


def test_the_rest_shrinks_with_the_time_and_never_goes_below_zero():
    deadline = Deadline(START, 30.0)

    assert deadline.remaining(START) == 30.0
    assert deadline.remaining(START + 12.0) == 18.0
    assert deadline.remaining(START + 31.0) == 0.0


def test_elapsed_counts_from_the_start_with_pauses():
    deadline = Deadline(START, 30.0)
    deadline.pause(START + 1.0)
    deadline.resume(START + 6.0)

    assert deadline.elapsed(START + 7.0) == 7.0
    assert deadline.started == START


def test_without_a_timeout_nothing_expires():
    deadline = Deadline(START, None)
    deadline.extend(START + 5.0)
    deadline.pause(START + 5.0)

    assert deadline.remaining(START + 6.0) is None
    deadline.resume(START + 7.0)
    assert deadline.at == inf
    assert not deadline.expired(1e12)
    assert deadline.remaining(1e12) is None
    assert deadline.timeout is None


@pytest.mark.rule("LIFE-15")
def test_progress_starts_the_timeout_again():
    deadline = Deadline(START, 30.0)

    deadline.extend(START + 20.0)

    assert deadline.at == START + 50.0
    assert deadline.timeout == 30.0


@pytest.mark.rule("LIFE-15")
@pytest.mark.pain("P08")
def test_no_progress_goes_beyond_the_maximum():
    deadline = Deadline(START, 30.0, maximum=60.0)

    for second in range(1, 60):
        deadline.extend(START + second)

    assert deadline.at == START + 60.0
    assert deadline.expired(START + 60.0)


@pytest.mark.pain("P08")
def test_the_error_can_name_the_limit_that_ran_out():
    deadline = Deadline(START, 30.0, maximum=45.0)
    assert deadline.timeout == 30.0

    deadline.extend(START + 10.0)
    assert deadline.timeout == 30.0

    deadline.extend(START + 20.0)
    assert deadline.timeout == 45.0


def test_a_maximum_below_the_timeout_is_the_limit_from_the_start():
    deadline = Deadline(START, 30.0, maximum=10.0)

    assert deadline.at == START + 10.0
    assert deadline.timeout == 10.0


def test_a_maximum_limits_a_call_without_a_timeout():
    deadline = Deadline(START, None, maximum=10.0)
    deadline.extend(START + 9.0)

    assert deadline.at == START + 10.0
    assert deadline.timeout == 10.0


@pytest.mark.pain("P08")
def test_the_clock_stands_still_while_it_is_paused():
    deadline = Deadline(START, 30.0)

    deadline.pause(START + 10.0)
    assert deadline.at == inf
    assert not deadline.expired(START + 500.0)
    assert deadline.remaining(START + 500.0) == 20.0

    deadline.resume(START + 500.0)
    assert deadline.at == START + 520.0
    assert deadline.remaining(START + 501.0) == 19.0


@pytest.mark.pain("P08")
def test_two_pauses_need_two_resumes():
    deadline = Deadline(START, 30.0)

    deadline.pause(START + 10.0)
    deadline.pause(START + 20.0)
    deadline.resume(START + 30.0)
    assert deadline.at == inf
    assert deadline.remaining(START + 31.0) == 20.0

    deadline.resume(START + 40.0)
    assert deadline.at == START + 60.0


def test_pauses_do_not_count_against_the_maximum():
    deadline = Deadline(START, 30.0, maximum=40.0)
    deadline.pause(START + 5.0)
    deadline.resume(START + 105.0)

    deadline.extend(START + 120.0)

    assert deadline.at == START + 140.0


def test_progress_during_a_pause_counts_when_the_clock_runs_again():
    deadline = Deadline(START, 30.0)
    deadline.pause(START + 10.0)

    deadline.extend(START + 20.0)
    assert deadline.at == inf
    assert deadline.remaining(START + 25.0) == 30.0

    deadline.resume(START + 50.0)
    assert deadline.at == START + 80.0


def test_resuming_what_was_not_paused_is_our_own_bug():
    with pytest.raises(AssertionError):
        Deadline(START, 30.0).resume(START)


@pytest.mark.parametrize(
    ("timeout", "paused", "text"),
    [
        (30.0, False, "<Deadline 30 s>"),
        (None, False, "<Deadline no limit>"),
        (0.5, True, "<Deadline 0.5 s, paused>"),
    ],
)
def test_a_deadline_shows_its_limit(timeout, paused, text):
    deadline = Deadline(START, timeout)
    if paused:
        deadline.pause(START)

    assert repr(deadline) == text


MOVES = st.lists(
    st.tuples(st.sampled_from(["extend", "pause", "resume"]), st.integers(0, 20)),
    max_size=30,
)


@given(MOVES)
def test_the_peers_own_time_never_exceeds_the_maximum(moves):
    deadline = Deadline(0.0, 30.0, maximum=100.0)
    now = running = 0.0
    pauses = 0

    for move, seconds in moves:
        # The shell acts as soon as it has expired, so no move comes later.
        step = seconds if pauses else min(seconds, deadline.remaining(now))
        now += step
        running += 0 if pauses else step
        if move == "extend":
            deadline.extend(now)
        elif move == "pause":
            deadline.pause(now)
            pauses += 1
        elif pauses:
            deadline.resume(now)
            pauses -= 1
        left = deadline.remaining(now)
        assert 0.0 <= left <= 30.0
        assert running + left <= 100.0 + 1e-9
        assert (deadline.at == inf) == bool(pauses)


# Pauses with a bound...


@pytest.mark.attack("X08")
def test_a_bounded_pause_moves_the_end_by_its_bound_and_no_further():
    deadline = Deadline(START, 4.0)
    deadline.pause(START + 1.0, 600.0)

    assert deadline.at == START + 604.0
    assert deadline.remaining(START + 500.0) == 3.0
    assert deadline.remaining(START + 602.0) == 2.0  # the clock runs again
    assert deadline.expired(START + 604.0)
    deadline.resume(START + 603.0)
    assert deadline.at == START + 604.0


@pytest.mark.attack("X08")
def test_all_bounded_pauses_share_one_bound():
    deadline = Deadline(START, 4.0)
    deadline.pause(START, 10.0)
    deadline.resume(START + 7.0)
    deadline.pause(START + 8.0, 10.0)
    deadline.resume(START + 18.0)

    assert deadline.at == START + 14.0
    deadline.pause(START + 19.0, 10.0)
    assert deadline.at == START + 14.0


def test_a_pause_without_a_bound_takes_nothing_of_it():
    deadline = Deadline(START, 4.0)
    deadline.pause(START)
    assert deadline.at == inf
    deadline.resume(START + 100.0)
    deadline.pause(START + 100.0, 10.0)

    assert deadline.at == START + 114.0


def test_a_bounded_pause_within_one_without_is_bounded_from_its_start():
    deadline = Deadline(START, 4.0)
    deadline.pause(START)
    deadline.pause(START + 1.0, 10.0)

    assert deadline.at == START + 14.0
    deadline.resume(START + 2.0)
    deadline.resume(START + 3.0)
    assert deadline.at == START + 7.0


def test_progress_in_a_bounded_pause_counts_from_what_the_clock_shows():
    deadline = Deadline(START, 4.0, maximum=20.0)
    deadline.pause(START + 1.0, 10.0)
    deadline.extend(START + 5.0)
    assert deadline.at == START + 15.0
    deadline.extend(START + 13.0)  # it runs again since two seconds
    assert deadline.at == START + 17.0
    deadline.resume(START + 14.0)

    assert deadline.at == START + 17.0
    deadline.extend(START + 29.0)
    assert deadline.at == START + 30.0  # the maximum and what it stood still


def test_a_bounded_pause_without_a_timeout_has_no_end():
    deadline = Deadline(START, None)
    deadline.pause(START, 10.0)

    assert deadline.at == inf
    assert deadline.remaining(START + 99.0) is None
    deadline.resume(START + 99.0)
    assert deadline.at == inf


@pytest.mark.attack("X08")
def test_the_error_names_the_bound_where_that_was_reached():
    deadline = Deadline(START, 4.0)
    plain = deadline.error("tools/call", START + 4.0, "noise")
    assert str(plain) == "tools/call: no answer within 4 s (after 4 s); noise"
    assert plain.detail == "noise"
    deadline.pause(START, 10.0)
    held = (
        "its clock stood still for 10 s while questions of the server were answered, "
        "and does for no longer (Limits.question_time)"
    )
    assert deadline.error("x", START + 14.0).detail == held
    deadline.resume(START + 12.0)
    assert deadline.error("x", START + 14.0, "noise").detail == f"{held}; noise"
