"""What a server costs before and between calls: its start, and what it holds."""

from __future__ import annotations

import os
import time
from contextlib import asynccontextmanager
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire import Client
from mcpwire.bench.crew import listening
from mcpwire.bench.load import Load
from mcpwire.bench.null_process import null_command
from mcpwire.bench.worker import described, perform
from mcpwire.errors import ConnectError, LocalProtocolError, MCPError, RPCError
from mcpwire.testing import procfs
from mcpwire.transports.targets import Stdio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from mcpwire.transports.http.target import Http

__all__ = [
    "SIZE_UNITS",
    "START_UNITS",
    "Size",
    "Sizes",
    "StartUp",
    "measure_size",
    "measure_start",
]

START_UNITS: Final = {"handshake": "us", "first list": "us", "cpu": "us"}
"""The figures of a start: from its begin on, in microseconds."""

SIZE_UNITS: Final = {
    "processes": "",
    "threads": "",
    "descriptors": "",
    "resident": "B",
    "private": "B",
    "mapped files": "B",
}


@attrs.frozen(kw_only=True)
class StartUp:
    """The starts of one server."""

    name: str
    target: str
    server: Mapping[str, str]
    """Name, version and protocol revision, as agreed on."""

    starts: tuple[Mapping[str, float], ...]
    """Of each start the figures that there are, by the names of `START_UNITS`."""

    def values(self, figure: str) -> list[float]:
        """Return a figure of all starts, sorted; empty where one start lacks it."""
        found = [each[figure] for each in self.starts if figure in each]
        return sorted(found) if len(found) == len(self.starts) else []

    def figures(self) -> dict[str, float]:
        """Return the medians."""
        values = {figure: self.values(figure) for figure in START_UNITS}
        return {figure: median(of) for figure, of in values.items() if of}


async def measure_start(
    target: Stdio,
    starts: int = 10,
    *,
    with_floor: bool = True,
    timeout: float = 30.0,
    mode: str = "auto",
    on_progress: Callable[[int, str], None] | None = None,
) -> list[StartUp]:
    """Start a server again and again, in turns with one that does nothing.

    A start ends when the first list of tools is there. The first start of each is not
    counted: it fills the caches of the machine.

    Args:
        target: The server.
        starts: How many starts are counted.
        with_floor: Whether the server that does nothing is started too.
        timeout: Of each connection and request.
        mode: As for `Client`.
        on_progress: Called after each start, with how many there were and of which.

    Raises:
        ConnectError: The server does not start.

    Safe to cancel: the server that runs is ended.
    """
    command, *arguments = null_command("--stdio")
    targets = {"floor": Stdio(command, arguments)} if with_floor else {}
    targets["target"] = target
    found: dict[str, list[dict[str, float]]] = {name: [] for name in targets}
    servers: dict[str, dict[str, str]] = {}
    for number in range(starts + 1):
        for name, one in targets.items():
            servers[name], figures = await _start(one, timeout, mode)
            if number:
                found[name].append(figures)
            if on_progress is not None:
                on_progress(number, name)
    return [
        StartUp(name=name, target=str(one), server=servers[name], starts=tuple(of))
        for (name, one), of in zip(targets.items(), found.values(), strict=True)
    ]


async def _start(
    target: Stdio, timeout: float, mode: str
) -> tuple[dict[str, str], dict[str, float]]:
    """Start a server once; return what it says of itself, and the figures."""
    before = procfs.descendants(os.getpid())
    began = time.monotonic_ns()
    async with Client(target, timeout=timeout, mode=mode) as client:
        found = {"handshake": _since(began)}
        if await _has_listed(client):
            found["first list"] = _since(began)
        pids = procfs.roots(procfs.descendants(os.getpid()) - before)
        used = [procfs.cpu_time(pid) for pid in pids]
        if used and None not in used:
            found["cpu"] = sum(filter(None, used)) / 1_000
        return described(client), found


async def _has_listed(client: Client) -> bool:
    """List the tools, where the server has any."""
    try:
        await client.list_tools()
    except (LocalProtocolError, RPCError):
        return False
    return True


def _since(began: int) -> float:
    return (time.monotonic_ns() - began) / 1_000


@attrs.frozen(kw_only=True)
class Size:
    """What the processes of a server hold at one moment."""

    when: str
    processes: int
    threads: int
    descriptors: int
    resident: int
    """Bytes in memory; what processes share counts once for each."""

    private: int | None
    """Bytes in memory that no other process has; ``None``: not known."""


@attrs.frozen(kw_only=True)
class Sizes:
    """What a server holds, and how that grows."""

    target: str
    server: Mapping[str, str]
    sizes: tuple[Size, ...]
    files: Mapping[str, int]
    """The files of program and libraries that are mapped, and their bytes."""

    def figures(self) -> dict[str, float]:
        """Return the figures at the end."""
        last = attrs.asdict(self.sizes[-1])
        last["mapped files"] = sum(self.files.values())
        return {name: last[name] for name in SIZE_UNITS if last[name] is not None}


async def measure_size(
    target: Stdio | Http,
    load: Load | None = None,
    calls: int = 1_000,
    *,
    processes: Collection[int] = (),
) -> Sizes:
    """Say what the processes of a running server hold, before and after calls.

    Args:
        target: The server; one at a URL has to be of this machine.
        load: Which calls, with `timeout` and `mode` (``ping``).
        calls: How many.
        processes: Ids of the server's processes, where they cannot be found.

    Raises:
        ConnectError: The server does not start, or its processes are not known.
        MCPError: A call is not answered.

    Safe to cancel: a server that was started is ended.
    """
    load = load or Load()
    async with _running(target, load, processes) as (client, pids):
        sizes = [_size("handshake", pids)]
        if await _has_listed(client):
            sizes.append(_size("first list", pids))
        for call, _ in zip(load.choices("size"), range(calls), strict=False):
            await perform(client, call)
        sizes.append(_size(f"{calls:,} calls", pids))
        return Sizes(
            target=str(target),
            server=described(client),
            sizes=tuple(sizes),
            files=procfs.mapped_files(pids),
        )


@asynccontextmanager
async def _running(
    target: Stdio | Http, load: Load, processes: Collection[int]
) -> AsyncIterator[tuple[Client, set[int]]]:
    """Connect, and find the processes of the server."""
    before = procfs.descendants(os.getpid())
    async with Client(target, timeout=load.timeout, mode=load.mode) as client:
        pids = set(processes)
        if isinstance(target, Stdio):
            pids |= procfs.descendants(os.getpid()) - before
        elif not pids:
            pids = listening(target.url)
        if not pids:
            raise ConnectError(
                f"the processes of {target} are not known: name one with --pid"
            )
        yield client, procfs.roots(pids)


def _size(when: str, pids: Collection[int]) -> Size:
    """Measure the processes, with those that they have started."""
    found: dict[str, list[Any]] = {
        name: [of(pid) for pid in pids]
        for name, of in (
            ("descriptors", procfs.descriptors),
            ("resident", procfs.resident_memory),
            ("private", procfs.private_memory),
            ("threads", procfs.threads),
        )
    }
    if None in found["resident"] or None in found["threads"]:
        raise MCPError("the server has ended while it was measured")
    private = None if None in found["private"] else sum(found["private"])
    return Size(
        when=when,
        processes=sum(1 + len(procfs.descendants(pid)) for pid in pids),
        threads=sum(found["threads"]),
        descriptors=sum(each or 0 for each in found["descriptors"]),
        resident=sum(found["resident"]),
        private=private,
    )
