"""The interactive login: its callback server, and the browser that it opens."""

import asyncio
import contextlib
import errno
import socket
import struct
import threading
import webbrowser
from concurrent.futures import ThreadPoolExecutor

import pytest
from hostile_urls import HOSTILE

from mcpwire.auth.errors import UrlRefused
from mcpwire.errors import AuthError
from mcpwire.transports.oauth import interactive_login as module
from mcpwire.transports.oauth.interactive_login import CallbackServer, open_browser
from mcpwire.wire.urls import parse_url

STATE = "a-state_of~this.login"
GOOD = f"code=a%20code&state={STATE}&iss=https%3A%2F%2Flogin.example"
CALLBACK_PARAMETERS = {"code": "a code", "state": STATE, "iss": "https://login.example"}
BOUND_S = 30.0


def wait_at(callbacks, timeout=BOUND_S):
    return asyncio.run(asyncio.wait_for(callbacks.wait(STATE), timeout))


class Waiting:
    """A callback server whose `wait` runs on an event loop in its own thread."""

    def __init__(self, **options):
        self.callbacks = CallbackServer(**options)
        self.port = self.callbacks.port
        self._pool = ThreadPoolExecutor(1)
        self._given_up = threading.Event()
        self.outcome = self._pool.submit(asyncio.run, self._wait())

    async def _wait(self):
        waiting = asyncio.create_task(self.callbacks.wait(STATE))
        given_up = asyncio.create_task(asyncio.to_thread(self._given_up.wait, BOUND_S))
        await asyncio.wait([waiting, given_up], return_when="FIRST_COMPLETED")
        waiting.cancel()
        self._given_up.set()
        await given_up
        return await waiting

    def result(self):
        return self.outcome.result(BOUND_S)

    def end(self):
        self._given_up.set()
        self._pool.shutdown()
        with pytest.raises(ConnectionRefusedError):
            open_to(self.port)


@contextlib.contextmanager
def waiting(**options):
    made = Waiting(**options)
    try:
        yield made
    finally:
        made.end()


def open_to(port):
    return socket.create_connection(("127.0.0.1", port), BOUND_S)


def request(target, *, verb="GET", version="HTTP/1.1", host=None, port=0, more=""):
    host = host if host is not None else f"127.0.0.1:{port}"
    fields = f"host: {host}\r\n" if host else ""
    return f"{verb} {target} {version}\r\n{fields}{more}\r\n".encode("latin-1")


def read(sock):
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while data := sock.recv(65536):
            found += data
    return found


def exchange(at, data):
    with open_to(at.port) as sock:
        sock.sendall(data)
        return read(sock)


def come_back(at, query=GOOD, **options):
    return exchange(at, request(f"/callback?{query}", port=at.port, **options))


def status(answer):
    return int(answer.split(b" ", 2)[1])


@pytest.mark.case("G10")
@pytest.mark.rule("FLOW-10")
def test_the_callback_server_listens_on_loopback_only():
    with waiting() as it:
        assert it.callbacks.redirect_uri == f"http://127.0.0.1:{it.port}/callback"
        assert it.callbacks._listener.getsockname() == ("127.0.0.1", it.port)
        come_back(it)


@pytest.mark.case("G10")
def test_a_callback_is_delivered_and_answered_with_a_page():
    with waiting() as it:
        answer = come_back(it)
        assert it.result() == CALLBACK_PARAMETERS
    head, _, page = answer.partition(b"\r\n\r\n")
    assert head.decode().split("\r\n") == [
        "HTTP/1.1 200 OK",
        "content-type: text/html; charset=utf-8",
        "cache-control: no-store",
        "content-security-policy: default-src 'none'; frame-ancestors 'none'",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "connection: close",
        f"content-length: {len(page)}",
    ]
    assert b"You are logged in and can close this window." in page


@pytest.mark.attack("S22")
def test_an_error_callback_is_delivered_and_not_echoed():
    with waiting() as it:
        query = f"error=access_denied&error_description=%3Cscript%3E&state={STATE}"
        answer = come_back(it, query)
        assert it.result() == {
            "error": "access_denied",
            "error_description": "<script>",
            "state": STATE,
        }
    assert b"The login was not completed." in answer
    assert b"script" not in answer
    assert b"denied" not in answer


