"""When a group reopens a lost connection: pauses and the number of attempts."""

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
def test_pauses_double_up_to_the_maximum(options, in_vain, seconds):
    assert Backoff(jitter=0, **options).pause(in_vain, 0.9) == seconds


def test_jitter_shortens_a_pause_by_at_most_its_share():
    backoff = Backoff(first=8, jitter=0.5)
    assert backoff.pause(0, 0.0) == 8.0
    assert backoff.pause(0, 0.5) == 6.0


@given(
    st.integers(0, 5_000),
    st.floats(0, 1, exclude_max=True),
    st.floats(1, 1e9),
    st.floats(0, 1),
)
def test_pause_is_between_zero_and_the_maximum(in_vain, chance, factor, part):
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
def test_invalid_number_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        Backoff(**{name: value})


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
def test_attempts_must_be_a_positive_integer(value):
    with pytest.raises(ValueError, match="attempts"):
        Backoff(attempts=value)
