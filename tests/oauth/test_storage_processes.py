"""Processes that share one login: one of them refreshes it for all."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Final

import attrs
import pytest
from authorization_server import authorization_server, browse, oauth, protected_server
from unmeasured import unmeasured

import mcpwire
import mcpwire.sync
from mcpwire.auth.records import credential_key, dump, load

BOUND_S: Final = 30.0

PROGRAM: Final = """
import asyncio, os, signal, sys, time, traceback
import httpx, mcpwire, mcpwire.sync
from mcpwire.transports.oauth import storage as module

import mcpwire.transports.http.direct, mcpwire.transports.oauth.fetch

url, path, clock = sys.argv[1:]
module.wall_time = lambda: time.time() + os.stat(clock).st_size

# The owner of the lease may be kept waiting until all the others look at it.
LIMITS = mcpwire.Limits(oauth_timeout=40)

def say(word):
    os.write(1, f"{os.getpid()} {word}\\n".encode())

class Store(mcpwire.FileStorage):
    waits = dies = False

    def lease(self, *given):
        has_it = super().lease(*given)
        if not has_it and not self.waits:
            self.waits = True
            say("waits")
        return has_it

    def save(self, *given):
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().save(*given)

async def on_asyncio(target):
    async with mcpwire.Client(target, limits=LIMITS) as client:
        return (await client.call_tool("echo", {"text": "hi"})).text

def on_threads(target):
    with mcpwire.sync.Client(target, limits=LIMITS) as client:
        return client.call_tool("echo", {"text": "hi"}).text

def run(kind):
    store = Store(path)
    store.dies = kind == "dies-saving"
    target = mcpwire.Http(url, auth=mcpwire.OAuth(interactive=False, storage=store))
    try:
        if kind == "asyncio":
            said = asyncio.run(on_asyncio(target))
        else:
            said = on_threads(target)
    except Exception as error:
        said = type(error).__name__
        if not isinstance(error, mcpwire.MCPError):
            traceback.print_exc()
    say(f"said {said}")

for line in sys.stdin:
    made = os.fork()
    if not made:
        try:
            run(line.strip())
        finally:
            os._exit(0)
    os.write(1, f"{made} begins\\n".encode())
try:
    while os.wait():
        pass
except ChildProcessError:
    pass  # there are no more
"""


class Sibling:
    """One of the processes.

    Attributes:
        waits: Whether it has found that another process has the lease.
        result: The result of its call, or the name of the error.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.waits = False
        self.result: str | None = None


class Siblings:
    def __init__(self, url: str, path: Path) -> None:
        self._clock = path.with_name("clock")
        self._clock.write_bytes(b"")
        self._changed = threading.Condition()
        self._by_pid: dict[int, Sibling] = {}
        self._begun: list[int] = []
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, url, str(path), str(self._clock)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=unmeasured(),
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def start(self, kind: str) -> Sibling:
        known = len(self._begun)
        self._process.stdin.write(kind + "\n")
        self.wait_until(lambda: len(self._begun) > known)
        return self._by_pid[self._begun[-1]]

    def _read(self) -> None:
        for line in self._process.stdout:
            pid, word, *rest = line.split()
            with self._changed:
                sibling = self._by_pid.setdefault(int(pid), Sibling(int(pid)))
                if word == "begins":
                    self._begun.append(sibling.pid)
                elif word == "waits":
                    sibling.waits = True
                else:
                    [sibling.result] = rest
                self._changed.notify_all()

    def wait_until(self, holds: Callable[[], object], timeout: float = BOUND_S) -> None:
        """Wait until `holds()`; it is called again after each message of a process."""
        ends_at = monotonic() + timeout
        with self._changed:
            while not holds():
                left = ends_at - monotonic()
                assert left > 0, "the condition was not met in time"
                self._changed.wait(
                    min(left, 0.05)
                )  # servers do not notify this condition

    def kill(self, sibling: Sibling) -> None:
        """Kill it immediately, whatever it does."""
        os.kill(sibling.pid, signal.SIGKILL)

    def go_by(self, seconds: int) -> None:
        """Advance the clock of the leases."""
        with self._clock.open("ab") as clock:
            clock.write(b"." * seconds)

    def end(self) -> None:
        self._process.stdin.close()
        try:
            assert self._process.wait(BOUND_S) == 0
        finally:
            for pid in self._by_pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait(BOUND_S)
            self._reader.join(BOUND_S)
            self._process.stdout.close()


@contextlib.contextmanager
def siblings(url: str, path: Path) -> Iterator[Siblings]:
    family = Siblings(url, path)
    try:
        yield family
    finally:
        family.end()


pytestmark = [pytest.mark.pain("P33"), pytest.mark.attack("S24")]

LEASE_S = 90
KINDS = ("blocking", "asyncio") * 4


