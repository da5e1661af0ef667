"""The user's browser: which URLs are refused, and the result of opening one."""

from __future__ import annotations

import threading
import webbrowser

import pytest
from hostile_urls import HOSTILE

from mcpwire.auth.errors import UrlRefused
from mcpwire.transports.oauth import interactive_login as module
from mcpwire.transports.oauth.interactive_login import open_browser
from mcpwire.wire.urls import parse_url

SERVER = parse_url("https://mcp.example/mcp")
LOCAL = parse_url("http://127.0.0.1:8000/mcp")
URL = "https://login.example/authorize?response_type=code&state=x%20y"


class Browser(webbrowser.BaseBrowser):
    """Records the URLs that it should open."""

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
