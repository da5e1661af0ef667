"""Logging in from the command line: `mcpwire auth`, and its effect on other commands.

Logins at a terminal with a browser are in test_auth_terminal.py.
"""

import json
import re
import shlex
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

LOGIN_URL = re.compile(r"log in at (http://\S+) and give")
HINT = "`mcpwire auth login URL` logs in; --auth-env VARIABLE sends a token"


@pytest.fixture
def cli(cli):
    """Run a command line, and assert that it prints no secret."""

    def run(*words):
        done = cli(*words)
        assert SENTINEL not in done.out + done.err
        return done

    return run


@pytest.fixture
def log_in(cli, stdin):
    """Return a function that logs in without a local browser, by two commands."""

    def run(url, *words):
        started = cli("auth", "login", url, *words)
        assert started.code == 3, started
        stdin(browse(LOGIN_URL.search(started.err)[1]))
        return cli("auth", "login", url, "--callback-url", "-", *words)

    return run


@pytest.fixture
def seen(monkeypatch):
    """Fake a terminal and a browser that consents; yield the URLs it opened."""
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


def test_login_is_used_by_every_command_until_logout(cli, log_in, auth, server):
    url = server.url
    assert cli("auth", "status", url) == (3, "not logged in\n", "")
    done = log_in(url)
    assert (done.code, done.err) == (0, "")
    assert f"server   {url}\nprofile  default\nissuer   {auth.issuer}\n" in done.out
    assert cli("auth", "status", url) == (0, done.out, "")

    assert cli("call", url, "echo", "text=hi") == (0, "hi\n", "")
    assert cli("ls", url).out.startswith("Tools (6)\n")
    assert cli("bench", "--for", "0.1s", "--rounds", "1", "--no-floor", url).code == 0
    assert server.challenges == 1, "the login's own"
    assert len(auth.token_requests) == 1

    assert cli("auth", "logout", url) == (0, f"logged out of {url}\n", "")
    assert not auth.live, "the server was asked to forget the tokens"
    assert cli("auth", "logout", url) == (0, f"no login was stored for {url}\n", "")
    assert cli("auth", "status", url).code == 3
    done = cli("call", url, "echo", "text=hi")
    assert (done.code, done.out) == (3, "")
    assert done.err.endswith(f"; {HINT}\n")


def test_login_at_a_terminal_opens_the_browser_once(cli, seen, auth, server):
    done = cli("auth", "login", server.url)
    assert (done.code, done.err) == (0, f"log in at {seen[0]}\n")
    assert re.search(
        r"^token    valid until .* UTC, renewed automatically$", done.out, re.MULTILINE
    )
    again = cli("auth", "login", server.url)
    assert again.out == done.out
    assert again.err == ("already logged in; `mcpwire auth logout URL` logs out\n")
    assert len(seen) == 1


def test_auth_option_logs_in_with_any_command(cli, seen, server):
    done = cli("call", server.url, "echo", "text=hi", "--auth")
    assert (done.code, done.out) == (0, "hi\n")
    assert cli("call", server.url, "echo", "text=hi") == (0, "hi\n", "")
    assert len(seen) == 1


@pytest.mark.parametrize("words", [("--auth",), ("--profile", "work")])
def test_login_without_a_terminal_fails_with_its_url(cli, server, auth, words):
    done = cli("call", server.url, "echo", "text=hi", *words)
    assert (done.code, done.out) == (3, "")
    url = LOGIN_URL.search(done.err)[1]
    assert url.startswith(f"{auth.issuer}/authorize?")
    assert "a login is needed" in done.err


def test_command_in_the_login_message_finishes_the_login(cli, stdin, server):
    """The message contains the complete command."""
    started = cli("auth", "login", server.url, "--profile", "my work")
    [words] = re.findall("`mcpwire (auth login [^`]+)`", started.err)
    stdin(browse(LOGIN_URL.search(started.err)[1]))
    done = cli(*(server.url if word == "URL" else word for word in shlex.split(words)))
    assert done.code == 0, done
    assert "profile  my work\n" in done.out


