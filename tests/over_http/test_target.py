"""The target `Http`: accepted and refused values, and hidden secrets."""

import copy
import ssl

import httpx
import pytest
from child_python import printed_by
from unmeasured import unmeasured

import mcpwire
from mcpwire.errors import LocalProtocolError
from mcpwire.transports.http.target import Memory, is_credential
from mcpwire.transports.targets import resolve_target
from mcpwire.versions import Era

URL = "https://host.example/mcp"
PLAIN = "http://host.example/mcp"
HUSH = "hush-hush"
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def refusal(url=URL, **options):
    with pytest.raises(ValueError) as caught:
        mcpwire.Http(url, **options)
    message = str(caught.value)
    assert HUSH not in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("text", [URL, f"  {URL} ", "HTTPS://host.example:443/mcp"])
def test_a_string_with_a_scheme_is_a_url(text):
    target = resolve_target(text)
    assert type(target) is mcpwire.Http
    assert str(target) == URL
    assert resolve_target(target) is target


def test_url_after_a_command_is_its_argument():
    assert resolve_target(f"npx proxy {URL}").args == ("proxy", URL)


@pytest.mark.parametrize("scheme", ["ws", "wss", "ftp", "file", "stdio"])
def test_other_scheme_is_refused_with_the_rule(scheme):
    with pytest.raises(ValueError, match="must be http or https") as caught:
        resolve_target(f"{scheme}://me:{HUSH}@host.example/mcp?{HUSH}")
    assert HUSH not in str(caught.value)


def test_error_for_an_invalid_target_lists_the_valid_ones():
    with pytest.raises(ValueError, match="a target is a URL, a command line, a list"):
        resolve_target(5)


