"""Worker processes that put one server under load, and the server's resource usage."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self

from mcpwire.bench.histogram import (
    encode_histogram,
    histogram,
    merge_histograms,
    percentiles,
)
from mcpwire.bench.results import Sample, Slice
from mcpwire.bench.worker import Job
from mcpwire.errors import MCPError
from mcpwire.testing import procfs
from mcpwire.transports.http.target import Http
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from mcpwire.bench.load import Load
    from mcpwire.transports.targets import Stdio

_WORKER: Final = "import sys; from mcpwire.bench.worker import main; sys.exit(main())"
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_EXIT_TIMEOUT_S: Final = 15.0
_SAMPLE_PERIOD_S: Final = 1.0
_LOCAL_HOSTS: Final = {"127.0.0.1", "localhost", "::1"}


class GeneratorFailed(MCPError):
    """A worker process that generates load exited unexpectedly."""


class WorkerGroup:
    """The workers of one server; they stay connected between slices.

    Args:
        target: The server.
        load: The load.
        processes: Ids of the server's processes, if they cannot be found: the server
            at a URL runs on another machine or as another user.
    """

    def __init__(
        self, target: Stdio | Http, load: Load, processes: Collection[int] = ()
    ) -> None:
        self._target = target
        self._load = load
        self._children: list[asyncio.subprocess.Process] = []
        self._server_pids: set[int] = set()
        self._load_seconds = 0.0
        self._by_port = isinstance(target, Http) and not processes
        self._processes = set(processes)
        self.server: dict[str, str] = {}
        self.connects: list[float] = []
        self.samples: list[Sample] = []

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def _start(self) -> None:
        histogram()  # raises here and not in a worker if hdrhistogram is missing
        for number in range(self._load.workers):
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-c", _WORKER),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_MAX_LINE_BYTES,
                start_new_session=True,  # no Ctrl-C: it exits at the end of its input
            )
            self._children.append(child)
            assert child.stdin is not None
            child.stdin.write(pickle.dumps(Job(self._target, self._load, number)))
        for child in self._children:
            ready = await self._read_answer(child)
            self.server = ready["server"]
            self.connects += ready["connects"]
        self._find_processes()

    async def __aexit__(self, *_: object) -> None:
        for child in self._children:
            assert child.stdin is not None
            child.stdin.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_TIMEOUT_S):
                    for child in self._children:
                        await child.wait()
        finally:  # also if the wait is cancelled
            for child in self._children:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
            self._kill_servers()

    def _kill_servers(self) -> None:
        """Kill the server's processes if a worker did not end them."""
        if any(child.returncode for child in self._children):
            for pid in filter(procfs.is_alive, self._server_pids):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    async def _read_answer(self, child: asyncio.subprocess.Process) -> dict[str, Any]:
        assert child.stdout is not None
        line = await child.stdout.readline()
        if not line:
            code = await child.wait()
            raise GeneratorFailed(f"a process that makes load ended with code {code}")
        answer: dict[str, Any] = loads(line)
        if (failure := answer.get("failure")) is not None:
            raise pickle.loads(bytes.fromhex(failure))  # noqa: S301 - from our worker
        return answer

    async def _request(
        self, workers: list[asyncio.subprocess.Process], **request: Any
    ) -> list[dict[str, Any]]:
        """Send one request to several workers at once; return their answers."""
        for child in workers:
            assert child.stdin is not None
            child.stdin.write(encode(request) + b"\n")
        return list(await asyncio.gather(*map(self._read_answer, workers)))

    async def warm_up(self, seconds: float) -> None:
        """Generate load without measuring it."""
        if seconds:
            await self._request(self._children, at=0.0, seconds=seconds, rate=None)

    async def measure(
        self, round: int, at: float, seconds: float, rate: float | None = None
    ) -> Slice:
        """Generate load for one slice; return its measurements.

        Args:
            round: The number of the round.
            at: The start of the slice within the total time, in seconds.
            seconds: The length of the slice.
            rate: Calls per second in place of the load's rate.
        """
        before = self._cpu()
        async with self._sampling():
            answers = await self._request(
                self._children, at=at, seconds=seconds, rate=rate
            )
        after = self._cpu()
        cpu = None if before is None or after is None else after - before
        errors: dict[str, int] = {}
        for answer in answers:
            for kind, count in answer["errors"].items():
                errors[kind] = errors.get(kind, 0) + count
        histograms: dict[str, Any] = {
            name: encode_histogram(merge_histograms(answer[name] for answer in answers))
            for name in ("latency", "service", "lag")
        }
        sums = {
            name: sum(answer[name] for answer in answers)
            for name in (
                *("offered", "done", "in_time", "missed", "latency_sum"),
                *("generator_cpu", "bytes_sent", "bytes_received", "reconnects"),
            )
        }
        elapsed = max(answer["elapsed"] for answer in answers) / 1e9
        return Slice(
            round=round,
            at=at,
            seconds=seconds,
            elapsed=elapsed,
            errors=errors,
            generator_share=max(answer["generator_cpu"] for answer in answers)
            / (elapsed * 1e9),
            cpu=cpu,
            windows=tuple(_merge_windows([answer["windows"] for answer in answers])),
            **histograms,
            **sums,
        )

    @contextlib.asynccontextmanager
    async def _sampling(self) -> AsyncIterator[None]:
        """Sample the server's memory before a slice, and then once a second.

        A sample reads many files of /proc, which takes CPU time from the load.
        """
        self._sample(self._load_seconds)
        began = monotonic()

        async def sample_periodically() -> None:
            while True:
                await asyncio.sleep(_SAMPLE_PERIOD_S)
                self._sample(self._load_seconds + monotonic() - began)

        task = asyncio.create_task(sample_periodically())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            self._load_seconds += monotonic() - began

    def _find_processes(self) -> set[int]:
        """Return the server's current processes.

        A server over stdio is restarted after a crash, and may be a wrapper's child.
        """
        if isinstance(self._target, Http):
            if self._by_port and procfs.cpu_time(*self._processes) in {0, None}:
                self._processes = find_listeners(self._target.url)
            return self._processes
        started = procfs.descendants(*self._workers)
        self._server_pids |= started
        return started | self._processes

    @property
    def _workers(self) -> list[int]:
        return [child.pid for child in self._children]

    def _sample(self, at: float) -> None:
        if not (pids := self._find_processes()):
            return
        memory = procfs.resident_memory(*pids)
        descriptors = procfs.descriptors(*pids)
        if memory is not None and descriptors is not None:
            self.samples.append(Sample(at=at, memory=memory, descriptors=descriptors))

    def _cpu(self) -> int | None:
        """Return the CPU time of the server's processes, including finished ones."""
        times = []
        if not isinstance(self._target, Http):
            times.append(procfs.cpu_time(*self._workers, with_own=False))
        if pids := self._processes:
            times.append(procfs.cpu_time(*pids))
        known = [time for time in times if time is not None]
        return sum(known) if known and len(known) == len(times) else None

    def _system_calls(self) -> tuple[int, int] | None:
        pids = self._find_processes()
        return procfs.system_calls(*pids) if pids else None

    async def phases(self, seconds: float, *, is_sequential: bool) -> dict[str, float]:
        """Return the median duration of each phase of a call, in microseconds.

        Args:
            seconds: The duration of the measurement.
            is_sequential: Whether one worker makes sequential calls. Otherwise all
                workers generate the load, and cannot generate any more afterwards.
        """
        workers = self._children[:1] if is_sequential else self._children
        replies = await self._request(
            workers, seconds=seconds, is_sequential=is_sequential
        )
        medians = {}
        for name in replies[0]:
            durations = merge_histograms(answer[name] for answer in replies if answer)
            medians[name] = percentiles(durations, (50,)).get(50, 0) / 1_000
        return medians if any(medians.values()) else {}

    async def counts(self, calls: int) -> dict[str, float]:
        """Return the messages, reads and writes of the server for one call.

        Args:
            calls: The number of calls; a slow server gets fewer.
        """
        before = self._system_calls()
        (counts,) = await self._request(self._children[:1], calls=calls)
        after = self._system_calls()
        if not (calls_made := counts.pop("calls", 0)):
            return {}
        if before is not None and after is not None:
            counts["reads"], counts["writes"] = (
                after[0] - before[0],
                after[1] - before[1],
            )
        # The kernel counts a system call only after its effect: round the difference.
        return {name: round(value / calls_made, 1) for name, value in counts.items()}


def find_listeners(url: str) -> set[int]:
    """Return the processes that listen at a local URL, as far as /proc is readable."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.hostname not in _LOCAL_HOSTS:
        return set()
    return procfs.listeners(parts.port or (443 if parts.scheme == "https" else 80))


def _merge_windows(
    groups: list[list[list[float]]],
) -> list[tuple[float, int, int, float, float]]:
    """Merge the windows of several workers: sums of counts, maxima of percentiles."""
    rows: dict[float, tuple[float, int, int, float, float]] = {}
    for at, done, errors, p50, p99 in (row for group in groups for row in group):
        old = rows.get(at, (at, 0, 0, 0.0, 0.0))
        rows[at] = (
            *(at, old[1] + int(done), old[2] + int(errors)),
            *(max(old[3], p50), max(old[4], p99)),
        )
    return [rows[at] for at in sorted(rows)]
