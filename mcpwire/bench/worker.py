"""A worker process: it connects to the server, and generates load on request.

`mcpwire.bench.worker_group` starts it and writes a pickled `Job` to its standard input,
and then one line of JSON for each request. The worker answers each with a line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import os
import pickle
import struct
import sys
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from contextvars import ContextVar
from itertools import chain, pairwise
from operator import sub
from typing import TYPE_CHECKING, Any, Final

import attrs

import mcpwire
from mcpwire.bench.histogram import MAX_NS, encode_histogram, histogram
from mcpwire.bench.load import Load  # noqa: TC001 - attrs resolves it
from mcpwire.errors import ConnectError, MCPError, RequestTimeout, RPCError
from mcpwire.wire.json import loads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcpwire.bench.load import Call

_TFD_NONBLOCK: Final = os.O_NONBLOCK
_TFD_ABSTIME: Final = 1
_NS: Final = 1_000_000_000
_MAX_DELAY_NS: Final = _NS
"""Time after the end of a slice until which its due calls may still begin."""

_CALLS_PER_YIELD: Final = 32
"""Calls after which the generator yields to the event loop, even if it is late."""

_MAX_COUNT_S: Final = 2.0
"""Maximum duration of the sequential calls for the count of messages."""

_PHASES: Final = ("encode and send", "wait", "decode")

_LAG_PERIOD_NS: Final = 50_000_000
"""Period at which a closed loop samples the delay of the event loop.

Sampling takes 3 % of the CPU time of calls every 10 ms, and 1 % every 50 ms.
"""


@attrs.frozen
class Job:
    """The job of one worker."""

    target: mcpwire.Stdio | mcpwire.Http
    load: Load
    worker: int
    """The number of the worker, starting at 0."""


class Pacer:
    """A timer on `time.monotonic_ns` that is more precise than asyncio's timers.

    Those have a resolution of a millisecond. On Linux the event loop watches a timerfd;
    elsewhere the loop's own timer is used.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        self._fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, _TFD_NONBLOCK)
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._on_timer)

    def _on_timer(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)
        self._wakeup.set()

    async def wait_until(self, at: int) -> None:
        """Wait until a time; return at once if it has passed."""
        while (now := time.monotonic_ns()) < at:
            self._wakeup.clear()
            if self._fd < 0:
                self._loop.call_later((at - now) / _NS, self._wakeup.set)
            else:
                setting = struct.pack("4q", 0, 0, *divmod(at, _NS))
                self._libc.timerfd_settime(self._fd, _TFD_ABSTIME, setting, None)
            await self._wakeup.wait()

    def close(self) -> None:
        """Release the timer."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)


class Connections:
    """The clients of one worker, or a new client for each call."""

    def __init__(self, job: Job, stack: contextlib.AsyncExitStack) -> None:
        self._job = job
        self._stack = stack
        self._clients: list[mcpwire.Client] = []
        self._next = 0
        # Bytes sent and received, and messages, of closed connections.
        self._closed = (0, 0, 0)
        self.connects: list[float] = []
        """The connection time of each session, in microseconds."""

    def _client(self) -> mcpwire.Client:
        target, load, trace = self._job.target, self._job.load, self._trace_hook()
        return mcpwire.Client(target, trace=trace, **load.client_options)

    def _trace_hook(self) -> PhaseSampler | None:
        """Return the trace hook for a client's connection."""
        return None

    async def open(self) -> dict[str, str]:
        """Connect all sessions; return the description of the server."""
        sessions = self._job.load.sessions
        if sessions == "per-call":
            async with contextlib.AsyncExitStack() as stack:
                return describe_server(await self._connect(stack))
        for _ in range(sessions):
            self._clients.append(await self._connect(self._stack))
        return describe_server(self._clients[0])

    async def _connect(self, stack: contextlib.AsyncExitStack) -> mcpwire.Client:
        began = time.monotonic_ns()
        client = await stack.enter_async_context(self._client())
        self.connects.append((time.monotonic_ns() - began) / 1_000)
        return client

    async def perform(self, call: Call) -> str | None:
        """Make a call; return the kind of a tool error, or None."""
        if self._clients:
            self._next = (self._next + 1) % len(self._clients)
            return await perform(self._clients[self._next], call)
        async with self._client() as client:
            error = await perform(client, call)
        self._closed = (
            self._closed[0] + client.stats.bytes_sent,
            self._closed[1] + client.stats.bytes_received,
            self._closed[2] + client.stats.requests + client.stats.messages,
        )
        return error

    @property
    def bytes_sent(self) -> int:
        """Bytes sent on all connections."""
        return self._closed[0] + sum(c.stats.bytes_sent for c in self._clients)

    @property
    def bytes_received(self) -> int:
        """Bytes received on all connections."""
        return self._closed[1] + sum(c.stats.bytes_received for c in self._clients)

    @property
    def reconnects(self) -> int:
        """The number of reopened connections."""
        return sum(client.stats.connections - 1 for client in self._clients)

    @property
    def messages(self) -> int:
        """The number of sent requests and received messages."""
        return self._closed[2] + sum(
            client.stats.requests + client.stats.messages for client in self._clients
        )


