"""Server legs: one process, a clean exit required, and nothing left behind."""

import asyncio
import sys
from types import SimpleNamespace

import pytest
from loop_polling import until

from mcpwire.testing.procfs import is_alive

TIMEOUT_S = 30.0

# Listens until SIGTERM.
SERVER = """
import signal, socket, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
def leave(*_):
    {last}
signal.signal(signal.SIGTERM, leave)
listener = socket.create_server(("127.0.0.1", port))
print("bound", flush=True)
while True:
    signal.pause()
"""
GOOD = SERVER.format(last="sys.exit(0)")

# Stands in for node and the suite: plays two scenarios, or the requested one.
SUITE = """
import json, pathlib, sys, urllib.parse
def option(name, other=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else other
assert sys.argv[1] == "server"
assert urllib.parse.urlsplit(option("--url")).path == "/mcp"
assert pathlib.Path(option("--expected-failures")).is_file()
only = option("--scenario")
for scenario in [only] if only else ["zebra", "ape-2"]:
    folder = pathlib.Path(option("-o"), f"server-{scenario}-2026-01-01T00-00-00-000Z")
    folder.mkdir()
    check = {"id": " ".join(sys.argv[6:-2]), "name": "One", "status": "SUCCESS"}
    (folder / "checks.json").write_text(json.dumps([check]))
"""


@pytest.fixture
def run_leg(driver, tmp_path, monkeypatch):
    """Return `run_server_leg` with Python code in place of server and suite."""
    server_runs = driver("server_runs")
    monkeypatch.setattr(server_runs, "NODE", sys.executable)
    monkeypatch.setattr(server_runs, "BUILD", tmp_path)
    monkeypatch.setattr(server_runs, "STOP_TIMEOUT_S", TIMEOUT_S)

    async def run_leg(server, suite=SUITE, scenarios=None):
        (tmp_path / "server.py").write_text(server)
        (tmp_path / "suite.py").write_text(suite)
        leg = SimpleNamespace(
            name="S9",
            suite=SimpleNamespace(program=tmp_path / "suite.py"),
            suite_options=("--suite", "all"),
            options=("--force",),
        )
        running = server_runs.run_server_leg(leg, scenarios, tmp_path / "server.py")
        return await asyncio.wait_for(running, TIMEOUT_S)

    return run_leg


def outcome(server_run):
    return server_run.is_up, server_run.suite_exit, server_run.server_exit


async def test_all_scenarios_run_against_one_server_that_exits_cleanly(run_leg):
    runs, server_run = await run_leg(GOOD)
    assert outcome(server_run) == (True, 0, 0)
    assert server_run.server_output == "bound\n"
    assert [run.scenario for run in runs] == ["zebra", "ape-2"]
    assert [run.checks[0]["id"] for run in runs] == ["--suite all"] * 2


async def test_selected_scenarios_run_one_by_one_on_one_server(run_leg):
    runs, server_run = await run_leg(GOOD, scenarios=["b", "a"])
    assert outcome(server_run) == (True, 0, 0)
    assert [run.checks[0]["id"] for run in runs] == [
        "--scenario b --force",
        "--scenario a --force",
    ]
    assert server_run.server_output.count("bound") == 1


async def test_server_that_does_not_start_is_reported_with_its_output(run_leg):
    runs, server_run = await run_leg("raise SystemExit('no')")
    assert (runs, outcome(server_run), server_run.server_output) == (
        [],
        (False, 0, 1),
        "no\n",
    )


async def test_exit_code_of_the_suite_is_recorded(run_leg):
    _, server_run = await run_leg(GOOD, suite=SUITE + "sys.exit(1)")
    assert outcome(server_run) == (True, 1, 0)


async def test_suite_that_does_not_end_is_killed(run_leg, driver, monkeypatch):
    monkeypatch.setattr(driver("server_runs"), "LEG_TIMEOUT_S", 0.5)
    _, server_run = await run_leg(GOOD, suite="import signal; signal.pause()")
    assert outcome(server_run) == (True, None, 0)


async def test_server_that_does_not_end_is_killed_with_its_children(
    run_leg, tmp_path, driver, monkeypatch
):
    monkeypatch.setattr(driver("server_runs"), "STOP_TIMEOUT_S", 1.0)
    server = SERVER.format(last="print('no')")
    child = (
        "import pathlib, subprocess, sys\n"
        "hangs = 'import time; time.sleep(99)'\n"
        "child = subprocess.Popen([sys.executable, '-c', hangs])"
        f"\npathlib.Path({str(tmp_path)!r}, 'child').write_text(str(child.pid))\n"
    )
    _, server_run = await run_leg(child + server)
    assert outcome(server_run) == (True, 0, None)
    pid = int((tmp_path / "child").read_text())
    await asyncio.wait_for(until(lambda: not is_alive(pid), 0.01), TIMEOUT_S)


async def test_results_of_an_earlier_leg_are_not_read_again(run_leg):
    await run_leg(GOOD)
    runs, _ = await run_leg(GOOD, suite="")
    assert runs == []
