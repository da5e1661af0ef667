"""Measurement of a blocking variant; see `measure` for the others.

Each call in flight has a thread here; all threads share the open variant. A variant
without threads that is compared with these has an `in_flight` method of its own.
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
Laps = dict[int, list[int]]
"""The latencies in nanoseconds, by number of calls in flight; 0: one at a time."""

CORES = sorted(getattr(os, "sched_getaffinity", lambda _: range(1))(0))
PLACEMENTS = {"apart": (0, 1), "together": (0, 0)}
"""The cores of client and server; with any other placement the kernel chooses.

The kernel's choice can last for the whole run, and decides whether waiting in a system
call takes ten times as long.
"""


def settle(pid: int, placement: str, side: int) -> None:
    """Pin a process to its core; 0 is this thread and the threads it will start."""
    if placement in PLACEMENTS and len(CORES) > 1:
        core = CORES[PLACEMENTS[placement][side]]
        os.sched_setaffinity(pid, {core})


def place(server: int, placement: str) -> None:
    """Pin this thread, with the threads it will start, and a server to their cores."""
    settle(0, placement, 0)
    settle(server, placement, 1)


@contextmanager
def place_server(placement: str) -> Iterator[None]:
    """Pin this thread to the server's core within the block, then to its own."""
    settle(0, placement, 1)
    yield
    settle(0, placement, 0)


def one_at_a_time(call: Call, calls: int) -> Figures:
    """Return the CPU time per call of one slice, in microseconds."""
    for _ in range(WARM_UP_CALLS):
        call()
    cpu = process_time_ns()
    for _ in range(calls):
        call()
    cpu = process_time_ns() - cpu
    return {"cpu_us": cpu / calls / 1e3}


def laps(call: Call, calls: int) -> list[int]:
    """Return the latency of each call of one slice, in nanoseconds."""
    for _ in range(WARM_UP_CALLS):
        call()
    taken = [0] * calls
    for lap in range(calls):
        start = perf_counter_ns()
        call()
        taken[lap] = perf_counter_ns() - start
    return taken


def in_threads(call: Call, calls: int, width: int, taken: list[int]) -> Figures:
    """Call from `width` threads; return calls per second and CPU time per call.

    If the call has an attribute `threads`, it limits their number, for comparison.
    The latencies are added to `taken`.
    """
    threads = min(width, getattr(call, "threads", width))
    failures: list[BaseException] = []
    begun = [0, 0]

    def begin() -> None:
        begun[:] = perf_counter_ns(), process_time_ns()

    # The clocks start when all threads run and the caches are warm.
    together = Barrier(threads, begin)

    def work(turns: Iterator[int], warm_up: Iterator[int]) -> None:
        mine = []
        try:
            for _ in warm_up:
                call()
            together.wait()
            for _ in turns:
                start = perf_counter_ns()
                call()
                mine.append(perf_counter_ns() - start)
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)
            together.abort()
        taken.extend(mine)

    turns, warm_up = iter(range(calls)), iter(range(WARM_UP_CALLS))
    workers = [Thread(target=work, args=(turns, warm_up)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    wall, cpu = perf_counter_ns() - begun[0], process_time_ns() - begun[1]
    if failures:
        raise failures[0]
    return {
        f"calls_per_s@{width}": calls / wall * 1e9,
        f"cpu_us@{width}": cpu / calls / 1e3,
    }


def summed_up(taken: Laps) -> Figures:
    """Return the percentiles over all slices, by number of calls in flight."""
    return {
        f"{name}@{width}" if width else name: value
        for width, each in taken.items()
        for name, value in percentiles(each).items()
    }


def answer(call: Call, request: dict[str, Any], taken: Laps) -> Figures:
    """Measure the slice of a request; `taken` collects the laps of all slices."""
    calls, width = request.get("calls"), request.get("width")
    if not calls:
        return summed_up(taken)
    measured = taken.setdefault(width or 0, [])
    if width:
        in_flight = getattr(call, "in_flight", None)
        if in_flight is not None:
            return dict(in_flight(calls, width, measured))
        return in_threads(call, calls, width, measured)
    figures = one_at_a_time(call, calls)
    measured += laps(call, calls)
    return figures


def serve(variant: Any) -> None:
    """Open the variant, print a first line, and answer requests until stdin ends."""
    taken: Laps = {}
    with variant as call:
        print("{}", flush=True)
        while line := sys.stdin.readline():
            print(json.dumps(answer(call, json.loads(line), taken)), flush=True)
