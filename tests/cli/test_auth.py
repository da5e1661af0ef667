"""Logging in from the command line: `mcpwire auth`, and what other commands make of it.

Whoever has a terminal and a browser is in test_auth_terminal.py.
"""

import io
import json
import re
import shlex
import sys
import threading
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from authorization_server import (
    SENTINEL,
    authorization_server,
    browse,
    protected_server,
)

TOLD = re.compile(r"the URL that this leads to: (http://\S+)$")
HOW = "`mcpwire auth login URL` logs in; --auth-env VARIABLE sends a token"


@pytest.fixture
def cli(cli):
    """Run a command line, which shows nobody a secret."""

    def run(*words):
        done = cli(*words)
        assert SENTINEL not in done.out + done.err
        return done

    return run


@pytest.fixture
def given(monkeypatch):
    """Give something on standard input."""

    def give(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return give


@pytest.fixture
def log_in(cli, given):
    """Log in as who has no browser here does, with two commands."""

    def run(url, *words):
        begun = cli("auth", "login", url, *words)
        assert begun.code == 3, begun
        given(browse(TOLD.search(begun.err)[1]))
        return cli("auth", "login", url, "--callback-url", "-", *words)

    return run


@pytest.fixture
def seen(monkeypatch):
    """Sit at the terminal, with a browser that consents; give what it was shown."""
    from mcpwire.cli.output import Output
    from mcpwire.transports.oauth import interactive_login

    shown, threads = [], []

    def follow(url):
        with urllib.request.urlopen(browse(url), timeout=30) as page:
            page.read()

    def open_browser(url, *, server):
        shown.append(url)
        threads.append(threading.Thread(target=follow, args=(url,)))
        threads[-1].start()
        return True

    monkeypatch.setattr(Output, "can_prompt", True)
    monkeypatch.setattr(interactive_login, "open_browser", open_browser)
    yield shown
    for thread in threads:
        thread.join(30)


# Logging in and out...


def test_a_login_counts_for_every_command_until_its_logout(cli, log_in, auth, server):
    url = server.url
    assert cli("auth", "status", url) == (3, "not logged in\n", "")
    done = log_in(url)
    assert (done.code, done.err) == (0, "")
    assert f"server   {url}\nprofile  default\nissuer   {auth.issuer}\n" in done.out
    assert cli("auth", "status", url) == (0, done.out, "")

    assert cli("call", url, "echo", "text=hi") == (0, "hi\n", "")
    assert cli("ls", url).out.startswith("Tools (6)\n")
    assert server.challenges == 1, "the login's own"
    assert len(auth.token_requests) == 1

    assert cli("auth", "logout", url) == (0, f"logged out of {url}\n", "")
    assert not auth.live, "the server was asked to forget the tokens"
    assert cli("auth", "logout", url) == (0, f"there was no login to {url}\n", "")
    assert cli("auth", "status", url).code == 3
    done = cli("call", url, "echo", "text=hi")
    assert (done.code, done.out) == (3, "")
    assert done.err.endswith(f"; {HOW}\n")


def test_at_a_terminal_the_browser_is_sent_to_log_in(cli, seen, auth, server):
    done = cli("auth", "login", server.url)
    assert (done.code, done.err) == (0, f"log in at {seen[0]}\n")
    assert re.search(
        r"^token    good until .* UTC, renewed by itself$", done.out, re.MULTILINE
    )
    again = cli("auth", "login", server.url)
    assert again.out == done.out
    assert again.err == (
        "there was a login already; `mcpwire auth logout URL` ends it\n"
    )
    assert len(seen) == 1


def test_auth_logs_in_with_any_command(cli, seen, server):
    done = cli("call", server.url, "echo", "text=hi", "--auth")
    assert (done.code, done.out) == (0, "hi\n")
    assert cli("call", server.url, "echo", "text=hi") == (0, "hi\n", "")
    assert len(seen) == 1


@pytest.mark.parametrize("words", [("--auth",), ("--profile", "work")])
def test_without_a_terminal_nobody_is_asked(cli, server, auth, words):
    done = cli("call", server.url, "echo", "text=hi", *words)
    assert (done.code, done.out) == (3, "")
    url = TOLD.search(done.err)[1]
    assert url.startswith(f"{auth.issuer}/authorize?")
    assert "a login is needed" in done.err


def test_what_is_told_to_finish_a_login_finishes_it(cli, given, server):
    """In the words of the message, and none but those."""
    begun = cli("auth", "login", server.url, "--profile", "my work")
    [words] = re.findall("`mcpwire (auth login [^`]+)`", begun.err)
    given(browse(TOLD.search(begun.err)[1]))
    done = cli(*(server.url if word == "URL" else word for word in shlex.split(words)))
    assert done.code == 0, done
    assert "profile  my work\n" in done.out


def test_no_ask_asks_nobody_at_a_terminal_either(cli, seen, server):
    done = cli("call", server.url, "echo", "text=hi", "--auth", "--no-ask")
    assert done.code == 3
    assert TOLD.search(done.err)
    assert not seen


def test_with_json_each_command_prints_an_object(cli, given, auth, server):
    done = cli("auth", "login", server.url, "--json")
    assert (done.code, done.out) == (3, "")
    error = json.loads(done.err)["error"]
    assert (error["type"], error["exit"]) == ("AuthRequired", 3)
    given(browse(error["details"]["url"]))
    done = cli("auth", "login", server.url, "--json", "--callback-url", "-")
    status = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert status["server"] == server.url
    assert status["issuer"] == auth.issuer
    assert status["can_refresh"] is True
    assert json.loads(cli("auth", "status", server.url, "--json").out) == status
    document = json.loads(cli("auth", "logout", server.url, "--json").out)
    assert document == {"server": server.url, "forgotten": True}
    assert cli("auth", "status", server.url, "--json") == (3, "null\n", "")


def test_with_json_the_url_to_log_in_at_is_an_object_too(cli, seen, server):
    done = cli("auth", "login", server.url, "--json")
    assert json.loads(done.err) == {"login": {"url": seen[0]}}


def test_profiles_tell_accounts_apart(cli, log_in, server):
    assert log_in(server.url, "--profile", "work").code == 0
    assert cli("auth", "status", server.url).code == 3
    done = cli("auth", "status", server.url, "--profile", "work")
    assert "profile  work\n" in done.out
    assert cli("ls", server.url).code == 3
    assert cli("ls", server.url, "--profile", "work").code == 0


def test_scopes_are_asked_for_as_they_are_given(cli, log_in, auth, server):
    done = log_in(server.url, "--scope", "a:b", "--scope", "c")
    assert "scopes   a:b c\n" in done.out
    assert auth.authorizations[0].query["scope"] == "a:b c"


def test_a_server_that_wants_no_login_is_said_to_want_none(cli, server):
    server.is_open = True
    done = cli("auth", "login", server.url)
    assert done == (0, "not logged in\n", f"{server.url} wants no login\n")
    done = cli("auth", "login", server.url, "--no-browser")
    assert done == (0, "not logged in\n", f"{server.url} wants no login\n")


@pytest.mark.parametrize(("refresh", "code"), [(True, 0), (False, 3)])
def test_a_token_that_has_ended_is_no_login_unless_it_is_renewed(
    cli, log_in, monkeypatch, refresh, code
):
    from mcpwire.cli import login

    with (
        authorization_server(refresh=refresh) as auth,
        protected_server(auth) as server,
    ):
        log_in(server.url)
        later = SimpleNamespace(time=lambda: time.time() + 3601)
        monkeypatch.setattr(login, "time", later)
        done = cli("auth", "status", server.url)
    assert done.code == code
    renewed = "renewed by itself" if refresh else "not renewed"
    assert re.search(rf"^token    ended .* UTC, {renewed}$", done.out, re.MULTILINE)


def test_what_is_said_of_a_token_without_an_end(cli, log_in):
    with (
        authorization_server(expires_in=None) as auth,
        protected_server(auth) as server,
    ):
        done = log_in(server.url)
    assert "good until the server says otherwise, renewed by itself" in done.out


def test_a_logout_works_without_the_authorization_server(cli, log_in, auth, server):
    log_in(server.url)
    auth.on["revoke"] = lambda request: (500, {}, b"")
    assert cli("auth", "logout", server.url).out == f"logged out of {server.url}\n"
    assert cli("auth", "status", server.url).code == 3


# Finishing what was begun...


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("", 2),
        ("nothing", 2),
        ("http://127.0.0.1/callback?code=1", 2),
        ("http://127.0.0.1/callback?state=1", 2),
        ("http://127.0.0.1/callback?" + "a=1&" * 99, 3),
    ],
)
def test_what_is_no_way_back_is_told_at_once(cli, given, server, line, code):
    given(line)
    done = cli("auth", "login", server.url, "--callback-url", "-")
    assert (done.code, done.out) == (code, "")
    assert not server.requests


