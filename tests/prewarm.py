"""Compiles the test modules once, on two cores, before several workers need them.

pytest rewrites their assertions, which takes longer than all the rest of finding the
tests. Workers that begin together would each do it for themselves.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PROCESSES = 2
PATIENCE_S = 300.0


def shares() -> list[list[Path]]:
    """Return what each process takes: about as many bytes."""
    places = [*TESTS.glob("test_*.py"), *(p for p in TESTS.iterdir() if p.is_dir())]
    sizes = {place: _bytes(place) for place in places}
    found: list[list[Path]] = [[] for _ in range(PROCESSES)]
    for place in sorted(places, key=lambda place: sizes[place], reverse=True):
        if sizes[place]:
            min(found, key=lambda share: sum(map(sizes.__getitem__, share))).append(
                place
            )
    return found


def _bytes(place: Path) -> int:
    files = place.rglob("test_*.py") if place.is_dir() else [place]
    return sum(file.stat().st_size for file in files)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem() -> list[pytest.Item]:
    """Find no test in a module: once it is imported, it is compiled."""
    return []


def main() -> None:
    """Import the tests, and no more: what is wrong with them the run itself says."""
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
        process.wait(PATIENCE_S)


if __name__ == "__main__":
    main()