def describe_server(client: mcpwire.Client) -> dict[str, str]:
    """Return a server's name and version, and the negotiated protocol revision."""
    info = client.server_info
    return {
        "name": "" if info is None else info.name,
        "version": "" if info is None else info.version,
        "revision": str(client.protocol_version),
    }


async def perform(client: mcpwire.Client, call: Call) -> str | None:
    """Make a call; return the kind of a tool error, or None."""
    if call.method == "tools/call":
        name, arguments = call.params["name"], call.params.get("arguments")
        result = await client.call_tool(name, arguments)
        return "error of the tool" if result.is_error else None
    if call.method == "ping":
        await client.ping()
    elif call.method == "tools/list":
        await client.list_tools()
    else:
        await client.request(call.method, call.params or None)
    return None


class Recorder:
    """Records due, begin and end times of the calls of a slice, and summarizes them."""

    def __init__(self) -> None:
        self._due = array("q")
        self._started = array("q")
        self._answered = array("q")
        self.errors: Counter[str] = Counter()
        self._failed_at = array("q")
        self._timed_out: list[tuple[int, int, int]] = []
        self.lags = array("q")
        self.offered = self.missed = 0

    def record_answer(self, due: int, started: int, error: str | None) -> None:
        """Record a call with an answer, which may be an error."""
        now = time.monotonic_ns()
        self._due.append(due)
        self._started.append(started)
        self._answered.append(now)
        if error is not None:
            self.errors[error] += 1
            self._failed_at.append(now)

    def record_failure(self, due: int, started: int, error: MCPError) -> None:
        """Record a failed call; a timeout has a latency up to now."""
        now = time.monotonic_ns()
        self.errors[type(error).__name__] += 1
        self._failed_at.append(now)
        if isinstance(error, RequestTimeout):
            self.missed += 1
            self._timed_out.append((due, started, now))

    def summary(
        self, began: int, at: float, length: int, *, is_open: bool
    ) -> dict[str, Any]:
        """Return the fields of a `Slice`.

        Args:
            began: The start of the slice (`time.monotonic_ns`).
            at: The start of the slice within the total time, in seconds.
            length: The time for which calls were begun, in nanoseconds.
            is_open: Whether the load is an open loop.
        """
        histograms = {
            "latency": histogram(end - due for due, _, end in self._call_times()),
            "service": histogram(end - begin for _, begin, end in self._call_times()),
            "lag": histogram(
                (begin - due for due, begin, _ in self._call_times())
                if is_open
                else self.lags
            ),
        }
        return {
            "offered": self.offered,
            "done": len(self._answered),
            "missed": self.missed,
            "in_time": self._count_in_time(length)
            if is_open
            else self._count_answered_by(began + length),
            "latency_sum": sum(end - due for due, _, end in self._call_times()),
            "errors": dict(self.errors),
            **{name: encode_histogram(values) for name, values in histograms.items()},
            "windows": list(self._windows(began, at)),
        }

    def _count_in_time(self, length: int) -> int:
        """Count the most answers within any time of this length."""
        answered = self._answered
        counts = (
            bisect_right(answered, begin + length, number) - number
            for number, begin in enumerate(answered)
        )
        return max(counts, default=0)

    def _count_answered_by(self, end: int) -> float:
        """Count the calls answered by a time, plus the part before it of later ones."""
        count = bisect_right(self._answered, end)
        later = zip(self._started[count:], self._answered[count:], strict=True)
        return count + sum((end - begin) / (answer - begin) for begin, answer in later)

    def _call_times(self) -> Iterator[tuple[int, int, int]]:
        """Yield when each call was due, began and ended."""
        yield from zip(self._due, self._started, self._answered, strict=True)
        yield from self._timed_out

    def _windows(
        self, began: int, at: float
    ) -> Iterator[tuple[float, int, int, float, float]]:
        """Yield the figures of each second; calls count when they are answered."""
        answered, begin = self._answered, 0
        failed = Counter((failed_at - began) // _NS for failed_at in self._failed_at)
        last_second = (
            max(answered[-1:] + self._failed_at[-1:], default=began) - began
        ) // _NS
        for second in range(last_second + 1):
            # Calls are in the order of their answers.
            end = bisect_left(answered, began + (second + 1) * _NS, begin)
            values = sorted(map(sub, answered[begin:end], self._due[begin:end]))
            begin = end
            if not values and not failed[second]:
                continue
            p50, p99 = (
                (min(values[int(len(values) * part)], MAX_NS) / 1_000)
                if values
                else 0.0
                for part in (0.5, 0.99)
            )
            yield at + second, len(values), failed[second], p50, p99


class Generator:
    """The load generator of one worker."""

    def __init__(self, job: Job, connections: Connections, pacer: Pacer) -> None:
        self._load = job.load
        self._worker = job.worker
        self._connections = connections
        self._pacer = pacer
        self._slices = 0

    async def run(
        self, at: float, seconds: float, rate: float | None
    ) -> dict[str, Any]:
        """Generate the load from `at` in the total time; return the measurements."""
        load = self._load if rate is None else attrs.evolve(self._load, rate=rate)
        recorder = Recorder()
        choices = self._load.choices(self._worker, self._slices)
        self._slices += 1
        offsets = array("d")
        if load.rate is not None:
            offsets.extend(load.due(at, at + seconds, self._worker))
        sent_before, cpu_before = self._connections.bytes_sent, time.process_time_ns()
        reconnects_before = self._connections.reconnects
        received_before = self._connections.bytes_received
        began = time.monotonic_ns()
        end = began + int(seconds * _NS)
        if load.rate is None:
            users = load.users // load.workers
            users += self._worker < load.users % load.workers
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    self._sample_lag(recorder, range(began, end, _LAG_PERIOD_NS))
                )
                for _ in range(users):
                    group.create_task(self._run_user(recorder, choices, end))
        else:
            due = (began + int((offset - at) * _NS) for offset in offsets)
            await self._open_loop(recorder, choices, due, end + _MAX_DELAY_NS)
            await self._pacer.wait_until(end)
        elapsed = time.monotonic_ns() - began
        return {
            "generator_cpu": time.process_time_ns() - cpu_before,
            "elapsed": elapsed,
            "bytes_sent": self._connections.bytes_sent - sent_before,
            "bytes_received": self._connections.bytes_received - received_before,
            "reconnects": self._connections.reconnects - reconnects_before,
            **recorder.summary(began, at, end - began, is_open=load.rate is not None),
        }

    async def _sample_lag(self, recorder: Recorder, ticks: Iterable[int]) -> None:
        """Record the delay of the event loop at each tick."""
        for due in ticks:
            await self._pacer.wait_until(due)
            recorder.lags.append(time.monotonic_ns() - due)

    async def _run_user(
        self, recorder: Recorder, choices: Iterator[Call], end: int
    ) -> None:
        """Make sequential calls until `end`."""
        while (started := time.monotonic_ns()) < end:
            recorder.offered += 1
            await self._perform(recorder, next(choices), started)

    async def _open_loop(
        self,
        recorder: Recorder,
        choices: Iterator[Call],
        due_at: Iterator[int],
        latest: int,
    ) -> None:
        """Begin each call when it is due, and wait for all answers.

        Calls that cannot begin by `latest` count as missed.
        """
        running: set[asyncio.Task[None]] = set()
        for due in due_at:
            await self._pacer.wait_until(due)
            recorder.offered += 1
            if recorder.offered % _CALLS_PER_YIELD == 0:
                await asyncio.sleep(0)  # a late pacer never yields
            is_too_late = time.monotonic_ns() > latest
            if is_too_late or len(running) >= self._load.max_in_flight:
                recorder.missed += 1
                if is_too_late:
                    break
                continue
            task = asyncio.create_task(self._perform(recorder, next(choices), due))
            running.add(task)
            task.add_done_callback(running.discard)
        if running:
            await asyncio.wait(running)
        remaining = sum(1 for _ in due_at)
        recorder.offered += remaining
        recorder.missed += remaining

    async def count(self, calls: int) -> dict[str, Any]:
        """Make up to `calls` sequential calls within 2 s; return calls and messages."""
        messages = self._connections.messages
        calls_made, deadline = 0, time.monotonic() + _MAX_COUNT_S
        for call, _ in zip(self._load.choices("counts"), range(calls), strict=False):
            with contextlib.suppress(RPCError):
                await self._connections.perform(call)
            calls_made += 1
            if time.monotonic() >= deadline:
                break
        return {"calls": calls_made, "messages": self._connections.messages - messages}

    async def _perform(self, recorder: Recorder, call: Call, due: int) -> None:
        started = time.monotonic_ns()
        try:
            error = await self._connections.perform(call)
        except RPCError as failure:
            recorder.record_answer(due, started, type(failure).__name__)
        except MCPError as failure:
            recorder.record_failure(due, started, failure)
            await asyncio.sleep(0)  # an immediate failure would block other calls
        else:
            recorder.record_answer(due, started, error)