def test_a_callback_may_arrive_before_wait_is_called():
    callbacks = CallbackServer()
    with open_to(callbacks.port) as sock:
        sock.sendall(request(f"/callback?{GOOD}", port=callbacks.port))
        assert wait_at(callbacks) == CALLBACK_PARAMETERS
        assert status(read(sock)) == 200


def test_a_code_of_20000_characters_is_accepted():
    code = "c" * 20_000
    with waiting() as it:
        come_back(it, f"code={code}&state={STATE}")
        assert it.result()["code"] == code


BAD = {
    "wrong state": (f"/callback?code=x&state={STATE}x", {}, 400),
    "no state": ("/callback?code=x", {}, 400),
    "two states": (f"/callback?code=x&state={STATE}&state={STATE}", {}, 400),
    "neither code nor error": (f"/callback?state={STATE}", {}, 400),
    "blank state": ("/callback?code=x&state=", {}, 400),
    "part of the state": (f"/callback?code=x&state={STATE[:-1]}", {}, 400),
    "state in capitals": (f"/callback?code=x&state={STATE.upper()}", {}, 400),
    "error of another": ("/callback?error=access_denied&state=x", {}, 400),
    "error without state": ("/callback?error=access_denied", {}, 400),
    "two codes": (f"/callback?code=x&code=y&state={STATE}", {}, 400),
    "not UTF-8": (f"/callback?code=%FF&state={STATE}", {}, 400),
    "not ASCII": (f"/callback?code=\xff&state={STATE}", {}, 400),
    "many parameters": (f"/callback?{'a=b&' * 64}code=x&state={STATE}", {}, 400),
    "other path": (f"/?code=x&state={STATE}", {}, 404),
    "icon": ("/favicon.ico", {}, 404),
    "whole URL": (f"http://127.0.0.1/callback?{GOOD}", {}, 404),
    "below the path": (f"/callback/x?{GOOD}", {}, 404),
    "POST": (f"/callback?{GOOD}", {"verb": "POST"}, 405),
    "HEAD": (f"/callback?{GOOD}", {"verb": "HEAD"}, 405),
    "another name": (f"/callback?{GOOD}", {"host": "evil.example"}, 400),
    "another port": (f"/callback?{GOOD}", {"host": "127.0.0.1:1"}, 400),
    "no host": (f"/callback?{GOOD}", {"host": ""}, 400),
    "two hosts": (f"/callback?{GOOD}", {"more": "Host: evil.example\r\n"}, 400),
    "no version": (f"/callback?{GOOD}", {"version": ""}, 400),
    "other protocol": ("*", {"verb": "PRI", "version": "HTTP/2.0"}, 400),
}


@pytest.mark.attack("S22")
@pytest.mark.rule("FLOW-09")
@pytest.mark.case("G10")
def test_other_requests_are_refused_and_change_nothing():
    with waiting() as it:
        for name, (target, options, expected) in BAD.items():
            sent = request(target, **{"port": it.port, **options})
            answer = exchange(it, sent)
            assert (name, status(answer)) == (name, expected)
            # The request is not echoed, and the browser must not cache the page.
            assert STATE.encode() not in answer
            assert b"cache-control: no-store\r\n" in answer
            assert not it.outcome.done()
        come_back(it)
        assert it.result() == CALLBACK_PARAMETERS


@pytest.mark.attack("S22")
def test_the_state_is_compared_in_constant_time(monkeypatch):
    compared = []

    def compare(a, b):
        compared.append((a, b))
        return a == b

    monkeypatch.setattr(module, "compare_digest", compare)
    with waiting() as it:
        come_back(it, "code=x&state=wrong")
        come_back(it)
        it.result()
    assert compared == [(b"wrong", STATE.encode()), (STATE.encode(), STATE.encode())]


@pytest.mark.attack("S22")
@pytest.mark.parametrize("is_ended", [False, True])
def test_an_oversized_request_is_refused(is_ended):
    with waiting() as it:
        filler = "x: " + "y" * module.MAX_REQUEST_BYTES + "\r\n" * is_ended
        answer = come_back(it, more=filler)
        assert answer == b"" or status(answer) == 431
        come_back(it)
        assert it.result() == CALLBACK_PARAMETERS


