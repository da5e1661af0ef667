"""Data about a process and its descendants from Linux's procfs; none elsewhere."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PROC: Final = Path("/proc")
_PAGE_BYTES: Final = 4096

HAS_PROC: Final = (_PROC / "self" / "statm").exists()

LISTS_CHILDREN: Final = (_PROC / "thread-self" / "children").exists()
"""Whether the kernel lists the children of each thread; most kernels do."""


def children(pid: int) -> set[int]:
    """Return the children of a process, zombies included.

    All processes are scanned only if the kernel does not list children.
    """
    if not LISTS_CHILDREN:
        parents = _parents(with_ended=True) if HAS_PROC else {}
        return {child for child, parent in parents.items() if parent == pid}
    pids: set[int] = set()
    for path in (_PROC / str(pid) / "task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has just ended
            pids.update(map(int, path.read_text().split()))
    return pids


def _stat(pid: int | str) -> list[str]:
    """Return the fields after a process's name; raise OSError if it has ended."""
    text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    return text.rpartition(")")[2].split()


def _parents(*, with_ended: bool = False) -> dict[int, int]:
    parents = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                state, parent = _stat(folder.name)[:2]
            except OSError:
                continue
            if with_ended or state not in {"Z", "X"}:
                parents[int(folder.name)] = int(parent)
    return parents


def descendants(*pids: int, with_ended: bool = False) -> set[int]:
    """Return the children of some processes, their children, and so on.

    Args:
        pids: The processes.
        with_ended: Whether to include zombies.
    """
    parents = _parents(with_ended=with_ended) if HAS_PROC else {}
    found: set[int] = set()
    new = set(pids)
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


def roots(pids: Iterable[int]) -> set[int]:
    """Return the given processes without the descendants of other given ones."""
    given = set(pids)
    return given - descendants(*given)


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    return pid in _parents()


def _sum_counts(pids: Iterable[int], count: Callable[[Path], int]) -> int | None:
    """Sum up a count over processes and their descendants, by their folders."""
    given = tuple(pids)
    try:
        return sum(count(_PROC / str(pid)) for pid in descendants(*given).union(given))
    except OSError:
        return None


def descriptors(*pids: int) -> int | None:
    """Return the number of open descriptors of processes and their descendants."""
    return _sum_counts(pids, lambda folder: len(list((folder / "fd").iterdir())))


def resident_memory(*pids: int) -> int | None:
    """Return the resident memory of processes and their descendants, in bytes.

    Memory shared by two of them counts twice.
    """
    return _sum_counts(
        pids,
        lambda folder: int((folder / "statm").read_text().split()[1]) * _PAGE_BYTES,
    )


def private_memory(pid: int) -> int | None:
    """Return the private memory of a process and its descendants, in bytes."""

    def count(folder: Path) -> int:
        text = (folder / "smaps_rollup").read_text()
        sizes = re.findall(r"\nPrivate_(?:Clean|Dirty): +(\d+) kB", text)
        return 1_024 * sum(map(int, sizes))

    return _sum_counts((pid,), count)


def threads(pid: int) -> int | None:
    """Return the number of threads of a process and its descendants."""
    return _sum_counts((pid,), lambda folder: len(list((folder / "task").iterdir())))


def mapped_files(pids: Iterable[int]) -> dict[str, int]:
    """Return the files mapped by processes and their descendants, with their sizes."""
    sizes: dict[str, int] = {}
    for pid in pids:
        for process in (pid, *descendants(pid)):
            try:
                lines = (_PROC / str(process) / "maps").read_text().splitlines()
            except OSError:  # it has just ended, or access is denied
                continue
            paths = {line.split(maxsplit=5)[5] for line in lines if " /" in line}
            for path in paths - sizes.keys():
                with contextlib.suppress(OSError):  # deleted, or in another root
                    sizes[path] = Path(path).stat().st_size
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def cpu_state(pid: int) -> tuple[bool, int]:
    """Return whether a thread is busy (state R or D), and the CPU time of all in ticks.

    The threads are those of a process and its descendants; of a dead one, none.
    """
    is_busy, ticks, pids = False, 0, [pid]
    for each in pids:
        pids += children(each)
        for path in (_PROC / str(each) / "task").glob("*"):
            with contextlib.suppress(OSError):  # the thread has just ended
                fields = _stat(str(path))
                is_busy = is_busy or fields[0] in "RD"
                ticks += int(fields[11]) + int(fields[12])
    return is_busy, ticks


def cpu_time(*pids: int, with_own: bool = True) -> int | None:
    """Return the CPU time of processes and their descendants, in nanoseconds.

    Ended descendants count if their parent waited for them.

    Args:
        pids: The processes.
        with_own: Whether to include the processes themselves.
    """
    total_ns = 0
    tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")  # Windows has no such function
    for pid in descendants(*pids, with_ended=True).union(pids):
        try:
            if with_own or pid not in pids:
                # The clock id of `clock_getcpuclockid`: all threads, ended or not.
                total_ns += time.clock_gettime_ns((~pid << 3) | 2)
            children_ticks = _stat(pid)[13:15]
        except OSError:
            if pid in pids:
                return None
            continue
        total_ns += sum(map(int, children_ticks)) * tick_ns
    return total_ns


def system_calls(*pids: int) -> tuple[int, int] | None:
    """Return the numbers of read and write calls of processes and descendants."""
    reads = writes = 0
    try:
        for pid in descendants(*pids).union(pids):
            text = (_PROC / str(pid) / "io").read_text()
            lines = dict(line.split(": ") for line in text.splitlines())
            reads += int(lines["syscr"])
            writes += int(lines["syscw"])
    except OSError:
        return None
    return reads, writes


def listeners(port: int) -> set[int]:
    """Return the processes that listen on a TCP port, as far as access is allowed."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                sockets.add(fields[9])
    pids = set()
    for link in _PROC.glob("[0-9]*/fd/*") if sockets else ():
        try:
            name = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
        except OSError:
            continue
        if name is not None and name[1] in sockets:
            pids.add(int(link.parts[2]))
    return pids
