"""The paths that a call can take, and what counts them, each in a child of its own."""

import contextlib
import functools
import json
import subprocess
import sys
from pathlib import Path

from mcp_server import scripted_mcp
from scripted import ECHO_LOOP, scripted
from unmeasured import unmeasured

HERE = Path(__file__).parent
BOUND_S = 60.0

CLIENT_PATHS = ("stdio", "blocking stdio")
HTTP_PATHS = ("http json", "http sse", "blocking http json", "blocking http sse")
PATHS = (*CLIENT_PATHS, *HTTP_PATHS, "memory", "server stdio", "server http")
ERAS = ("session", "stateless")
CELLS = [f"{path}, {era}" for path in PATHS for era in ERAS]


def run(script, *arguments):
    """Run one of our scripts, and return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
        cwd=HERE.parents[1],
        env=unmeasured(),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def echoing_target(era):
    """Return a server of a few lines."""
    begin = "handshake()\n" if era == "session" else "discover()\n"
    return scripted(begin + ECHO_LOOP)


@functools.cache
def counted(cell):
    """Return what a call costs on a path in an era: "http json, session"."""
    path, _, era = cell.partition(", ")
    with contextlib.ExitStack() as stack:
        argument = ""
        if path in CLIENT_PATHS:
            argument = echoing_target(era).args[-1]
        elif path in HTTP_PATHS:
            path, _, replies = path.rpartition(" ")
            server = stack.enter_context(scripted_mcp(era, replies=replies))
            argument = server.url
        return run("child.py", path, era, argument)
