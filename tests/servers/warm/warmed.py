"""Python servers that need not import their framework at each start.

A start of the official SDK costs 1.5 seconds of a core, nearly all of them imports. The
tests in which the start is not the point have their server forked from a process that
has done them. It remains a process of its own, run from the first line of its program.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from real_servers import PEERS

if TYPE_CHECKING:
    from real_servers import RealServer

HERE: Final = Path(__file__).parent
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


class ForkServers:
    """One fork server for each environment, started at once, ready when imported."""

    def __init__(self, folder: Path) -> None:
        self._sockets: dict[str, Path] = {}
        self._stack = ExitStack()
        for name in IMPORTS:
            if sys.platform == "linux" and (PEERS / name / "bin/python").exists():
                self._sockets[name] = folder / f"{name}.sock"
                self._start(name)

    def _start(self, name: str) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self._sockets[name]))
            listener.listen(BACKLOG)
            process = subprocess.Popen(
                (
                    str(PEERS / name / "bin/python"),
                    str(HERE / "forkserver.py"),
                    str(listener.fileno()),
                    *IMPORTS[name],
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "FASTMCP_CHECK_FOR_UPDATES": "off"},
                pass_fds=(listener.fileno(),),
                process_group=0,
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)

    def warm(self, server: RealServer) -> RealServer:
        """Return that server, forked where its framework has a fork server."""
        environment = Path(server.argv[0]).parent.parent
        path = self._sockets.get(environment.name)
        if path is None or environment.parent != PEERS:
            return server
        launch = (sys.executable, "-I", "-S", str(HERE / "launch.py"), str(path))
        return replace(server, argv=(*launch, *server.argv[1:]))

    def close(self) -> None:
        """Kill them."""
        self._stack.close()
