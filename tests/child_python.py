"""Runs Python programs in child processes."""

import subprocess
import sys
from typing import Any

BOUND_S = 60.0


def finished(
    *command: str, check: bool = False, timeout: float = BOUND_S, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and keep its output."""
    options |= {"capture_output": True, "text": True}
    return subprocess.run(command, check=check, timeout=timeout, **options)


def printed_by(*arguments: str, **options: Any) -> str:
    """Return the output of a Python program, which must succeed."""
    return finished(sys.executable, *arguments, check=True, **options).stdout
