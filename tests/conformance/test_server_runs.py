"""How a server is put to a leg: one process, its end demanded, nothing left behind."""

import asyncio
import sys
from types import SimpleNamespace

import pytest
from turns import until

from mcpwire.testing.procfs import is_alive

PATIENCE = 30.0

# Listens until it is told to end.
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

# Stands in for node and the suite: plays two scenarios, or the one it is told to.
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
def put(driver, tmp_path, monkeypatch):
    """Return `run_server_leg` with Python code in place of server and suite."""
    server_runs = driver("server_runs")
    monkeypatch.setattr(server_runs, "NODE", sys.executable)
    monkeypatch.setattr(server_runs, "BUILD", tmp_path)
    monkeypatch.setattr(server_runs, "STOP_TIMEOUT_S", PATIENCE)

    async def put(server, suite=SUITE, wanted=None):
        (tmp_path / "server.py").write_text(server)
        (tmp_path / "suite.py").write_text(suite)
        leg = SimpleNamespace(
            name="S9",
            suite=SimpleNamespace(program=tmp_path / "suite.py"),
            suite_options=("--suite", "all"),
            options=("--force",),
        )
        standing_it = server_runs.run_server_leg(leg, wanted, tmp_path / "server.py")
        return await asyncio.wait_for(standing_it, PATIENCE)

    return put


def ended(stand):
    return stand.is_up, stand.suite_exit, stand.server_exit


async def test_all_scenarios_are_played_against_one_server_that_ends_as_told(put):
    runs, stand = await put(GOOD)
    assert ended(stand) == (True, 0, 0)
    assert stand.server_output == "bound\n"
    assert [run.scenario for run in runs] == ["zebra", "ape-2"]
    assert [run.checks[0]["id"] for run in runs] == ["--suite all"] * 2


async def test_some_scenarios_are_played_one_by_one_against_one_server(put):
    runs, stand = await put(GOOD, wanted=["b", "a"])
    assert ended(stand) == (True, 0, 0)
    assert [run.checks[0]["id"] for run in runs] == [
        "--scenario b --force",
        "--scenario a --force",
    ]
    assert stand.server_output.count("bound") == 1


async def test_a_server_that_does_not_start_is_told_with_what_it_wrote(put):
    runs, stand = await put("raise SystemExit('no')")
    assert (runs, ended(stand), stand.server_output) == ([], (False, 0, 1), "no\n")


async def test_the_suites_exit_code_is_kept(put):
    _, stand = await put(GOOD, suite=SUITE + "sys.exit(1)")
    assert ended(stand) == (True, 1, 0)


async def test_a_suite_that_does_not_end_is_killed(put, driver, monkeypatch):
    monkeypatch.setattr(driver("server_runs"), "LEG_TIMEOUT_S", 0.5)
    _, stand = await put(GOOD, suite="import signal; signal.pause()")
    assert ended(stand) == (True, None, 0)


async def test_a_server_that_does_not_end_is_killed_with_what_it_started(
    put, tmp_path, driver, monkeypatch
):
    monkeypatch.setattr(driver("server_runs"), "STOP_TIMEOUT_S", 1.0)
    server = SERVER.format(last="print('no')")
    child = (
        "import pathlib, subprocess, sys\n"
        "hangs = 'import time; time.sleep(99)'\n"
        "child = subprocess.Popen([sys.executable, '-c', hangs])"
        f"\npathlib.Path({str(tmp_path)!r}, 'child').write_text(str(child.pid))\n"
    )
    _, stand = await put(child + server)
    assert ended(stand) == (True, 0, None)
    pid = int((tmp_path / "child").read_text())
    await asyncio.wait_for(until(lambda: not is_alive(pid), 0.01), PATIENCE)


async def test_what_an_earlier_leg_left_is_never_read_again(put):
    await put(GOOD)
    runs, _ = await put(GOOD, suite="")
    assert runs == []
