"""When a group opens a lost connection again: pauses, attempts, what a life is."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.group.backoff import Backoff
from mcpwire.protocol.retry import Restarts


@pytest.mark.parametrize(
    ("in_vain", "seconds"), [(0, 0.5), (1, 1.0), (2, 2.0), (6, 30.0), (10_000, 30.0)]
)
def test_pauses_double_up_to_the_longest(in_vain, seconds):
    assert Backoff(jitter=0).pause(in_vain, 0.9) == seconds


def test_a_factor_of_one_never_lengthens_a_pause():
    assert Backoff(factor=1, jitter=0).pause(10_000, 0.0) == 0.5


def test_a_first_pause_over_the_longest_is_cut():
    assert Backoff(first=60, jitter=0).pause(0, 0.0) == 30.0


def test_chance_takes_off_no_more_than_its_share():
    backoff = Backoff(first=8, jitter=0.5)
    assert backoff.pause(0, 0.0) == 8.0
    assert backoff.pause(0, 0.5) == 6.0


@given(
    st.integers(0, 5_000),
    st.floats(0, 1, exclude_max=True),
    st.floats(1, 1e9),
    st.floats(0, 1),
)
def test_no_pause_is_negative_or_longer_than_the_longest(in_vain, chance, factor, part):
    backoff = Backoff(factor=factor, jitter=part)
    assert 0 <= backoff.pause(in_vain, chance) <= backoff.maximum


@pytest.mark.parametrize("name", ["first", "factor", "maximum", "jitter"])
@pytest.mark.parametrize("value", [-1, nan, inf, True, "1", None])
def test_a_number_that_is_none_is_refused_by_its_name(name, value):
    with pytest.raises(ValueError, match=name):
        Backoff(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("first", 0), ("maximum", 0.0), ("factor", 0.5), ("jitter", 1.5)],
)
def test_a_number_out_of_its_range_is_refused_by_its_name(name, value):
    with pytest.raises(ValueError, match=name):
        Backoff(**{name: value})


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
def test_attempts_are_a_whole_number_or_without_end(value):
    with pytest.raises(ValueError, match="attempts"):
        Backoff(attempts=value)


def restarts(**options):
    backoff = Backoff(jitter=0, **options)
    return Restarts(backoff.attempts, backoff.maximum, backoff.pause)


def test_it_gives_up_after_so_many_attempts_in_a_row():
    tries = restarts(attempts=3)
    tries.opened(0.0)
    tries.lost(1.0, answered=True)
    assert tries.delay(1.0, 0.0) == 0.5
    for expected in (1.0, 2.0, None):
        tries.failed(2.0)
        assert tries.delay(2.0, 0.0) == expected


def test_without_an_end_it_never_gives_up():
    tries = restarts()
    for _ in range(100):
        tries.failed(1.0)
    assert tries.delay(1.0, 0.0) == 30.0


def test_surviving_the_handshake_is_no_life():
    tries = restarts(attempts=3)
    for now, expected in ((0.0, 1.0), (10.0, 2.0), (20.0, None)):
        tries.opened(now)
        tries.lost(now + 1.0, answered=False)
        assert tries.delay(now + 1.0, 0.0) == expected
