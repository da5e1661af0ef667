"""The floor makes one write and one read per call on each side, as does the C loop."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import attrs
import pytest

from mcpwire.bench.floor import KINDS, floor_loop, measure_floor, pinned_to_core
from mcpwire.bench.null_process import null_command
from mcpwire.testing import procfs

BUILD = Path(__file__).parents[2] / "benchmarks/null/build.py"
CALLS = 100
needs_proc = pytest.mark.skipif(
    not Path("/proc/thread-self/io").exists(), reason="needs the counters of Linux"
)


def system_calls(who):
    """Return the numbers of reads and writes of a process."""
    text = Path(f"/proc/{who}/io").read_text()
    fields = dict(line.split(": ") for line in text.splitlines())
    return int(fields["syscr"]), int(fields["syscw"])


def settled_counts(pid):
    """Return the counts of a process that waits for input.

    A write has its effect before the kernel counts it.
    """
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        pass
    return system_calls(pid)


@needs_proc
@pytest.mark.parametrize("kind", KINDS)
def test_each_side_reads_once_and_writes_once_per_call(kind):
    with floor_loop(kind) as loop:
        before = settled_counts(loop.pid)
        loop.run(CALLS)
        made = [b - a for a, b in zip(before, settled_counts(loop.pid), strict=True)]
        assert made == [CALLS, CALLS]
        counts = [system_calls("thread-self"), system_calls("thread-self")]
        loop.run(CALLS)
        counts.append(system_calls("thread-self"))
    (reads, writes), (more_reads, more_writes) = (
        tuple(b - a for a, b in zip(*each, strict=True)) for each in pairwise(counts)
    )
    assert (more_reads - reads, more_writes - writes) == (CALLS, CALLS)


async def test_floor_is_measured_for_each_transport():
    floors = await measure_floor(0.01)
    assert tuple(floors) == tuple(KINDS)
    for floor in floors.values():
        assert floor.calls >= 200
        assert 0 < floor.p50_us <= floor.p99_us
        if sys.platform == "linux":
            assert all(value > 0 for value in attrs.asdict(floor).values())


@pytest.mark.skipif(sys.platform != "linux", reason="needs CPU affinity of Linux")
async def test_both_sides_share_a_core_and_affinity_is_restored():
    cores, others = os.sched_getaffinity(0), procfs.children(os.getpid())
    measuring = asyncio.create_task(measure_floor(600))
    while len(servers := procfs.children(os.getpid()) - others) < len(KINDS):  # noqa: ASYNC110 - other processes
        await asyncio.sleep(0.01)  # poll until all servers run
    assert [os.sched_getaffinity(each) for each in servers] == [{max(cores)}] * 4
    measuring.cancel()
    await asyncio.wait([measuring])
    with pinned_to_core():
        assert os.sched_getaffinity(0) == {max(cores)}
    assert os.sched_getaffinity(0) == cores


@pytest.mark.parametrize("server", ["-", " ".join(null_command("--stdio"))])
def test_c_loop_speaks_the_protocol_of_a_measuring_child(server):
    built = subprocess.run(
        [sys.executable, BUILD, "pipe_loop"],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        pytest.skip(built.stderr.strip())
    assert built.stderr == "", "the compiler warned"
    command = [built.stdout.strip(), "-", server]
    requests = '{"users": 1, "calls": 20}\n{"calls": 30}\n'
    done = subprocess.run(
        command, input=requests, capture_output=True, text=True, check=True, timeout=50
    )
    opened, *slices = map(json.loads, done.stdout.splitlines())
    assert opened == {}
    assert [len(each["latencies"]) for each in slices] == [20, 30]
    for each in slices:
        assert 0 < sum(each["latencies"]) == each["elapsed"]
        assert each["cpu"] > 0


async def test_cancelled_floor_measurement_ends():
    running = asyncio.create_task(measure_floor(600))
    await asyncio.sleep(0)  # lets the measurement start
    running.cancel()
    await asyncio.wait([running])
    async with asyncio.timeout(50):  # waits for the measuring thread
        await asyncio.get_running_loop().shutdown_default_executor()


def test_exited_server_is_an_error():
    with floor_loop("pipe") as loop:
        os.kill(loop.pid, signal.SIGKILL)
        with pytest.raises(OSError, match=r"ended|Broken pipe"):
            loop.run(CALLS)
