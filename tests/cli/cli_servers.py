"""How the command line is started, and servers that answer as a test wrote down."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PATIENCE = 30.0
MCPWIRE = (sys.executable, "-m", "mcpwire")


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


DONE = {"result": {"content": [{"type": "text", "text": "done"}]}}


def request(method, params, id=77):
    """Return the step that asks the client something."""
    return {"method": method, "params": params, "id": id}


def listing(**members):
    """Return the steps that answer a list with these members."""
    return [{"result": members}]


def progress(*steps):
    """Return the steps that tell so much progress each."""
    return [
        {
            "method": "notifications/progress",
            "params": {"progressToken": "$token", **step},
        }
        for step in steps
    ]


def entry(server):
    """Return what a configuration says of a server, so that it is started."""
    return {"command": server.argv[0], "args": list(server.argv[1:])}


def ran(*argv, **options):
    """Run a program to its end; return what came of it."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(argv, text=True, timeout=PATIENCE, check=False, **options)


class Serving:
    """A command that serves until it is ended, and says things on stderr."""

    def __init__(self, *words, **env):
        self.process = subprocess.Popen(
            [sys.executable, "-u", *MCPWIRE[1:], *words],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **env},
        )

    def line(self, pattern):
        """Return the match of the next line of stderr that has one."""
        for line in self.process.stderr:
            found = re.search(pattern, line)
            if found is not None:
                return found
        raise AssertionError(f"no line like {pattern!r} came")


@contextlib.contextmanager
def serving(*words, **env):
    """Run such a command; whatever happens, it is gone afterwards."""
    it = Serving(*words, **env)
    try:
        yield it
    finally:
        it.process.terminate()
        with it.process.stderr:
            try:
                it.process.wait(PATIENCE)
            finally:
                it.process.kill()
