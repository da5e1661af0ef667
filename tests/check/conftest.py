"""Fixtures: the commands of the server under test, of its mutants and of peers."""

import sys
from pathlib import Path

import pytest
from unmeasured import unmeasured

from mcpwire.transports import targets

sys.path.insert(0, str(Path(__file__).parents[1] / "servers" / "warm"))
sys.path.insert(0, str(Path(__file__).parent))

from warmed import ForkServer, warm_commands

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def servers_are_unmeasured(monkeypatch):
    """Measure coverage of the checker only: other tests cover our server."""
    kept = [name for name in targets.INHERITED if not name.startswith("COVERAGE_")]
    monkeypatch.setattr(targets, "INHERITED", tuple(kept))


@pytest.fixture(scope="session")
def mutated(tmp_path_factory):
    """Return a function: the command of our server with mutants (pre-started)."""
    if sys.platform != "linux":
        yield lambda *names: [sys.executable, str(HERE / "mutated.py"), *names]
        return
    path = tmp_path_factory.mktemp("fork") / "mutated.sock"
    env = unmeasured(PYTHONPATH=str(HERE))
    server = ForkServer(path, sys.executable, ["mutated"], env)
    yield lambda *names: server.command(str(HERE / "mutated.py"), *names)
    server.close()


@pytest.fixture
def forked(tmp_path):
    """Return the command of our server, pre-started by a fork server on Linux."""
    server = str(HERE / "server.py")
    if sys.platform != "linux":
        yield [sys.executable, server]
        return
    env = unmeasured(PYTHONPATH=str(HERE))
    forking = ForkServer(tmp_path / "fork.sock", sys.executable, ["server"], env)
    yield forking.command(server)
    forking.close()


@pytest.fixture
def warm(tmp_path_factory):
    """Return a function that turns a Python server's command into a pre-started one."""
    with warm_commands(tmp_path_factory) as find:
        yield find
