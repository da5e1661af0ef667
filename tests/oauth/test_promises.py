"""The promises of the documentation about authorization, tried from outside."""

import asyncio
import subprocess
import sys
from threading import Lock
from urllib.parse import urlsplit

import pytest
from authorization_server import SENTINEL, AuthorizationServer, Recorded, oauth
from engine_calls import BOUND_S, connected, echo
from protected import ProtectedMcp, answer_bytes
from raw_server import WAIT_S, raw_server

import mcpwire
import mcpwire.sync

# Programs like those of a user: they get nothing but the URL of the server.
PROGRAMS = {
    "asyncio": """
import asyncio, sys, mcpwire

async def main():
    async with mcpwire.Client(mcpwire.Http(sys.argv[1], auth="oauth")) as client:
        print((await client.call_tool("echo", {"text": "hi"})).text)

asyncio.run(main())
""",
    "blocking": """
import sys, mcpwire.sync

server = mcpwire.Http(sys.argv[1], auth="oauth")
with mcpwire.sync.Client(server) as client:
    print(client.call_tool("echo", {"text": "hi"}).text)
""",
}

BROWSER = """\
#!{python} -S
import os, sys, urllib.request
if os.fork():  # as browsers do: what was started returns
    os._exit(0)
with urllib.request.urlopen(sys.argv[1]) as page:
    page.read()
"""


@pytest.fixture(params=PROGRAMS)
def program(request, tmp_path, monkeypatch):
    """Return a function that runs the program and returns its output."""
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.format(python=sys.executable))
    browser.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    async def run(url, *, has_browser=True):
        monkeypatch.setenv("BROWSER", str(browser) if has_browser else "false")
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", PROGRAMS[request.param], url],
            capture_output=True,
            text=True,
            timeout=BOUND_S,
        )
        assert SENTINEL not in done.stdout + done.stderr
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.rule("AUTH-08", "FLOW-27")
async def test_auth_oauth_needs_no_configuration(program, auth, stateless, tmp_path):
    server = stateless
    assert await program(server.url) == "hi\n"
    assert (len(auth.registrations), len(auth.authorizations)) == (1, 1)
    [stored] = (tmp_path / "state" / "mcpwire").iterdir()
    modes = [path.stat().st_mode & 0o777 for path in (stored, stored.parent)]
    assert modes == [0o600, 0o700]
    # The next program needs no user, and no 401 first.
    before = server.challenges  # two where the first probe timed out
    assert 1 <= before <= 2
    assert await program(server.url, has_browser=False) == "hi\n"
    assert (server.challenges, len(auth.authorizations)) == (before, 1)


@pytest.mark.pain("P32")
async def test_the_next_program_refreshes_without_discovery(program, auth, stateless):
    """It refreshes before the token expires, with the metadata that is stored."""
    server = stateless
    auth.expires_in = 30  # less than what is left for a refresh
    assert await program(server.url) == "hi\n"
    before = len(auth.of("metadata")), server.challenges
    auth.expires_in = 3600
    for _ in range(2):
        assert await program(server.url, has_browser=False) == "hi\n"
    assert auth.grants.count("authorization_code") == 1
    assert (len(auth.of("metadata")), server.challenges) == before
    assert auth.grants[-1] == "refresh_token"


class CustomStore:
    """A store as docs/auth.md describes it: the five methods and nothing else."""

    def __init__(self):
        self.values, self.leases, self.lock = {}, {}, Lock()

    def load(self, key):
        return self.values.get(key, (None, 0))

    def save(self, key, value, version):
        with self.lock:
            if self.values.get(key, (None, 0))[1] != version:
                return None
            self.values[key] = value, version + 1
            return version + 1

    def lease(self, key, owner, seconds):
        with self.lock:
            return self.leases.setdefault(key, owner) == owner

    def release(self, key, owner):
        with self.lock:
            if self.leases.get(key) == owner:
                del self.leases[key]

    def keys(self):
        return [key for key, (value, _) in self.values.items() if value is not None]


@pytest.mark.system("U57")
async def test_a_custom_store_with_five_methods_is_sufficient(auth, server):
    store = CustomStore()
    target = mcpwire.Http(server.url, auth=oauth(storage=store))
    async with mcpwire.Client(target) as client:
        await echo(client)
        auth.expire_all()
        await asyncio.gather(*(echo(client) for _ in range(10)))
    assert auth.grants == ["authorization_code", "refresh_token"]
    assert mcpwire.login_status(target).can_refresh
    assert (len(store.keys()), store.leases) == (1, {})
    alone = mcpwire.OAuth(storage=store, interactive=False)
    async with mcpwire.Client(mcpwire.Http(server.url, auth=alone)) as client:
        await echo(client)
    assert await mcpwire.logout(target)
    assert mcpwire.login_status(target) is None
    assert len(auth.authorizations) == 1


async def test_client_credentials_leave_no_file(auth, server, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    auth.add_client("robot", secret=f"{SENTINEL}-robot")
    grant = mcpwire.ClientCredentials(
        client_id="robot", client_secret=f"{SENTINEL}-robot", issuer=auth.issuer
    )
    async with connected(server, grant) as client:
        await echo(client)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("AUTH-01")
def test_a_stdio_server_has_no_login():
    """Its credentials come from its environment (`env=`)."""
    with pytest.raises(TypeError, match="auth"):
        mcpwire.Stdio("server", auth="oauth")
    with pytest.raises(ValueError, match="URL"):
        mcpwire.login_status(mcpwire.Stdio("server"))


@pytest.mark.parametrize("text", ["OAuth", "OAUTH", "Bearer abc", "bearer abc", ""])
def test_an_implausible_token_text_is_refused(text):
    with pytest.raises(ValueError, match=r"'oauth', a token \(without 'Bearer'\)"):
        mcpwire.Http("https://mcp.example/mcp", auth=text)


# 2025-03-26: the server itself issues the tokens.


class OwnLogin(ProtectedMcp):
    """Is its own authorization server, and has no resource metadata."""

    def serve(self, conn):
        usual = conn.receive

        def receive(timeout=WAIT_S):
            while True:
                request = usual(timeout)
                path = None if request is None else urlsplit(request.target).path
                key = self.auth.keys().get(path)
                if key is None:
                    return request
                recorded = Recorded(request, key, conn)
                self.auth.requests.append(recorded)
                conn.send(answer_bytes(self.auth.usual(recorded)))

        conn.receive = receive
        super().serve(conn)

    def _challenge(self, params):
        return "Bearer"


@pytest.mark.parametrize("says", [True, False])
async def test_a_2025_03_server_may_issue_its_own_tokens(says):
    auth = AuthorizationServer(iss=False)
    server = OwnLogin("session", version="2025-03-26")
    server.guard(auth)
    server.on_metadata = lambda _: (404, {}, b"")

    def starts(raw):
        server.take(raw)
        auth.take(raw)

    if not says:  # then its endpoints are at the default paths
        auth.keys = lambda: {
            f"/{key}": key for key in ("authorize", "token", "register")
        }
    with raw_server(server.serve, starts=starts):
        target = mcpwire.Http(server.url, auth=oauth())
        async with mcpwire.Client(target) as client:
            await echo(client)
            auth.expire_all()
            await echo(client)
            assert mcpwire.login_status(target).issuer == auth.origin
    assert auth.grants == ["authorization_code", "refresh_token"]
    assert len(auth.registrations) == 1
    [authorization] = auth.authorizations
    assert authorization.query["code_challenge_method"] == "S256"
    assert len(auth.of("metadata")) == says
