"""What `Retry-After` says."""

import email.utils

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.wire.headers import parse_retry_after


@pytest.mark.fault("F36")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("2", 2.0),
        (" 120\t", 120.0),
        ("1.5", 1.5),
        ("1000000000", 1e9),
        ("9" * 400, 1e9),
        ("9" * 5_000, 1e9),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("\u0661", None),
        ("0x10", None),
        ("soon", None),
        ("2 seconds", None),
        ("nan", None),
        ("inf", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 37.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 37.0),
        ("Sun Nov  6 08:49:37 1994", 37.0),
        ("Sun, 06 Nov 1994 08:48:59 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 1e9),
        ("Sun, 06 Nov 1994", None),
        ("Sun, 31 Feb 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 25:49:37 GMT", None),
        ("Sun, 06 Foo 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 99999 08:49:37 GMT", None),
        ("Sun,:00:", None),
        ("Sun" * 100 + ":00:00", None),
    ],
)
def test_retry_after_says_seconds_or_a_date_or_nothing(value, seconds):
    assert parse_retry_after(value, 784_111_740.0) == seconds


@pytest.mark.fault("F36")
@given(
    st.integers(0, 4_000_000_000),
    st.text(max_size=20)
    | st.from_regex(r"[A-Z][a-z]{2}[A-Za-z0-9,: -]{0,20}:[0-9]{2}:[A-Za-z0-9 ]{0,9}"),
)
def test_no_retry_after_is_too_odd_to_read(date, odd):
    text = email.utils.formatdate(date, usegmt=True)
    assert parse_retry_after(text, date - 5.0) == 5.0
    seconds = parse_retry_after(odd, 0.0)
    assert seconds is None or 0.0 <= seconds <= 1e9
