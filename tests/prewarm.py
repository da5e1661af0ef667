"""Compiles the test modules once, in two processes, before several workers need them.

pytest rewrites their assertions, which takes longer than the rest of collecting the
tests. Workers that start together would each do it again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PROCESSES = 2
TIMEOUT_S = 300.0


def shares() -> list[list[Path]]:
    """Return the files of each process: about equally many bytes."""
    paths = [*TESTS.glob("test_*.py"), *(p for p in TESTS.iterdir() if p.is_dir())]
    sizes = {path: _bytes(path) for path in paths}
    found: list[list[Path]] = [[] for _ in range(PROCESSES)]
    for path in sorted(paths, key=lambda path: sizes[path], reverse=True):
        if sizes[path]:
            min(found, key=lambda share: sum(map(sizes.__getitem__, share))).append(
                path
            )
    return found


def _bytes(path: Path) -> int:
    files = path.rglob("test_*.py") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem() -> list[pytest.Item]:
    """Collect no test from a module: importing it compiles it."""
    return []


def main() -> None:
    """Import the tests only: the test run itself reports their errors."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "prewarm"]
    running = [
        subprocess.Popen(
            [*command, *map(str, share)],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for share in shares()
    ]
    for process in running:
        process.wait(TIMEOUT_S)


if __name__ == "__main__":
    main()
