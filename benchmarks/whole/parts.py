"""The parts of a whole run: each a script in a process of its own, which may fail."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SHORT = "--rounds 1 --slices 2"
"""What every script understands, and what is enough to see that it works."""

PATIENCE = 5
"""How many times the time that a part should take it may take."""

LEAST_PATIENCE_S = 60
CLOSE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Part:
    """One question of a whole run."""

    name: str
    words: str
    """What its script is told for figures that are to be believed."""

    seconds: int
    """About how long that takes on two cores with nothing else to do."""

    short: str = ""
    """What it is told beside `SHORT`, so that a short run is short."""

    def script(self, folder: Path) -> Path:
        """Return the script of this question."""
        return folder / f"bench_{self.name}.py"

    def command(self, folder: Path, output: Path, *, is_short: bool) -> list[str]:
        """Return what measures it."""
        words = f"{SHORT} {self.short}" if is_short else self.words
        program = [sys.executable, str(self.script(folder))]
        return [*program, *shlex.split(words), "--output", str(output)]

    def limit_s(self, *, is_short: bool) -> float:
        """Return how long it may take before it is given up."""
        seconds = 0 if is_short else self.seconds
        return max(LEAST_PATIENCE_S, PATIENCE * seconds)


@dataclass(frozen=True)
class Outcome:
    """How one part went."""

    name: str
    seconds: float
    trouble: str = ""
    """Empty where it went well."""


def stop(process: subprocess.Popen[Any]) -> None:
    """End a process and what it started, if that is not over anyway."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(CLOSE_TIMEOUT_S)
        except (ProcessLookupError, PermissionError):  # nobody is left
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def run(command: Sequence[str], limit_s: float, log: Path | None = None) -> str:
    """Run a command; return what went wrong, if something did.

    Nothing that it started outlives it, however it ends. With a log its output goes
    there.
    """
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
    with nullcontext() if log is None else log.open("wb") as where:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=where,
            stderr=where and subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"not done after {limit_s:.0f} s"
        finally:
            stop(process)
    return f"exit code {code}" if code else ""


def run_part(part: Part, folder: Path, output: Path, *, log: Path | None) -> Outcome:
    """Run one part, in short where there is a log; say how it went."""
    is_short = log is not None
    command = part.command(folder, output, is_short=is_short)
    began = time.monotonic()
    trouble = run(command, part.limit_s(is_short=is_short), log)
    return Outcome(part.name, time.monotonic() - began, trouble)
