"""Logging in at a real terminal: with a browser here, or elsewhere."""

import re
import sys

import pytest
from authorization_server import SENTINEL, browse

BROWSER = """\
#!{python} -S
import os, sys, urllib.request
if os.fork():  # as browsers do: what was started returns
    os._exit(0)
with urllib.request.urlopen(sys.argv[1]) as page:
    page.read()
"""
CTRL_C = "\x03"


def told(one):
    """Return the URL that a terminal was shown."""
    one.read_until(r"log in at \S+\n")
    return re.search(r"log in at (\S+)\n", one.text)[1]


def test_a_login_goes_through_the_browser_and_back(
    terminal, child, tmp_path, auth, server
):
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.format(python=sys.executable))
    browser.chmod(0o755)
    one = terminal().start("auth", "login", server.url, env={"BROWSER": str(browser)})
    assert one.finish() == 0, one.text
    assert told(one).startswith(f"{auth.issuer}/authorize?")
    assert f"\nissuer   {auth.issuer}\n" in one.text
    assert SENTINEL not in one.text
    done = child("call", server.url, "echo", "text=hi")
    assert done == (0, "hi\n", "")
    assert len(auth.token_requests) == 1


def test_the_url_is_carried_by_hand_where_the_browser_is_elsewhere(
    terminal, auth, server
):
    one = terminal().start("auth", "login", server.url, "--no-browser")
    url = told(one)
    one.answer("http://127.0.0.1/callback", url, browse(url))
    assert one.finish() == 0, one.text
    assert one.text.count("that is not where the browser is sent to") == 2
    assert f"\nissuer   {auth.issuer}\n" in one.text


@pytest.mark.parametrize(("typed", "code"), [("\n", 2), ("\x04", 2), (CTRL_C, 130)])
def test_a_login_can_be_left(terminal, server, typed, code):
    words = "auth", "login", server.url, "--no-browser"
    one = terminal().start(*words, controls=True)
    one.read_until("> $")
    one.type(typed)
    assert one.finish() == code, one.text
    assert "Traceback" not in one.text


def test_ctrl_c_ends_a_login_that_waits_for_the_browser(terminal, auth, server):
    env = {"BROWSER": "true"}
    one = terminal().start("auth", "login", server.url, env=env, controls=True)
    told(one)
    one.type(CTRL_C)
    assert one.finish() == 130, one.text
    assert not auth.token_requests


def test_a_line_that_the_terminal_has_cut_is_told_of(terminal, server):
    one = terminal().start("auth", "login", server.url, "--no-browser")
    back = told(one).partition("?")[0] + "?state=1&code="
    one.read_until("> $")
    one.type(back + "x" * 5000 + "\n")
    assert one.finish() == 2, one.text
    assert "--callback-url @FILE" in one.text
