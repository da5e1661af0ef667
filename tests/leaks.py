"""What a test left behind: child processes, open descriptors, running tasks.

The leak check acts on every test outside the pure folders (`wire`, `types` and
`protocol`: the layer gate proves that nothing there can open anything). It costs about
0.1 ms per test, so nobody has to ask for it and no new folder can forget it.

Descriptors and children are compared around the whole test, its fixtures included.
Tasks are compared around the test's body only, inside its own loop: whoever closes
that loop cancels what is left, and then nobody sees it any more.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import os
import time
from pathlib import Path

import pytest

PURE_FOLDERS = frozenset({"wire", "types", "protocol"})
GRACE_S = 0.5
POLL_S = 0.005
LOOP_TURNS = 100

_DESCRIPTORS = "/proc/self/fd"
_HAS_PROC = os.path.isdir(_DESCRIPTORS)  # noqa: PTH112 - asked once, before any Path


def acts_on(path: Path, tests: Path) -> bool:
    """Tell whether tests of that file are checked."""
    parts = path.relative_to(tests).parts if path.is_relative_to(tests) else ()
    return _HAS_PROC and (not parts or parts[0] not in PURE_FOLDERS)


def open_descriptors() -> set[tuple[int, str]]:
    """Return number and target of each open descriptor.

    The target (`pipe:[4711]`) tells a re-used number from the one it replaced.
    """
    found = set()
    for name in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - ten times faster than Path
        try:
            target = os.readlink(f"{_DESCRIPTORS}/{name}")  # noqa: PTH115 - as above
        except OSError:  # the listing's own descriptor, closed again
            continue
        found.add((int(name), target))
    return found


def children() -> set[int]:
    """Return the ids of our child processes, zombies included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # the usual case, told by one system call
        return set()
    parent = str(os.getpid())
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "stat").read_text()
        except OSError:  # gone meanwhile
            continue
        if status.rpartition(")")[2].split()[1] == parent:
            found.add(int(entry.name))
    return found


def describe_child(pid: int) -> str:
    """Return one line that says which child that is."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return f"{pid} (gone meanwhile)"
    words = command.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    return f"{pid} ({words or 'zombie'})"


class Watch:
    """Remembers what was open when it was made."""

    def __init__(self) -> None:
        self._descriptors = open_descriptors()
        self._children = children()

    def leaked(self) -> list[str]:
        """Return what is open now and was not then; empty when nothing is."""
        found = sorted(open_descriptors() - self._descriptors)
        lines = [f"descriptor {number} -> {target}" for number, target in found]
        born = sorted(children() - self._children)
        return lines + [f"child process {describe_child(pid)}" for pid in born]

    def settle(self, grace: float = GRACE_S) -> list[str]:
        """Return what stays open although finalisers ran and the grace passed.

        A finaliser that had to close something warns (`ResourceWarning`), and warnings
        are errors, so collecting here hides nothing.
        """
        if not self.leaked():
            return []
        gc.collect()
        deadline = time.monotonic() + grace
        while (left := self.leaked()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return left


def watch_tasks(function):
    """Wrap an async test so that tasks it leaves running fail it."""

    @functools.wraps(function)
    async def watched(*args, **kwargs):
        before = asyncio.all_tasks()
        result = await function(*args, **kwargs)
        for _ in range(LOOP_TURNS):
            left = asyncio.all_tasks() - before
            if not left:
                return result
            await asyncio.sleep(0)
        pytest.fail(
            "the test left tasks running: "
            + ", ".join(sorted(repr(task.get_coro()) for task in left))
        )

    return watched


def watch_item(item: pytest.Function) -> None:
    """Put the task watch around an async test that is about to run."""
    function = item.obj
    if inspect.iscoroutinefunction(function):
        item.obj = watch_tasks(function)
        return
    inner = getattr(getattr(function, "hypothesis", None), "inner_test", None)
    if inspect.iscoroutinefunction(inner):
        function.hypothesis.inner_test = watch_tasks(inner)
