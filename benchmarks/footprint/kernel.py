"""Count of the system calls for memory during tool calls, by strace.

    python -m footprint.kernel MODULE:FUNCTION ARGUMENT CALLS     (makes the calls)

The program marks the first and the last call by two system calls that no other
code makes. The system calls of the null server in between are counted, too.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.child import load
from harness.rounds import FOLDER

MARK = "sched_yield"
ASKS = ("mmap", "munmap", "mremap", "brk", "madvise")
STRACE = ("strace", "-f", "--seccomp-bpf", "-e", f"trace={','.join((*ASKS, MARK))}")
"""strace intercepts only the counted system calls; all others run at full speed."""

WARM_UP_CALLS = 1_000
LIMIT_S = 120.0


def is_there() -> bool:
    """Return whether strace is installed."""
    return shutil.which("strace") is not None


def asked(target: str, argument: str, calls: int) -> int:
    """Return the number of system calls for memory in a number of calls.

    Raises:
        ChildProcessError: strace failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        program = [sys.executable, "-m", "footprint.kernel", target, argument]
        done = subprocess.run(
            [*STRACE, "-o", str(log), *program, str(calls)],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode:
            raise ChildProcessError(f"strace: {done.stderr}")
        return between(log.read_text(encoding="utf-8").splitlines())


def between(lines: list[str]) -> int:
    """Return the number of system calls for memory between the two marks.

    Raises:
        ChildProcessError: The number of marks is not two.
    """
    marks = [at for at, line in enumerate(lines) if f"{MARK}(" in line]
    if len(marks) != 2:
        raise ChildProcessError(f"strace: {len(marks)} marks instead of two")
    begun = [f"{name}(" for name in ASKS]
    inside = lines[marks[0] + 1 : marks[1]]
    return sum(any(each in line for each in begun) for line in inside)


async def perform(target: str, argument: str, calls: int) -> None:
    """Make the calls, one at a time."""
    async with load(target)(argument) as call:
        for _ in range(WARM_UP_CALLS):
            await call()
        os.sched_yield()
        for _ in range(calls):
            await call()
        os.sched_yield()


def perform_blocking(target: str, argument: str, calls: int) -> None:
    """Make the calls of a blocking variant."""
    with load(target)(argument) as call:
        for _ in range(WARM_UP_CALLS):
            call()
        os.sched_yield()
        for _ in range(calls):
            call()
        os.sched_yield()


def main(target: str, argument: str, calls: str) -> None:
    if "blocking" in target:
        perform_blocking(target, argument, int(calls))
    else:
        asyncio.run(perform(target, argument, int(calls)))


if __name__ == "__main__":
    main(*sys.argv[1:])
