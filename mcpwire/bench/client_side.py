"""Measure an MCP client program against the null server.

::

    figures = await measure_client(["python", "my_client.py", "{target}"], rounds=3)
    figures.median("cpu_us"), figures.median("calls_per_s")

The client gets the null server's command line or URL, calls its tool `echo` any number
of times, and exits. The null server records the requests and their times, and the
client's CPU time at the first and at the last call; the other figures are from wait4.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shlex
import signal
import statistics
import sys
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.bench.null_process import null_command, null_http
from mcpwire.errors import ConnectError, RequestTimeout
from mcpwire.transports.process import is_group_running
from mcpwire.transports.targets import insert_target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

MAX_OVERLAP: Final = 0.1
"""Calls count as sequential while at most this share of them overlap.

At the start of a session a client may open a stream in parallel to its first call.
"""

_LAUNCHER: Final = Path(__file__).with_name("launch.py")
_STDERR_BYTES: Final = 4096
_EXIT_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.01


@attrs.frozen
class ClientRun:
    """The figures of one run of a client; ``None``: not available in this run.

    Attributes:
        methods: The number of requests of each method.
        calls: The number of `tools/call` requests.
        calls_per_s: Calls per second between the first and the last.
        turnaround_p50_us: The median time from the write of the result of a call to
            the arrival of the next call, in microseconds; only for sequential calls
            (two alternating calls in flight are not distinguished from these).
        turnaround_p99_us: The 99th percentile of this time.
        cpu_us: CPU time of the client for each call after the first, in microseconds.
        start_cpu_ms: CPU time of the client until its first call, in milliseconds.
        total_cpu_ms: CPU time of the whole run in milliseconds: of the client and the
            processes that it waited for, without the null server.
        peak_memory: The highest peak memory of one of these processes, in bytes.
        octets_per_call: Bytes of a call and its response, with HTTP headers.
        exit_code: The exit code (negative: the signal that ended the client).
    """

    methods: dict[str, int]
    calls: int
    calls_per_s: float | None
    turnaround_p50_us: float | None
    turnaround_p99_us: float | None
    cpu_us: float | None
    start_cpu_ms: float | None
    total_cpu_ms: float
    peak_memory: int
    octets_per_call: float
    exit_code: int


@attrs.frozen
class ClientFigures:
    """The figures of all runs of a client.

    Attributes:
        command: The command of the client; ``{target}`` is not replaced.
        http: Whether the client used the null server over HTTP.
        runs: The runs in order.
    """

    command: tuple[str, ...]
    http: bool
    runs: tuple[ClientRun, ...]

    def median(self, figure: str) -> float | None:
        """Return the median of a figure over all runs that have it, or ``None``.

        Args:
            figure: The name of a numeric attribute of `ClientRun`.
        """
        values = [getattr(run, figure) for run in self.runs]
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None


async def measure_client(
    command: Sequence[str],
    *,
    http: bool = False,
    timeout: float = 60.0,
    rounds: int = 1,
    options: Sequence[str] = (),
) -> ClientFigures:
    """Run a client against the null server, once for each round.

    Safe to cancel: the client is ended.

    Args:
        command: The client's program and arguments. ``{target}`` is replaced by the
            null server's URL, or by its command line quoted for a shell. Without it,
            the URL or the words of the command line are appended.
        http: Whether to serve over HTTP and not over stdio.
        timeout: The maximum duration of one run, in seconds.
        rounds: The number of runs.
        options: More options of `mcpwire.bench.null`, such as ``--sse``.

    Raises:
        ConnectError: The client cannot be started, or exited without a `tools/call`.
        RequestTimeout: The client did not exit in time and was killed.
    """
    runs = [
        await _run(tuple(command), options, http=http, timeout=timeout)
        for _ in range(rounds)
    ]
    return ClientFigures(tuple(command), http, tuple(runs))


async def _run(
    command: tuple[str, ...], options: Sequence[str], *, http: bool, timeout: float
) -> ClientRun:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mcpwire-bench-") as folder:
        client = _Client(command, Path(folder))
        null_options = [*options, "--record", str(client.record)]
        includes_server_cpu = False
        try:
            async with asyncio.timeout(timeout):
                if http:
                    async with null_http(*null_options, "--watch") as server:
                        result = await client.run([server.url], server.watch)
                else:
                    result = await client.run(null_command("--stdio", *null_options))
                    # The client's CPU time has only processes that it has waited for.
                    includes_server_cpu = not client.is_server_running
                    await client.wait_for_server()
        except TimeoutError:
            raise RequestTimeout(
                method=f"the client {client.name!r}",
                timeout=timeout,
                elapsed=time.monotonic() - began,
                detail=f"it did not end by itself and was stopped; {client.summary()}",
            ) from None
        return client.figures(result, includes_server_cpu=includes_server_cpu)


class _Client:
    """One run of a client, with its files in a temporary folder."""

    def __init__(self, command: tuple[str, ...], folder: Path) -> None:
        self.name = shlex.join(command)
        self.record = folder / "record"
        self.stderr = folder / "stderr"
        self._command = command

    async def run(
        self, target: list[str], watch: Callable[[int], None] | None = None
    ) -> dict[str, Any]:
        """Run the client until it exits; return the result of `mcpwire.bench.launch`.

        Args:
            target: The null server's command line, or its URL alone.
            watch: Called with the client's process id.

        Raises:
            ConnectError: The client cannot be started.
        """
        words = insert_target(self._command, target)
        async with self._running_client(words, owns_server=watch is None) as output:
            line = await output.readline()
            if line.endswith(b"\n"):
                if watch is not None:
                    watch(int(line))
                line = await output.read()
        result: dict[str, Any] = json.loads(line)
        if number := result.get("errno"):
            raise ConnectError(
                f"cannot start the client {words[0]!r}: {os.strerror(number)}",
                target=self.name,
                errno=number,
            )
        return result

    @asynccontextmanager
    async def _running_client(
        self, words: list[str], *, owns_server: bool
    ) -> AsyncIterator[asyncio.StreamReader]:
        with self.stderr.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", str(_LAUNCHER), *words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            assert process.stdout is not None
            yield process.stdout
            await process.wait()
        except BaseException:
            _signal(process.pid, signal.SIGTERM)  # the null server writes its record
            try:
                if owns_server:
                    await self.wait_for_server()
            finally:
                _signal(process.pid, signal.SIGKILL)
                await process.wait()
                await _wait_until(lambda: not is_group_running(process.pid))
            raise

    @property
    def is_server_running(self) -> bool:
        """Whether a null server still runs: it holds a lock on its record file."""
        if not self.record.exists():
            return False
        with self.record.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    async def wait_for_server(self) -> None:
        """Wait up to 5 s until the null server has exited."""
        await _wait_until(lambda: not self.is_server_running)

    def read_records(self) -> list[dict[str, Any]]:
        """Return the records of all null servers that were not killed."""
        if not self.record.exists():
            return []
        return [json.loads(line) for line in self.record.read_text().splitlines()]

    def summary(self) -> str:
        """Return a phrase with the number of requests of each method."""
        if self.record.exists() and not self.record.stat().st_size:
            return "it killed its server, which could not report what it received"
        counts = [
            f"{number} {name}"
            for name, number in _count_methods(self.read_records()).items()
        ]
        return f"it sent {', '.join(counts) or 'no request'}"

    def figures(
        self, result: dict[str, Any], *, includes_server_cpu: bool
    ) -> ClientRun:
        """Return the figures of a finished run.

        Args:
            result: The result of `run`.
            includes_server_cpu: Whether its CPU time includes the null server's.

        Raises:
            ConnectError: The client sent no `tools/call`.
        """
        records = self.read_records()
        methods = _count_methods(records)
        if not methods.get("tools/call"):
            tail = self.stderr.read_bytes()[-_STDERR_BYTES:]
            raise ConnectError(
                f"the client {self.name!r} ended with exit code "
                f"{result['exit_code']} without a tools/call; {self.summary()}",
                target=self.name,
                exit_code=result["exit_code"],
                stderr_tail=tail.decode(errors="replace"),
            )
        # A client may start a server only to probe it; one server gets the calls.
        record = max(records, key=lambda record: record["methods"].get("tools/call", 0))
        calls = record["methods"]["tools/call"]
        between, seconds = calls - 1, (record["last_ns"] - record["first_ns"]) / 1e9
        first_cpu, last_cpu = record["client_cpu_ns"]
        cpu_ns = last_cpu - first_cpu
        own_cpu_s = (
            sum(record["cpu_ns"] for record in records) / 1e9
            if includes_server_cpu
            else 0.0
        )
        is_sequential = record["overlapping"] <= MAX_OVERLAP * record["reads"]
        p50, p99 = record["turnaround_ns"] if is_sequential else (None, None)
        return ClientRun(
            methods=methods,
            calls=calls,
            calls_per_s=between / seconds if seconds else None,
            turnaround_p50_us=_convert(p50, 1e3),
            turnaround_p99_us=_convert(p99, 1e3),
            cpu_us=cpu_ns / between / 1e3 if between and first_cpu else None,
            start_cpu_ms=_convert(first_cpu or None, 1e6),
            total_cpu_ms=max(0.0, result["cpu_s"] - own_cpu_s) * 1e3,
            peak_memory=result["memory"],
            octets_per_call=(record["octets_in"] + record["octets_out"]) / calls,
            exit_code=result["exit_code"],
        )


async def _wait_until(condition: Callable[[], bool]) -> None:
    """Poll a condition that other processes fulfil, for up to 5 s."""
    deadline = time.monotonic() + _EXIT_TIMEOUT_S
    while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 - as it says
        await asyncio.sleep(_POLL_S)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _convert(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _count_methods(records: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return the number of requests of each method over all servers."""
    counts: dict[str, int] = {}
    for record in records:
        for name, number in record["methods"].items():
            counts[name] = counts.get(name, 0) + number
    return counts
