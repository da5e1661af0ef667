"""What is measured of a variant that blocks; see `measure` for the others."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import perf_counter_ns, process_time_ns
from typing import Any

from harness.measure import WARM_UP_CALLS, Figures, percentiles

Call = Callable[[], Any]


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
    """Return how long each call of one slice took, in nanoseconds."""
    for _ in range(WARM_UP_CALLS):
        call()
    taken = [0] * calls
    for lap in range(calls):
        start = perf_counter_ns()
        call()
        taken[lap] = perf_counter_ns() - start
    return taken


def serve(variant: Any) -> None:
    """Open the variant, say so, and answer requests until stdin ends."""
    taken: list[int] = []
    with variant as call:
        print("{}", flush=True)
        while line := sys.stdin.readline():
            request = json.loads(line)
            if calls := request.get("calls"):
                figures = one_at_a_time(call, calls)
                taken += laps(call, calls)
            else:
                figures = percentiles(taken)
            print(json.dumps(figures), flush=True)