def test_parsed_url_has_host_port_and_target():
    parsed = mcpwire.Http("https://HOST.example:8443/mcp?key=1").parsed
    assert (parsed.host, parsed.port, parsed.target) == (
        "host.example",
        8443,
        "/mcp?key=1",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": f"https://me:{HUSH}@host.example/"}, "must not hold a user name or"),
        ({"url": f"https://host.example/#{HUSH}"}, "must not hold a fragment"),
        ({"url": "https://host.example/a b"}, "must be percent-encoded"),
        ({"url": "https:///mcp"}, "host"),
        ({"url": "host.example/mcp"}, "must be absolute"),
        ({"url": b"https://host.example/"}, "url must be a string, got bytes"),
        ({"url": None}, "url must be a string, got NoneType"),
        ({"ssl": TLS, "url": PLAIN}, "ssl needs an https URL"),
        ({"ca_file": "ca.pem", "url": PLAIN}, "ca_file needs an https URL"),
        ({"client_cert": "me.pem", "url": PLAIN}, "client_cert needs an https URL"),
        ({"http2": True, "url": PLAIN}, "http2 needs an https URL"),
        (
            {"server_stream": "yes"},
            "server_stream must be 'auto', 'always' or 'never', got 'yes'",
        ),
        ({"engine": "h11"}, "engine must be 'auto', 'direct' or 'httpx', got 'h11'"),
        ({"follow_redirects": 1}, "follow_redirects must be True or False, got 1"),
        ({"trust_env": None}, "trust_env must be True or False, got None"),
        ({"allow_insecure": "no"}, "allow_insecure must be True or False, got 'no'"),
        ({"connect_timeout": 0}, "connect_timeout must be above zero, got 0"),
        ({"connect_timeout": "5"}, "connect_timeout must be a number of seconds"),
        ({"ssl": False}, "ssl must be an ssl.SSLContext, got False"),
        ({"proxy": 3128}, "proxy must be a URL, got int"),
        ({"proxy": "proxy.example:3128"}, "proxy: cannot use URL"),
        ({"proxy": "http://p.example/mcp"}, "proxy must have no path, query or"),
        ({"proxy": f"ftp://me:{HUSH}@p.example"}, "proxy: cannot use URL"),
        ({"http_client": HUSH}, "http_client must be an httpx client, got str"),
        ({"ca_file": 5}, "ca_file must be a path, got int"),
        ({"client_cert": ()}, "client_cert must be a path, (certificate, key)"),
        ({"client_cert": (1, 2)}, "client_cert must be a path, (certificate, key)"),
        ({"client_cert": ("a", "b", HUSH, "d")}, "client_cert must be a path"),
        ({"headers": 5}, "headers must be a mapping or a function, got int"),
        ({"headers": [("a", HUSH)]}, "headers must be a mapping or a function"),
        ({"engine": "direct", "proxy": "http://p.example"}, "cannot do proxy"),
        ({"engine": "direct", "http2": True}, "cannot do http2"),
        ({"public_only": True, "http2": True}, "public_only is kept by our own"),
        ({"public_only": True, "engine": "httpx"}, "public_only is kept by our own"),
        ({"engine": "direct", "http_client": httpx.Client()}, "cannot do http_client"),
        (
            {"http_client": httpx.Client(), "proxy": "http://p.example"},
            "http_client= and proxy= exclude each other",
        ),
        (
            {"http_client": httpx.Client(), "http2": True},
            "http_client= and http2= exclude each other",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_invalid_option_is_refused_at_construction(options, message):
    assert message in refusal(**options)


@pytest.mark.parametrize("client", [httpx.Client(), httpx.AsyncClient()])
def test_httpx_client_is_accepted(client):
    assert mcpwire.Http(URL, http_client=client).http_client is client


@pytest.mark.parametrize(
    "proxy",
    ["http://p.example:3128", "https://me:pw@p.example/", "socks5h://p.example"],
)
def test_proxy_url_may_have_a_user_or_a_socks_scheme(proxy):
    assert mcpwire.Http(URL, proxy=proxy).proxy == proxy


def test_error_for_http2_without_h2_names_the_package(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install h2" in refusal(http2=True)


def test_an_infinite_connect_timeout_is_none():
    assert mcpwire.Http(URL, connect_timeout=float("inf")).connect_timeout is None


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"a b": "1"}, "'a"),
        ({"": "1"}, ""),
        ({5: "1"}, ""),
        ({"content-length": "1"}, "'content-length'"),
        ({"Mcp-Session-Id": HUSH}, "'Mcp-Session-Id'"),
        ({"x-note": 5}, "'x-note'"),
        ({"x-note": f"{HUSH}\r\nevil: 1"}, "'x-note'"),
        ({"x-note": f" {HUSH}"}, "'x-note'"),
        ({"x-note": f"{HUSH}é"}, "'x-note'"),
    ],
)
@pytest.mark.attack("S23")
def test_invalid_headers_are_refused_without_their_values(headers, message):
    assert message in refusal(headers=headers)
    with pytest.raises(LocalProtocolError) as caught:
        mcpwire.Http(URL).check(headers)
    assert message in str(caught.value)
    assert HUSH not in str(caught.value)


def test_headers_given_as_a_mapping_are_kept_as_pairs():
    given = {"X-Tenant": "a", "x-b": ""}
    target = mcpwire.Http(URL, headers=given)
    given["x-late"] = "1"
    assert target.has_static_headers
    assert target.static_headers == (("x-tenant", "a"), ("x-b", ""))
    assert mcpwire.Http(URL).has_static_headers


async def ask_later():
    return {}


@pytest.mark.pain("P27")
@pytest.mark.parametrize("function", [dict, ask_later])
def test_headers_may_be_a_function_plain_or_async(function):
    target = mcpwire.Http(URL, headers=function)
    assert not target.has_static_headers
    assert target.static_headers == ()


def test_result_of_a_header_function_must_be_a_mapping():
    with pytest.raises(LocalProtocolError, match="must be a mapping"):
        mcpwire.Http(URL).check(None)


SECRET_HEADERS = (
    *("Authorization", "authorization", "Proxy-Authorization", "Cookie", "X-API-Key"),
    *("api-key", "apikey", "X-Auth-Token", "X-Access-Key", "x-goog-api-key"),
    *("X-Amz-Security-Token", "PRIVATE-TOKEN", "X-Auth", "x-client-secret"),
    "X-Password",
)
HARMLESS_HEADERS = (
    *("X-Tenant", "Accept-Language", "User-Agent", "X-Author", "traceparent"),
    "X-Monkey",
)


