"""URL rules: where credentials may be sent, and which URLs a browser may open."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.auth.errors import UrlRefused
from mcpwire.auth.url_policy import (
    MAX_URL_CHARS,
    UrlPolicy,
    check_address,
    check_authorization_url,
    check_server_url,
    server_address_class,
)
from mcpwire.wire.urls import parse_url

PUBLIC = parse_url("https://mcp.example/mcp")
LOOPBACK = parse_url("http://127.0.0.1:8000/mcp")

FIELDS = (
    *("the resource metadata", "the authorization server"),
    *("the authorization endpoint", "the token endpoint", "the registration endpoint"),
    "the revocation endpoint",
)

INSIDE = {
    "127.0.0.1": "loopback",
    "2130706433": "loopback",
    "[::1]": "loopback",
    "localhost": "loopback",
    "a.localhost": "loopback",
    "10.0.0.1": "private",
    "[fd00:ec2::254]": "private",
    "169.254.169.254": "link-local",
    "0xA9.0xFE.0xA9.0xFE": "link-local",
    "[fe80::1]": "link-local",
    "[::ffff:169.254.169.254]": "link-local",
    "100.64.0.1": "cgnat",
    "100.100.100.200": "cgnat",
    "168.63.129.16": "reserved",
    "255.255.255.255": "reserved",
    "0.0.0.0": "unspecified",
    "[::]": "unspecified",
    "224.0.0.1": "multicast",
}


def check(text, server=PUBLIC, *, what="the token endpoint", allow_insecure=False):
    return UrlPolicy(server, allow_insecure).check(text, what)


def refusal(text, server=PUBLIC, **options):
    with pytest.raises(UrlRefused) as caught:
        check(text, server, **options)
    return caught.value


@pytest.mark.system("U01")
@pytest.mark.attack("S30")
@pytest.mark.parametrize(
    ("url", "is_secure"),
    [
        ("https://mcp.example/mcp", True),
        ("https://10.0.0.1/mcp", True),
        ("http://127.0.0.1:8000/mcp", True),
        ("http://localhost:1/mcp", True),
        ("http://mcp.example/mcp", False),
        ("http://10.0.0.1/mcp", False),
    ],
)
def test_a_server_url_must_be_https_or_loopback(url, is_secure):
    check_server_url(parse_url(url), allow_insecure=True)
    if is_secure:
        check_server_url(parse_url(url), allow_insecure=False)
        return
    with pytest.raises(UrlRefused) as caught:
        check_server_url(parse_url(url), allow_insecure=False)
    assert caught.value.rule == (
        "tokens would be sent unencrypted: use https, or pass allow_insecure=True"
    )


@pytest.mark.system("U01")
def test_a_refused_server_is_shown_without_its_secrets():
    url = parse_url("http://mcp.example/mcp?key=SECRET")
    with pytest.raises(UrlRefused) as caught:
        check_server_url(url, allow_insecure=False)
    assert caught.value.url == "http://mcp.example/mcp?***"
    assert str(caught.value) == (
        "the server's URL 'http://mcp.example/mcp?***' is refused: tokens would be "
        "sent unencrypted: use https, or pass allow_insecure=True"
    )


def test_an_accepted_url_is_returned_parsed():
    url = check("https://login.example:8443/token?tenant=a")
    assert url.unmasked == "https://login.example:8443/token?tenant=a"


@pytest.mark.system("U46")
@pytest.mark.attack("S05")
@pytest.mark.case("G07")
@pytest.mark.rule("SEC-04", "SEC-05")
@pytest.mark.parametrize("what", FIELDS)
@pytest.mark.parametrize("host", INSIDE)
def test_a_public_server_may_not_name_internal_hosts(what, host):
    error = refusal(f"https://{host}/x?secret=1", what=what)
    assert str(error).startswith(f"{what} 'https://{host}/x?***' is refused: it leads")
    assert error.rule.endswith("and the server is not there")


@pytest.mark.attack("S05")
@pytest.mark.rule("SEC-05")
@pytest.mark.parametrize(
    ("server", "host"),
    [(a, b) for a, b in itertools.product(INSIDE, INSIDE) if INSIDE[a] != INSIDE[b]][
        ::7
    ],
)
def test_an_internal_server_may_not_name_other_networks(server, host):
    assert (
        "it leads"
        in refusal(f"https://{host}/x", parse_url(f"https://{server}/mcp")).rule
    )


@pytest.mark.parametrize(
    ("server", "host"),
    [
        ("127.0.0.1", "[::1]"),
        ("localhost", "127.0.0.1"),
        ("10.0.0.1", "192.168.0.1"),
        ("100.64.0.1", "100.100.1.1"),
        ("169.254.1.1", "[fe80::1]"),
        ("10.0.0.1", "login.example"),
        ("127.0.0.1", "8.8.8.8"),
    ],
)
def test_an_internal_server_may_name_its_network_and_public_hosts(server, host):
    check(f"https://{host}/x", parse_url(f"https://{server}/mcp"))


@pytest.mark.case("G07")
@pytest.mark.attack("S30")
@pytest.mark.rule("SEC-05")
@pytest.mark.parametrize(
    ("server", "url", "allow_insecure", "is_accepted"),
    [
        ("https://mcp.example/", "http://login.example/", False, False),
        # https never turns into http, whatever is allowed.
        ("https://mcp.example/", "http://login.example/", True, False),
        ("https://mcp.example/", "http://127.0.0.1/", True, False),
        ("http://mcp.example/", "http://login.example/", False, False),
        ("http://mcp.example/", "http://login.example/", True, True),
        ("http://mcp.example/", "http://10.0.0.1/", True, False),
        ("http://10.0.0.2/", "http://10.0.0.1/", True, True),
        ("http://127.0.0.1/", "http://localhost:9000/", False, True),
        ("https://localhost/", "http://127.0.0.1:9000/", False, True),
        ("http://127.0.0.1/", "http://login.example/", False, False),
    ],
)
def test_http_needs_loopback_or_allow_insecure(
    server, url, allow_insecure, is_accepted
):
    if is_accepted:
        check(url, parse_url(server), allow_insecure=allow_insecure)
    else:
        refusal(url, parse_url(server), allow_insecure=allow_insecure)


@pytest.mark.attack("S05")
@pytest.mark.case("G06")
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "it must be absolute, such as 'https://host/path'"),
        ("ftp://login.example/", "its scheme must be http or https, not 'ftp'"),
        ("https://a:b@login.example/", "it must not hold a user name or password"),
        ("https://login.example/#x", "it must not hold a fragment"),
        ("https://login.example/a b", "the character at index 23 must be percent-"),
        ("https://x/" + "a" * MAX_URL_CHARS, "it is longer than 8000 characters"),
    ],
)
def test_an_ambiguous_url_is_refused(text, rule):
    assert refusal(text).rule.startswith(rule)


def test_a_refusal_hides_secrets_and_has_no_cause():
    error = refusal("https://user:SECRET@login.example/?code=SECRET#SECRET")
    assert "SECRET" not in repr(error) + str(error) + error.url + error.rule
    assert error.__cause__ is None
    assert error.__suppress_context__


@given(st.text(max_size=40))
def test_any_text_is_accepted_or_refused(text):
    for url in (text, f"https://{text}", f"https://host/{text}"):
        message = "nothing"
        try:
            check(url)
        except UrlRefused as error:
            message = str(error)
        assert message.isprintable()


@pytest.mark.attack("S05")
@pytest.mark.case("G07")
@pytest.mark.rule("SEC-04", "SEC-05")
@pytest.mark.parametrize("address", [host.strip("[]") for host in INSIDE])
def test_a_name_must_not_resolve_to_an_internal_address(address):
    with pytest.raises(UrlRefused) as caught:
        check_address(
            address, server_class="public", what="the token endpoint", host="a.example"
        )
    assert caught.value.url == "a.example"
    assert str(caught.value).startswith(
        "the host 'a.example' of the token endpoint is refused: it leads"
    )


@pytest.mark.parametrize(
    ("address", "server_class"),
    [
        ("8.8.8.8", "public"),
        ("8.8.8.8", "private"),
        ("2606:4700::1", "loopback"),
        ("10.0.0.1", "private"),
        ("fd00::1", "private"),
        ("127.0.0.1", "loopback"),
        ("169.254.1.1", "link-local"),
    ],
)
def test_a_name_may_resolve_to_a_public_or_server_network(address, server_class):
    check_address(address, server_class=server_class, what="it", host="a.example")


@pytest.mark.parametrize("address", ["login.example", "", "1.2.3.4.5", "fe80::1%lo:"])
def test_an_invalid_address_is_refused(address):
    for server_class in ("public", "name", "private"):
        with pytest.raises(UrlRefused):
            check_address(address, server_class=server_class, what="it", host="a")


@pytest.mark.attack("S30")
@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1"])
@pytest.mark.parametrize("address", ["8.8.8.8", "10.0.0.1"])
def test_a_loopback_name_must_resolve_to_loopback(host, address):
    with pytest.raises(UrlRefused) as caught:
        check_address(address, server_class="loopback", what="it", host=host)
    assert caught.value.rule == "a loopback name must resolve to this machine"


@pytest.mark.attack("S05")
@pytest.mark.parametrize(
    ("server", "addresses", "expected"),
    [
        ("10.0.0.1", [], "private"),
        ("10.0.0.1", ["8.8.8.8"], "private"),
        ("169.254.1.1", [], "link-local"),
        ("localhost", ["8.8.8.8"], "loopback"),
        ("8.8.8.8", [], "public"),
        ("mcp.example", ["8.8.8.8"], "public"),
        ("mcp.example", [], "public"),
        ("mcp.example", ["10.0.0.1", "10.0.0.2", "fd00::1"], "private"),
        ("mcp.example", ["127.0.0.1", "::1"], "loopback"),
        ("mcp.example", ["100.64.0.1"], "cgnat"),
        # Its name leads elsewhere, too.
        ("mcp.example", ["10.0.0.1", "8.8.8.8"], "public"),
        ("mcp.example", ["10.0.0.1", "127.0.0.1"], "public"),
        # The owner of the name could publish these addresses.
        ("mcp.example", ["169.254.169.254"], "public"),
        ("mcp.example", ["fe80::1"], "public"),
        ("mcp.example", ["0.0.0.0"], "public"),
        ("mcp.example", ["168.63.129.16"], "public"),
    ],
)
def test_all_addresses_determine_the_network_of_a_server(server, addresses, expected):
    assert (
        server_address_class(parse_url(f"https://{server}/mcp"), addresses) == expected
    )


@pytest.mark.attack("S04")
@pytest.mark.rule("SEC-08")
@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("https://login.example/authorize?a=b&c=%2F%20", PUBLIC),
        ("https://login.example/authorize", None),
        ("https://login.example/a:b,c+d=e@f~g!*/", PUBLIC),
        ("http://127.0.0.1:9000/authorize?x=y", LOOPBACK),
        ("http://localhost:9000/authorize?x=y", None),
        ("https://10.0.0.1/authorize", None),
        ("https://10.0.0.1/authorize", parse_url("https://10.0.0.2/")),
    ],
)
def test_a_url_that_is_safe_to_open_is_returned_unchanged(text, server):
    assert check_authorization_url(text, server=server) == text


@pytest.mark.attack("S04")
@pytest.mark.rule("SEC-08")
@pytest.mark.parametrize(
    ("text", "server", "rule"),
    [
        ("file:///etc/passwd", None, "its scheme must be http or https, not 'file'"),
        ("http://login.example/", None, "it must be https"),
        ("http://login.example/", LOOPBACK, "it must be https"),
        ("http://127.0.0.1/", PUBLIC, "it must be https"),
        ("https://127.0.0.1/", PUBLIC, "it leads to this machine"),
        ("https://10.0.0.1/", LOOPBACK, "it leads into a private network"),
        ("https://login.example/$(calc)", PUBLIC, "it contains characters"),
        ("https://login.example/?a='b", PUBLIC, "it contains characters"),
        ("https://login.example/a;b", PUBLIC, "it contains characters"),
        ("https://login.example/&calc&", PUBLIC, "it contains characters"),
        ("https://login.example/#a", PUBLIC, "it must not hold a fragment"),
    ],
)
def test_an_unsafe_authorization_url_is_refused(text, server, rule):
    with pytest.raises(UrlRefused) as caught:
        check_authorization_url(text, server=server)
    assert caught.value.rule.startswith(rule)
    assert str(caught.value).startswith("the authorization URL '")
