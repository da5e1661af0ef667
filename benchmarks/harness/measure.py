"""Measurement of one variant inside its child interpreter.

One slice is a few hundred calls; the parent requests slices of all variants in turn.
CPU time is that of this process, or the value of the variant's `cpu_ns` if present.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from time import perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Call = Callable[[], Awaitable[Any]]
Figures = dict[str, float]

# At the start of a slice the CPU caches hold the data of other variants.
WARM_UP_CALLS = 50
WARM_UP_SHARE = 2
"""The limit of warm-up calls, as a multiple of the measured ones, for slow calls."""
PERCENTILES = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999}


def clock(call: Call) -> Callable[[], int]:
    """Return the function that reads the CPU time of a variant in nanoseconds."""
    read: Callable[[], int] = getattr(call, "cpu_ns", process_time_ns)
    return read


def warm_up_calls(calls: int) -> int:
    """Return the number of warm-up calls before the measured ones."""
    return min(WARM_UP_CALLS, WARM_UP_SHARE * calls)


async def measure_cpu(call: Call, calls: int) -> Figures:
    """Return the CPU time per call of one slice, in microseconds."""
    cpu_ns = clock(call)
    for _ in range(warm_up_calls(calls)):
        await call()
    cpu = cpu_ns()
    for _ in range(calls):
        await call()
    cpu = cpu_ns() - cpu
    return {"cpu_us": cpu / calls / 1e3}


async def time_calls(call: Call, calls: int) -> list[int]:
    """Return the latency of each call of one slice, in nanoseconds.

    Separate from `measure_cpu`, so that no clock is read while CPU time is measured.
    """
    for _ in range(warm_up_calls(calls)):
        await call()
    latencies = [0] * calls
    for index in range(calls):
        start = perf_counter_ns()
        await call()
        latencies[index] = perf_counter_ns() - start
    return latencies


def percentiles(latencies: Sequence[int]) -> Figures:
    """Return the nearest-rank percentiles of latencies, in microseconds."""
    ordered = sorted(latencies)
    return {
        name: ordered[max(0, math.ceil(share * len(ordered)) - 1)] / 1e3
        for name, share in PERCENTILES.items()
    }


async def measure_in_flight(call: Call, calls: int, width: int) -> Figures:
    """Keep `width` calls in flight; return calls per second and CPU time per call.

    At least `width` warm-up calls come first, so that all connections are open.
    """

    async def work(remaining: Iterator[int]) -> None:
        for _ in remaining:
            await call()

    async def run_calls(count: int) -> None:
        remaining = iter(range(count))
        await asyncio.gather(*(work(remaining) for _ in range(width)))

    cpu_ns = clock(call)
    await run_calls(max(width, warm_up_calls(calls)))
    wall, cpu = perf_counter_ns(), cpu_ns()
    await run_calls(calls)
    wall, cpu = perf_counter_ns() - wall, cpu_ns() - cpu
    return {
        f"calls_per_s@{width}": calls / wall * 1e9,
        f"cpu_us@{width}": cpu / calls / 1e3,
    }
