"""What a server's processes cost, those that have ended among them."""

import asyncio
import os
import subprocess
import sys
from collections import Counter

import pytest

from mcpwire import Stdio
from mcpwire.bench import Call, Load, run
from mcpwire.bench.null_process import null_command
from mcpwire.testing import procfs

pytestmark = pytest.mark.skipif(not procfs.HAS_PROC, reason="reads /proc")
BURN = "import time\nwhile time.process_time() < 0.2: pass\n"
WAITS = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}], check=True)
print(flush=True)
sys.stdin.read()
"""


def test_the_time_of_a_child_that_has_ended_counts():
    command = [sys.executable, "-c", WAITS]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        process.stdout.readline()
        assert procfs.descendants(process.pid) == set()
        assert procfs.cpu_time(process.pid) >= 200_000_000
        process.communicate()


CRASHES = f"""
import json, os, subprocess, sys, time
command = {null_command("--stdio", "--legacy")!r}
null = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
calls = 0
for line in sys.stdin.buffer:
    value = json.loads(line)
    calls += value.get("method") == "ping"
    if calls == 3 and not os.path.exists(sys.argv[1]):
        open(sys.argv[1], "x").close()
        while time.process_time() < 0.2: pass
        null.communicate()
        sys.exit(3)
    null.stdin.write(line)
    null.stdin.flush()
    if "id" in value:
        sys.stdout.buffer.write(null.stdout.readline())
        sys.stdout.flush()
"""
"""A wrapper of a server; once it works for 200 ms at the third ping, and ends."""


def test_a_server_that_has_started_anew_is_found_again(tmp_path):
    load = Load(rate=20, seconds=1.0, warm_up=0, rounds=1, timeout=5.0)
    server = Stdio(sys.executable, ["-c", CRASHES, str(tmp_path / "crashed")])
    (target,) = asyncio.run(run(server, load, with_floor=False)).subjects
    assert target.total("reconnects") == 1
    assert target.total("cpu") >= 150_000_000
    assert len(target.samples) >= len(target.slices) == 2
    # Those of the wrapper, with two pipes, and of the server.
    assert target.samples[0].descriptors == target.samples[-1].descriptors == 8
    assert target.counts["writes"] == 3


def test_connections_for_one_call_have_the_time_of_their_servers_counted():
    load = Load(sessions="per-call", seconds=0.2, warm_up=0, rounds=1)
    command, *arguments = null_command("--stdio")
    running = run(Stdio(command, arguments), load, with_floor=False)
    (target,) = asyncio.run(running).subjects
    assert target.figures()["cpu"] > 0


def test_a_process_named_beside_its_parent_counts_once():
    pids = os.getpid(), os.getppid()
    both = procfs.cpu_time(*pids)
    assert both < procfs.cpu_time(os.getppid()) + procfs.cpu_time(os.getpid())


def test_several_workers_make_the_counted_calls_once():
    command, *arguments = null_command("--stdio")
    load = Load(calls=(Call("ping"),), workers=2, seconds=0.2, warm_up=0, rounds=1)
    running = run(Stdio(command, arguments), load, with_floor=False)
    (target,) = asyncio.run(running).subjects
    assert target.counts["messages"] == 2
    assert target.counts["reads"] == target.counts["writes"] == 1
    # One of them had no user, and ended at once.
    assert all(each.generator_share <= 1 for each in target.slices)


def test_looking_at_many_processes_reads_the_list_of_all_once(monkeypatch):
    looked = Counter()
    listed = procfs._parents

    def counted(**options):
        looked["times"] += 1
        return listed(**options)

    monkeypatch.setattr(procfs, "_parents", counted)
    procfs.resident_memory(os.getpid(), os.getppid(), 1)
    assert looked["times"] == 1
