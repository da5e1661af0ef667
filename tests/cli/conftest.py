"""Fixtures: the command line in this process and in a child, and servers for it."""

import io
import os
import shlex
import subprocess
import sys

import pytest
from cli_servers import DONE, MCPWIRE, TIMEOUT_S, Scripted, request
from command_line import Done
from terminals import Terminal
from warmed import demo_command

DISCOVER = [{"error": {"code": -32601, "message": "Method not found"}}]


@pytest.fixture(autouse=True)
def state_folder(tmp_path, monkeypatch):
    """Store logins and caches in a folder of this test."""
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def patient(monkeypatch):
    """Give connecting a long timeout whatever `--timeout` is, in this process."""
    import mcpwire

    class Patient(mcpwire.Client):
        def __init__(self, target, **options):
            super().__init__(target, **{**options, "connect_timeout": TIMEOUT_S})

    monkeypatch.setattr(mcpwire, "Client", Patient)


@pytest.fixture
def stdin(monkeypatch):
    """Return a function that sets standard input, which is not a terminal."""

    def give(given):
        data = given if isinstance(given, bytes) else given.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


@pytest.fixture
def child():
    def run(*words, given=b"", env=None, **options) -> Done:
        done = subprocess.run(
            [*MCPWIRE, *words],
            input=given,
            capture_output=True,
            env={**os.environ, **(env or {})},
            timeout=TIMEOUT_S,
            check=False,
            **options,
        )
        # A byte that is not UTF-8 becomes a lone surrogate.
        texts = (
            b.decode("utf-8", "surrogateescape") for b in (done.stdout, done.stderr)
        )
        return Done(done.returncode, *texts)

    return run


@pytest.fixture
def scripted(tmp_path):
    """Return a function that makes a server from the given answers."""

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
    """Return a function that makes a server with the tool `do` and these answers."""

    def make(*steps, schema=None, capabilities=None, **script) -> Scripted:
        tool = {"name": "do", "inputSchema": schema or {"type": "object"}}
        return scripted(
            {"tools": {}, **(capabilities or {})},
            tools__list=[{"result": {"tools": [tool]}}],
            tools__call=list(steps),
            **script,
        )

    return make


@pytest.fixture
def requesting(tool_server):
    """Return a function that makes a server whose tool sends one request first."""

    def make(method, params, *more):
        return tool_server(request(method, params), *more, answer=[DONE])

    return make


@pytest.fixture
def auth():
    from authorization_server import authorization_server

    with authorization_server() as server:
        yield server


@pytest.fixture
def server(auth):
    from authorization_server import protected_server

    with protected_server(auth, era="stateless") as made:
        yield made


@pytest.fixture
def terminal():
    opened = []

    def make(columns=80):
        opened.append(Terminal(columns))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.fixture(scope="session")
def demo_target(tmp_path_factory):
    """Return the command line of the embedded server (a pre-started process)."""
    with demo_command(tmp_path_factory) as command:
        yield shlex.join(command)