@pytest.mark.parametrize("name", SECRET_HEADERS)
def test_credential_header_names_are_recognized(name):
    assert is_credential(name)


@pytest.mark.parametrize("name", HARMLESS_HEADERS)
def test_other_header_names_are_not_credentials(name):
    assert not is_credential(name)


INSECURE = (PLAIN, "http://10.0.0.1/", "http://localhost.example/", "http://0.0.0.0/")
SECURE = (
    *(URL, "http://localhost:8000/mcp", "http://127.0.0.1/", "http://[::1]:1/"),
    "http://0x7f.1/",
)


@pytest.mark.attack("S30")
@pytest.mark.parametrize("url", INSECURE)
@pytest.mark.parametrize("name", SECRET_HEADERS[:6])
def test_credentials_over_unencrypted_http_are_refused(url, name):
    message = refusal(f"{url}?{HUSH}", headers={name: HUSH})
    assert f"header {name.lower()!r} would be sent unencrypted" in message
    assert "allow_insecure=True" in message
    target = mcpwire.Http(url)
    with pytest.raises(LocalProtocolError, match="would be sent unencrypted"):
        target.check({"x-first": "1", name: HUSH})


@pytest.mark.attack("S30")
@pytest.mark.parametrize("url", SECURE)
@pytest.mark.parametrize("name", SECRET_HEADERS[:6])
def test_credentials_over_https_or_loopback_are_accepted(url, name):
    target = mcpwire.Http(url, headers={name: HUSH})
    assert target.static_headers == ((name.lower(), HUSH),)
    assert target.check({name: HUSH}) == ((name.lower(), HUSH),)


@pytest.mark.attack("S30")
def test_allow_insecure_permits_credentials_over_http():
    target = mcpwire.Http(PLAIN, headers={"Cookie": HUSH}, allow_insecure=True)
    assert target.check({"Authorization": HUSH}) == (("authorization", HUSH),)
    assert mcpwire.Http(PLAIN).check({"X-Tenant": "a"}) == (("x-tenant", "a"),)


def token():
    return {"Authorization": HUSH}


@pytest.mark.attack("S23")
@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, ""),
        ({"headers": {"X-B": HUSH, "Authorization": HUSH}}, "['Authorization', 'X-B']"),
        ({"headers": token}, "headers=<token>"),
        ({"proxy": f"http://me:{HUSH}@p.example:1"}, "proxy='http://***@p.example:1'"),
        ({"http_client": httpx.Client(headers=token())}, "http_client=<Client>"),
        ({"connect_timeout": 3, "http2": True}, "http2=True, connect_timeout=3.0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "options",
)
def test_reprs_are_one_line_without_secrets(options, shown):
    target = mcpwire.Http(f"{URL}?key={HUSH}", **options)
    assert str(target) == f"{URL}?***"
    assert repr(target).startswith(f"Http('{URL}?***'")
    assert shown in repr(target)
    assert HUSH not in repr(target)
    assert "\n" not in repr(target)


def test_memory_does_not_affect_equality_hash_or_repr():
    one, other = mcpwire.Http(URL), mcpwire.Http(URL)
    one.memory.era, one.memory.legacy = Era.SESSION, True
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == repr(other)
    assert other.memory.era is None
    assert isinstance(other.memory, Memory)


def test_targets_with_different_options_are_not_equal():
    assert mcpwire.Http(URL) != mcpwire.Http(URL, headers={"a": "b"})


@pytest.mark.system("U02")
def test_target_is_immutable():
    target = mcpwire.Http(URL)
    with pytest.raises(AttributeError):
        target.url = PLAIN


def test_copy_of_a_target_shares_its_memory():
    target = mcpwire.Http(URL, headers={"a": "b"})
    assert copy.copy(target).memory is target.memory


def test_creating_a_target_imports_no_network_modules():
    code = "import mcpwire, sys; mcpwire.Http(sys.argv[1]); print(*sys.modules)"
    # Without coverage, which would load sockets.
    loaded = printed_by("-c", code, URL, env=unmeasured()).split()
    assert not {"asyncio", "httptools", "httpx", "socket", "ssl"}.intersection(loaded)
