"""Detection of leaked descriptors, child processes, threads and asyncio tasks.

Descriptors are found through ``/proc/self/fd`` or ``/dev/fd``, child processes through
``/proc``, if the system has these; threads and tasks on all systems.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mcpwire.testing import procfs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

GRACE_S: Final = 0.5
"""Real time for resources that are already closing."""

POLL_S: Final = 0.005

LOOP_TURNS: Final = 100
"""Turns of the loop for tasks that are already ending."""

LIBFFI: Final = "/libffi.so"
"""The library of `ctypes`; its release 3.8 keeps its own file open once loaded."""

PROC: Final = Path("/proc")

_DESCRIPTORS: Final = next(
    (folder for folder in ("/proc/self/fd", "/dev/fd") if Path(folder).is_dir()), None
)


def open_descriptors() -> set[tuple[int, str]]:
    """Return number and target of each open descriptor.

    The target (`pipe:[4711]`) distinguishes a reused number from the old one.
    """
    if _DESCRIPTORS is None:
        return set()
    descriptors = set()
    for name in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - ten times faster than Path
        number = int(name)
        try:
            descriptors.add((number, _descriptor_target(number)))
        except OSError:  # the descriptor of the listing, already closed
            continue
    return descriptors


def _descriptor_target(number: int) -> str:
    try:
        target = os.readlink(f"{_DESCRIPTORS}/{number}")  # noqa: PTH115 - as above
        return target.removesuffix(" (deleted)")  # the same file as before
    except OSError:
        # On systems other than Linux these are not links.
        status = os.fstat(number)
        return f"{status.st_mode:o}:{status.st_dev}:{status.st_ino}"


def children() -> set[int]:
    """Return the ids of this process's children, zombies included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (AttributeError, ChildProcessError):  # saves the scan if there are none
        return set()
    return procfs.children(os.getpid())


def describe_child(pid: int) -> str:
    """Return a line with the id and the command of a child."""
    try:
        command = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return f"{pid} (gone meanwhile)"
    words = command.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    return f"{pid} ({words or 'zombie'})"


def describe_thread(thread: threading.Thread) -> str:
    """Return a line with the name of a thread and the code it is in."""
    kind = "daemon thread" if thread.daemon else "thread"
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - documented
    if frame is None:
        return f"{kind} {thread.name!r}"
    place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
    return f"{kind} {thread.name!r} in {frame.f_code.co_name} ({place})"


class ResourceSnapshot:
    """A snapshot of the open resources, to compare with later."""

    def __init__(
        self, *, ignore: Iterable[str] = (), tasks: set[asyncio.Task[Any]] | None = None
    ) -> None:
        self._ignore = tuple(ignore)
        self._tasks = tasks  # only on a loop
        self._descriptors = open_descriptors()
        self._children = children()
        self._threads = set(threading.enumerate())

    def find_leaks(self) -> list[str]:
        """Return a line for each resource that is open now and not in the snapshot."""
        lines = [] if self._tasks is None else describe_new_tasks(self._tasks)
        new_descriptors = sorted(open_descriptors() - self._descriptors)
        lines += [
            f"descriptor {number} -> {target}"
            for number, target in new_descriptors
            if LIBFFI not in target
        ]
        new_children = sorted(children() - self._children)
        lines += [f"child process {describe_child(pid)}" for pid in new_children]
        new_threads = set(threading.enumerate()) - self._threads
        lines += sorted(describe_thread(thread) for thread in new_threads)
        return [
            line for line in lines if not any(text in line for text in self._ignore)
        ]

    def settle(self, grace: float = GRACE_S) -> list[str]:
        """Return the resources still open after a garbage collection and the grace.

        A finalizer that closes a resource warns (`ResourceWarning`), so the collection
        hides no leak if warnings are errors.
        """
        for _ in self._poll(grace):
            pass
        return self.find_leaks()

    async def settle_on_loop(self, grace: float = GRACE_S) -> list[str]:
        """Do the same as `settle`, and let the running loop close resources."""
        for _ in self._poll(grace):
            for _ in range(LOOP_TURNS):
                await asyncio.sleep(0)
        return self.find_leaks()

    def _poll(self, grace: float) -> Iterator[None]:
        """Yield, with pauses in real time, while resources are open in the grace."""
        if not self.find_leaks():
            return
        gc.collect()
        deadline = time.monotonic() + grace
        while self.find_leaks():
            yield
            if time.monotonic() >= deadline:
                return
            time.sleep(POLL_S)


def describe_new_tasks(before: set[asyncio.Task[Any]]) -> list[str]:
    """Return a line for each new task of the running loop except the current one."""
    new_tasks = asyncio.all_tasks() - before - {asyncio.current_task()}
    return sorted(
        f"task {each.get_name()!r} of {each.get_coro()!r}" for each in new_tasks
    )


def watch_tasks(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """Wrap an async function to raise `AssertionError` if it leaves tasks running."""

    @functools.wraps(function)
    async def watched(*args: Any, **options: Any) -> Any:
        before = asyncio.all_tasks()
        result = await function(*args, **options)
        for _ in range(LOOP_TURNS):
            if not (left := describe_new_tasks(before)):
                return result
            await asyncio.sleep(0)
        raise AssertionError(f"left running: {'; '.join(left)}")

    return watched


class LeakCheck:
    """A synchronous and asynchronous context manager; made by `leak_check`."""

    def __init__(self, grace: float, ignore: Iterable[str]) -> None:
        self._grace = grace
        self._ignore = (ignore,) if isinstance(ignore, str) else tuple(ignore)
        self._snapshot: ResourceSnapshot | None = None

    def __enter__(self) -> None:
        self._snapshot = ResourceSnapshot(ignore=self._ignore)

    def __exit__(self, _: object, error: object, __: object) -> None:
        assert self._snapshot is not None
        if error is None:
            _report(self._snapshot.settle(self._grace))

    async def __aenter__(self) -> None:
        tasks = asyncio.all_tasks()
        self._snapshot = ResourceSnapshot(ignore=self._ignore, tasks=tasks)

    async def __aexit__(self, _: object, error: object, __: object) -> None:
        assert self._snapshot is not None
        if error is None:
            _report(await self._snapshot.settle_on_loop(self._grace))


def _report(left: list[str]) -> None:
    if left:
        raise AssertionError(f"left open: {'; '.join(left)}")


def leak_check(*, grace: float = GRACE_S, ignore: Iterable[str] = ()) -> LeakCheck:
    """Return a context manager that fails if its body leaves resources open.

    ::

        with leak_check():
            asyncio.run(main())

        async with leak_check():                # asyncio tasks too
            async with mcpwire.Client(target) as client: ...

    A resource that closes within the grace is no leak. An error of the body propagates.

    Args:
        grace: Seconds for resources that are already closing.
        ignore: Texts, or one; a leak with one in its description is ignored.

    Raises:
        AssertionError: At the end of the body; names each descriptor, child process,
            thread and task that the body has opened or started and not ended.
    """
    return LeakCheck(grace, ignore)
