"""How the command line is started, and servers that answer as a test wrote down."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
PATIENCE = 30.0
MCPWIRE = (sys.executable, "-m", "mcpwire")


class Done(NamedTuple):
    """What came of one command."""

    code: int
    out: str
    err: str


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
