"""Consent to visit a URL: shown in full, opened only on request."""

import os
import sys
import time

import pytest

from mcpwire.cli import interactive as pages
from mcpwire.cli.interactive import open_in_browser, request_consent
from mcpwire.versions import REVISIONS

BOUND_S = 30.0
URL = "https://pay.example.com/order?x=1"


@pytest.fixture
def opened(monkeypatch):
    """Collect the URLs that a browser would have opened."""
    found = []
    monkeypatch.setattr(
        pages, "open_in_browser", lambda url: found.append(url) or url == URL
    )
    return found


@pytest.mark.rule("ELIC-11", "ELIC-13", "ELIC-15")
async def test_full_url_is_shown_with_its_host_highlighted(requester, person, opened):
    one = person("d")
    assert await request_consent(URL, "Please pay.", requester, one) == "decline"
    assert one.shown == [
        "",
        "*drinks* asks you to visit a URL",
        "  | Please pay.",
        "  request from the server some-server --fast",
        "",
        "  URL   https://*pay.example.com*/order?x=1",
        "  host  *pay.example.com*",
        "",
        "mcpwire has not opened this URL, and does not see what you do there.",
        "y: agree, d: decline, c: cancel > ",
    ]
    assert opened == []


@pytest.mark.rule("ELIC-11", "ELIC-12", "ELIC-13")
@pytest.mark.parametrize(
    "dialog",
    [
        (["d"], "decline", False),
        (["n"], "decline", False),
        (["!decline"], "decline", False),
        (["c"], "cancel", False),
        (["!cancel"], "cancel", False),
        ([None], "cancel", False),
        (["", "o", "what", "D"], "decline", False),
        (["y", ""], "accept", False),
        (["yes", "no"], "accept", False),
        (["y", None], "cancel", False),
        (["y", "o"], "accept", True),
        (["Y", "Open"], "accept", True),
    ],
)
async def test_browser_opens_only_after_consent_and_an_open_command(
    requester, person, opened, dialog
):
    typed, action, opens = dialog
    one = person(*typed)
    assert await request_consent(URL, "m", requester, one) == action
    assert one.typed == []
    assert opened == ([URL] if opens else [])
    assert one.forgot_before == [len(typed)]


@pytest.mark.rule("ELIC-26")
@pytest.mark.parametrize(
    ("typed", "action"),
    [
        (("y", "", "r"), "accept"),
        (("y", "o", "what", "R"), "accept"),
        (("y", "", "c"), "cancel"),
        (("y", "", None), "cancel"),
        (("d",), "decline"),
    ],
)
async def test_stateless_accept_waits_until_the_user_finished(
    requester, person, opened, typed, action
):
    one = person(*typed)
    stateless = requester._replace(revision=REVISIONS[-1])
    assert await request_consent(URL, "m", stateless, one) == action
    assert one.typed == []


@pytest.mark.rule("ELIC-15")
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "https://xn--e1afmkfd.example/",
            "host  *xn--e1afmkfd.example* (a browser may show пример.example)",
        ),
        (
            "https://xn--e1afmkfd.example/",
            "*Warning*: the host has letters that look like others",
        ),
        ("https://example.com:8443/", "*Warning*: the port is 8443, which is unusual"),
        ("https://10.0.0.1/", "*Warning*: the host is a bare address"),
        ("HTTPS://Example.COM/a", "URL   HTTPS://*Example.COM*/a"),
        ("https://https.example/", "URL   https://*https.example*/"),
        ("https://[2001:db8::1]/a", "URL   https://[*2001:db8::1*]/a"),
        ("https://[2001:db8:0::1]/a", "URL   https://[2001:db8:0::1]/a"),
    ],
)
async def test_suspicious_url_is_shown_with_a_warning(requester, person, url, expected):
    one = person("c")
    await request_consent(url, "m", requester, one)
    assert any(expected in line for line in one.shown), one.text


async def test_missing_browser_does_not_fail_the_consent(requester, person, opened):
    one = person("y", "o")
    assert (
        await request_consent("https://other.example/", "m", requester, one) == "accept"
    )
    assert one.shown[-1] == "  No browser could be opened."


def browser(tmp_path, code):
    path = tmp_path / "browser"
    path.write_text(f"#!{sys.executable} -S\nimport os, sys, time\n{code}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.attack("S32")
def test_url_is_one_browser_argument_without_a_shell(tmp_path, monkeypatch):
    log = tmp_path / "log"
    code = f"print('chatter'); open({str(log)!r}, 'w').write(repr(sys.argv[1:]))"
    monkeypatch.setenv("BROWSER", browser(tmp_path, code))
    url = "https://example.com/?a=1&b=$(touch%20x);'%22`"
    assert open_in_browser(url)
    assert log.read_text() == repr([url])


def test_failing_browser_command_is_detected(tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER", browser(tmp_path, "sys.exit(1)"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not open_in_browser(URL)


def wait_for_text(path):
    """Return the text of a file once another process has written it."""
    deadline = time.monotonic() + BOUND_S
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, "the file stayed empty"
        time.sleep(0.01)  # the writer gives no other signal
    return path.read_text()


def test_running_browser_does_not_block_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "OPENER_TIMEOUT_S", 0.5)
    pid = tmp_path / "pid"
    code = f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    monkeypatch.setenv("BROWSER", browser(tmp_path, code))
    assert open_in_browser(URL)
    os.killpg(os.getpgid(int(wait_for_text(pid))), 9)
    pages.RUNNING_BROWSERS.pop().wait(BOUND_S)
