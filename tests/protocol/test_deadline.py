"""Deadlines: absolute, extended by progress, paused while a person answers."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.protocol.deadline import Deadline

START = 1_000.0


def test_a_deadline_expires_exactly_when_its_timeout_has_passed():
    deadline = Deadline(START, 30.0)
    assert (deadline.at, deadline.timeout) == (START + 30.0, 30.0)
    for second, remaining in ((0, 30.0), (12, 18.0), (29.5, 0.5), (30, 0), (31, 0)):
        assert deadline.remaining(START + second) == remaining
        assert deadline.expired(START + second) is (remaining == 0)


def test_elapsed_time_includes_pauses():
    deadline = Deadline(START, 30.0)
    deadline.pause(START + 1.0)
    deadline.resume(START + 6.0)

    assert deadline.elapsed(START + 7.0) == 7.0
    assert deadline.started == START


def test_deadline_without_a_timeout_never_expires():
    deadline = Deadline(START, None)
    deadline.extend(START + 5.0)
    deadline.pause(START + 5.0)

    assert deadline.remaining(START + 6.0) is None
    deadline.resume(START + 7.0)
    assert deadline.at == inf
    assert not deadline.expired(1e12)
    assert deadline.remaining(1e12) is None
    assert deadline.timeout is None


LIFE_15 = pytest.mark.rule("LIFE-15")
P08 = pytest.mark.pain("P08")
X08 = pytest.mark.attack("X08")


def moves_row(name, timeout, maximum, *moves, marks=()):
    """Make a row of moves: method, second, a pause's bound; then the expected end."""
    return pytest.param(timeout, maximum, moves, id=name, marks=marks)


@pytest.mark.parametrize(
    ("timeout", "maximum", "moves"),
    [
        moves_row("progress starts the timeout again", 30, None, ("extend", 20, 50),
              marks=LIFE_15),
        moves_row("progress does not exceed the maximum", 30, 60, ("extend", 20, 50),
              ("extend", 40, 60), ("extend", 59, 60), marks=[LIFE_15, P08]),
        moves_row("a maximum alone", None, 10, ("extend", 9, 10)),
        moves_row("a maximum below the timeout", 30, 10, ("extend", 0, 10)),
        moves_row("two pauses need two resumes", 30, None, ("pause", 10, inf),
              ("pause", 20, inf), ("resume", 30, inf), ("resume", 40, 60), marks=P08),
        moves_row("pauses do not count against the maximum", 30, 40, ("pause", 5, inf),
              ("resume", 105, 130), ("extend", 120, 140)),
        moves_row("progress in a pause counts when the clock runs again", 30, None,
              ("pause", 10, inf), ("extend", 20, inf), ("resume", 50, 80)),
        moves_row("all bounded pauses share one bound", 4, None, ("pause", 0, 10, 14),
              ("resume", 7, 11), ("pause", 8, 10, 14), ("resume", 18, 14),
              ("pause", 19, 10, 14), marks=X08),
        moves_row("an unbounded pause uses no bound", 4, None,
              ("pause", 0, inf), ("resume", 100, 104), ("pause", 100, 10, 114)),
        moves_row("a bounded pause inside an unbounded one", 4, None,
              ("pause", 0, inf), ("pause", 1, 10, 14), ("resume", 2, 14),
              ("resume", 3, 7)),
        moves_row("progress in a bounded pause", 4, 20,
              ("pause", 1, 10, 14), ("extend", 5, 15),
              ("extend", 13, 17),  # the clock has run again for two seconds
              ("resume", 14, 17),
              ("extend", 29, 30)),  # the maximum plus the time of the pause
        moves_row("a bounded pause without a timeout has no end", None, None,
              ("pause", 0, 10, inf), ("resume", 99, inf)),
    ],
)  # fmt: skip
def test_the_end_moves_with_progress_and_pauses(timeout, maximum, moves):
    deadline = Deadline(START, timeout, maximum=maximum)
    for move, second, *bound, end in moves:
        getattr(deadline, move)(START + second, *bound)
        assert deadline.at == START + end, (move, second)


@pytest.mark.pain("P08")
def test_error_names_the_limit_that_ran_out():
    deadline = Deadline(START, 30.0, maximum=45.0)
    for second, timeout in ((10.0, 30.0), (20.0, 45.0)):
        deadline.extend(START + second)
        assert deadline.timeout == timeout
    assert Deadline(START, 30.0, maximum=10.0).timeout == 10.0


def test_resume_without_pause_is_an_assertion_error():
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
def test_repr_shows_the_limit(timeout, paused, text):
    deadline = Deadline(START, timeout)
    if paused:
        deadline.pause(START)

    assert repr(deadline) == text


MOVES = st.lists(
    st.tuples(st.sampled_from(["extend", "pause", "resume"]), st.integers(0, 20)),
    max_size=30,
)


@given(MOVES)
def test_unpaused_time_never_exceeds_the_maximum(moves):
    deadline = Deadline(0.0, 30.0, maximum=100.0)
    now = running = 0.0
    pauses = 0

    for move, seconds in moves:
        # The shell acts as soon as the deadline has expired, so no move comes later.
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
        remaining = deadline.remaining(now)
        assert 0.0 <= remaining <= 30.0
        assert running + remaining <= 100.0 + 1e-9
        assert (deadline.at == inf) == bool(pauses)


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
def test_error_names_the_question_bound_once_it_is_reached():
    deadline = Deadline(START, 4.0)
    plain = deadline.error("tools/call", START + 4.0, "noise")
    assert str(plain) == "tools/call: no answer within 4 s (after 4 s); noise"
    assert plain.detail == "noise"
    deadline.pause(START, 10.0)
    pause_detail = (
        "its time limit was paused for 10 s while server requests were answered, the "
        "longest pause allowed (Limits.question_time)"
    )
    assert deadline.error("x", START + 14.0).detail == pause_detail
    deadline.resume(START + 12.0)
    assert deadline.error("x", START + 14.0, "noise").detail == f"{pause_detail}; noise"
