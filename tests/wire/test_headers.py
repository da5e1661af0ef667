"""Header values both ways, mirrored arguments, and Retry-After."""

import base64
import email.utils

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import InvalidMessage, LocalProtocolError
from mcpwire.wire.headers import (
    decode_value,
    encode_value,
    header_matches,
    is_field_value,
    is_token,
    is_visible_ascii,
    media_type,
    parse_retry_after,
)

UNICODE = st.text(st.characters(exclude_categories=["Cs"]))


def sentinel(text):
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


PLAIN = ["us-west1", "us west 1", "", "tools/call", "a", "file:///a?b#c", "=?base64?"]
PLAIN += ["=?BASE64?eA==?=", "SGVsbG8=", "=?base64?SGVsbG8=", "~!@#$%^&*()", "a  b"]


@pytest.mark.rule("HDR-17", "HDR-19", "HDR-27")
@pytest.mark.parametrize("text", PLAIN)
def test_plain_text_is_its_own_header_value(text):
    assert encode_value(text) == text
    assert decode_value(text) == text


ENCODED = {
    "non-ASCII": ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
    "padded": (" padded ", "=?base64?IHBhZGRlZCA=?="),
    "a space": (" ", "=?base64?IA==?="),
    "leading tab": ("\tindented", "=?base64?CWluZGVudGVk?="),
    "CRLF": ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
    "NUL": ("\0", "=?base64?AA==?="),
    "DEL": ("\x7f", "=?base64?fw==?="),
    "looks encoded": ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    "looks encoded and empty": ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
    "looks encoded with one mark in the other": (
        "=?base64?=",
        "=?base64?PT9iYXNlNjQ/PQ==?=",
    ),
}


@pytest.mark.rule("HDR-17", "HDR-18", "HDR-20")
@pytest.mark.attack("S19")
@pytest.mark.parametrize(("text", "value"), ENCODED.values(), ids=ENCODED)
def test_other_text_is_encoded_as_base64(text, value):
    assert encode_value(text) == value
    assert decode_value(value) == text


@pytest.mark.rule("HDR-17", "HDR-18", "HDR-20")
@pytest.mark.attack("S19")
@given(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["", "=?base64?"]),
        UNICODE,
        st.sampled_from(["", "?="]),
    )
)
def test_any_text_is_restored_and_stays_within_its_header(text):
    value = encode_value(text)
    assert is_field_value(value)
    assert decode_value(value) == text
    assert encode_value(text) == value


def test_a_lone_surrogate_has_no_header_form():
    with pytest.raises(LocalProtocolError, match="must be Unicode"):
        encode_value("\ud800")


@pytest.mark.rule("HDR-28")
@pytest.mark.parametrize("value", ["a", " a", "a\t", " \t a \t"])
def test_white_space_around_a_received_value_is_stripped(value):
    assert decode_value(value) == "a"


UNDECODABLE = {
    "bad padding": "=?base64?SGVsbG8?=",
    "padding within": "=?base64?SGVs=G8=?=",
    "bad alphabet": "=?base64?SGVs!!!bG8=?=",
    "URL alphabet": "=?base64?_-8=?=",
    "no UTF-8": "=?base64?/w==?=",
    "newline": "a\nb",
    "NUL": "a\0b",
    "DEL": "\x7f",
    "beyond Latin-1": "ü世",
}


@pytest.mark.attack("S19")
@pytest.mark.parametrize("value", UNDECODABLE.values(), ids=UNDECODABLE)
def test_undecodable_value_is_refused_by_its_header_name(value):
    with pytest.raises(InvalidMessage) as caught:
        decode_value(value, header="Mcp-Name")
    assert caught.value.path == "Mcp-Name"


@given(st.text())
def test_any_value_is_decoded_or_refused(value):
    try:
        assert isinstance(decode_value(value), str)
    except InvalidMessage:
        return