def test_idle_connections_do_not_block_the_callback():
    with waiting() as it, contextlib.ExitStack() as stack:
        spare = [
            stack.enter_context(open_to(it.port))
            for _ in range(module.MAX_CONNECTIONS + 3)
        ]
        spare[-1].sendall(b"GET /callb")
        assert read(spare[0]) == b""  # closed to make room
        with open_to(it.port) as gone:
            gone.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        assert status(come_back(it)) == 200
        assert it.result() == CALLBACK_PARAMETERS
        assert all(read(sock) == b"" for sock in spare)


@pytest.mark.attack("S22")
def test_an_unfinished_request_is_closed_after_its_timeout(monkeypatch):
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_S", 0.05)
    with waiting() as it:
        with open_to(it.port) as sock, contextlib.suppress(ConnectionError):
            # It may be closed before we send anything, which gives an RST.
            sock.sendall(b"GET /callback?")
            assert read(sock) == b""
        assert not it.outcome.done()


def test_a_connection_that_keeps_sending_is_closed(monkeypatch):
    monkeypatch.setattr(module, "PAGE_TIMEOUT_S", 0.05)
    with waiting() as it:
        with open_to(it.port) as sock:
            sock.sendall(request("/", port=it.port) + b"more")
            assert status(read(sock)) == 404
            sock.sendall(b"and more")
            with contextlib.suppress(ConnectionError):
                # The closed connection answers with an RST.
                while True:
                    sock.sendall(b"x")
        assert not it.outcome.done()


@pytest.mark.fault("F39")
@pytest.mark.case("G10")
def test_a_timeout_of_wait_closes_the_port():
    callbacks = CallbackServer()
    with pytest.raises(TimeoutError):
        wait_at(callbacks, 0.05)
    with pytest.raises(ConnectionRefusedError):
        open_to(callbacks.port)


def test_after_fork_closes_the_port():
    callbacks = CallbackServer()
    callbacks.after_fork()
    with pytest.raises(ConnectionRefusedError):
        open_to(callbacks.port)
    callbacks.close()


@pytest.mark.fault("F39")
@pytest.mark.case("G10")
def test_a_port_in_use_raises_an_error_that_names_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AuthError) as caught:
            CallbackServer(port=port)
    assert str(caught.value) == (
        f"cannot listen on port {port} of this machine for the redirect after the "
        "login: Address already in use"
    )


def test_an_explicit_port_can_be_reused_immediately():
    with waiting() as it:
        come_back(it)
        it.result()
    with waiting(port=it.port) as again:
        assert again.port == it.port
        come_back(again)
        assert again.result() == CALLBACK_PARAMETERS


def test_the_preferred_port_is_used_when_it_is_free():
    first = CallbackServer()
    uri = first.redirect_uri
    other = CallbackServer(preferred=uri)
    assert other.port != first.port
    first.close()
    again = CallbackServer(preferred=uri)
    assert again.redirect_uri == uri
    again.close()
    named = CallbackServer(port=first.port, preferred=other.redirect_uri)
    assert named.port == first.port
    for each in (other, named):
        each.close()


@pytest.mark.parametrize(
    "uri",
    [
        *("https://app.example:{port}/callback", "http://127.0.0.1:{port}/other"),
        *("http://app.example:{port}/callback", "nothing"),
    ],
)
def test_a_foreign_preferred_uri_is_ignored(uri):
    first = CallbackServer()
    first.close()
    again = CallbackServer(preferred=uri.format(port=first.port))
    assert again.port != first.port
    again.close()


def test_the_ipv6_loopback_is_used_without_ipv4(monkeypatch):
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    listen = socket.create_server

    def without_ipv4(address, **options):
        if address[0] == "127.0.0.1":
            raise OSError(errno.EADDRNOTAVAIL, "no")
        return listen(address, **options)

    monkeypatch.setattr(socket, "create_server", without_ipv4)
    try:
        callbacks = CallbackServer()
    except AuthError:
        pytest.skip("this machine has no loopback of IPv6")
    assert callbacks.redirect_uri == f"http://[::1]:{callbacks.port}/callback"
    with socket.create_connection(("::1", callbacks.port), BOUND_S) as sock:
        host = f"[::1]:{callbacks.port}"
        sock.sendall(request(f"/callback?{GOOD}", host=host))
        assert wait_at(callbacks) == CALLBACK_PARAMETERS


