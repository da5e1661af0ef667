"""Measurement of a blocking variant; see `measure` for the others.

Each call in flight has a thread here; all threads share the open variant. A variant
without threads that is compared with these has a `measure_in_flight` method of its own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import contextmanager
from threading import Barrier, Thread
from time import perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING, Any

from harness.measure import WARM_UP_CALLS, Figures, percentiles

if TYPE_CHECKING:
    from collections.abc import Iterator

Call = Callable[[], Any]
Latencies = dict[int, list[int]]
"""The latencies in nanoseconds, by number of calls in flight; 0: one at a time."""

CORES = sorted(getattr(os, "sched_getaffinity", lambda _: range(1))(0))
PLACEMENTS = {"apart": (0, 1), "together": (0, 0)}
"""The cores of client and server; with any other placement the kernel chooses.

The kernel's choice can last for the whole run, and decides whether waiting in a system
call takes ten times as long.
"""


def pin_process(pid: int, placement: str, side: int) -> None:
    """Pin a process to its core; 0 is this thread and the threads it will start."""
    if placement in PLACEMENTS and len(CORES) > 1:
        core = CORES[PLACEMENTS[placement][side]]
        os.sched_setaffinity(pid, {core})


def pin_cores(server: int, placement: str) -> None:
    """Pin this thread, with the threads it will start, and a server to their cores."""
    pin_process(0, placement, 0)
    pin_process(server, placement, 1)


@contextmanager
def start_on_server_core(placement: str) -> Iterator[None]:
    """Pin this thread to the server's core within the block, then to its own."""
    pin_process(0, placement, 1)
    yield
    pin_process(0, placement, 0)


def measure_cpu(call: Call, calls: int) -> Figures:
    """Return the CPU time per call of one slice, in microseconds."""
    for _ in range(WARM_UP_CALLS):
        call()
    cpu = process_time_ns()
    for _ in range(calls):
        call()
    cpu = process_time_ns() - cpu
    return {"cpu_us": cpu / calls / 1e3}


def time_calls(call: Call, calls: int) -> list[int]:
    """Return the latency of each call of one slice, in nanoseconds."""
    for _ in range(WARM_UP_CALLS):
        call()
    latencies = [0] * calls
    for index in range(calls):
        start = perf_counter_ns()
        call()
        latencies[index] = perf_counter_ns() - start
    return latencies


def measure_in_threads(
    call: Call, calls: int, width: int, all_latencies: list[int]
) -> Figures:
    """Call from `width` threads; return calls per second and CPU time per call.

    If the call has an attribute `threads`, it limits their number, for comparison.
    The latencies are added to `all_latencies`.
    """
    threads = min(width, getattr(call, "threads", width))
    failures: list[BaseException] = []
    started = [0, 0]

    def start_clocks() -> None:
        started[:] = perf_counter_ns(), process_time_ns()

    # The clocks start when all threads run and the caches are warm.
    barrier = Barrier(threads, start_clocks)

    def work(remaining: Iterator[int], warm_up: Iterator[int]) -> None:
        latencies = []
        try:
            for _ in warm_up:
                call()
            barrier.wait()
            for _ in remaining:
                start = perf_counter_ns()
                call()
                latencies.append(perf_counter_ns() - start)
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)
            barrier.abort()
        all_latencies.extend(latencies)

    remaining, warm_up = iter(range(calls)), iter(range(WARM_UP_CALLS))
    workers = [Thread(target=work, args=(remaining, warm_up)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    wall, cpu = perf_counter_ns() - started[0], process_time_ns() - started[1]
    if failures:
        raise failures[0]
    return {
        f"calls_per_s@{width}": calls / wall * 1e9,
        f"cpu_us@{width}": cpu / calls / 1e3,
    }


def summarize_latencies(latencies: Latencies) -> Figures:
    """Return the percentiles over all slices, by number of calls in flight."""
    return {
        f"{name}@{width}" if width else name: value
        for width, values in latencies.items()
        for name, value in percentiles(values).items()
    }


def handle_request(
    call: Call, request: dict[str, Any], latencies: Latencies
) -> Figures:
    """Measure the slice of a request; `latencies` collects those of all slices."""
    calls, width = request.get("calls"), request.get("width")
    if not calls:
        return summarize_latencies(latencies)
    slice_latencies = latencies.setdefault(width or 0, [])
    if width:
        measure_in_flight = getattr(call, "measure_in_flight", None)
        if measure_in_flight is not None:
            return dict(measure_in_flight(calls, width, slice_latencies))
        return measure_in_threads(call, calls, width, slice_latencies)
    figures = measure_cpu(call, calls)
    slice_latencies += time_calls(call, calls)
    return figures


def serve(variant: Any) -> None:
    """Open the variant, print a first line, and answer requests until stdin ends."""
    latencies: Latencies = {}
    with variant as call:
        print("{}", flush=True)
        while line := sys.stdin.readline():
            print(
                json.dumps(handle_request(call, json.loads(line), latencies)),
                flush=True,
            )
