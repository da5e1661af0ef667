"""The URLs that an elicitation asks a user to visit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.protocol.elicitation import UrlDescription, describe_url, url_problem
from mcpwire.wire.urls import parse_url

SAFE = [
    *("https://example.com", "https://mcp.example.com/connect?x=1&y=%20#z"),
    *("HTTPS://EXAMPLE.COM:8443/", "https://xn--80ak6aa92e.com/"),
    *("https://192.168.1.1/", "https://[2001:db8::1]/", "http://localhost:3000/cb"),
    *("http://127.0.0.1/", "http://[::1]:9/"),
    *("http://app.localhost/", "https://example.com/a&calc&b"),
]

HOSTILE = [
    *("", " ", "example.com", "//example.com/", "https:/example.com"),
    *("javascript:alert(1)", "JavaScript:alert(1)"),
    *("javascript://example.com/%0aalert(1)", "java\nscript:alert(1)"),
    *("\x01javascript:alert(1)", "data:text/html,<script>1</script>"),
    *("data:text/html;base64,PGI+", "file:///etc/passwd", "file://server/share"),
    *("smb://server/share", "search-ms:query=x&crumb=location:\\\\server"),
    *("ms-msdt:/id", "vbscript:msgbox(1)", "ftp://example.com/", "ws://example.com/"),
    *("intent://x#Intent;end", "about:blank", "blob:https://example.com/1"),
    *("jar:https://example.com/a!/b", "ui://app/1"),
    "x" * 40 + "://example.com/",
    *("https://user@example.com/", "https://user:secret@example.com/"),
    *("https://@example.com/", "https://example.com@evil.example/"),
    *("https://example.com\\@evil.example/", "https:\\\\example.com\\"),
    *("https://example.com/\t", "https://example.com/\0", "https://exa\u200bmple.com/"),
    *("https://example.com/\u202egnp.exe", "https://ex\u0430mple.com/"),
    *("https://example.com/%COMSPEC%", "https://example.com/%"),
    *("https://example.com/^a", "https://example.com/{a}", "https://example.com:0/"),
    *("https://[fe80::1%25eth0]/", "https://256.256.256.256/"),
    "https://example.com/" + "a" * 8192,
    "http://example.com/",
    "http://192.168.1.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://localhost.example.com/",
    "http://0.0.0.0/",
]


@pytest.mark.parametrize("url", SAFE)
def test_safe_url_has_no_problem(url):
    assert url_problem(url) is None
    assert describe_url(url)


@pytest.mark.attack("S04")
@pytest.mark.attack("S28")
@pytest.mark.parametrize("url", HOSTILE)
def test_hostile_url_is_refused_with_a_short_printable_message(url):
    problem = url_problem(url)
    assert problem is not None
    assert problem.startswith("url: ")
    assert len(problem) < 400
    assert problem.isprintable()
    assert problem.isascii()
    assert "secret" not in problem


@pytest.mark.parametrize("length", [8192, 8193])
def test_url_is_limited_to_8_kib(length):
    url = "https://example.com/".ljust(length, "a")
    assert (url_problem(url) is None) is (length == 8192)


@pytest.mark.parametrize("url", ["http://example.com/", "http://10.0.0.1:8080/"])
def test_plain_http_must_be_enabled(url):
    assert url_problem(url) == (
        f"url: {url.rstrip('/')} must be https, as it is not this machine"
    )
    assert url_problem(url, plain_http=True) is None
    assert url_problem("ftp" + url.removeprefix("http"), plain_http=True) is not None


# Description for the user


@pytest.mark.rule("ELIC-15")
def test_plain_url_is_described_without_warnings():
    assert describe_url("https://Example.COM/a?b") == UrlDescription(
        host="example.com",
        unicode_host="example.com",
        port=443,
        is_https=True,
        is_punycode=False,
        warnings=(),
    )


APPLE = "\u0430\u0440\u0440\u04cf\u0435.com"  # all letters are Cyrillic
PUNYCODE = "the host has letters that look like others"
MIXED = "the host mixes letters of different scripts"
HTTP = "plain http: everyone on the network path can read and change all of it"
BARE = "the host is a bare address"
HERE = "it points to this machine"


@pytest.mark.rule("ELIC-15")
@pytest.mark.parametrize(
    ("url", "shown", "warnings"),
    [
        ("https://xn--80ak6aa92e.com/", APPLE, (PUNYCODE,)),
        ("https://XN--80AK6AA92E.com/", APPLE, (PUNYCODE,)),
        ("https://a.xn--bcher-kva.example/", "a.bücher.example", (PUNYCODE,)),
        ("https://xn--pypal-4ve.com/", "p\u0430ypal.com", (PUNYCODE, MIXED)),
        ("https://xn--r8jz45g.jp/", "例え.jp", (PUNYCODE,)),
        # Invalid punycode, and a label that would reverse the text after it.
        ("https://xn--9999999999999.com/", "xn--9999999999999.com", (PUNYCODE,)),
        ("https://xn--abc-7q0a.com/", "xn--abc-7q0a.com", (PUNYCODE,)),
        ("https://xn--ab-r13a.com/", "xn--ab-r13a.com", (PUNYCODE,)),
        ("https://xn--abc-8n0a.com/", "xn--abc-8n0a.com", (PUNYCODE,)),
        ("https://xn--a.b-9ya/", "xn--a.b-9ya", (PUNYCODE,)),
        ("http://example.com/", "example.com", (HTTP,)),
        ("https://1.2.3.4/", "1.2.3.4", (BARE,)),
        ("https://0x01020304/", "1.2.3.4", (BARE,)),
        ("https://[2001:db8::1]/", "2001:db8::1", (BARE,)),
        ("http://127.1:80/", "127.0.0.1", (HERE,)),
        ("https://localhost/", "localhost", (HERE,)),
        (
            "https://example.com:444/",
            "example.com",
            ("the port is 444, which is unusual",),
        ),
        ("http://[::1]:443/", "::1", (HERE, "the port is 443, which is unusual")),
    ],
)
def test_unusual_parts_of_a_url_are_warned_about(url, shown, warnings):
    description = describe_url(url)
    assert description.unicode_host == shown
    assert description.warnings == warnings
    assert description.is_punycode is (PUNYCODE in warnings)
    assert description.is_https is url.lower().startswith("https")
    assert description.host == parse_url(url).host
    assert description.port == parse_url(url).port


@pytest.mark.parametrize("url", ["javascript:1", "https://a@b/", "nothing"])
def test_unsafe_url_is_not_described(url):
    with pytest.raises(ValueError, match=r"^cannot use URL"):
        describe_url(url)


@given(st.from_regex(r"xn--[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", fullmatch=True))
def test_shown_host_is_printable_and_keeps_its_labels(label):
    shown = describe_url(f"https://{label}.com/").unicode_host
    assert shown.isprintable()
    assert shown.count(".") == 1