def test_the_way_back_is_refused_in_the_command_line(cli, server):
    done = cli("auth", "login", server.url, "--callback-url", f"http://h/?{SENTINEL}")
    assert done.code == 2
    assert "- takes it from standard input, @FILE from a file" in done.err


@pytest.mark.attack("S22")
def test_the_way_back_of_another_login_leaves_this_one_alone(cli, given, server, auth):
    begun = cli("auth", "login", server.url)
    back = browse(TOLD.search(begun.err)[1])
    given(re.sub("state=[^&]+", "state=other", back))
    done = cli("auth", "login", server.url, "--callback-url", "-")
    assert done.code == 3
    assert "; log in anew; each login has a URL" in done.err
    given(back)
    assert cli("auth", "login", server.url, "--callback-url", "-").code == 0


def test_nothing_is_finished_that_was_not_begun(cli, given, server):
    given("http://127.0.0.1/callback?state=1&code=2")
    done = cli("auth", "login", server.url, "--callback-url", "-")
    assert done.code == 3
    assert "no login was begun within the last hour" in done.err


def test_begun_twice_it_is_the_same_login(cli, server):
    first, second = (cli("auth", "login", server.url) for _ in range(2))
    assert TOLD.search(first.err)[1] == TOLD.search(second.err)[1]


