"""Workers and servers end with the command, however it ends."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest
from null_targets import NULL_SERVER, program

from mcpwire.bench import Load, run
from mcpwire.bench.null_process import null_command
from mcpwire.bench.worker_group import GeneratorFailed
from mcpwire.testing.procfs import HAS_PROC, descendants, is_alive

pytestmark = pytest.mark.skipif(not HAS_PROC, reason="looks for processes in /proc")
WAIT_S = 20
LONG = ["--rate", "50/s", "--find-max", "p99<1000s", "--for", "600s", "--warm-up", "0s"]
SHORT = ["--for", "0.1s", "--rounds", "1", "--warm-up", "0s"]
STUBBORN = program(NULL_SERVER, "import time; time.sleep(600)")


def wait_for(find):
    """Poll a function; return its first true result."""
    end = time.monotonic() + WAIT_S
    while not (found := find()):
        assert time.monotonic() < end
        time.sleep(0.02)  # poll interval of /proc
    return found


def start(*target):
    """Start a long search for the highest rate; return it, its worker, the server."""
    words = [sys.executable, "-m", "mcpwire", "bench", *LONG, "--", *target]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )

    def below():
        for worker in descendants(process.pid):
            for server in descendants(worker):
                return worker, server
        return None

    return process, *wait_for(below)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_the_process_group_prints_one_line(number):
    process, *children = start(*null_command("--stdio"))
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out) == (128 + number, b"")
    assert err == b"mcpwire: interrupted\n"
    assert not any(map(is_alive, children))


def test_worker_and_server_end_after_the_command_is_killed():
    process, *children = start(*null_command("--stdio"))
    process.kill()
    wait_for(lambda: not any(map(is_alive, children)))
    assert process.communicate()[1] == b""


def test_killed_worker_leaves_no_server_running():
    found, others = {}, descendants(os.getpid())

    def kill(_):
        if not found:
            found["worker"] = min(descendants(os.getpid()) - others)
            found["servers"] = descendants(found["worker"])
            os.kill(found["worker"], signal.SIGKILL)

    load = Load(seconds=60, rounds=1)
    with pytest.raises(GeneratorFailed, match="ended with code -9"):
        asyncio.run(run(STUBBORN, load, with_floor=False, on_progress=kill))
    assert found["servers"]
    wait_for(lambda: not any(map(is_alive, found["servers"])))


@pytest.mark.parametrize("rounds", [1, 2])
def test_run_that_is_cancelled_while_its_servers_end_does_not_continue(rounds):
    others, servers, measured = descendants(os.getpid()), set(), []

    async def cancelled():
        def cancel(progress):
            measured.append(progress.slice.round)
            servers.update(descendants(os.getpid()) - others)
            asyncio.get_running_loop().call_soon(task.cancel)

        load = Load(seconds=0.1 * rounds, rounds=rounds, warm_up=0)
        options = {"with_floor": False, "with_details": False}
        task = asyncio.ensure_future(run(STUBBORN, load, on_progress=cancel, **options))
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert measured == [0]
    assert servers
    wait_for(lambda: not any(map(is_alive, servers)))


def test_modules_of_the_working_directory_are_not_imported(tmp_path):
    (tmp_path / "calendar.py").write_text("raise SystemExit('shadowed')")
    words = ["bench", *SHORT, "--no-floor", "--"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mcpwire", *words, *null_command("--stdio")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
