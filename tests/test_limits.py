"""Limits and recovery: all numbers are validated."""

import math
from decimal import Decimal
from fractions import Fraction

import attrs
import pytest

from mcpwire.limits import (
    DEFAULT_LIMITS,
    DEFAULT_RECOVERY,
    Limits,
    Recovery,
    check_choice,
    check_timeout,
)

MIB = 1024 * 1024


def test_default_limits_are_as_documented():
    assert attrs.asdict(DEFAULT_LIMITS) == {
        "message": 64 * MIB,
        "values": 2_000_000,
        "head": 64 * 1024,
        "body": 4 * MIB,
        "body_timeout": 30.0,
        "head_timeout": 10.0,
        "stall_timeout": 60.0,
        "listens": 1_024,
        "batch": 1_000,
        "stderr_tail": 64 * 1024,
        "oauth_document": MIB,
        "oauth_timeout": 10.0,
        "unwritten": 64 * MIB,
        "unwritten_total": 256 * MIB,
        "pages": 1_000,
        "notifications": 1_024,
        "inbound": 16,
        "input_rounds": 10,
        "questions": 100,
        "question_time": 600.0,
        "noise_lines": 16,
        "close_grace": 2.0,
        "terminate_grace": 2.0,
    }


def test_recovery_is_on_by_default():
    assert attrs.asdict(DEFAULT_RECOVERY) == {
        "reinitialize": True,
        "restart": True,
        "resume": True,
        "backoff_initial": 0.5,
        "backoff_max": 30.0,
        "attempts": 5,
    }


@pytest.mark.parametrize("cls", [Limits, Recovery])
def test_limits_and_recovery_are_frozen_and_keyword_only(cls):
    assert cls() == cls()
    assert hash(cls()) == hash(cls())
    with pytest.raises(TypeError):
        cls(1)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        cls().__setattr__(attrs.fields(cls)[0].name, 1)


NUMBERS = [
    (cls, field.name, field.default)
    for cls in (Limits, Recovery)
    for field in attrs.fields(cls)
    if not isinstance(field.default, bool)
]


@pytest.mark.parametrize(("cls", "name", "default"), NUMBERS)
@pytest.mark.parametrize("value", [0, -1, True, False, "1", None, [], Decimal(1)])
def test_invalid_limit_is_refused_by_name(cls, name, default, value):
    with pytest.raises(ValueError, match=f"^{name} must be "):
        cls(**{name: value})


@pytest.mark.parametrize(("cls", "name", "default"), NUMBERS)
def test_limit_may_be_any_positive_number(cls, name, default):
    assert getattr(cls(**{name: 1}), name) == 1


@pytest.mark.parametrize(("cls", "name", "default"), NUMBERS)
@pytest.mark.parametrize("value", [0.5, 86_400.5, math.nan])
def test_size_must_be_an_integer_and_a_time_may_be_a_fraction(
    cls, name, default, value
):
    if isinstance(default, float) and not math.isnan(value):
        assert getattr(cls(**{name: value}), name) == value
    else:
        with pytest.raises(ValueError, match=f"^{name} must be "):
            cls(**{name: value})


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        (math.inf, None),
        (30, 30.0),
        (0.001, 0.001),
        (1e9, 1e9),
        (5e-324, 5e-324),
    ],
)
@pytest.mark.pain("P08")
def test_a_timeout_is_a_number_of_seconds_or_no_limit(value, seconds):
    checked = check_timeout(value)
    assert checked == seconds
    assert checked is None or type(checked) is float


@pytest.mark.parametrize(
    "value",
    [0, 0.0, -0.0, -1, -math.inf, math.nan, True, False, "5", b"5", [], Fraction(1)],
)
@pytest.mark.parametrize("name", ["timeout", "connect_timeout"])
def test_invalid_timeout_is_refused_by_name(value, name):
    with pytest.raises(ValueError, match=f"^{name} must be ") as caught:
        check_timeout(value, name)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [10**400, 2e9, math.inf])
def test_huge_timeout_means_no_limit(value):
    assert check_timeout(value) is None
    assert Limits(close_grace=value).close_grace == 1e9


def test_timeout_without_a_name_is_called_timeout():
    with pytest.raises(ValueError, match=r"^timeout must be above zero, got 0$"):
        check_timeout(0)


def test_a_choice_is_one_of_a_few_values():
    assert check_choice("b", "form", ("a", "b")) == "b"
    with pytest.raises(
        ValueError, match=r"^form must be 'a', 'b' or 'c', got \['a'\]$"
    ):
        check_choice(["a"], "form", ("a", "b", "c"))