def test_a_user_who_refuses_is_told_of(cli, given, server):
    begun = cli("auth", "login", server.url)
    back = browse(TOLD.search(begun.err)[1])
    given(re.sub("code=[^&]+", "error=access_denied", back))
    done = cli("auth", "login", server.url, "--callback-url", "-")
    assert done.code == 3
    assert "access_denied" in done.err


# A client that is registered...


@pytest.mark.parametrize("issuer", [None, "discovered"])
def test_a_registered_client_logs_in_with_its_secret(
    cli, log_in, auth, server, *, monkeypatch, issuer
):
    monkeypatch.setenv("SECRET", f"{SENTINEL}-own")
    auth.add_client("me", secret=f"{SENTINEL}-own", redirect_uris=None)
    words = "--client-id", "me", "--client-secret-env", "SECRET", "--issuer"
    done = log_in(server.url, *words, issuer or auth.issuer)
    assert done.code == 0, done
    assert f"issuer   {auth.issuer}\nclient   me\n" in done.out
    auth.expire_all()
    assert cli("ls", server.url).code == 0, "renewed by what is stored"
    assert not auth.registrations
    assert f"{SENTINEL}-own".encode() not in server.bodies


def test_a_secret_goes_to_no_issuer_that_was_not_named(cli, auth, server, monkeypatch):
    monkeypatch.setenv("SECRET", f"{SENTINEL}-own")
    words = "--client-id", "me", "--client-secret-env", "SECRET"
    done = cli("auth", "login", server.url, *words)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "mcpwire: --issuer is missing: a secret goes to one authorization server; "
        "name it, or say --issuer='discovered' to trust whichever the MCP server "
        "names\n"
    )
    done = cli("auth", "login", server.url, *words, "--issuer", "https://as.example")
    assert done.code == 3
    assert SENTINEL.encode() not in auth.bodies + server.bodies


