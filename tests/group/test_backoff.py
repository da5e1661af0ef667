"""When a group opens a lost connection again: pauses, and how many attempts."""

from itertools import product
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.group.backoff import Backoff


@pytest.mark.parametrize(
    ("options", "in_vain", "seconds"),
    [
        ({}, 0, 0.5),
        ({}, 1, 1.0),
        ({}, 2, 2.0),
        ({}, 6, 30.0),
        ({}, 10_000, 30.0),
        ({"factor": 1}, 10_000, 0.5),
        ({"first": 60}, 0, 30.0),
    ],
)
def test_pauses_double_up_to_the_longest(options, in_vain, seconds):
    assert Backoff(jitter=0, **options).pause(in_vain, 0.9) == seconds


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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *product(
            ["first", "factor", "maximum", "jitter"], [-1, nan, inf, True, "1", None]
        ),
        ("first", 0),
        ("maximum", 0.0),
        ("factor", 0.5),
        ("jitter", 1.5),
    ],
)
def test_a_number_that_is_none_is_refused_by_its_name(name, value):
    with pytest.raises(ValueError, match=name):
        Backoff(**{name: value})


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
def test_attempts_are_a_whole_number_or_without_end(value):
    with pytest.raises(ValueError, match="attempts"):
        Backoff(attempts=value)
