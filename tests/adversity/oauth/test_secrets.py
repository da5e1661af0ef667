"""Secrets in use and at rest: in no repr, log, process list or other file."""

import gc
import logging
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from authorization_server import authorization_server, browse, oauth, protected_server
from engine_calls import connected, echo
from evil_issuer import BOUND_S, PEM, SECRETS, good_and_evil, knows_client, use
from sentinel import SENTINEL

import mcpwire

pytestmark = pytest.mark.attack("S23")

PROCESSES = Path("/proc")


def shown():
    """Return the objects of the package whose repr or str shows a secret."""
    gc.collect()  # objects of earlier tests may be half initialised
    found = []
    for each in gc.get_objects():
        kind = type(each)
        if str(kind.__module__).startswith("mcpwire."):
            text = f"{each!r}{each!s}"
            if SENTINEL in text or "BEGIN PRIVATE" in text:
                found.append((f"{kind.__module__}.{kind.__qualname__}", text[:90]))
    return found


def test_object_that_shows_a_secret_is_found():
    """Otherwise the tests below would prove nothing."""
    from mcpwire.auth.records import Tokens

    class Open(Tokens):
        __module__ = "mcpwire.somewhere"

        def __repr__(self):
            return self.access_token

    leak = Open(f"{SENTINEL}-token")
    assert len(shown()) == 1
    del leak


@pytest.mark.parametrize("kind", ["login", "dpop", *SECRETS])
async def test_no_object_shows_a_secret_in_use(kind):
    options = {"dpop": kind == "dpop", "auth_methods": ["client_secret_post"]}
    with (
        good_and_evil(**options) as (good, _),
        protected_server(good, dpop=kind == "dpop") as server,
    ):
        if kind in SECRETS:
            good.auth_methods = None
            knows_client(good, kind)
            grant = SECRETS[kind](good, issuer=good.issuer)
        else:
            grant = oauth()
        async with connected(server, grant) as client:
            await echo(client)
            assert shown() == []
            good.forget_all()
            good.on["token"] = lambda request: (
                400,
                {"content-type": "application/json"},
                b'{"error": "server_error", "error_description": "%s"}'
                % request.body.replace(b'"', b"")[:400],
            )
            with pytest.raises(mcpwire.MCPError) as caught:
                await client.call_tool("echo", {"text": "hi"})
            assert SENTINEL not in str(caught.value)
            assert shown() == []


async def test_debug_logs_hold_no_secret(caplog):
    """Neither our logs nor those of our dependencies."""
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore", "mcpwire", "asyncio"):
        caplog.set_level(logging.DEBUG, logger=name)
    options = {"auth_methods": ["client_secret_basic"]}
    with (
        good_and_evil(**options) as (good, _),
        protected_server(good, ("a",)) as server,
    ):
        server.needs["tools/call"] = ("b",)
        grant = oauth()
        for _ in range(2):
            assert (await use(server.url, grant)).text == "hi"
            good.expire_all()
        target = mcpwire.Http(server.url, auth=grant)
        assert mcpwire.login_status(target) is not None
    names = {record.name.partition(".")[0] for record in caplog.records}
    assert names >= {"mcpwire", "httpcore"}
    assert SENTINEL not in caplog.text
    assert "code_verifier" not in caplog.text
    assert "Bearer " not in caplog.text


class Watched:
    """A command, and the process list entries of it and its children."""

    def __init__(self, words, environment, **options):
        self.seen = set()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mcpwire", *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
            **options,
        )

    def look(self):
        """Record the command lines of the processes of this session."""
        for entry in PROCESSES.glob("[0-9]*"):
            try:
                if os.getsid(int(entry.name)) == self.process.pid:
                    self.seen.add((entry / "cmdline").read_text())
            except OSError:  # the process has ended
                continue

    def finish(self, given=None):
        done = threading.Event()

        def watch():
            while not done.wait(0.005):
                self.look()

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            out, err = self.process.communicate(given, timeout=BOUND_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        finally:
            done.set()
            watcher.join()
        return self.process.returncode, out, err


BROWSER = """#!{python}
import sys, urllib.request
class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None
opener = urllib.request.build_opener(Stay)
try:
    opener.open(sys.argv[1], timeout=30)
except urllib.error.HTTPError as answer:
    urllib.request.urlopen(answer.headers["Location"], timeout=30).read()
"""


def readers_of(folder):
    """Return the files that hold a secret, with their modes."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and SENTINEL.encode() in path.read_bytes():
            modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)]
            found[path.name] = modes
    return found


@pytest.mark.skipif(not PROCESSES.is_dir(), reason="processes are seen on Linux only")
@pytest.mark.timeout(120)
def test_secrets_are_only_in_the_store_file(tmp_path):
    program = tmp_path / "bin" / "browser"
    program.parent.mkdir()
    program.write_text(BROWSER.format(python=sys.executable))
    program.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("XDG_")},
        "HOME": str(home),
        "TMPDIR": str(home),
        "BROWSER": str(program),
        "MY_SECRET": f"{SENTINEL}-configured",
    }
    with authorization_server() as auth, protected_server(auth) as server:
        auth.add_client("known", secret=f"{SENTINEL}-configured")
        words = ("--client-id", "known", "--client-secret-env", "MY_SECRET")
        words += ("--issuer", auth.issuer, "-v")
        login = Watched(["auth", "login", server.url, *words], environment, cwd=home)
        code, out, err = login.finish("")
        if code == 3:  # without a terminal the URL is passed with --callback-url
            back = browse(re.search(r"log in at (\S+) and give", err)[1])
            again = ["auth", "login", server.url, "--callback-url", "-", *words]
            login = Watched(again, environment, cwd=home)
            code, more, errors = login.finish(f"{back}\n")
            out, err = out + more, err + errors
        assert code == 0, err
        assert auth.grants == ["authorization_code"]
        call = ["call", server.url, "echo", "text=hi", *words]
        used = Watched(call, environment, cwd=home)
        code, more, errors = used.finish()
        assert code == 0, errors
        [token] = auth.live
        given = {**environment, "TOKEN": token}
        call = ["call", server.url, "echo", "text=hi", "--auth-env", "TOKEN"]
        plain = Watched(call, given, cwd=home)
        code, _, err_of_token = plain.finish()
        assert code == 0, err_of_token
        assert SENTINEL not in out + err + more + errors + err_of_token
        for each in (login, used, plain):
            assert any("mcpwire" in line for line in each.seen)
            assert not [line for line in each.seen if SENTINEL in line]
    found = readers_of(home)
    assert list(found) == ["credentials.sqlite"]
    assert found["credentials.sqlite"] == [0o600, 0o700]
    assert PEM not in out


def test_secret_in_a_process_list_is_found(tmp_path):
    words = ["call", "http://127.0.0.1:1/mcp", SENTINEL]
    watched = Watched(words, {**os.environ, "HOME": str(tmp_path)})
    watched.finish()
    assert any(SENTINEL in line for line in watched.seen)
