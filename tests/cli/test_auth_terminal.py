"""Logging in at a real terminal, with a local or a remote browser."""

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


def shown_url(one):
    one.read_until(r"log in at \S+\n")
    return re.search(r"log in at (\S+)\n", one.text)[1]


def test_login_through_a_local_browser_succeeds(
    terminal, child, tmp_path, auth, server
):
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.format(python=sys.executable))
    browser.chmod(0o755)
    one = terminal().start("auth", "login", server.url, env={"BROWSER": str(browser)})
    assert one.finish() == 0, one.text
    assert shown_url(one).startswith(f"{auth.issuer}/authorize?")
    assert f"\nissuer   {auth.issuer}\n" in one.text
    assert SENTINEL not in one.text
    done = child("call", server.url, "echo", "text=hi")
    assert done == (0, "hi\n", "")
    assert len(auth.token_requests) == 1


def test_callback_url_can_be_pasted_without_a_local_browser(terminal, auth, server):
    one = terminal().start("auth", "login", server.url, "--no-browser")
    url = shown_url(one)
    one.answer("http://127.0.0.1/callback", url, browse(url))
    assert one.finish() == 0, one.text
    assert one.text.count("this is not the URL of the redirect") == 2
    assert f"\nissuer   {auth.issuer}\n" in one.text


@pytest.mark.parametrize(("typed", "code"), [("\n", 2), ("\x04", 2), (CTRL_C, 130)])
def test_login_prompt_can_be_cancelled(terminal, server, typed, code):
    words = "auth", "login", server.url, "--no-browser"
    one = terminal().start(*words, controls=True)
    one.read_until("> $")
    one.type(typed)
    assert one.finish() == code, one.text
    assert "Traceback" not in one.text


def test_ctrl_c_ends_a_login_waiting_for_the_browser(terminal, auth, server):
    env = {"BROWSER": "true"}
    one = terminal().start("auth", "login", server.url, env=env, controls=True)
    shown_url(one)
    one.type(CTRL_C)
    assert one.finish() == 130, one.text
    assert not auth.token_requests


def test_line_truncated_by_the_terminal_is_reported(terminal, server):
    one = terminal().start("auth", "login", server.url, "--no-browser")
    back = shown_url(one).partition("?")[0] + "?state=1&code="
    one.read_until("> $")
    one.type(back + "x" * 5000 + "\n")
    assert one.finish() == 2, one.text
    assert "--callback-url @FILE" in one.text