def test_no_ask_does_not_open_a_browser_at_a_terminal(cli, seen, server):
    done = cli("call", server.url, "echo", "text=hi", "--auth", "--no-ask")
    assert done.code == 3
    assert LOGIN_URL.search(done.err)
    assert not seen


def test_auth_commands_with_json_print_one_object(cli, stdin, auth, server):
    done = cli("auth", "login", server.url, "--json")
    assert (done.code, done.out) == (3, "")
    error = json.loads(done.err)["error"]
    assert (error["type"], error["exit"]) == ("AuthRequired", 3)
    stdin(browse(error["details"]["url"]))
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


def test_login_url_with_json_is_an_object(cli, seen, server):
    done = cli("auth", "login", server.url, "--json")
    assert json.loads(done.err) == {"login": {"url": seen[0]}}


def test_profiles_separate_accounts(cli, log_in, server):
    assert log_in(server.url, "--profile", "work").code == 0
    assert cli("auth", "status", server.url).code == 3
    done = cli("auth", "status", server.url, "--profile", "work")
    assert "profile  work\n" in done.out
    assert cli("ls", server.url).code == 3
    assert cli("ls", server.url, "--profile", "work").code == 0


def test_scope_options_are_requested_in_order(cli, log_in, auth, server):
    done = log_in(server.url, "--scope", "a:b", "--scope", "c")
    assert "scopes   a:b c\n" in done.out
    assert auth.authorizations[0].query["scope"] == "a:b c"


def test_login_to_an_open_server_reports_that_none_is_needed(cli, server):
    server.is_open = True
    done = cli("auth", "login", server.url)
    assert done == (0, "not logged in\n", f"{server.url} requires no login\n")
    done = cli("auth", "login", server.url, "--no-browser")
    assert done == (0, "not logged in\n", f"{server.url} requires no login\n")


