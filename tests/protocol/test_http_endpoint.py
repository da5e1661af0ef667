"""Which endpoint of an HTTP+SSE server our messages, and our secrets, may go to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import RemoteProtocolError
from mcpwire.protocol.http_headers import MAX_ENDPOINT_BYTES, resolve_endpoint
from mcpwire.wire.urls import parse_url, same_origin

STREAM = parse_url("https://mcp.example:8443/a/sse?key=k")
PLAIN = parse_url("http://mcp.example/sse")
SIX = parse_url("http://[::1]:8000/sse")


@pytest.mark.rule("SSE-02")
@pytest.mark.parametrize(
    ("stream", "named", "url"),
    [
        (STREAM, "/messages?session_id=1", "/messages?session_id=1"),
        (STREAM, "messages/?s=1", "/a/messages/?s=1"),
        (STREAM, "../messages", "/messages"),
        (STREAM, "?s=1", "/a/sse?s=1"),
        (STREAM, "/a%2Fb@c:d", "/a%2Fb@c:d"),
        (STREAM, "https://mcp.example:8443/m?s=1", "/m?s=1"),
        (STREAM, "HTTPS://MCP.Example:8443", "/"),
        (PLAIN, "http://mcp.example:80/m", "/m"),
        (SIX, "http://[::1]:8000/m", "/m"),
        (SIX, "http://[0:0:0:0:0:0:0:1]:8000/m", "/m"),
        (SIX, "/m", "/m"),
    ],
)
def test_a_path_or_a_url_of_the_same_origin_is_taken(stream, named, url):
    endpoint = resolve_endpoint(stream, named.encode())
    assert endpoint.target == url
    assert endpoint.origin == stream.origin


@pytest.mark.rule("SSE-07")
@pytest.mark.attack("S27")
@pytest.mark.parametrize(
    ("stream", "named"),
    [
        (STREAM, b"https://evil.example:8443/m"),
        (STREAM, b"https://mcp.example:9443/m"),
        (STREAM, b"http://mcp.example:8443/m"),
        (STREAM, b"https://mcp.example.evil.example:8443/m"),
        (STREAM, b"//evil.example/m"),
        (STREAM, b"//mcp.example:8443/m"),
        (STREAM, b"https://mcp.example:8443@evil.example/m"),
        (STREAM, b"https://user:secret@mcp.example:8443/m"),
        (STREAM, b"\\\\evil.example\\m"),
        (STREAM, b"https:evil.example/m"),
        (STREAM, b"/m\r\nx-injected: 1"),
        (STREAM, "/m\u2028".encode()),
        (STREAM, b"/\xff"),
        (STREAM, b"ftp://mcp.example:8443/m"),
        (STREAM, b"data:text/plain,x"),
        (STREAM, b""),
        (STREAM, b"/" + b"x" * MAX_ENDPOINT_BYTES),
        (SIX, b"http://[::1]/m"),
        (SIX, b"http://[::1%25lo]:8000/m"),
        (SIX, b"http://127.0.0.1:8000/m"),
    ],
)
def test_anything_else_is_refused(stream, named):
    with pytest.raises(RemoteProtocolError, match="endpoint"):
        resolve_endpoint(stream, named)


@pytest.mark.parametrize(
    ("named", "shown", "why"),
    [
        (
            b"https://me:pass-word@evil.example/m?session=s3cret",
            "https://***@evil.example/m?***",
            "it must not hold a user name or password",
        ),
        (
            b"http://evil.example/m?session=s3cret",
            "http://evil.example/m?***",
            "it must be of the same origin, https://mcp.example:8443",
        ),
        (
            b"/m\x1b[2J",
            r"/m\x1b[2J",
            "it holds characters that must be percent-encoded",
        ),
    ],
)
def test_the_error_names_it_without_its_secrets(named, shown, why):
    with pytest.raises(RemoteProtocolError) as caught:
        resolve_endpoint(STREAM, named)
    assert str(caught.value) == f"the server's endpoint '{shown}' is refused: {why}"


@pytest.mark.attack("S27")
@given(st.binary(max_size=40) | st.text("/\\@:?#.hts[]%mcp", max_size=24))
def test_whatever_it_names_our_messages_stay_where_they_are(named):
    data = named.encode() if isinstance(named, str) else named
    try:
        endpoint = resolve_endpoint(STREAM, data)
    except RemoteProtocolError:
        return
    assert same_origin(STREAM, endpoint)
    assert endpoint.target.startswith("/")
