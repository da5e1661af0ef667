"""Python servers that need not import their framework at each start.

A start of the official SDK costs 1.5 seconds of a core, nearly all of them imports. The
tests in which the start is not the point have their server forked from a process that
has done them. It remains a process of its own, run from the first line of its program.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from real_servers import PEERS
from unmeasured import unmeasured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pytest
    from real_servers import RealServer

HERE: Final = Path(__file__).parent
FORKSERVER: Final = str(HERE / "forkserver.py")
LAUNCH: Final = str(HERE / "launch.py")
BASICS: Final = ("asyncio", "anyio", "anyio._backends._asyncio", "pydantic")
IMPORTS: Final = {
    "python-sdk": (
        *BASICS,
        "mcp.server.caching",
        "mcp.server.mcpserver",
        "mcp.server.stdio",
    ),
    "servers": (*BASICS, "mcp_server_time.server", "mcp_server_git.server"),
    "fastmcp": (*BASICS, "fastmcp", "fastmcp.server.elicitation"),
}
BACKLOG: Final = 64


class ForkServer:
    """A process that has imported modules; programs are forked from it."""

    def __init__(
        self, path: Path, python: str, modules: Sequence[str], env: Mapping[str, str]
    ) -> None:
        self._path = path
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(BACKLOG)
            self._process = subprocess.Popen(
                (python, FORKSERVER, str(listener.fileno()), *modules),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=dict(env),
                pass_fds=(listener.fileno(),),
                process_group=0,
            )

    def command(self, *words: str) -> list[str]:
        """Return the command of a program that is forked: as what follows `python`."""
        return [sys.executable, "-I", "-S", LAUNCH, str(self._path), *words]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class ForkServers:
    """One fork server for each environment, ready when it has imported."""

    def __init__(self, folder: Path, names: Sequence[str] = tuple(IMPORTS)) -> None:
        env = {**os.environ, "FASTMCP_CHECK_FOR_UPDATES": "off"}
        self._servers: dict[str, ForkServer] = {}
        for name in names:
            python = PEERS / name / "bin/python"
            if sys.platform == "linux" and python.exists():
                path = folder / f"{name}.sock"
                self._servers[name] = ForkServer(path, str(python), IMPORTS[name], env)

    def argv(self, argv: Sequence[str]) -> Sequence[str]:
        """Return a command, forked where its framework has a fork server."""
        environment = Path(argv[0]).parent.parent
        found = self._servers.get(environment.name)
        is_peer = environment.parent == PEERS
        return found.command(*argv[1:]) if found and is_peer else argv

    def warm(self, server: RealServer) -> RealServer:
        """Return that server, forked where its framework has a fork server."""
        return replace(server, argv=tuple(self.argv(server.argv)))

    def close(self) -> None:
        for each in self._servers.values():
            each.close()


@contextlib.contextmanager
def demo_command(folders: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Yield the command of the embedded server, forked where the system supports it."""
    words = ("-m", "mcpwire", "demo-server")
    if sys.platform != "linux":
        yield [sys.executable, *words]
        return
    path = folders.mktemp("fork") / "demo.sock"
    modules = ("mcpwire.cli.main", "mcpwire.server.demo", "mcpwire.server.stdio")
    server = ForkServer(path, sys.executable, modules, unmeasured())
    yield server.command(*words)
    server.close()


@contextlib.contextmanager
def warm_commands(
    folders: pytest.TempPathFactory,
) -> Iterator[Callable[[Sequence[str]], Sequence[str]]]:
    """Yield a function that makes commands of Python servers start quickly."""
    with contextlib.ExitStack() as stack:

        def find(argv: Sequence[str]) -> Sequence[str]:
            name = Path(argv[0]).parent.parent.name
            names = [name] if name in IMPORTS else []
            servers = ForkServers(folders.mktemp("warm"), names)
            stack.callback(servers.close)
            return servers.argv(argv)

        yield find