# Tokens of a variable...


@pytest.mark.attack("S23")
def test_a_token_comes_from_a_variable(cli, auth, server, monkeypatch):
    token = auth.give(())["access_token"]
    monkeypatch.setenv("TOKEN", token)
    assert cli("ls", server.url, "--auth-env", "TOKEN").code == 0
    auth.expire_all()
    done = cli("ls", server.url, "--auth-env", "TOKEN")
    assert done.code == 3
    assert done.err.endswith("; it does not take the token of TOKEN\n")


def test_a_token_that_lacks_a_scope_is_not_blamed(cli, auth, server, monkeypatch):
    monkeypatch.setenv("TOKEN", auth.give(("mcp:read",))["access_token"])
    server.needs["tools/list"] = ("mcp:admin",)
    done = cli("ls", server.url, "--auth-env", "TOKEN")
    assert done.code == 3
    assert done.err.endswith("wants scopes that are not granted: mcp:admin\n")


@pytest.mark.attack("S23")
@pytest.mark.parametrize(
    ("value", "words", "said"),
    [
        (None, ["--auth-env", "TOKEN"], "--auth-env TOKEN: TOKEN is not set"),
        (" ", ["--auth-env", "TOKEN"], "--auth-env TOKEN: TOKEN is not set"),
        (None, ["--auth-env", SENTINEL.lower()], "--auth-env: the variable is not set"),
        ("a b", ["--auth-env", "TOKEN"], "--auth-env: TOKEN holds no token"),
        ("a\nb", ["--auth-env", "TOKEN"], "--auth-env: TOKEN holds no token"),
        ("a", ["--auth-env", "TOKEN", "--auth"], "--auth-env and --auth exclude"),
        ("a", ["--auth-env", "TOKEN", "--issuer", "x"], "--auth-env and --issuer ex"),
        (
            "a",
            ["--auth", "--header-env", "authorization=TOKEN"],
            "a header Authorization and --auth exclude each other",
        ),
        (
            None,
            ["--client-id", "a", "--client-secret-env", "TOKEN"],
            "--client-secret-env TOKEN: TOKEN is not set",
        ),
        (
            "a",
            ["--client-secret-env", "TOKEN"],
            "--client-secret-env goes with a --client-id",
        ),
        (
            None,
            ["--issuer", "http://as.example"],
            "the --issuer 'http://as.example/' must be https",
        ),
        (None, ["--scope", 'a"b'], "scope"),
    ],
)
def test_options_that_make_no_sense_are_told(cli, monkeypatch, value, words, said):
    monkeypatch.delenv("TOKEN", raising=False)
    if value is not None:
        monkeypatch.setenv("TOKEN", value)
    done = cli("ls", "https://mcp.example.com/mcp", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert SENTINEL.lower() not in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("auth",), "auth is followed by one of login, status, logout\n"),
        (("auth", "logni"), "login, status, logout; did you mean 'auth login'?"),
        (("auth", "login"), "auth login needs URL (see mcpwire auth login --help)"),
        (("auth", "login", "server"), "logged in to, which begins with http:// or"),
        (("auth", "status", "--", "a", "b"), "only servers at a URL are logged in to"),
        (("auth", "login", "ftp://a/"), "ftp"),
        (("auth", "login", "http://mcp.example.com/"), "use https, or say --allow-ins"),
        (("auth", "logout", "https://a.example/", "--auth"), "unknown option '--auth'"),
        (("ls", "mcpwire demo-server", "--auth"), "--auth is for servers at a URL"),
        (
            ("auth", "login", "https://a.example/", "--header-env", "Authorization=A"),
            "exclude each other",
        ),
    ],
)
def test_commands_that_make_no_sense_are_told(cli, monkeypatch, words, said):
    monkeypatch.setenv("A", "a")
    done = cli(*words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.parametrize("words", [("auth", "-h"), ("auth", "--help")])
def test_the_help_of_auth_lists_its_commands(cli, words):
    done = cli(*words)
    assert (done.code, done.err) == (0, "")
    assert "usage: mcpwire auth COMMAND [options] URL\n" in done.out
    assert "  login   log in to a server at a URL" in done.out


def test_the_help_of_login_says_what_it_takes(cli):
    done = cli("auth", "login", "--help")
    assert done.out.startswith("usage: mcpwire auth login [options] URL\n")
    assert "--no-browser" in done.out
    assert "--mode" not in done.out


# What is told...


@pytest.mark.attack("S29")
def test_more_scopes_in_the_middle_of_a_command_are_asked_for(cli, log_in, server):
    log_in(server.url)
    server.needs["tools/call"] = ("mcp:write",)
    done = cli("call", server.url, "echo", "text=hi")
    assert done.code == 3
    assert "wants more scopes: mcp:write" in done.err
    assert TOLD.search(done.err)


def test_who_is_let_in_and_then_turned_away_is_told_what_helps(cli, seen, server):
    server.free = {"server/discover", "tools/list"}
    done = cli("call", server.url, "echo", "text=hi")
    assert done.code == 3
    assert done.err.endswith("; --auth logs in; --auth-env VARIABLE sends a token\n")
    assert cli("call", server.url, "echo", "text=hi", "--auth").out == "hi\n"


@pytest.mark.attack("S23")
def test_verbose_shows_each_step_without_its_query(cli, seen, auth, server):
    done = cli("call", server.url, "echo", "text=hi", "--auth", "-v")
    assert done.out == "hi\n"
    issuer = auth.issuer
    steps = re.findall(r"^log: (.*)$", done.err, re.MULTILINE)
    found = f"{issuer}/.well-known/oauth-authorization-server"
    assert f"the metadata of the authorization server: GET {found}: 200" in steps
    assert f"the token endpoint: POST {issuer}/token: 200" in steps
    assert "state=" not in done.err.replace(seen[0], "")
    assert SENTINEL not in done.err


def test_who_has_no_home_can_use_servers_that_want_no_login(cli, server, monkeypatch):
    def nowhere():
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.delenv("XDG_STATE_HOME")
    server.is_open = True
    assert cli("call", server.url, "echo", "text=hi") == (0, "hi\n", "")
    done = cli("auth", "status", server.url)
    assert done.code == 3
    assert "cannot tell where credentials are to be kept" in done.err


def test_a_broken_store_keeps_nobody_from_a_server(cli, server, state_folder):
    server.is_open = True
    path = state_folder / "mcpwire" / "credentials.sqlite"
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"no database" * 100)
    path.chmod(0o600)
    done = cli("call", server.url, "echo", "text=hi")
    assert (done.code, done.out) == (0, "hi\n")