@pytest.mark.parametrize(("refresh", "code"), [(True, 0), (False, 3)])
def test_expired_token_counts_only_with_a_refresh_token(
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
    renewed = "renewed automatically" if refresh else "not renewed"
    assert re.search(rf"^token    expired .* UTC, {renewed}$", done.out, re.MULTILINE)


def test_token_without_expiry_is_good_until_refused(cli, log_in):
    with (
        authorization_server(expires_in=None) as auth,
        protected_server(auth) as server,
    ):
        done = log_in(server.url)
    assert "valid, no known expiry, renewed automatically" in done.out


def test_logout_works_if_revocation_fails(cli, log_in, auth, server):
    log_in(server.url)
    auth.on["revoke"] = lambda request: (500, {}, b"")
    assert cli("auth", "logout", server.url).out == f"logged out of {server.url}\n"
    assert cli("auth", "status", server.url).code == 3


# Finishing a login that was started...


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
def test_invalid_callback_url_fails_before_any_request(cli, stdin, server, line, code):
    stdin(line)
    done = cli("auth", "login", server.url, "--callback-url", "-")
    assert (done.code, done.out) == (code, "")
    assert not server.requests


def test_callback_url_in_the_command_line_is_refused(cli, server):
    done = cli("auth", "login", server.url, "--callback-url", f"http://h/?{SENTINEL}")
    assert done.code == 2
    assert "- reads the URL from standard input, @FILE from a file" in done.err


@pytest.mark.attack("S22")
def test_callback_of_another_login_does_not_end_this_login(cli, stdin, server, auth):
    started = cli("auth", "login", server.url)
    back = browse(LOGIN_URL.search(started.err)[1])
    stdin(re.sub("state=[^&]+", "state=other", back))
    done = cli("auth", "login", server.url, "--callback-url", "-")
    assert done.code == 3
    assert "; log in again; each login has its own redirect URL" in done.err
    stdin(back)
    assert cli("auth", "login", server.url, "--callback-url", "-").code == 0


def test_callback_without_a_started_login_is_refused(cli, stdin, server):
    stdin("http://127.0.0.1/callback?state=1&code=2")
    done = cli("auth", "login", server.url, "--callback-url", "-")
    assert done.code == 3
    assert "no login was begun within the last hour" in done.err


def test_second_login_command_resumes_the_same_login(cli, server):
    first, second = (cli("auth", "login", server.url) for _ in range(2))
    assert LOGIN_URL.search(first.err)[1] == LOGIN_URL.search(second.err)[1]


def test_denied_consent_is_reported(cli, stdin, server):
    started = cli("auth", "login", server.url)
    back = browse(LOGIN_URL.search(started.err)[1])
    stdin(re.sub("code=[^&]+", "error=access_denied", back))
    done = cli("auth", "login", server.url, "--callback-url", "-")
    assert done.code == 3
    assert "access_denied" in done.err


@pytest.mark.parametrize("issuer", [None, "discovered"])
def test_preregistered_client_logs_in_with_its_secret(
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


def test_client_secret_is_sent_only_to_the_named_issuer(cli, auth, server, monkeypatch):
    monkeypatch.setenv("SECRET", f"{SENTINEL}-own")
    words = "--client-id", "me", "--client-secret-env", "SECRET"
    done = cli("auth", "login", server.url, *words)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "mcpwire: --issuer is missing: a secret goes to one authorization server; "
        "name it, or pass --issuer='discovered' to trust the one that the MCP server "
        "names\n"
    )
    done = cli("auth", "login", server.url, *words, "--issuer", "https://as.example")
    assert done.code == 3
    assert SENTINEL.encode() not in auth.bodies + server.bodies


@pytest.mark.attack("S23")
def test_auth_env_takes_the_token_from_a_variable(cli, auth, server, monkeypatch):
    token = auth.give(())["access_token"]
    monkeypatch.setenv("TOKEN", token)
    assert cli("ls", server.url, "--auth-env", "TOKEN").code == 0
    auth.expire_all()
    done = cli("ls", server.url, "--auth-env", "TOKEN")
    assert done.code == 3
    assert done.err.endswith("; the server refused the token of TOKEN\n")


def test_missing_scope_error_does_not_blame_the_token(cli, auth, server, monkeypatch):
    monkeypatch.setenv("TOKEN", auth.give(("mcp:read",))["access_token"])
    server.needs["tools/list"] = ("mcp:admin",)
    done = cli("ls", server.url, "--auth-env", "TOKEN")
    assert done.code == 3
    assert done.err.endswith("requires scopes that are not granted: mcp:admin\n")


@pytest.mark.attack("S23")
@pytest.mark.parametrize(
    ("value", "line", "message"),
    [
        (None, "--auth-env TOKEN", "--auth-env TOKEN: TOKEN is not set"),
        (" ", "--auth-env TOKEN", "--auth-env TOKEN: TOKEN is not set"),
        (None, f"--auth-env {SENTINEL.lower()}", "--auth-env: the variable is not set"),
        ("a b", "--auth-env TOKEN", "--auth-env: TOKEN does not contain a token"),
        ("a\nb", "--auth-env TOKEN", "--auth-env: TOKEN does not contain a token"),
        ("a", "--auth-env TOKEN --auth", "--auth-env and --auth exclude"),
        ("a", "--auth-env TOKEN --issuer x", "--auth-env and --issuer exclude"),
        (
            *("a", "--auth --header-env authorization=TOKEN"),
            "a header Authorization and --auth exclude each other",
        ),
        (
            *(None, "--client-id a --client-secret-env TOKEN"),
            "--client-secret-env TOKEN: TOKEN is not set",
        ),
        (
            *("a", "--client-secret-env TOKEN"),
            "--client-secret-env goes with a --client-id",
        ),
        (
            *(None, "--issuer http://as.example"),
            "the --issuer 'http://as.example/' must be https",
        ),
        (None, "--scope 'a\"b'", "scope"),
    ],
)
def test_invalid_auth_options_are_usage_errors(cli, monkeypatch, value, line, message):
    monkeypatch.delenv("TOKEN", raising=False)
    if value is not None:
        monkeypatch.setenv("TOKEN", value)
    done = cli("ls", "https://mcp.example.com/mcp", *shlex.split(line))
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert SENTINEL.lower() not in done.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("auth", "auth needs one of login, status, logout\n"),
        ("auth logni", "login, status, logout; did you mean 'auth login'?"),
        ("auth login", "auth login needs URL (see mcpwire auth login --help)"),
        ("auth login server", "a URL, which begins with http:// or https://"),
        ("auth status -- a b", "auth status needs a server at a URL"),
        ("auth login ftp://a/", "ftp"),
        ("auth login http://mcp.example.com/", "use https, or pass --allow-insecure"),
        ("auth logout https://a.example/ --auth", "unknown option '--auth'"),
        ("ls 'mcpwire demo-server' --auth", "--auth applies to servers at a URL"),
        (
            "auth login https://a.example/ --header-env Authorization=A",
            "a header Authorization and auth login exclude each other",
        ),
    ],
)
def test_invalid_auth_commands_are_usage_errors(cli, monkeypatch, line, message):
    monkeypatch.setenv("A", "a")
    done = cli(*shlex.split(line))
    assert (done.code, done.out) == (2, "")
    assert message in done.err


