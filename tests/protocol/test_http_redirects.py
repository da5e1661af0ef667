"""The redirects and endpoints that our messages, and our secrets, may follow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import RemoteProtocolError
from mcpwire.protocol.http_headers import MAX_ENDPOINT_BYTES, resolve_endpoint
from mcpwire.protocol.http_reply import MAX_REDIRECTS, resolve_redirect
from mcpwire.wire.urls import Url, parse_url, same_origin

HERE = parse_url("https://mcp.example:8443/v1/mcp?key=s3cret")
PLAIN = parse_url("http://mcp.example/mcp")
STATUSES = (301, 302, 303, 307, 308)

SAME_ORIGIN = {
    "same origin": ("https://mcp.example:8443/v2", "/v2"),
    "same origin, spelled otherwise": ("HTTPS://MCP.example:8443/v2?a=b", "/v2?a=b"),
    "relative path": ("../v2", "/v2"),
    "relative sibling": ("other", "/v1/other"),
    "absolute path": ("/v2?a=b#c", "/v2?a=b"),
    "protocol-relative": ("//mcp.example:8443/v2", "/v2"),
    "empty": ("", "/v1/mcp?key=s3cret"),
}
UNUSABLE = "its target is not a usable http or https URL"
ELSEWHERE = {
    "other port": ("https://mcp.example/v2", "it leads to another origin"),
    "other host": ("https://evil.example:8443/", "it leads to another origin"),
    "host below": ("https://a.mcp.example:8443/", "it leads to another origin"),
    "protocol-relative": ("//evil.example:8443/", "it leads to another origin"),
    "http downgrade": ("http://mcp.example:8443/v2", "it leads from https to http"),
    "http elsewhere": ("http://169.254.169.254/", "it leads from https to http"),
    "userinfo": ("https://a:s3cret@mcp.example:8443/", UNUSABLE),
    "backslashes": ("/\\evil.example/", UNUSABLE),
    "other scheme": ("file:///etc/passwd", UNUSABLE),
    "line breaks": ("/v2\r\nx: 1", UNUSABLE),
    "missing": (None, "it has no Location"),
}


@pytest.mark.attack("S02")
@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("case", ELSEWHERE)
def test_redirect_to_another_origin_is_refused(case, status, allowed):
    location, reason = ELSEWHERE[case]
    refusal = resolve_redirect(HERE, status, location, allowed=allowed)
    assert refusal.endswith(f" is not followed: {reason}")
    assert "s3cret" not in refusal
    assert refusal.isprintable()


@pytest.mark.attack("S02")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("case", SAME_ORIGIN)
def test_redirect_is_not_followed_by_default(case, status):
    location, _ = SAME_ORIGIN[case]
    assert isinstance(resolve_redirect(HERE, status, location, allowed=False), str)


@pytest.mark.attack("S02")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("case", SAME_ORIGIN)
def test_same_origin_307_or_308_is_followed_if_allowed(case, status):
    location, target = SAME_ORIGIN[case]
    target_url = resolve_redirect(HERE, status, location, allowed=True)
    if status in {307, 308}:
        assert same_origin(target_url, HERE)
        assert target_url.target == target
    else:
        assert target_url.endswith(f": HTTP {status} does not keep method and body")


@pytest.mark.attack("S02")
def test_redirect_from_http_to_https_of_the_same_host_is_refused():
    target_url = resolve_redirect(PLAIN, 308, "https://mcp.example/mcp", allowed=True)
    assert isinstance(target_url, str)


@pytest.mark.parametrize("status", [300, 304, 305, 306, 399])
def test_other_3xx_statuses_are_not_followed(status):
    assert isinstance(resolve_redirect(HERE, status, "/v2", allowed=True), str)


@pytest.mark.parametrize(
    ("status", "location", "refusal"),
    [
        (
            307,
            "https://u:p@evil.com/x?t=1",
            f"the redirect to 'https://***@evil.com/x?***' is not followed: {UNUSABLE}",
        ),
        (302, None, "the redirect is not followed: it has no Location"),
        (
            308,
            "/v2?t=1",
            "the redirect to '/v2?***' is not followed: follow_redirects is off",
        ),
    ],
)
def test_refusal_is_one_clause_with_the_masked_location(status, location, refusal):
    assert resolve_redirect(HERE, status, location, allowed=False) == refusal


def test_number_of_redirects_is_bounded():
    assert MAX_REDIRECTS == 5


@pytest.mark.attack("S02")
@given(
    st.text(max_size=30)
    | st.from_regex(r"(https?:)?[/\\]{0,3}[a-z@:.\\]{0,9}mcp\.example[:@/0-9a-z]{0,9}")
)
def test_any_followed_location_has_the_same_origin(location):
    for status in STATUSES:
        target_url = resolve_redirect(HERE, status, location, allowed=True)
        if not isinstance(target_url, str):
            assert isinstance(target_url, Url)
            assert same_origin(target_url, HERE)
            assert target_url.userinfo is None


# The endpoint of an HTTP+SSE server...

STREAM = parse_url("https://mcp.example:8443/a/sse?key=k")
PLAIN_SSE = parse_url("http://mcp.example/sse")
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
        (PLAIN_SSE, "http://mcp.example:80/m", "/m"),
        (SIX, "http://[::1]:8000/m", "/m"),
        (SIX, "http://[0:0:0:0:0:0:0:1]:8000/m", "/m"),
        (SIX, "/m", "/m"),
    ],
)
def test_endpoint_of_the_same_origin_is_accepted(stream, named, url):
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
def test_invalid_or_foreign_endpoint_is_refused(stream, named):
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
def test_error_names_the_endpoint_without_its_secrets(named, shown, why):
    with pytest.raises(RemoteProtocolError) as caught:
        resolve_endpoint(STREAM, named)
    assert str(caught.value) == f"the server's endpoint '{shown}' is refused: {why}"


@pytest.mark.attack("S27")
@given(st.binary(max_size=40) | st.text("/\\@:?#.hts[]%mcp", max_size=24))
def test_any_accepted_endpoint_has_the_same_origin(named):
    data = named.encode() if isinstance(named, str) else named
    try:
        endpoint = resolve_endpoint(STREAM, data)
    except RemoteProtocolError:
        return
    assert same_origin(STREAM, endpoint)
    assert endpoint.target.startswith("/")
