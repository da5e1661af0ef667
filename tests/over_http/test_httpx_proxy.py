"""The choice of the engine for a target, and requests through a proxy."""

import contextlib
import ssl
import sys
import traceback

import certificates
import httpx
import pytest
from certificates import server_context
from engines import answering, open_engine, request_to
from http_proxy import http_proxy
from raw_server import json_reply, raw_server

import mcpwire
from mcpwire.errors import ConnectError
from mcpwire.transports.http.engine import choose_engine, proxy_url

HUSH = "hush-hush"
URL = "https://host.example/mcp"
PROXY = "http://proxy.example:3128"


serve = answering(json_reply({"ok": True}))


@pytest.fixture
def ca_file(tmp_path):
    return certificates.ca_file(tmp_path)


# Whether a proxy is used...


@pytest.mark.parametrize(
    ("options", "engine"),
    [
        ({}, "direct"),
        ({"engine": "direct"}, "direct"),
        ({"engine": "httpx"}, "httpx"),
        ({"proxy": PROXY}, "httpx"),
        ({"http2": True}, "httpx"),
        ({"http_client": httpx.Client()}, "httpx"),
        ({"engine": "httpx", "proxy": PROXY}, "httpx"),
    ],
)
def test_httpx_engine_is_chosen_for_options_the_direct_one_lacks(options, engine):
    assert choose_engine(mcpwire.Http(URL, **options)) == engine


def test_httpx_engine_is_chosen_without_httptools(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert choose_engine(mcpwire.Http(URL)) == "httpx"
    with pytest.raises(ValueError, match="needs the package httptools"):
        choose_engine(mcpwire.Http(URL, engine="direct"))
    with pytest.raises(ValueError, match="public_only needs the package httptools"):
        choose_engine(mcpwire.Http("https://h.example/mcp", public_only=True))


def test_proxy_of_the_environment_selects_httpx_unless_overridden(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    assert choose_engine(mcpwire.Http(URL)) == "httpx"
    assert choose_engine(mcpwire.Http(URL, engine="direct")) == "direct"
    assert choose_engine(mcpwire.Http(URL, trust_env=False)) == "direct"


@pytest.mark.pain("P28")
@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, URL, None),
        ({"HTTPS_PROXY": PROXY}, URL, PROXY),
        ({"https_proxy": PROXY}, URL, PROXY),
        ({"HTTPS_PROXY": "proxy.example:1"}, URL, "http://proxy.example:1"),
        ({"HTTPS_PROXY": ""}, URL, None),
        ({"ALL_PROXY": PROXY}, URL, PROXY),
        ({"ALL_PROXY": PROXY, "HTTPS_PROXY": "http://b:1"}, URL, "http://b:1"),
        ({"HTTP_PROXY": PROXY}, URL, None),
        ({"http_proxy": PROXY}, "http://host.example/", PROXY),
        ({"NO_PROXY": "host.example"}, URL, None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "*"}, URL, None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "a, host.example"}, URL, None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": ".example"}, URL, None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "host.example:443"}, URL, None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "host.example:80"}, URL, PROXY),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "st.example"}, URL, PROXY),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, "https://10.1.2.3/", None),
        (
            {"ALL_PROXY": PROXY, "NO_PROXY": "x/8,10.0.0.0/16"},
            "https://10.1.2.3/",
            PROXY,
        ),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "::1"}, "https://[::1]:8443/", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "[::1]"}, "https://[::1]:8443/", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "fd00::/8"}, "https://[fd00::1]/", None),
    ],
)
def test_proxy_variables_and_no_proxy_are_applied(monkeypatch, environment, url, proxy):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    target = mcpwire.Http(url)
    assert proxy_url(target) == proxy
    assert proxy_url(mcpwire.Http(url, trust_env=False)) is None
    assert proxy_url(mcpwire.Http(url, proxy="http://own:1")) == "http://own:1"


# ... and requests through one.


@contextlib.asynccontextmanager
async def through_proxy(*, secure_server=False, user=None, password="", **options):
    """Yield a server, its proxy, and an engine that uses the proxy."""
    context = server_context() if secure_server else None
    with raw_server(serve, ssl_context=context) as server, http_proxy(user) as proxy:
        url = proxy.url.replace("//", f"//me:{password}@") if password else proxy.url
        async with open_engine("httpx", server.url, proxy=url, **options) as it:
            yield server, proxy, it


@pytest.mark.pain("P28")
@pytest.mark.parametrize("how", ["option", "environment", "client"])
async def test_http_requests_are_sent_to_the_proxy_with_absolute_urls(how, monkeypatch):
    with raw_server(serve) as server, http_proxy() as proxy:
        options = {}
        if how == "option":
            options = {"proxy": proxy.url}
        elif how == "client":
            options = {"client": {"proxy": proxy.url}}
        else:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
        async with open_engine("httpx", f"{server.url}?a=b", **options) as it:
            assert (await it.send()).json == {"ok": True}
        assert proxy.asked == [f"POST {server.url}?a=b"]
        assert server.requests[0].target == "/mcp?a=b"
        assert server.requests[0].headers["user-agent"] == "mcpwire-test"


