"""The parts of a whole run: scripts in processes of their own, which may fail."""

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
"""Arguments that all scripts accept, enough to test that a script works."""

TIME_LIMIT_FACTOR = 5
"""The limit of a part's time, as a multiple of its expected time."""

MIN_TIME_LIMIT_S = 60
CLOSE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Part:
    """One benchmark of a whole run."""

    name: str
    words: str
    """The arguments of the script for reliable figures."""

    seconds: int
    """The expected time on two idle cores."""

    short: str = ""
    """Additional arguments of a short run, beside `SHORT`."""

    def script(self, folder: Path) -> Path:
        """Return the path of the script."""
        return folder / f"bench_{self.name}.py"

    def command(self, folder: Path, output: Path, *, is_short: bool) -> list[str]:
        """Return the command that runs the script."""
        words = f"{SHORT} {self.short}" if is_short else self.words
        program = [sys.executable, str(self.script(folder))]
        return [*program, *shlex.split(words), "--output", str(output)]

    def time_limit_s(self, *, is_short: bool) -> float:
        """Return the time after which the part is stopped."""
        seconds = 0 if is_short else self.seconds
        return max(MIN_TIME_LIMIT_S, TIME_LIMIT_FACTOR * seconds)


@dataclass(frozen=True)
class PartResult:
    """The result of one part's execution."""

    name: str
    seconds: float
    failure: str = ""
    """The failure; empty on success."""


def stop(process: subprocess.Popen[Any]) -> None:
    """Terminate a process and its process group, unless they have ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(CLOSE_TIMEOUT_S)
        except (ProcessLookupError, PermissionError):  # the group is empty
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def run(command: Sequence[str], time_limit_s: float, log: Path | None = None) -> str:
    """Run a command; return its failure, or "".

    All processes of its group are stopped at the end. With a log, the output goes
    to that file.
    """
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
    with nullcontext() if log is None else log.open("wb") as log_file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file and subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(time_limit_s)
        except subprocess.TimeoutExpired:
            return f"not done after {time_limit_s:.0f} s"
        finally:
            stop(process)
    return f"exit code {code}" if code else ""


def run_part(part: Part, folder: Path, output: Path, *, log: Path | None) -> PartResult:
    """Run one part, a short one if there is a log; return its outcome."""
    is_short = log is not None
    command = part.command(folder, output, is_short=is_short)
    start = time.monotonic()
    failure = run(command, part.time_limit_s(is_short=is_short), log)
    return PartResult(part.name, time.monotonic() - start, failure)
