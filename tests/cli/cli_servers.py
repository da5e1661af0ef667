"""Starting the command line, and servers that answer from a script."""

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
TIMEOUT_S = 30.0
MCPWIRE = (sys.executable, "-m", "mcpwire")


class Scripted:
    """A scripted server: the command that starts it, and a log of its input."""

    def __init__(self, folder: Path, script: dict) -> None:
        self.log = folder / "log"
        path = folder / "script.json"
        path.write_text(json.dumps(script), encoding="utf-8")
        # Isolated and without site: it starts in a third of the time.
        program = (sys.executable, "-I", "-S", str(HERE / "scripted_server.py"))
        self.argv = (*program, str(path), str(self.log))
        self.line = shlex.join(self.argv)

    def messages(self) -> list[dict]:
        lines = map(json.loads, self.log.read_text(encoding="utf-8").splitlines())
        return [message for message in lines if isinstance(message, dict)]

    def requests(self, method: str) -> list[dict]:
        return [m["params"] for m in self.messages() if m.get("method") == method]

    def wait_for(self, method: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            if self.log.exists() and f'"{method}"' in self.log.read_text():
                return
            time.sleep(0.01)
        pytest.fail(f"{method} was not received")

    def is_running(self) -> bool:
        """Return whether its process runs (a zombie does not)."""
        pid = int(self.log.read_text(encoding="utf-8").split(maxsplit=1)[0])
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"


DONE = {"result": {"content": [{"type": "text", "text": "done"}]}}


def request(method, params, id=77):
    return {"method": method, "params": params, "id": id}


def listing(**members):
    return [{"result": members}]


def progress(*steps):
    return [
        {
            "method": "notifications/progress",
            "params": {"progressToken": "$token", **step},
        }
        for step in steps
    ]


def entry(server):
    return {"command": server.argv[0], "args": list(server.argv[1:])}


def run_program(*argv, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(argv, text=True, timeout=TIMEOUT_S, check=False, **options)


class Serving:
    """A command that serves until it is terminated, and logs to stderr."""

    def __init__(self, *words, **env):
        self.process = subprocess.Popen(
            [sys.executable, "-u", *MCPWIRE[1:], *words],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **env},
        )

    def line(self, pattern):
        """Return the match in the next stderr line that contains the pattern."""
        for line in self.process.stderr:
            found = re.search(pattern, line)
            if found is not None:
                return found
        raise AssertionError(f"stderr ended without a line like {pattern!r}")


@contextlib.contextmanager
def serving(*words, **env):
    it = Serving(*words, **env)
    try:
        yield it
    finally:
        it.process.terminate()
        with it.process.stderr:
            try:
                it.process.wait(TIMEOUT_S)
            finally:
                it.process.kill()