_is_sampled: ContextVar[bool] = ContextVar("is_sampled", default=False)
"""Whether the current task sends the sampled call."""


class PhaseSampler:
    """A `trace` hook that records the phases of one call at a time.

    Concurrent calls that are not sampled pay only for the call of the hook.
    """

    def __init__(self) -> None:
        self.durations = {name: array("q") for name in _PHASES}
        self.is_busy = False
        self._sent = b""
        self._sent_at = self._written_at = 0
        self._received: list[tuple[int, bytes]] = []

    def __call__(self, event: str, data: Any) -> None:
        """Record an event of the connection."""
        if not self.is_busy:
            return
        now = time.monotonic_ns()
        if not self._sent:
            if event == "send" and _is_sampled.get():
                self._sent, self._sent_at = data, now
        elif event == "written":
            self._written_at = self._written_at or now
        elif event == "receive":
            self._received.append((now, data))

    async def perform(self, client: mcpwire.Client, call: Call) -> str | None:
        """Make a call and record its phases."""
        self.is_busy = True
        token = _is_sampled.set(True)
        started = time.monotonic_ns()
        try:
            return await perform(client, call)
        finally:
            self._record_phases(started, time.monotonic_ns())
            _is_sampled.reset(token)
            self.is_busy, self._sent, self._written_at = False, b"", 0
            self._received.clear()

    def _record_phases(self, started: int, finished: int) -> None:
        """Record the phases of a call if its response was received."""
        id = _message_id(self._sent)
        for received, line in self._received:
            if str(id).encode() in line and _message_id(line) == id:
                # HTTP has no event for the write of a request.
                marks = (started, self._written_at or self._sent_at, received, finished)
                for name, (start, end) in zip(_PHASES, pairwise(marks), strict=True):
                    self.durations[name].append(end - start)
                return


