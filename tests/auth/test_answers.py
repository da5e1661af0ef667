"""Responses of an authorization server: what messages show, and when to retry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.auth.steps import (
    Answer,
    check_available,
    describe,
    read_code,
    read_description,
)
from mcpwire.wire.json import loads_object

NOW = 1_445_412_480.0  # Wed, 21 Oct 2015 07:28:00 GMT


@pytest.mark.fault("F38")
@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 599])
def test_an_unavailable_status_raises_with_retry_after(status):
    with pytest.raises(AuthTemporarilyUnavailable) as unavailable:
        check_available(
            Answer(status, {"retry-after": "9"}, b"{}"), "the token endpoint", NOW
        )
    assert (unavailable.value.status, unavailable.value.retry_after) == (status, 9.0)
    assert str(unavailable.value) == (
        f"the token endpoint cannot answer now (HTTP {status})"
    )


@pytest.mark.parametrize("status", [200, 201, 302, 400, 401, 403, 404])
def test_other_statuses_pass_the_availability_check(status):
    check_available(Answer(status, {}, b""), "the token endpoint", NOW)


OBJECTS = {
    b'{"a": 1}': {"a": 1},
    b"[]": None,
    b"": None,
    b'{"a": "\xff"}': None,
    b"[" * 100_000: None,
}


@pytest.mark.parametrize(("body", "value"), OBJECTS.items(), ids=lambda v: str(v)[:30])
def test_read_object_returns_none_for_other_bodies(body, value):
    assert loads_object(body) == value


DESCRIBED = {
    "text/html; charset=utf-8": "HTTP 404, 3 bytes, text/html",
    "": "HTTP 404, 3 bytes, no content type",
    "a b\x1b[2J": "HTTP 404, 3 bytes, no content type",
}


@pytest.mark.parametrize(("kind", "text"), DESCRIBED.items(), ids=repr)
def test_describe_names_status_size_and_content_type(kind, text):
    assert describe(Answer(404, {"content-type": kind}, b"abc")) == text


CODES = {
    "urn:example:error/7": True,
    "e" * 64: True,
    "e" * 65: False,
    "": False,
    "new\nline": False,
    "é": False,
    None: False,
}


@pytest.mark.parametrize(("value", "is_code"), CODES.items(), ids=repr)
def test_read_code_returns_valid_error_codes_only(value, is_code):
    assert read_code(value) == (value if is_code else None)


@pytest.mark.case("G13")
def test_a_description_masks_sent_values():
    text = read_description(
        "token tok-123456 of id-123456 is bad; in", ["tok-123456", "id-123456", "in"]
    )
    assert text == "token *** of *** is bad; in"


@pytest.mark.parametrize("value", [None, 7, "", " \n", []])
def test_a_description_may_be_missing(value):
    assert read_description(value) is None


@pytest.mark.case("G13")
@given(st.text(), st.text(min_size=6))
def test_a_description_is_short_printable_and_without_secrets(text, secret):
    described = read_description(f"x{text}{secret}{text}", [secret])
    assert described.isascii()
    assert described.isprintable()
    assert len(described) <= 203
    # A mask and a replaced unprintable character may form a secret of `*` and `?`.
    if set(secret).isdisjoint("*?"):
        assert secret not in described
