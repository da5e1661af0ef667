"""Fixtures: the command line in this process and in another, and servers for it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
PATIENCE = 30.0

sys.path.insert(0, str(HERE))

DISCOVER = [{"error": {"code": -32601, "message": "Method not found"}}]
MCPWIRE = (sys.executable, "-m", "mcpwire")


class Done(NamedTuple):
    """What came of one command."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys):
    """Run a command line in this process."""
    from mcpwire.cli import main

    def run(*words: str) -> Done:
        capsys.readouterr()
        code = main(words)
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def child():
    """Run a command line as a user does: in a process of its own."""

    def run(*words, given=b"", env=None, **options) -> Done:
        done = subprocess.run(
            [*MCPWIRE, *words],
            input=given,
            capture_output=True,
            env={**os.environ, **(env or {})},
            timeout=PATIENCE,
            check=False,
            **options,
        )
        # A byte that is no UTF-8 shows as the lone surrogate Python has for it.
        texts = (
            b.decode("utf-8", "surrogateescape") for b in (done.stdout, done.stderr)
        )
        return Done(done.returncode, *texts)

    return run


class Scripted:
    """A scripted server: the words that start it, and what it has seen."""

    def __init__(self, folder: Path, script: dict) -> None:
        self.log = folder / "log"
        path = folder / "script.json"
        path.write_text(json.dumps(script), encoding="utf-8")
        # Isolated and without site: it starts in a third of the time.
        program = (sys.executable, "-I", "-S", str(HERE / "scripted_server.py"))
        self.argv = (*program, str(path), str(self.log))
        self.line = shlex.join(self.argv)

    def messages(self) -> list[dict]:
        """Return what it was sent."""
        lines = map(json.loads, self.log.read_text(encoding="utf-8").splitlines())
        return [message for message in lines if isinstance(message, dict)]

    def requests(self, method: str) -> list[dict]:
        """Return the params it was sent with that method."""
        return [m["params"] for m in self.messages() if m.get("method") == method]

    def wait_for(self, method: str) -> None:
        """Return once a message of that method has come."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.log.exists() and f'"{method}"' in self.log.read_text():
                return
            time.sleep(0.01)
        pytest.fail(f"{method} did not come")

    def is_running(self) -> bool:
        """Tell whether its process is there, a zombie not counted."""
        pid = int(self.log.read_text(encoding="utf-8").split(maxsplit=1)[0])
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def scripted(tmp_path):
    """Make a server of the answers a test writes down."""

    def make(capabilities=None, *, info=None, instructions=None, **script) -> Scripted:
        script = {name.replace("__", "/"): steps for name, steps in script.items()}
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities or {},
            "serverInfo": info or {"name": "scripted", "version": "1"},
        }
        if instructions is not None:
            result["instructions"] = instructions
        script = {
            "server/discover": DISCOVER,
            "initialize": [{"result": result}],
            **script,
        }
        return Scripted(tmp_path, script)

    return make


@pytest.fixture
def tool_server(scripted):
    """Make a server with one tool `do`, whose call is answered as the test says."""

    def make(*steps, schema=None, **script) -> Scripted:
        tool = {"name": "do", "inputSchema": schema or {"type": "object"}}
        return scripted(
            {"tools": {}},
            tools__list=[{"result": {"tools": [tool]}}],
            tools__call=list(steps),
            **script,
        )

    return make


@pytest.fixture
def demo_target() -> str:
    """Return the command line of the embedded server."""
    return shlex.join((*MCPWIRE, "demo-server"))
