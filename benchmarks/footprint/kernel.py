"""How often calls have the kernel give or take memory, by strace.

    python -m footprint.kernel MODULE:FUNCTION ARGUMENT CALLS     (makes the calls)

Two programs are counted that differ in nothing but the number of their calls; what the
longer one asks for more is the calls'. The null servers are counted, too.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.child import load
from harness.rounds import FOLDER

ASKS = "mmap,munmap,mremap,brk,madvise"
STRACE = ("strace", "-f", "--seccomp-bpf", "-c", "-e", f"trace={ASKS}")
"""Only what is counted stops; everything else runs at its own speed."""

FEW = 1_000
LIMIT_S = 120.0
LINE = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(?P<calls>\d+)\s+.*?(?P<name>\w+)$")


def is_there() -> bool:
    """Tell whether there is an strace."""
    return shutil.which("strace") is not None


def counted(target: str, argument: str, calls: int) -> int:
    """Return how often so many calls ask for memory, from the very start.

    Raises:
        ChildProcessError: strace could not do it.
    """
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "counts"
        program = [sys.executable, "-m", "footprint.kernel", target, argument]
        done = subprocess.run(
            [*STRACE, "-o", str(table), *program, str(calls)],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode:
            raise ChildProcessError(f"strace: {done.stderr}")
        return total(table.read_text(encoding="utf-8"))


def total(text: str) -> int:
    """Return the sum of strace's table."""
    found = filter(None, map(LINE.match, text.splitlines()))
    return sum(int(each["calls"]) for each in found if each["name"] != "total")


def asked(target: str, argument: str, calls: int) -> int:
    """Return how often so many calls more ask for memory."""
    few = counted(target, argument, FEW)
    return counted(target, argument, FEW + calls) - few


async def perform(target: str, argument: str, calls: int) -> None:
    """Make the calls, one at a time."""
    async with load(target)(argument) as call:
        for _ in range(calls):
            await call()


def perform_blocking(target: str, argument: str, calls: int) -> None:
    """Make the calls of a variant that blocks."""
    with load(target)(argument) as call:
        for _ in range(calls):
            call()


def main(target: str, argument: str, calls: str) -> None:
    if "blocking" in target:
        perform_blocking(target, argument, int(calls))
    else:
        asyncio.run(perform(target, argument, int(calls)))


if __name__ == "__main__":
    main(*sys.argv[1:])