@pytest.mark.parametrize(
    ("authority", "host", "is_ours"),
    [
        ("127.0.0.1:80", "127.0.0.1", True),
        ("127.0.0.1:80", "127.0.0.1:80", True),
        ("127.0.0.1:8080", "127.0.0.1", False),
    ],
)
def test_only_port_80_may_be_missing_in_the_host_header(authority, host, is_ours):
    sent = request(f"/callback?{GOOD}", host=host)
    assert module._check_request(sent, authority, STATE)[1] == (
        CALLBACK_PARAMETERS if is_ours else None
    )


SERVER = parse_url("https://mcp.example/mcp")
LOCAL = parse_url("http://127.0.0.1:8000/mcp")
URL = "https://login.example/authorize?response_type=code&state=x%20y"


class Browser(webbrowser.BaseBrowser):
    def __init__(self, outcome=True):  # noqa: FBT002 - as `open` returns it
        super().__init__("fake")
        self.opened = []
        self.outcome = outcome

    def open(self, url, new=0, autoraise=True):  # noqa: FBT002 - the module's own
        self.opened.append(url)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        if callable(self.outcome):
            return self.outcome()
        return self.outcome


@pytest.fixture
def has(monkeypatch):
    def choose(browser):
        monkeypatch.setattr(webbrowser, "get", lambda *_: browser)
        return browser

    return choose


@pytest.mark.attack("S04")
@pytest.mark.rule("SEC-08")
@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_url_is_never_opened(has, number):
    browser = has(Browser())
    with pytest.raises(UrlRefused) as caught:
        open_browser(HOSTILE[number], server=SERVER)
    assert browser.opened == []
    assert str(caught.value).isprintable()
    assert "hush-hush" not in str(caught.value)


@pytest.mark.attack("S04")
@pytest.mark.parametrize(
    ("url", "server"),
    [
        (URL, SERVER),
        (URL, LOCAL),
        (URL, None),
        ("http://127.0.0.1:9000/authorize?a=b", LOCAL),
        ("http://localhost:9000/authorize?a=b", None),
    ],
)
def test_an_allowed_url_is_opened_unchanged(has, url, server):
    browser = has(Browser())
    assert open_browser(url, server=server) is True
    assert browser.opened == [url]


@pytest.mark.parametrize("outcome", [False, OSError("no such program")])
def test_open_browser_returns_false_when_the_browser_fails(has, outcome):
    has(Browser(outcome))
    assert open_browser(URL, server=SERVER) is False


@pytest.mark.fault("F39")
def test_open_browser_returns_while_the_browser_still_runs(has, monkeypatch):
    monkeypatch.setattr(module, "BROWSER_START_TIMEOUT_S", 0.05)
    goes_on = threading.Event()
    has(Browser(lambda: goes_on.wait(10)))
    assert open_browser(URL, server=SERVER) is True
    goes_on.set()


def test_open_browser_returns_false_without_a_browser(monkeypatch):
    def none(*_):
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    assert open_browser(URL, server=SERVER) is False


@pytest.mark.parametrize("is_wanted", [False, True])
def test_a_text_browser_is_used_only_when_browser_is_set(has, monkeypatch, is_wanted):
    opened = []
    browser = webbrowser.GenericBrowser("lynx")
    browser.open = lambda url: opened.append(url) or True
    has(browser)
    monkeypatch.delenv("BROWSER", raising=False)
    if is_wanted:
        monkeypatch.setenv("BROWSER", "lynx")
    assert open_browser(URL, server=SERVER) is is_wanted
    assert opened == [URL] * is_wanted


@pytest.mark.attack("S04")
@pytest.mark.rule("SEC-08")
def test_a_program_gets_the_url_as_one_argument(monkeypatch, tmp_path):
    seen = tmp_path / "seen"
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$#" "$@" >"{seen}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(program))
    monkeypatch.setattr(webbrowser, "get", lambda *_: made)
    made = webbrowser.GenericBrowser(str(program))
    url = "https://login.example/authorize?a=b&c=d&touch=x*~!"
    assert open_browser(url, server=SERVER) is True
    assert seen.read_text() == f"1|{url}|"
