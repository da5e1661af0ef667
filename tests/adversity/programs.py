"""Whole programs that use the client, run as a user runs them, and how they ended."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parent.parent
BOUND_S = 50.0
LEFT_S = 40.0
"""Within which a killed process has ended, however loaded the machine."""

HEAD = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import asyncio, contextlib, gc, json, os, signal, time, warnings
import mcpwire
from shell_server import quick
from scripted import ECHO_LOOP, scripted

def echo():
    return scripted("handshake()\\n" + ECHO_LOOP)

def say(*words):
    print(*words, flush=True)
"""


def start(body: str, *args: str, python: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Start a program of these lines, `mcpwire` and the quick servers at hand."""
    return subprocess.Popen(
        [sys.executable, *python, "-c", HEAD + body, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(body: str, *args: str, python: tuple[str, ...] = ()) -> tuple[str, str, int]:
    """Run a program to its end; return its stdout, stderr and exit code."""
    with start(body, *args, python=python) as process:
        try:
            output, errors = process.communicate(timeout=BOUND_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return output, errors, process.returncode


def is_running(pid: int) -> bool:
    """Tell whether a process still runs; a zombie of a foreign parent does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def seconds_until(holds: Callable[[], bool]) -> float:
    """Return how long it took until that held, or the upper bound."""
    started = time.monotonic()
    while not holds() and time.monotonic() - started < LEFT_S:
        time.sleep(0.005)  # a foreign process sends no signal
    return time.monotonic() - started
