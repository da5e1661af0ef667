"""Start-up time and memory footprint of a server."""

from __future__ import annotations

import os
import time
from contextlib import asynccontextmanager
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire import Client
from mcpwire.bench.load import Load
from mcpwire.bench.null_process import null_command
from mcpwire.bench.worker import describe_server, perform
from mcpwire.bench.worker_group import find_listeners
from mcpwire.errors import ConnectError, LocalProtocolError, MCPError, RPCError
from mcpwire.testing import procfs
from mcpwire.transports.targets import Stdio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from mcpwire.transports.http.target import Http

START_UNITS: Final = {"handshake": "us", "first list": "us", "cpu": "us"}
"""The figures of a start, in microseconds since the process was started."""

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
    """The measured starts of one server."""

    name: str
    target: str
    server: Mapping[str, str]
    """Name, version and negotiated protocol revision."""

    starts: tuple[Mapping[str, float], ...]
    """The available figures of each start, by the names of `START_UNITS`."""

    def values(self, figure: str) -> list[float]:
        """Return a figure of all starts, sorted; empty if any start lacks it."""
        values = [start[figure] for start in self.starts if figure in start]
        return sorted(values) if len(values) == len(self.starts) else []

    def figures(self) -> dict[str, float]:
        """Return the median of each figure that all starts have."""
        values = {figure: self.values(figure) for figure in START_UNITS}
        return {name: median(numbers) for name, numbers in values.items() if numbers}


async def measure_start(
    target: Stdio,
    starts: int = 10,
    *,
    with_floor: bool = True,
    timeout: float | None = 30.0,
    connect_timeout: float | None = 60.0,
    mode: str = "auto",
    on_progress: Callable[[int, str], None] | None = None,
) -> list[StartUp]:
    """Measure the start-up of a server, alternately with the null server's.

    A start ends with the response to the first `tools/list`. The first start of each
    server is discarded, because it fills the caches of the machine.

    Args:
        target: The server.
        starts: The number of starts that are counted.
        with_floor: Whether to start the null server too.
        timeout: As for `Client`.
        connect_timeout: As for `Client`.
        mode: As for `Client`.
        on_progress: Called after each start with its number and the server's name.

    Raises:
        ConnectError: The server does not start.

    Safe to cancel: the running server is ended.
    """
    command, *arguments = null_command("--stdio")
    options = {"timeout": timeout, "connect_timeout": connect_timeout, "mode": mode}
    targets = {"floor": Stdio(command, arguments)} if with_floor else {}
    targets["target"] = target
    starts_by_name: dict[str, list[dict[str, float]]] = {name: [] for name in targets}
    servers: dict[str, dict[str, str]] = {}
    for number in range(starts + 1):
        for name, server in targets.items():
            own = options if name == "target" else {"mode": mode}
            servers[name], figures = await _start(server, own)
            if number:
                starts_by_name[name].append(figures)
            if on_progress is not None:
                on_progress(number, name)
    return [
        StartUp(
            name=name, target=str(server), server=servers[name], starts=tuple(measured)
        )
        for (name, server), measured in zip(
            targets.items(), starts_by_name.values(), strict=True
        )
    ]


async def _start(
    target: Stdio, options: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, float]]:
    """Start a server once; return its description and the figures."""
    before = procfs.descendants(os.getpid())
    started = time.monotonic_ns()
    async with Client(target, **options) as client:
        figures = {"handshake": _elapsed_us(started)}
        if await _list_tools(client):
            figures["first list"] = _elapsed_us(started)
        pids = procfs.roots(procfs.descendants(os.getpid()) - before)
        cpu_times = [procfs.cpu_time(pid) for pid in pids]
        if cpu_times and None not in cpu_times:
            figures["cpu"] = sum(filter(None, cpu_times)) / 1_000
        return describe_server(client), figures


async def _list_tools(client: Client) -> bool:
    """List the tools; return whether the server supports it."""
    try:
        await client.list_tools()
    except (LocalProtocolError, RPCError):
        return False
    return True


def _elapsed_us(began: int) -> float:
    return (time.monotonic_ns() - began) / 1_000


@attrs.frozen(kw_only=True)
class Size:
    """The resources of a server's processes at one moment."""

    when: str
    processes: int
    threads: int
    descriptors: int
    resident: int
    """Resident memory in bytes; shared pages count once for each process."""

    private: int | None
    """Private memory in bytes; ``None``: not known."""


@attrs.frozen(kw_only=True)
class Sizes:
    """The resources of a server at several moments."""

    target: str
    server: Mapping[str, str]
    sizes: tuple[Size, ...]
    files: Mapping[str, int]
    """The mapped files of the program and its libraries, with their sizes in bytes."""

    def figures(self) -> dict[str, float]:
        """Return the figures of the last moment, by the names of `SIZE_UNITS`."""
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
    """Measure the resources of a server's processes before and after calls.

    Args:
        target: The server; a server at a URL must run on this machine.
        load: The calls, with the options of the client; default: ``ping``.
        calls: The number of calls.
        processes: Ids of the server's processes, if they cannot be found.

    Raises:
        ConnectError: The server does not start, or its processes are not known.
        MCPError: A call failed.

    Safe to cancel: a started server is ended.
    """
    load = load or Load()
    async with _open_client(target, load, processes) as (client, pids):
        sizes = [_measure_size("handshake", pids)]
        if await _list_tools(client):
            sizes.append(_measure_size("first list", pids))
        for call, _ in zip(load.choices("size"), range(calls), strict=False):
            await perform(client, call)
        sizes.append(_measure_size(f"{calls:,} calls", pids))
        return Sizes(
            target=str(target),
            server=describe_server(client),
            sizes=tuple(sizes),
            files=procfs.mapped_files(pids),
        )


@asynccontextmanager
async def _open_client(
    target: Stdio | Http, load: Load, processes: Collection[int]
) -> AsyncIterator[tuple[Client, set[int]]]:
    """Connect, and yield the client with the root processes of the server."""
    before = procfs.descendants(os.getpid())
    async with Client(target, **load.client_options) as client:
        pids = set(processes)
        if isinstance(target, Stdio):
            pids |= procfs.descendants(os.getpid()) - before
        elif not pids:
            pids = find_listeners(target.url)
        if not pids:
            raise ConnectError(
                f"the processes of {target} are not known: name one with --pid"
            )
        yield client, procfs.roots(pids)


def _measure_size(when: str, pids: Collection[int]) -> Size:
    """Measure the processes and their descendants."""
    measured: dict[str, list[Any]] = {
        name: [read(pid) for pid in pids]
        for name, read in (
            ("descriptors", procfs.descriptors),
            ("resident", procfs.resident_memory),
            ("private", procfs.private_memory),
            ("threads", procfs.threads),
        )
    }
    if None in measured["resident"] or None in measured["threads"]:
        raise MCPError("the server has ended while it was measured")
    private = None if None in measured["private"] else sum(measured["private"])
    return Size(
        when=when,
        processes=sum(1 + len(procfs.descendants(pid)) for pid in pids),
        threads=sum(measured["threads"]),
        descriptors=sum(count or 0 for count in measured["descriptors"]),
        resident=sum(measured["resident"]),
        private=private,
    )
