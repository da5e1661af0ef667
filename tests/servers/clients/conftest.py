"""Our server on a port, and other clients, each in its own environment."""

import contextlib
import functools
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from child_python import finished
from real_servers import NODE_PACKAGES, PEERS, node, require
from serving import serving_ours

FOLDER = Path(__file__).parent
SERVED = (sys.executable, str(FOLDER / "served.py"))
TIMEOUT_S = 60.0
STOP = 30.0


@pytest.fixture(scope="module")
def served_http():
    """Serve on a port."""
    with serving_ours(lambda port: (*SERVED, str(port))) as url:
        yield url


@pytest.fixture(scope="module")
def use(served_http):
    """Return a function that runs a client, and returns its JSON output."""

    def use(program, script, **environment):
        require(program)
        where = json.dumps({"stdio": SERVED, "http": served_http})
        done = run([program, str(FOLDER / script), where], **environment)
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)

    return use


@pytest.fixture(scope="module")
def inspect(served_http, tmp_path_factory):
    """Return a function that runs one command of the MCP Inspector.

    It returns the exit code, and the JSON that was written to either stream.
    """
    program = NODE_PACKAGES / "inspector/clients/launcher/build/index.js"
    home = str(tmp_path_factory.mktemp("inspector"))

    def inspect(transport, era, method, *options):
        require(program)
        where = [served_http] if transport == "http" else SERVED
        command = [node(), str(program), "--cli", *where, "--method", method]
        command += ["--protocol-era", era, "--format", "json", "--quiet", *options]
        done = run(command, HOME=home)
        return done.returncode, json.loads(done.stdout or done.stderr)

    return inspect


class Mcpdo:
    """Commands of the Inspector that share connections, kept by its daemon."""

    def __init__(self, program, folder, served_http):
        self.command = [node(), str(program), "--format", "json"]
        self.environment = {
            "HOME": folder,
            "MCP_INSPECTOR_DAEMON_DIR": folder,
            "MCP_INSPECTOR_DAEMON_TOKEN": secrets.token_urlsafe(32),
            "MCP_INSPECTOR_SECRET_STORE": "memory",
        }
        self.served_http = served_http

    def __call__(self, *words):
        done = run([*self.command, *words], **self.environment)
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)

    def connect(self, transport, era):
        """Return a function that runs commands on a new connection."""
        where = [self.served_http] if transport == "http" else ["--", *SERVED]
        chosen = ("--connection", f"{transport}-{era}")
        self(*chosen, "connect", "--era", era, *where)
        return functools.partial(self, *chosen)

    @contextlib.contextmanager
    def reading(self, *words):
        """Run a command that does not end, and yield the objects that it writes."""
        with subprocess.Popen(
            [*self.command, *words],
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            try:
                yield objects_in(process.stdout)
            finally:
                process.terminate()

    def close(self):
        status = self("daemon", "status")
        self("daemon", "stop")
        end = time.monotonic() + STOP
        while Path(f"/proc/{status['pid']}").exists() and time.monotonic() < end:
            time.sleep(0.02)  # it is not a child: there is no event


def objects_in(stream):
    """Yield the JSON objects of a stream, each after its last line."""
    text = ""
    for line in stream:
        text += line
        if line.rstrip() == "}" or text.count("{") == text.count("}") > 0:
            yield json.loads(text)
            text = ""


@pytest.fixture(scope="module")
def mcpdo(served_http):
    program = NODE_PACKAGES / "inspector/clients/mcpdo/build/mcp-bin.js"
    require(program)
    # The daemon creates a socket there, whose path must not be long.
    with tempfile.TemporaryDirectory() as folder:
        commands = Mcpdo(program, folder, served_http)
        yield commands
        commands.close()


def run(command, **environment):
    env = os.environ | environment
    return finished(*command, env=env, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S)


@pytest.fixture(scope="session")
def python_of():
    return lambda name: str(PEERS / name / "bin/python")


@pytest.fixture(scope="session")
def node_packages():
    require(NODE_PACKAGES)
    return str(NODE_PACKAGES.parent)
