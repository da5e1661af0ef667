"""Processes that share one store, forked from one that has done all imports.

    with siblings(server.url, path) as family:
        one = family.start("blocking")        # or "asyncio", or "dies-saving"
        family.wait_until(lambda: one.waits)  # for a lease that another one has
        family.go_by(31)                      # on the clock of the leases
        family.end()                          # one.result is its outcome

Each of them makes one call. Starting Python and importing takes longer than the test
itself, so only the first process does that.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from time import monotonic
from typing import TYPE_CHECKING, Final

from unmeasured import unmeasured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BOUND_S: Final = 30.0

PROGRAM: Final = """
import asyncio, os, signal, sys, time, traceback
import httpx, mcpwire, mcpwire.sync
from mcpwire.transports.oauth import storage as module

import mcpwire.transports.http.direct, mcpwire.transports.oauth.fetch

url, path, clock = sys.argv[1:]
module.wall_time = lambda: time.time() + os.stat(clock).st_size

# Who has the lease may be kept waiting until all the others look at it.
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
    """See the module."""

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
        """Start another process."""
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
        """Wait until all of them have ended."""
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
    """Yield a `Siblings`; see the module."""
    family = Siblings(url, path)
    try:
        yield family
    finally:
        family.end()
