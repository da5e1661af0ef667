"""Host and Origin headers: which browsers' pages may reach a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.protocol.request_validation import OriginPolicy

DEFAULT = OriginPolicy()


@pytest.mark.case("D06")
@pytest.mark.attack("S11")
@pytest.mark.rule("TR-HTTP-02")
@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8000",
        "LOCALHOST:8000",
        "127.0.0.1:1",
        "[::1]",
        "[::1]:8000",
        "127.0.0.2",
    ],
)
def test_loopback_hosts_are_allowed_by_default(host):
    assert DEFAULT.refusal(host, None) is None


@pytest.mark.case("D06")
@pytest.mark.attack("S11")
@pytest.mark.rule("TR-HTTP-02")
@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.com", "localhost@evil.com"),
        *("evil.com/localhost", "127.0.0.1.nip.io", "0.0.0.0", "10.0.0.7"),
        *("localhost:99999", "localhost#", "localhost?", "[::1", "", " "),
    ],
)
def test_other_hosts_are_refused_with_the_option_to_set(host):
    reason = DEFAULT.refusal(host, None)
    assert reason is not None
    assert repr(host) in reason
    assert "allowed_hosts" in reason


def test_missing_host_is_refused():
    reason = "the Host is missing; it must be in allowed_hosts of the server"
    assert DEFAULT.refusal(None, None) == reason


def test_local_address_of_the_request_is_an_allowed_host():
    assert DEFAULT.refusal("10.0.0.7:8000", None, "10.0.0.7") is None
    assert DEFAULT.refusal("10.0.0.8:8000", None, "10.0.0.7") is not None
    assert DEFAULT.refusal("10.0.0.7:8000", None) is not None


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.7:8000", "::ffff:10.0.0.7"),  # on a socket for both IPv6 and IPv4
        ("[::ffff:10.0.0.7]:8000", "::ffff:10.0.0.7"),
        ("[2001:db8::7]:8000", "2001:db8::7"),
        ("[fe80::1]:8000", "fe80::1%eth0"),
    ],
)
def test_local_address_of_an_ipv6_socket_is_an_allowed_host(host, address):
    assert DEFAULT.refusal(host, None, address) is None
    assert DEFAULT.refusal(host, None, "2001:db8::8") is not None


@pytest.mark.parametrize(
    ("allowed", "host", "is_allowed"),
    [
        ("example.com", "example.com", True),
        ("example.com", "EXAMPLE.com:8443", True),
        ("example.com", "www.example.com", False),
        ("example.com", "localhost", False),
        ("example.com:8000", "example.com:8000", True),
        ("example.com:8000", "example.com", False),
        ("example.com:443", "example.com", True),  # over https
        ("example.com:443", "example.com:443", True),
        ("example.com:443", "example.com:80", False),
        ("example.com:80", "example.com", True),
        ("example.com:80", "example.com:443", False),
        ("example.com:*", "example.com:1", True),
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "badexample.com", False),
        ("::1", "[::1]:8000", True),
        ("[::1]:8000", "[::1]:8000", True),
        ("[::1]:8000", "[::1]:8001", False),
        ("*", "whatever.example", True),
        ("*", None, True),
    ],
)
def test_allowed_hosts_are_configurable(allowed, host, is_allowed):
    assert (OriginPolicy([allowed]).refusal(host, None) is None) is is_allowed


@pytest.mark.case("D06")
@pytest.mark.attack("S11")
@pytest.mark.rule("TR-HTTP-02")
@pytest.mark.parametrize(
    ("host", "origin", "is_allowed"),
    [
        ("localhost:8000", "http://localhost:8000", True),
        ("localhost:8000", "http://localhost:5173", True),
        ("localhost:8000", "HTTP://LOCALHOST:8000", True),
        ("127.0.0.1:8000", "http://[::1]:3000", True),
        ("localhost:8000", "https://localhost", True),
        ("localhost:8000", "http://localhost.evil.com", False),
        ("localhost:8000", "http://evil.com", False),
        ("localhost:8000", "http://user@localhost:8000", False),
        ("localhost:8000", "null", False),
        ("localhost:8000", "http://127.0.0.1.nip.io", False),
        ("10.0.0.7:8000", "http://10.0.0.7:8000", True),
        ("10.0.0.7:8000", "http://10.0.0.7:8001", False),
        ("10.0.0.7:8000", "http://localhost:8000", False),
        ("10.0.0.7", "https://10.0.0.7", True),
        ("10.0.0.7", "https://10.0.0.7:444", False),
    ],
)
def test_loopback_and_host_origins_are_allowed(host, origin, is_allowed):
    reason = DEFAULT.refusal(host, origin, "10.0.0.7")
    assert (reason is None) is is_allowed
    if reason is not None:
        assert repr(origin) in reason
        assert "allowed_origins" in reason


@pytest.mark.parametrize(
    ("allowed", "origin", "is_allowed"),
    [
        ("https://example.com", "https://example.com", True),
        ("https://example.com", "https://EXAMPLE.com:443", True),
        ("https://example.com", "http://example.com", False),
        ("https://example.com", "https://example.com:8443", False),
        ("https://example.com:*", "https://example.com:8443", True),
        ("https://example.com:*", "http://example.com:8443", False),
        ("https://example.com", "http://localhost", False),
        ("https://example.com", "null", False),
        ("null", "null", True),
        ("null", "http://localhost", False),
        ("*", "https://whatever.example", True),
        ("*", "null", True),
    ],
)
def test_allowed_origins_are_configurable(allowed, origin, is_allowed):
    policy = OriginPolicy(origins=[allowed])
    assert (policy.refusal("localhost", origin) is None) is is_allowed


@pytest.mark.case("D06")
def test_host_is_checked_even_if_any_origin_is_allowed():
    policy = OriginPolicy(origins=["*"])
    assert policy.refusal("evil.example", "http://localhost") is not None
    hosts = OriginPolicy(["*"])
    assert hosts.refusal("a.example", "http://b.example") is not None
    assert hosts.refusal(None, "http://b.example") is not None
    assert hosts.refusal("a.example", "http://a.example") is None
    assert hosts.refusal("not a host", "http://a.example") is not None


@pytest.mark.parametrize("host", ["http://a.example", "a b", "", "a/b", "a:b"])
def test_invalid_allowed_host_is_a_value_error(host):
    with pytest.raises(ValueError, match="not a host name"):
        OriginPolicy([host])


@pytest.mark.parametrize("origin", ["a.example", "https://a.example/", "ftp://a", ""])
def test_invalid_allowed_origin_is_a_value_error(origin):
    with pytest.raises(ValueError, match="not an origin"):
        OriginPolicy(origins=[origin])


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_header_text_is_accepted_or_refused_with_a_short_reason(host, origin):
    reason = DEFAULT.refusal(host, origin)
    assert reason is None or len(reason) < 1000
