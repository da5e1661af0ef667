"""Content-Type and Accept headers as they occur in practice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.protocol.request_validation import EVENT_STREAM, JSON, accepts, is_json


@pytest.mark.case("D02")
@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ("Application/JSON;Charset=UTF-8", True),
        ('application/json; charset="utf-8"', True),
        ("application/json; charset=utf8", True),
        ("application/json; foo=bar", True),
        ("application/json; charset=latin-1", False),
        ("application/json; charset=", False),
        ("application/problem+json", False),
        ("text/plain", False),
        ("text/plain; application/json", False),
        ("application/x-www-form-urlencoded", False),
        ("", False),
        (None, False),
    ],
)
def test_only_json_in_utf_8_is_json(content_type, expected):
    assert is_json(content_type) is expected


@pytest.mark.system("O50")
@pytest.mark.case("D01")
@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("application/json, text/event-stream", True),
        ("application/json;q=0.5, text/event-stream;q=1.0", True),
        ("application/json; charset=utf-8, text/event-stream", True),
        ("*/*", True),
        ("application/*, text/*", True),
        ("application/json, */*;q=0.1", True),
        (None, True),
        ("application/json", False),
        ("text/event-stream", False),
        ("text/html, application/*", False),
        ("application/json;q=0, text/event-stream", False),
        ("*/*, application/json;q=0", False),
        ("*/*;q=much", False),
        ("application/json text/event-stream", False),
        ("", False),
    ],
)
def test_accept_must_cover_both_formats(accept, expected):
    assert accepts(accept, JSON, EVENT_STREAM) is expected


def test_one_required_format_is_enough():
    assert accepts("application/json", JSON)
    assert not accepts("application/json", EVENT_STREAM)


@given(st.text(max_size=60))
def test_any_text_is_parsed_without_an_error(text):
    assert accepts(text, JSON) in {True, False}
    assert is_json(text) in {True, False}
