"""Fixtures: real servers by name, connections to them, and a git repository."""

import contextlib
import os
import signal
import subprocess
import uuid
from pathlib import Path

import anyio
import pytest
from real_servers import RealServer, installed
from warmed import ForkServers

import mcpwire

# The bound of each wait. Some of these tests start a server twice, on a busy machine.
TIMEOUT_S = 60.0
GONE_S = 30.0
VARIABLE = "MCPWIRE_TEST_PROCESS"
PROCESSES = Path("/proc")
HAS_PROCESSES = PROCESSES.is_dir()  # other systems are not checked


@pytest.fixture
def real(tmp_path):
    """Return a function that returns a real server by name, or skips the test."""

    return lambda name: installed(name, tmp_path)


@pytest.fixture(scope="session")
def fork_servers(tmp_path_factory):
    servers = ForkServers(tmp_path_factory.mktemp("forks"))
    yield servers
    servers.close()


@pytest.fixture
def warm(real, fork_servers):
    """Return `real` for tests that are not about the start of a server.

    Python servers are forked from a process that has imported their framework.
    """
    return lambda name: fork_servers.warm(real(name))


class Connect:
    """Connects a client to a real server; a call of it is a context manager.

    Closing must leave no process: not the child, and nothing that it started.
    """

    def __init__(self):
        self.token = uuid.uuid4().hex

    def target(self, server: RealServer) -> mcpwire.Stdio:
        """Return the target with a variable that identifies its processes."""
        return mcpwire.Stdio(
            server.argv[0],
            server.argv[1:],
            env={**server.env, VARIABLE: self.token},
            cwd=server.cwd,
        )

    @contextlib.asynccontextmanager
    async def __call__(self, server: RealServer, **options):
        client = mcpwire.Client(self.target(server), **options)
        with anyio.fail_after(TIMEOUT_S):
            async with client:
                assert self.processes() or not HAS_PROCESSES
                yield client
            await self.gone()

    def processes(self) -> dict[int, str]:
        """Return the running processes with our token, by id."""
        marker = f"{VARIABLE}={self.token}".encode()
        found = {}
        for entry in PROCESSES.glob("[0-9]*"):
            try:
                if marker in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_text()
            except OSError:  # ended meanwhile, or of another user
                continue
        return found

    def kill(self, by: signal.Signals = signal.SIGKILL) -> None:
        groups = {os.getpgid(process) for process in self.processes()}
        assert groups
        assert os.getpgid(0) not in groups
        for group in groups:
            os.killpg(group, by)

    async def gone(self) -> None:
        """Return when there is no process with the token.

        `aclose` waits for the child itself; processes of the child may take a moment.
        """
        with anyio.move_on_after(GONE_S):
            while self.processes():  # noqa: ASYNC110 - no event tells of them
                await anyio.sleep(0.01)
        assert self.processes() == {}


@pytest.fixture
def connect():
    return Connect()


@pytest.fixture
def repository(tmp_path):
    """Return a git repository with one commit, made without user settings."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "poem.txt").write_text("a line\n", encoding="utf-8")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
    }
    for words in (
        ("init", "--quiet"),
        ("add", "."),
        ("commit", "--quiet", "-m", "The first line"),
    ):
        subprocess.run(
            ("git", *words), cwd=folder, env=environment, check=True, timeout=30
        )
    return folder