def _message_id(line: bytes) -> object:
    try:
        return loads(line)["id"]
    except (KeyError, TypeError, ValueError):
        return None


class SampledConnections(Connections):
    """Connections that sample the phases of some calls."""

    def __init__(self, job: Job, stack: contextlib.AsyncExitStack) -> None:
        super().__init__(job, stack)
        self._samplers: list[PhaseSampler] = []

    def _trace_hook(self) -> PhaseSampler:
        self._samplers.append(PhaseSampler())
        return self._samplers[-1]

    async def perform(self, call: Call) -> str | None:
        """Make a call, and sample it unless its client is sampling another one."""
        self._next = (self._next + 1) % len(self._clients)
        client, sampler = self._clients[self._next], self._samplers[self._next]
        if sampler.is_busy:
            return await perform(client, call)
        return await sampler.perform(client, call)

    def histograms(self) -> dict[str, str]:
        """Return the encoded histogram of each phase."""
        return {
            name: encode_histogram(
                histogram(chain(*(s.durations[name] for s in self._samplers)))
            )
            for name in _PHASES
        }


async def measure_phases(
    job: Job, pacer: Pacer, seconds: float, *, is_sequential: bool
) -> dict[str, str]:
    """Measure the phases of calls on new connections; return their histograms.

    Args:
        job: The job with the calls.
        pacer: The timer for due calls.
        seconds: The duration of the measurement.
        is_sequential: Whether to make sequential calls in place of the job's load.
    """
    load = attrs.evolve(job.load, shape="constant")
    if is_sequential:
        load = attrs.evolve(load, rate=None, users=1, sessions=1, workers=1)
    job = attrs.evolve(job, load=load)
    async with contextlib.AsyncExitStack() as stack:
        connections = SampledConnections(job, stack)
        await connections.open()
        await Generator(job, connections, pacer).run(0.0, seconds, None)
        return connections.histograms()