def test_a_login_that_cannot_be_kept_is_no_login(cli, seen, server, state_folder):
    (state_folder / "mcpwire").write_text("no folder")
    done = cli("auth", "login", server.url)
    assert (done.code, done.out) == (3, "")
    assert "the login worked, and cannot be kept; -v shows why" in done.err


def test_a_url_that_is_no_endpoint_is_said_to_be_none(cli, auth):
    done = cli("auth", "login", auth.origin)
    assert done.code == 4
    assert done.err.endswith("; is it the URL of an MCP endpoint, with its path?\n")


@pytest.mark.parametrize("is_open", [True, False])
def test_time_that_a_user_may_take_is_bounded(cli, monkeypatch, seen, server, is_open):
    from mcpwire.transports.oauth import interactive_login

    monkeypatch.setattr(interactive_login, "open_browser", lambda url, server: is_open)
    done = cli("auth", "login", server.url, "--timeout", "0.1")
    assert done.code == 3
    assert ("no browser opens here" in done.err) is not is_open
    assert "the login was not finished within 0.1 s" in done.err


def test_a_header_of_ones_own_takes_the_place_of_a_login(
    cli, log_in, auth, server, monkeypatch
):
    log_in(server.url)
    monkeypatch.setenv("OTHER", "other")
    done = cli("ls", server.url, "--header-env", "Authorization=Bearer OTHER")
    assert done.code == 3
    assert server.messages[-1].headers["authorization"] == "Bearer other"
