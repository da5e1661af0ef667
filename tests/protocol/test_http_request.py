"""A request as engines take it apart that do not write its bytes as they are."""

import pytest

from mcpwire.protocol.http_headers import RequestHeaders
from mcpwire.protocol.http_reply import Request
from mcpwire.wire.urls import parse_url


def test_a_request_without_a_body_is_not_one_with_an_empty_body():
    assert Request(b"GET / HTTP/1.1\r\n\r\n").body is None
    assert Request(b"POST / HTTP/1.1\r\n\r\n", b"").body == b""


def test_verb_target_and_fields_are_those_of_the_bytes():
    request = Request(
        b"POST /mcp?a=b:c HTTP/1.1\r\nhost: [::1]:80\r\nx-empty:\r\n"
        b"x-odd: a: b\r\nx-two: 1\r\nx-two: 2\r\n",
        b"{}",
    )
    assert request.verb == "POST"
    assert request.target == "/mcp?a=b:c"
    assert request.fields == [
        (b"host", b"[::1]:80"),
        (b"x-empty", b""),
        (b"x-odd", b"a: b"),
        (b"x-two", b"1"),
        (b"x-two", b"2"),
    ]


def test_a_request_may_have_no_field():
    assert Request(b"GET / HTTP/1.1\r\n").fields == []


@pytest.mark.parametrize("kind", ["post", "get", "delete"])
def test_what_heads_write_is_read_back(kind):
    heads = RequestHeaders(parse_url("https://example.com/mcp?key=1"), {"x-own": "a b"})
    start = heads.get("7") if kind == "get" else getattr(heads, kind)()
    request = Request(start)
    assert request.verb == kind.upper()
    assert request.target == "/mcp?key=1"
    fields = dict(request.fields)
    assert fields[b"host"] == b"example.com"
    assert fields[b"x-own"] == b"a b"
    written = b"".join(name + b": " + value + b"\r\n" for name, value in request.fields)
    assert start.partition(b"\r\n")[2] == written


@pytest.mark.attack("S23")
def test_a_request_shows_no_secret_of_it():
    start = b"POST /mcp?key=hush HTTP/1.1\r\nauthorization: Bearer hush\r\n"
    request = Request(start, b'{"password": "hush"}')
    assert repr(request) == str(request) == "<Request POST /mcp>"
