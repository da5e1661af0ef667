"""How long fresh interpreters take, and what they tell of themselves."""

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
    """Run a program to its end; return how long it took, in ms, and what it told.

    Raises:
        ChildProcessError: It failed; what it said is in the message.
    """
    began = time.perf_counter()
    done = subprocess.run(
        command,
        # What is installed has its bytecode, and so has what is imported for the first
        # time, whatever is said of writing it here.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    took = (time.perf_counter() - began) * 1e3
    if done.returncode:
        raise ChildProcessError(f"{command} failed: {done.stderr}")
    return took, parsed(done.stdout)


def parsed(text: str) -> dict[str, float]:
    """Return the figures of lines of a name and a number."""
    words = (line.split() for line in text.splitlines())
    return {each[0]: float(each[1]) for each in words if len(each) == 2}