class World:
    """An MCP server, its authorization server, and a stored login."""

    def __init__(self, auth, server, folder) -> None:
        self.auth = auth
        self.server = server
        self.storage = mcpwire.FileStorage(folder / "credentials.sqlite")
        self.key = credential_key(server.url, "default", "OAuth")
        self.log_in()

    def log_in(self) -> None:
        grant = oauth(storage=self.storage)
        mcpwire.sync.login(mcpwire.Http(self.server.url, auth=grant))

    def record(self):
        data, _ = self.storage.load(self.key)
        return load(data)

    def end_access(self, *, is_known: bool = True) -> None:
        """Expire the access token, and record that if `is_known`."""
        self.auth.expire_all()
        data, version = self.storage.load(self.key)
        record = load(data)
        if is_known:
            tokens = attrs.evolve(record.tokens, expires_at=time.time() - 1)
            record = attrs.evolve(record, tokens=tokens)
        assert self.storage.save(self.key, dump(record), version)

    @property
    def refreshes(self) -> int:
        return self.auth.grants.count("refresh_token")

    def family(self):
        return siblings(self.server.url, self.storage.path)


@pytest.fixture
def world(tmp_path):
    with authorization_server() as auth, protected_server(auth) as server:
        yield World(auth, server, tmp_path)


@pytest.mark.parametrize("is_known", [True, False], ids=["expired", "refused"])
def test_one_of_eight_processes_refreshes_for_all(world, is_known):
    world.end_access(is_known=is_known)
    all_wait = []

    def held(request):
        request.conn.wait_while(lambda: not all_wait, BOUND_S)

    world.auth.on["token"] = held
    with world.family() as family:
        processes = [family.start(kind) for kind in KINDS]
        family.wait_until(lambda: sum(each.waits for each in processes) >= 7)
        all_wait.append(True)
        for conn in tuple(world.auth.raw.open):
            conn.nudge()
        family.wait_until(lambda: all(each.result for each in processes))
    assert [each.result for each in processes] == ["hi"] * 8
    assert world.auth.grants == ["authorization_code", "refresh_token"]
    assert world.auth.reuses == 0
    assert world.record().tokens.access_token in world.auth.live


def test_a_process_killed_in_a_refresh_blocks_only_for_its_lease(world):
    world.end_access()

    def never(request):
        if world.refreshes == 1:
            request.conn.wait_closed(BOUND_S)
            raise ConnectionResetError

    world.auth.on["token"] = never
    with world.family() as family:
        killed = family.start("blocking")
        family.wait_until(lambda: world.refreshes == 1)
        others = [family.start(kind) for kind in KINDS[1:]]
        family.wait_until(lambda: all(each.waits for each in others))
        family.kill(killed)
        world.auth.wait_until(lambda: not world.auth.raw.open)
        assert (world.refreshes, [each.result for each in others]) == (1, [None] * 7)
        family.go_by(LEASE_S)
        family.wait_until(lambda: all(each.result for each in others))
    assert [each.result for each in others] == ["hi"] * 7
    assert (world.refreshes, world.auth.reuses) == (2, 0)


def test_one_login_recovers_from_a_crash_before_saving(world):
    world.end_access()
    with world.family() as family:
        dead = family.start("dies-saving")
        family.wait_until(lambda: world.refreshes == 1 and world.auth.live)
        one = family.start("asyncio")
        family.wait_until(lambda: one.waits or one.result)
        family.go_by(LEASE_S)
        family.wait_until(lambda: one.result)
        # The server takes it for theft, and answers with `invalid_grant`.
        assert (dead.result, one.result) == (None, "AuthRequired")
        assert (world.auth.reuses, world.record().tokens) == (1, None)
        world.log_in()
        other = family.start("blocking")
        family.wait_until(lambda: other.result)
    assert other.result == "hi"
    assert len(world.auth.authorizations) == 2
    assert len(world.auth.registrations) == 1


@pytest.mark.fault("F40")
async def test_an_unstorable_login_is_used_and_refreshed(tmp_path, monkeypatch, caplog):
    urls = []

    def ask(url):
        urls.append(url)
        return browse(url)

    (tmp_path / "file").write_bytes(b"")
    storage = mcpwire.FileStorage(tmp_path / "file" / "credentials.sqlite")
    with authorization_server() as auth, protected_server(auth) as server:
        target = mcpwire.Http(server.url, auth=oauth(storage=storage, ask=ask))
        async with mcpwire.Client(target) as client:
            for _ in range(3):
                assert await client.list_tools()
                auth.expire_all()
        async with mcpwire.Client(target) as client:
            assert await client.list_tools()
    assert (len(urls), auth.reuses) == (1, 0)
    assert auth.grants == ["authorization_code", *["refresh_token"] * 3]
    messages = [each.getMessage() for each in caplog.records if each.name == "mcpwire"]
    reason = "Not a directory; the file is not used, and logins are not stored"
    assert messages == [f"cannot use {str(storage.path)!r} for credentials: {reason}"]