@pytest.mark.parametrize("words", [("auth", "-h"), ("auth", "--help")])
def test_auth_help_lists_its_commands(cli, words):
    done = cli(*words)
    assert (done.code, done.err) == (0, "")
    assert "usage: mcpwire auth COMMAND [options] URL\n" in done.out
    assert "  login   log in to a server at a URL" in done.out


def test_login_help_lists_its_options_only(cli):
    done = cli("auth", "login", "--help")
    assert done.out.startswith("usage: mcpwire auth login [options] URL\n")
    assert "--no-browser" in done.out
    assert "--mode" not in done.out


@pytest.mark.attack("S29")
def test_scope_challenge_during_a_command_needs_a_new_login(cli, log_in, server):
    log_in(server.url)
    server.needs["tools/call"] = ("mcp:write",)
    done = cli("call", server.url, "echo", "text=hi")
    assert done.code == 3
    assert "requires more scopes: mcp:write" in done.err
    assert LOGIN_URL.search(done.err)


def test_challenge_after_connecting_gets_a_login_hint(cli, seen, server):
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


def test_open_server_works_without_a_home_folder(cli, server, monkeypatch):
    def nowhere():
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.delenv("XDG_STATE_HOME")
    server.is_open = True
    assert cli("call", server.url, "echo", "text=hi") == (0, "hi\n", "")
    done = cli("auth", "status", server.url)
    assert done.code == 3
    assert "found no folder for credentials" in done.err


def test_broken_credential_store_does_not_block_open_servers(cli, server, state_folder):
    server.is_open = True
    path = state_folder / "mcpwire" / "credentials.sqlite"
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"no database" * 100)
    path.chmod(0o600)
    done = cli("call", server.url, "echo", "text=hi")
    assert (done.code, done.out) == (0, "hi\n")


def test_login_that_cannot_be_stored_fails(cli, seen, server, state_folder):
    (state_folder / "mcpwire").write_text("no folder")
    done = cli("auth", "login", server.url)
    assert (done.code, done.out) == (3, "")
    assert "the login succeeded, but cannot be stored; -v shows why" in done.err


def test_login_at_a_non_mcp_url_gets_a_hint(cli, auth):
    done = cli("auth", "login", auth.origin)
    assert done.code == 4
    assert done.err.endswith(
        "; check that this is the URL of an MCP endpoint, including its path\n"
    )


@pytest.mark.parametrize("is_open", [True, False])
def test_login_has_a_timeout(cli, monkeypatch, seen, server, is_open):
    from mcpwire.transports.oauth import interactive_login

    monkeypatch.setattr(interactive_login, "open_browser", lambda url, server: is_open)
    done = cli("auth", "login", server.url, "--timeout", "0.1")
    assert done.code == 3
    assert ("no browser could be opened" in done.err) is not is_open
    assert "the login was not finished within 0.1 s" in done.err


def test_authorization_header_option_replaces_the_login(
    cli, log_in, auth, server, monkeypatch
):
    log_in(server.url)
    monkeypatch.setenv("OTHER", "other")
    done = cli("ls", server.url, "--header-env", "Authorization=Bearer OTHER")
    assert done.code == 3
    assert server.messages[-1].headers["authorization"] == "Bearer other"