@pytest.mark.attack("S19")
@pytest.mark.parametrize("text", ["a", "!#$%&'*+-.^_`|~09AZaz", "x" * 1000])
def test_a_token_is_visible_ascii_without_delimiters(text):
    assert is_token(text)


@pytest.mark.attack("S19")
@pytest.mark.parametrize(
    "text", ["", " ", "a b", "a:", "a\n", "ü", "(", "a/b", '"', "\0"]
)
def test_other_text_is_not_a_token(text):
    assert not is_token(text)


@pytest.mark.attack("S19")
@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("0123-abc~!", True),
        ("", False),
        ("a b", False),
        ("a\r\nX: y", False),
        ("a\n", False),
        ("\x7f", False),
        ("ü", False),
    ],
)
def test_a_session_id_is_visible_ascii(text, allowed):
    assert is_visible_ascii(text) is allowed


@pytest.mark.fault("F24")
@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        ("application/json", "application/json"),
        ("Application/JSON; charset=UTF-8", "application/json"),
        (" text/event-stream\t;x", "text/event-stream"),
        ("", ""),
        (None, ""),
    ],
)
def test_media_type_is_lowercased_without_its_parameters(content_type, kind):
    assert media_type(content_type) == kind


@pytest.mark.rule("HDR-20", "HDR-26", "HDR-27", "HDR-28")
@pytest.mark.parametrize(
    ("value", "body", "same"),
    [
        ("tools/call", "tools/call", True),
        ("TOOLS/CALL", "tools/call", False),
        (" tools/call\t", "tools/call", True),
        ("=?base64?SGVsbG8=?=", "Hello", True),
        ("SGVsbG8=", "SGVsbG8=", True),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8=", True),
        ("SGVsbG8=", "Hello", False),
        ("=?BASE64?SGVsbG8=?=", "Hello", False),
        ("", "", True),
        (None, "Hello", False),
        (None, "", False),
        (None, False, False),
        (None, None, True),
        ("", None, False),
        ("null", None, False),
        ("42", 42, True),
        ("42.0", 42, True),
        ("42", 42.0, True),
        ("42.5", 42, False),
        ("042", 42, True),
        ("-42", 42, False),
        ("4_2", 42, False),
        ("٤٢", 42, False),
        ("nan", 42, False),
        ("1e1", 10, False),
        ("0x2a", 42, False),
        ("9" * 400, 42, False),
        ("42", "42", True),
        ("42.0", "42", False),
        ("true", True, True),
        ("True", True, False),
        ("1", True, False),
        ("1", 1, True),
        ("true", 1, False),
        ("false", False, True),
        ("{}", {}, False),
    ],
)
def test_header_is_compared_with_the_value_in_the_body(value, body, same):
    if value is not None and not value.isascii():
        value = sentinel(value)
    assert header_matches(value, body) is same


def test_undecodable_header_is_an_invalid_message():
    with pytest.raises(InvalidMessage, match="Mcp-Param-A: expected Base64"):
        header_matches("=?base64?x?=", "x", header="Mcp-Param-A")


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
        ("Sun, 06 Nov 9999999999 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 9999999999:49:37 GMT", None),
        ("Sun, 06 Nov 1994 -9999999999:49:37 GMT", None),
        ("Sun,:00:", None),
        ("Sun" * 100 + ":00:00", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date_or_ignored(value, seconds):
    assert parse_retry_after(value, 784_111_740.0) == seconds


@pytest.mark.fault("F36")
@given(
    st.integers(0, 4_000_000_000),
    st.text(max_size=20)
    | st.from_regex(r"[A-Z][a-z]{2}[A-Za-z0-9,: -]{0,20}:[0-9]{2}:[A-Za-z0-9 ]{0,9}"),
)
def test_any_retry_after_is_parsed_or_ignored(date, text_value):
    text = email.utils.formatdate(date, usegmt=True)
    assert parse_retry_after(text, date - 5.0) == 5.0
    seconds = parse_retry_after(text_value, 0.0)
    assert seconds is None or 0.0 <= seconds <= 1e9
