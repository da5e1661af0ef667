"""Start times of fresh interpreters, and the figures that they report."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIMIT_S = 60.0


def run(
    command: Sequence[str], environment: Mapping[str, str]
) -> tuple[float, dict[str, float]]:
    """Run a program to its end; return its time in ms and the figures it printed.

    Raises:
        ChildProcessError: The program failed; the message has its stderr.
    """
    start = time.perf_counter()
    result = subprocess.run(
        command,
        # An inherited PYTHONDONTWRITEBYTECODE would make each start compile the
        # modules.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    milliseconds = (time.perf_counter() - start) * 1e3
    if result.returncode:
        raise ChildProcessError(f"{command} failed: {result.stderr}")
    return milliseconds, parse_figures(result.stdout)


def parse_figures(text: str) -> dict[str, float]:
    """Parse the lines of a name and a number."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2}
