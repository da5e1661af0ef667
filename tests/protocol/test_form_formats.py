"""The formats of text in a form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proportion import grows_in_proportion

from mcpwire.protocol.elicitation import format_problem

GOOD = {
    "email": [
        "a@b",
        "ada@example.com",
        "ada.lovelace+x@mail.example.com",
        "!#$%&'*+/=?^_`{|}~-@example.com",
        "x" * 64 + "@example.com",
        "1@2.3",
    ],
    "uri": [
        *("https://example.com/a?b=c#d", "mailto:ada@example.com"),
        *("urn:isbn:0451450523", "file:///home", "tel:+1-816", "http://[::1]:80/%20"),
        *("a:", "A+b-c.1:x"),
    ],
    "date": ["2026-07-28", "2024-02-29", "0001-01-01", "9999-12-31"],
    "date-time": [
        "2026-07-28T12:00:00Z",
        "2026-07-28t12:00:00z",
        "2026-07-28T23:59:59.123456789+00:00",
        "2026-07-28T00:00:00-23:59",
        "1998-12-31T23:59:60Z",
        "1998-12-31T15:59:60.123-08:00",
        "1999-01-01T08:59:60+09:00",
    ],
}

BAD = {
    "email": [
        *("", "a", "@", "a@", "@b", "a@b@c", "a b@c", "a@b c", ".a@b", "a.@b"),
        *("a..b@c", "a@.b", "a@b.", "a@b..c", "a@-b", "a@b-", "a@b_c", "ä@example.com"),
        *("a@exämple.com", '"a b"@example.com', "a@[127.0.0.1]", "a@b\n"),
        *(" a@b", "Ada <a@b>"),
        "x" * 65 + "@example.com",
        "a@" + "b." * 127 + "c",
        "a@" + "b" * 64,
    ],
    "uri": [
        *("", "example.com", "/path", "//example.com", "?q", "#f", ":a", "1a:b"),
        *("a b:c", "https://example.com/a b", "https://example.com/ä"),
        *("https://example.com/%", "https://example.com/%zz"),
        *("https://example.com/#a#b", "https://example.com/<x>"),
        *("https://example.com/\\", "https://example.com/\n"),
        *('https://example.com/"', "https://example.com/{a}"),
    ],
    "date": [
        *("", "2026-7-28", "2026-07-28 ", "20260728", "2026-W31-2", "2026-209"),
        *("2026-02-29", "2026-13-01", "2026-00-01", "2026-01-00", "2026-04-31"),
        *("0000-01-01", "12026-01-01", "-026-01-01", "2026/07/28"),
        *("2026-07-28T00:00:00Z", "\uff12\uff10\uff12\uff16-07-28", "2026-07-28\n"),
    ],
    "date-time": [
        *("", "2026-07-28", "2026-07-28T12:00:00", "2026-07-28 12:00:00Z"),
        *("2026-07-28T12:00Z", "2026-07-28T12Z", "2026-07-28T24:00:00Z"),
        *("2026-07-28T12:60:00Z", "2026-07-28T12:00:61Z", "2026-07-28T12:00:00.Z"),
        *("2026-07-28T12:00:00,5Z", "2026-07-28T12:00:00+24:00"),
        *("2026-07-28T12:00:00+0100", "2026-07-28T12:00:00+01"),
        *("2026-07-28T12:00:00+01:60", "2026-02-30T12:00:00Z", "1998-12-31T23:58:60Z"),
        *("1998-12-31T22:59:60Z", "1998-12-31T23:59:60+01:00"),
        *("1998-12-31T23:59:60-01:00", "2026-07-28T12:00:00Z\n"),
        "\uff12026-07-28T12:00:00Z",
    ],
}


def cases(table):
    return [(format, text) for format, texts in table.items() for text in texts]


@pytest.mark.parametrize(("format", "text"), cases(GOOD))
def test_what_fits_a_format_passes(format, text):
    assert format_problem(text, format) is None


@pytest.mark.parametrize(("format", "text"), cases(BAD))
def test_what_does_not_fit_a_format_is_named(format, text):
    expected = format_problem(text, format)
    assert expected is not None
    assert expected.startswith(("a ", "an "))


@pytest.mark.parametrize("format", [None, "", "uuid", "idn-email", "EMAIL"])
def test_a_format_that_nobody_knows_says_nothing(format):
    assert format_problem("anything", format) is None


LONG = [
    lambda size: "a" * size,
    lambda size: "a." * (size // 2),
    lambda size: "a@" + "a-" * (size // 2),
    lambda size: "0" * size,
    lambda size: "a:" + "%20" * (size // 3) + " ",
    lambda size: "2026-07-28T12:00:00." + "0" * size,
]


@pytest.mark.parametrize("format", GOOD)
@pytest.mark.parametrize("text", LONG, ids=range(6))
def test_long_texts_take_linear_time(format, text):
    """Our choice: a quadratic check would take minutes here."""
    assert grows_in_proportion(lambda text: format_problem(text, format), text, 200_000)


@given(st.datetimes(timezones=st.timezones()))
def test_times_that_python_writes_fit(moment):
    offset = moment.utcoffset()
    text = moment.isoformat()
    if offset.total_seconds() % 60 == 0:
        assert format_problem(text, "date-time") is None
    assert format_problem(moment.date().isoformat(), "date") is None
