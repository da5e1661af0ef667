"""Which redirects are followed, and what is said of the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
ELSEWHERE = {
    "other port": ("https://mcp.example/v2", "it leads to another origin"),
    "other host": ("https://evil.example:8443/", "it leads to another origin"),
    "host below": ("https://a.mcp.example:8443/", "it leads to another origin"),
    "protocol-relative": ("//evil.example:8443/", "it leads to another origin"),
    "http downgrade": ("http://mcp.example:8443/v2", "it leads from https to http"),
    "http elsewhere": ("http://169.254.169.254/", "it leads from https to http"),
    "userinfo": ("https://a:s3cret@mcp.example:8443/", "that is no URL to go to"),
    "backslashes": ("/\\evil.example/", "that is no URL to go to"),
    "other scheme": ("file:///etc/passwd", "that is no URL to go to"),
    "line breaks": ("/v2\r\nx: 1", "that is no URL to go to"),
    "missing": (None, "it has no Location"),
}


@pytest.mark.attack("S02")
@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("case", ELSEWHERE)
def test_no_redirect_leads_off_the_origin(case, status, allowed):
    location, reason = ELSEWHERE[case]
    refusal = resolve_redirect(HERE, status, location, allowed=allowed)
    assert refusal.endswith(f" is not followed: {reason}")
    assert "s3cret" not in refusal
    assert refusal.isprintable()


@pytest.mark.attack("S02")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("case", SAME_ORIGIN)
def test_without_being_asked_to_no_redirect_is_followed_at_all(case, status):
    location, _ = SAME_ORIGIN[case]
    assert isinstance(resolve_redirect(HERE, status, location, allowed=False), str)


@pytest.mark.attack("S02")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("case", SAME_ORIGIN)
def test_on_request_one_that_keeps_the_request_is_followed_within_the_origin(
    case, status
):
    location, target = SAME_ORIGIN[case]
    there = resolve_redirect(HERE, status, location, allowed=True)
    if status in {307, 308}:
        assert same_origin(there, HERE)
        assert there.target == target
    else:
        assert there.endswith(f": HTTP {status} does not keep method and body")


@pytest.mark.attack("S02")
def test_not_even_from_http_to_https_of_the_same_host():
    there = resolve_redirect(PLAIN, 308, "https://mcp.example/mcp", allowed=True)
    assert isinstance(there, str)


@pytest.mark.parametrize("status", [300, 304, 305, 306, 399])
def test_other_statuses_are_no_redirects_to_follow(status):
    assert isinstance(resolve_redirect(HERE, status, "/v2", allowed=True), str)


@pytest.mark.parametrize(
    ("status", "location", "refusal"),
    [
        (
            307,
            "https://u:p@evil.example/x?t=1",
            (
                "the redirect to 'https://***@evil.example/x?***' is not followed: "
                "that is no URL to go to"
            ),
        ),
        (302, None, "the redirect is not followed: it has no Location"),
        (
            308,
            "/v2?t=1",
            "the redirect to '/v2?***' is not followed: follow_redirects is off",
        ),
    ],
)
def test_the_refusal_is_one_clause_that_names_the_masked_place(
    status, location, refusal
):
    assert resolve_redirect(HERE, status, location, allowed=False) == refusal


def test_a_request_is_not_led_about_without_end():
    assert MAX_REDIRECTS == 5


@pytest.mark.attack("S02")
@given(
    st.text(max_size=30)
    | st.from_regex(r"(https?:)?[/\\]{0,3}[a-z@:.\\]{0,9}mcp\.example[:@/0-9a-z]{0,9}")
)
def test_whatever_the_location_nothing_but_the_origin_comes_of_it(location):
    for status in STATUSES:
        there = resolve_redirect(HERE, status, location, allowed=True)
        if not isinstance(there, str):
            assert isinstance(there, Url)
            assert same_origin(there, HERE)
            assert there.userinfo is None
