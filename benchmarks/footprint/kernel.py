"""Count of the system calls for memory during tool calls, by strace.

    python -m footprint.kernel MODULE:FUNCTION ARGUMENT CALLS     (makes the calls)

The program marks the first and the last call by two system calls that no other
code makes. The system calls of the null server in between are counted, too.
"""

from __future__ import annotations

import asyncio
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.rounds import FOLDER

MARK = "sched_yield"
MEMORY_SYSCALLS = ("mmap", "munmap", "mremap", "brk", "madvise")
STRACE = (
    "strace",
    "-f",
    "--seccomp-bpf",
    "-e",
    f"trace={','.join((*MEMORY_SYSCALLS, MARK))}",
)
"""strace intercepts only the counted system calls; all others run at full speed."""

WARM_UP_CALLS = 1_000
LIMIT_S = 120.0


def has_strace() -> bool:
    """Return whether strace is installed."""
    return shutil.which("strace") is not None


def count_memory_syscalls(target: str, argument: str, calls: int) -> int:
    """Return the number of system calls for memory in a number of calls.

    Raises:
        ChildProcessError: strace failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        program = [sys.executable, "-m", "footprint.kernel", target, argument]
        result = subprocess.run(
            [*STRACE, "-o", str(log), *program, str(calls)],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if result.returncode:
            raise ChildProcessError(f"strace: {result.stderr}")
        return count_between_marks(log.read_text(encoding="utf-8").splitlines())


def count_between_marks(lines: list[str]) -> int:
    """Return the number of system calls for memory between the two marks.

    Raises:
        ChildProcessError: The number of marks is not two.
    """
    marks = [index for index, line in enumerate(lines) if f"{MARK}(" in line]
    if len(marks) != 2:
        raise ChildProcessError(f"strace: {len(marks)} marks instead of two")
    call_starts = [f"{name}(" for name in MEMORY_SYSCALLS]
    measured_lines = lines[marks[0] + 1 : marks[1]]
    return sum(any(start in line for start in call_starts) for line in measured_lines)


async def make_calls(target: str, argument: str, calls: int) -> None:
    """Make the calls, one at a time."""
    async with pkgutil.resolve_name(target)(argument) as call:
        for _ in range(WARM_UP_CALLS):
            await call()
        os.sched_yield()
        for _ in range(calls):
            await call()
        os.sched_yield()


def make_blocking_calls(target: str, argument: str, calls: int) -> None:
    """Make the calls of a blocking variant."""
    with pkgutil.resolve_name(target)(argument) as call:
        for _ in range(WARM_UP_CALLS):
            call()
        os.sched_yield()
        for _ in range(calls):
            call()
        os.sched_yield()


def main(target: str, argument: str, calls: str) -> None:
    if "blocking" in target:
        make_blocking_calls(target, argument, int(calls))
    else:
        asyncio.run(make_calls(target, argument, int(calls)))


if __name__ == "__main__":
    main(*sys.argv[1:])