def _write_line(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


class Requests(asyncio.Protocol):
    """The requests to this worker; the end of the input cancels its work.

    The input ends when the parent process exits, even if it was killed.
    """

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task
        self._rest = b""
        self.queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def data_received(self, data: bytes) -> None:
        """Queue the received requests."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.queue.put_nowait(json.loads(line))

    def connection_lost(self, _: Exception | None) -> None:
        """Cancel the work."""
        self._task.cancel()


async def _serve_requests(job: Job) -> None:
    gc.collect()
    gc.freeze()
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    input, requests = await loop.connect_read_pipe(lambda: Requests(task), sys.stdin)
    pacer = Pacer()
    try:
        async with contextlib.AsyncExitStack() as stack:
            connections = Connections(job, stack)
            server = await connections.open()
            _write_line({"server": server, "connects": connections.connects})
            generator = Generator(job, connections, pacer)
            while True:
                request = await requests.queue.get()
                answer: dict[str, Any] = {}
                # A lost connection leaves the counts empty; a load continues.
                with contextlib.suppress(MCPError):
                    if "is_sequential" in request:
                        if not request["is_sequential"]:
                            await stack.aclose()  # do not run the servers twice
                        answer = await measure_phases(job, pacer, **request)
                    elif "calls" in request:
                        answer = await generator.count(request["calls"])
                    else:
                        answer = await generator.run(**request)
                _write_line(answer)
    finally:
        pacer.close()
        input.close()


def main() -> int:
    """Perform the job from standard input; return the exit code."""
    job = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started us
    # The figures count failures; a warning for each would fill the standard error.
    logging.getLogger("mcpwire").addHandler(logging.NullHandler())
    try:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(_serve_requests(job))
    except (MCPError, OSError) as error:
        failure = error if isinstance(error, MCPError) else ConnectError(str(error))
        _write_line({"failure": pickle.dumps(failure).hex()})
        return 1
    return 0
