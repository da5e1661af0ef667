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
_PAGE: Final = 4096

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
    found: set[int] = set()
    for listed in (_PROC / str(pid) / "task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has just ended
            found.update(map(int, listed.read_text().split()))
    return found


def _stat(pid: int | str) -> list[str]:
    """Return the fields after a process's name; raise OSError if it has ended."""
    text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    return text.rpartition(")")[2].split()


def _parents(*, with_ended: bool = False) -> dict[int, int]:
    found = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                state, parent = _stat(folder.name)[:2]
            except OSError:
                continue
            if with_ended or state not in {"Z", "X"}:
                found[int(folder.name)] = int(parent)
    return found


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


def _sum(pids: Iterable[int], count: Callable[[Path], int]) -> int | None:
    """Sum up a count over processes and their descendants, by their folders."""
    given = tuple(pids)
    try:
        return sum(
            count(_PROC / str(each)) for each in descendants(*given).union(given)
        )
    except OSError:
        return None


def descriptors(*pids: int) -> int | None:
    """Return the number of open descriptors of processes and their descendants."""
    return _sum(pids, lambda folder: len(list((folder / "fd").iterdir())))


def resident_memory(*pids: int) -> int | None:
    """Return the resident memory of processes and their descendants, in bytes.

    Memory shared by two of them counts twice.
    """
    return _sum(
        pids, lambda folder: int((folder / "statm").read_text().split()[1]) * _PAGE
    )


def private_memory(pid: int) -> int | None:
    """Return the private memory of a process and its descendants, in bytes."""

    def count(folder: Path) -> int:
        text = (folder / "smaps_rollup").read_text()
        sizes = re.findall(r"\nPrivate_(?:Clean|Dirty): +(\d+) kB", text)
        return 1_024 * sum(map(int, sizes))

    return _sum((pid,), count)


def threads(pid: int) -> int | None:
    """Return the number of threads of a process and its descendants."""
    return _sum((pid,), lambda folder: len(list((folder / "task").iterdir())))


def mapped_files(pids: Iterable[int]) -> dict[str, int]:
    """Return the files mapped by processes and their descendants, with their sizes."""
    found: dict[str, int] = {}
    for pid in pids:
        for each in (pid, *descendants(pid)):
            try:
                lines = (_PROC / str(each) / "maps").read_text().splitlines()
            except OSError:  # it has just ended, or access is denied
                continue
            paths = {line.split(maxsplit=5)[5] for line in lines if " /" in line}
            for path in paths - found.keys():
                with contextlib.suppress(OSError):  # deleted, or in another root
                    found[path] = Path(path).stat().st_size
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def work_of(pid: int) -> tuple[bool, int] | None:
    """Return whether a process is busy (state R or D), and its CPU time in ticks."""
    try:
        fields = _stat(pid)
    except OSError:
        return None
    return fields[0] in "RD", int(fields[11]) + int(fields[12])


def cpu_time(*pids: int, with_own: bool = True) -> int | None:
    """Return the CPU time of processes and their descendants, in nanoseconds.

    Ended descendants count if their parent waited for them.

    Args:
        pids: The processes.
        with_own: Whether to include the processes themselves.
    """
    found = 0
    tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")  # Windows has no such function
    for each in descendants(*pids, with_ended=True).union(pids):
        try:
            if with_own or each not in pids:
                # The clock id of `clock_getcpuclockid`: all threads, ended or not.
                found += time.clock_gettime_ns((~each << 3) | 2)
            waited_for = _stat(each)[13:15]
        except OSError:
            if each in pids:
                return None
            continue
        found += sum(map(int, waited_for)) * tick_ns
    return found


def system_calls(*pids: int) -> tuple[int, int] | None:
    """Return the numbers of read and write calls of processes and descendants."""
    reads = writes = 0
    try:
        for each in descendants(*pids).union(pids):
            text = (_PROC / str(each) / "io").read_text()
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
    found = set()
    for link in _PROC.glob("[0-9]*/fd/*") if sockets else ():
        try:
            name = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
        except OSError:
            continue
        if name is not None and name[1] in sockets:
            found.add(int(link.parts[2]))
    return found