@pytest.mark.pain("P28")
async def test_https_requests_use_a_connect_tunnel(ca_file):
    options = {"secure_server": True, "ca_file": ca_file}
    async with through_proxy(**options) as (server, proxy, it):
        for _ in range(3):
            assert (await it.send()).json == {"ok": True}
        assert proxy.asked == [f"CONNECT 127.0.0.1:{server.port}"]


@pytest.mark.pain("P28")
async def test_proxy_may_use_tls(ca_file):
    with (
        raw_server(serve, ssl_context=server_context()) as server,
        http_proxy(ssl_context=server_context()) as proxy,
    ):
        options = {"proxy": proxy.url, "ca_file": ca_file}
        async with open_engine("httpx", server.url, **options) as it:
            assert (await it.send()).status == 200
        assert len(proxy.asked) == 1
        async with open_engine("httpx", server.url, proxy=proxy.url) as it:
            with pytest.raises(
                ConnectError, match=r"cannot trust .* \(through the pro"
            ):
                await it.send()
        assert len(proxy.asked) == 1


@pytest.mark.pain("P28")
async def test_no_proxy_bypasses_the_proxy(monkeypatch):
    with raw_server(serve) as server, http_proxy() as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
            async with open_engine("httpx", url) as it:
                await it.send()
        assert len(proxy.asked) == 1


@pytest.mark.pain("P28")
@pytest.mark.parametrize("is_secure", [False, True])
async def test_proxy_password_is_sent_only_to_the_proxy(ca_file, is_secure):
    options = {"secure_server": True, "ca_file": ca_file} if is_secure else {}
    options |= {"user": f"me:{HUSH}", "password": HUSH}
    async with through_proxy(**options) as (server, _proxy, it):
        assert (await it.send()).status == 200
    assert "proxy-authorization" not in server.requests[0].headers


@pytest.mark.pain("P28")
async def test_refusing_proxy_is_a_connect_error_without_the_password(ca_file):
    options = {"secure_server": True, "ca_file": ca_file, "user": "me:other"}
    async with through_proxy(**options, password=HUSH) as (server, _proxy, it):
        with pytest.raises(ConnectError) as caught:
            await it.send()
        assert "the proxy refuses: 407" in str(caught.value)
        assert "***@127.0.0.1" in str(caught.value)
        assert HUSH not in str(caught.value)
        assert server.connections == 0


async def test_unreachable_proxy_is_a_connect_error():
    with raw_server(serve, accepts=False) as server:
        port = server.port
    proxy = f"http://me:{HUSH}@127.0.0.1:{port}"
    async with open_engine("httpx", URL, proxy=proxy) as it:
        with pytest.raises(ConnectError) as caught:
            await it.send()
    assert "refused" in str(caught.value)
    assert f"through the proxy 'http://***@127.0.0.1:{port}'" in str(caught.value)


async def test_proxy_that_closes_the_connection_is_a_connect_error():
    with raw_server(lambda conn: conn.receive()) as proxy:
        async with open_engine("httpx", URL, proxy=proxy.origin) as it:
            with pytest.raises(ConnectError, match="ended before anything was sent"):
                await it.send()


@pytest.mark.parametrize(
    "proxy",
    [
        *(f"{scheme}://me:{HUSH}/{HUSH}@proxy.example" for scheme in ("http", "socks")),
        f"http://me:{HUSH}@proxy.example:65536",
    ],
)
async def test_unusable_proxy_of_the_environment_is_a_connect_error(proxy, monkeypatch):
    """A slash in a password ends the authority; some desktops set ``socks://``."""
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ConnectError, match=r"\*\*\*@proxy.example.*': it") as caught:
        await mcpwire.Client(URL).connect()
    assert HUSH not in "".join(traceback.format_exception(caught.value))


async def test_socks_proxy_without_its_package_is_a_connect_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://p.example")
    with pytest.raises(ConnectError, match=r"SOCKS proxy needs .* 'httpx\[socks\]'"):
        await mcpwire.Client(URL).connect()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_token_is_sent_through_the_proxy_of_a_users_client(scheme, ca_file):
    context = server_context() if scheme == "https" else None
    with raw_server(serve, ssl_context=context) as server, http_proxy() as proxy:
        options = {"proxy": proxy.url, "verify": ssl.create_default_context()}
        options["verify"].load_verify_locations(ca_file)
        client = httpx.AsyncClient(**options)
        async with open_engine("httpx", server.url, client=client) as it:
            request = request_to(it.http, authorization="Bearer s3cret")
            assert (await it.send(request)).status == 200
            client.event_hooks = {"request": [lead_away]}
            with pytest.raises(mcpwire.UrlRefused, match="elsewhere"):
                await it.send(request)
        assert [request.target for request in server.requests] == ["/mcp"]


async def lead_away(request):
    request.url = request.url.copy_with(path="/elsewhere")
