"""The cost of a server's processes, including those that have ended."""

import asyncio
import os
import subprocess
import sys
from collections import Counter

import pytest
from null_targets import null, relay

from mcpwire.bench import Call, Load, run
from mcpwire.testing import procfs

pytestmark = pytest.mark.skipif(not procfs.HAS_PROC, reason="reads /proc")
BURN = "import time\nwhile time.process_time() < 0.2: pass\n"
WAITS = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}], check=True)
print(flush=True)
sys.stdin.read()
"""


def test_cpu_time_includes_exited_children():
    command = [sys.executable, "-c", WAITS]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        process.stdout.readline()
        assert procfs.descendants(process.pid) == set()
        assert procfs.cpu_time(process.pid) >= 200_000_000
        process.communicate()


CRASH_ONCE = """
if not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "x").close()
    while time.process_time() < 0.2: pass
    null.communicate()
    sys.exit(3)
"""
"""Burns 200 ms and exits, but not after a restart."""


def test_restarted_server_is_found_again(tmp_path):
    load = Load(rate=20, seconds=1.0, warm_up=0, rounds=1, timeout=5.0)
    server = relay("ping", CRASH_ONCE, str(tmp_path / "crashed"))
    (target,) = asyncio.run(run(server, load, with_floor=False)).subjects
    assert target.total("reconnects") == 1
    assert target.total("cpu") >= 150_000_000
    assert len(target.samples) >= len(target.slices) == 2
    # Descriptors of the wrapper (with two pipes) and of the server.
    assert target.samples[0].descriptors == target.samples[-1].descriptors == 8
    assert target.counts["writes"] == 3


def test_cpu_time_of_per_call_servers_is_counted():
    load = Load(sessions="per-call", seconds=0.2, warm_up=0, rounds=1)
    (target,) = asyncio.run(run(null(), load, with_floor=False)).subjects
    assert target.figures()["cpu"] > 0


def test_process_given_with_its_parent_counts_once():
    pids = os.getpid(), os.getppid()
    both = procfs.cpu_time(*pids)
    assert both < procfs.cpu_time(os.getppid()) + procfs.cpu_time(os.getpid())


def test_counted_calls_are_made_by_one_worker_only():
    load = Load(calls=(Call("ping"),), workers=2, seconds=0.2, warm_up=0, rounds=1)
    (target,) = asyncio.run(run(null(), load, with_floor=False)).subjects
    assert target.counts["messages"] == 2
    assert target.counts["reads"] == target.counts["writes"] == 1
    # One worker had no user, and ended at once.
    assert all(each.generator_share <= 1 for each in target.slices)


def test_memory_of_several_processes_scans_proc_once(monkeypatch):
    counts = Counter()
    original = procfs._parents

    def counted(**options):
        counts["times"] += 1
        return original(**options)

    monkeypatch.setattr(procfs, "_parents", counted)
    procfs.resident_memory(os.getpid(), os.getppid(), 1)
    assert counts["times"] == 1
