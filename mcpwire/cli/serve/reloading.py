"""Starts a server again whenever its source changes, for who writes it.

A process of its own runs the server; this one looks at the times of the Python files.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["Watch", "run_reloading"]

INTERVAL_S: Final = 0.4
"""How often the files are looked at."""

STOP_S: Final = 5.0
"""How long a server may take to end before it is killed."""

_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


class Watch:
    """The Python files below some folders, and when they were written."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._seen = self._look()

    def _look(self) -> dict[Path, int]:
        seen = {}
        for folder in self._folders:
            for path in _sources(folder):
                # Editors put a new file in the place of the old one meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    seen[path] = path.stat().st_mtime_ns
        return seen

    def changed(self) -> Path | None:
        """Return a file that came, went or was written since the last time."""
        seen, self._seen = self._seen, self._look()
        for path in sorted(seen.keys() | self._seen.keys()):
            if seen.get(path) != self._seen.get(path):
                return path
        return None


def _sources(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.rglob("*.py")
        if not any(
            part in _SKIPPED or part.startswith(".")
            for part in path.relative_to(folder).parts
        )
    ]


def run_reloading(
    arguments: Sequence[str], folders: Sequence[Path], say: Callable[[str], object]
) -> int:
    """Run ``mcpwire serve`` with these arguments, again after each change.

    Ends with SIGINT or SIGTERM, and takes the server along.
    """
    stop = threading.Event()
    received: list[int] = []

    def end(number: int, _: object) -> None:
        received.append(number)
        stop.set()

    kept = {n: signal.signal(n, end) for n in (signal.SIGINT, signal.SIGTERM)}
    watch = Watch(folders)
    command = [sys.executable, "-m", "mcpwire", "serve", *arguments]
    child = _start(command)
    try:
        while not stop.wait(INTERVAL_S):
            path = watch.changed()
            if path is not None:
                say(f"{path.name} changed: starting again")
                _end(child)
                child = _start(command)
    finally:
        _end(child)
        for number, handler in kept.items():
            signal.signal(number, handler)
    return 128 + received[0]


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command)  # noqa: S603 - ourselves, with the user's words


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
