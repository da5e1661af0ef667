"""Running the suite: time limits, and no processes or results left behind."""

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from loop_polling import until

from mcpwire.testing.procfs import is_alive

TIMEOUT_S = 30.0
FOLDER = Path(__file__).parents[2] / "conformance"

ACTOR = """
import json, os, pathlib, subprocess, sys
def option(name):
    return sys.argv[sys.argv.index(name) + 1]
scenario, folder = option("--scenario"), pathlib.Path(option("-o"))
folder = folder / (scenario + "-2026-01-01T00-00-00-000Z")
folder.mkdir(parents=True)
def write(stdout, **check):
    (folder / "checks.json").write_text(json.dumps([check]))
    (folder / "stdout.txt").write_text(stdout)
    (folder / "stderr.txt").write_text("from the client")
check = {"id": "one", "name": "One", "status": "SUCCESS"}
"""
GOOD = ACTOR + 'write(f"played {scenario}\\n", **check)\n'
BAD = (
    ACTOR
    + """
write("half", **check)
print("Client exited with code 7\\n\\nStderr:\\n", file=sys.stderr)
sys.exit(1)
"""
)
HANGING = (
    ACTOR
    + """
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
(pathlib.Path(option("-o")).parent / "child").write_text(str(child.pid))
child.wait()
"""
)


@pytest.fixture
def actor(driver, tmp_path, monkeypatch):
    """Return `run_scenario` with Python code in place of node and the suite."""
    processes = driver("processes")
    monkeypatch.setattr(processes, "NODE", sys.executable)
    monkeypatch.setattr(processes, "BUILD", tmp_path)
    monkeypatch.setattr(processes, "ROOT", tmp_path)

    def play(source, scenario="auth/some", timeout=TIMEOUT_S):
        program = tmp_path / "suite.py"
        program.write_text(source)
        suite = SimpleNamespace(program=program)
        leg = SimpleNamespace(name="C9", suite=suite, options=("--force",))
        return processes.run_scenario(leg, scenario, timeout)

    return play


async def test_results_are_read_from_the_folder_of_the_scenario(actor):
    run = await actor(GOOD)
    assert [check["id"] for check in run.checks] == ["one"]
    assert (run.suite_exit, run.client_exit, run.client_ended) == (0, 0, True)
    assert run.output == "from the client"


async def test_exit_codes_of_client_and_suite_are_recorded(actor):
    run = await actor(BAD)
    assert (run.suite_exit, run.client_exit, run.client_ended) == (1, 7, False)


async def test_results_of_an_earlier_run_are_not_read_again(actor):
    assert (await actor(GOOD)).checks
    assert (await actor("raise SystemExit(1)")).checks is None


async def test_timeout_kills_the_suite_with_its_child_processes(actor, tmp_path):
    child = tmp_path / "C9" / "child"
    for seconds in (3.0, 9.0, 27.0):  # a busy machine may need a longer time
        run = await asyncio.wait_for(actor(HANGING, timeout=seconds), TIMEOUT_S)
        assert run.suite_exit is None
        if child.exists() and child.read_text():
            break
    assert await is_gone(int(child.read_text()))


@pytest.mark.parametrize("is_handed_over", [True, False])
async def test_cancelled_run_kills_its_child_processes(
    actor, tmp_path, monkeypatch, is_handed_over
):
    start = asyncio.create_subprocess_exec
    has_started, may_go_on = asyncio.Event(), asyncio.Event()

    async def started(*words, **options):
        process = await start(*words, **options)
        has_started.set()
        if not is_handed_over:
            await may_go_on.wait()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", started)
    running = asyncio.create_task(actor(HANGING))
    child = tmp_path / "C9" / "child"
    await asyncio.wait_for(has_started.wait(), TIMEOUT_S)
    await asyncio.wait_for(
        until(lambda: child.exists() and child.read_text(), 0.01), TIMEOUT_S
    )
    running.cancel()
    await asyncio.sleep(0)  # lets the cancellation arrive
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await is_gone(int(child.read_text()))


async def is_gone(pid):
    """Wait for a process to end; a zombie counts as ended."""
    await asyncio.wait_for(until(lambda: not is_alive(pid), 0.01), TIMEOUT_S)
    return True


def import_file(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_two_scenarios_run_at_a_time_and_timed_ones_alone(driver, monkeypatch):
    legs = driver("legs")
    run = import_file("conformance_run", FOLDER / "run.py")
    running, seen = set(), []

    async def play(leg, scenario, program):
        assert program.name == "client.py"
        running.add(scenario)
        await asyncio.sleep(0)  # lets others start, if they are allowed to
        await asyncio.sleep(0)
        seen.append(set(running))
        running.discard(scenario)
        return scenario

    monkeypatch.setattr(run, "run_scenario", play)
    scenarios = ["a", *legs.SEQUENTIAL, "b", "c"]
    assert await run.run_clients(None, scenarios) == scenarios
    assert max(map(len, seen)) == 2
    assert {"sse-retry"} in seen
    assert all(others == {"sse-retry"} for others in seen if "sse-retry" in others)


def test_missing_or_outdated_suite_is_named(driver, tmp_path, monkeypatch):
    legs, processes = driver("legs"), driver("processes")
    monkeypatch.setattr(legs, "INSTALLED", tmp_path)
    assert "is missing: `make conformance` installs it" in (
        processes.check_installed([legs.ALPHA])
    )
    (tmp_path / legs.ALPHA.alias / "dist").mkdir(parents=True)
    legs.ALPHA.program.touch()
    (legs.ALPHA.folder / "package.json").write_text('{"version": "0.0.1"}')
    assert "is 0.0.1, not 0.2.0-alpha.12" in processes.check_installed([legs.ALPHA])
