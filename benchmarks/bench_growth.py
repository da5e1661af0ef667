"""Benchmark of growth: cost of a call by calls made, calls in flight and sessions.

CPU time per call of mcpwire's client and server over stdio and HTTP, at growing numbers
of calls on one session, calls in flight, and open sessions, of which one is called or
all in turn; and memory by calls and sessions. Each point is divided by the first. With
all sessions in turn the floor slows down, too: the CPU caches do not hold them all.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from growth.axes import (
    Effort,
    MeasuredPath,
    join_rounds,
    measure_calls_made,
    measure_in_flight,
    measure_sessions,
)
from harness import machine
from harness.command import create_parser, positive_int, print_progress, save_and_print
from harness.figures import Budget
from harness.rounds import Plan, Variant
from harness.servers import pin_command
from null import build

if TYPE_CHECKING:
    import argparse

    from growth.axes import Point

MAX_CALLS = 10_000
MAX_SESSIONS = 100
MAX_IN_FLIGHT = 512
CPU_LIMIT = 1.25
"""The limit of the last point's CPU time, as a multiple of the first point's."""

MEMORY_LIMIT = 1.05
"""The limit of memory after all calls, as a multiple of the first point's."""

BASELINE = "its first point"
ROUNDS, SLICES, CALLS = 3, 2, 200


def paths() -> list[MeasuredPath]:
    """Return the measured paths."""
    stdio, http = str(build.build("stdio_null")), str(build.build("http_null"))
    core = tuple(pin_command())

    def path(
        name: str,
        transport: str,
        argument: str,
        floor_argument: str,
        calls: int,
        sessions: int,
    ) -> MeasuredPath:
        module = "growth.sessions"
        target = f"{transport}_server" if "server" in name else f"{transport}_client"
        floor_target = (
            f"{transport}_server" if "server" in name else f"{transport}_floor"
        )
        return MeasuredPath(
            name,
            Variant(name, f"{module}:{target}", argument, name),
            Variant(f"floor, {name}", f"{module}:{floor_target}", floor_argument, name),
            calls,
            sessions,
            () if "server" in name else core,
        )

    return [
        path("stdio client", "stdio", stdio, stdio, 1_000_000, 1_000),
        path("HTTP client", "http", http, http, 100_000, 1_000),
        path("stdio server", "stdio", "mcpwire", "floor", 100_000, 1),
        path("HTTP server", "http", "mcpwire", "floor, HTTP", 100_000, 1_000),
    ]


def budgets(calls: int, sessions: int, in_flight: int) -> list[Budget]:
    """Return a budget for the last point of each axis of each path."""
    budgets = []
    for path in paths():
        ends = [f"cpu_us@calls={min(calls, path.max_calls)}", f"cpu_us@{in_flight}"]
        if path.max_sessions > 1:
            ends.append(f"cpu_us@sessions={min(sessions, path.max_sessions)}")
        budgets += [Budget(path.name, end, CPU_LIMIT) for end in ends]
        end = f"rss_kib@calls={min(calls, path.max_calls)}"
        budgets.append(Budget(path.name, end, MEMORY_LIMIT))
    return budgets


async def measure_path(
    path: MeasuredPath, effort: Effort, options: argparse.Namespace
) -> dict[str, list[dict[str, Point]]]:
    """Return each round's figures of one path and of its floor."""
    # One slice suffices within one process, and for the floor.
    one_slice = replace(effort, slices=1)
    print_progress(f"{path.name}: calls")
    own = [await measure_calls_made(path, effort, options.max_calls)]
    print_progress(f"{path.name}: in flight")
    max_in_flight = options.max_in_flight
    own.append(await measure_in_flight(path.variant, one_slice, max_in_flight))
    floor = [await measure_in_flight(path.floor, one_slice, max_in_flight)]
    if path.max_sessions > 1:
        print_progress(f"{path.name}: sessions")
        maximum = options.max_sessions
        own.append(await measure_sessions(path.variant, path, effort, maximum))
        floor.append(await measure_sessions(path.floor, path, one_slice, maximum))
    return {path.name: join_rounds(*own), path.floor.name: join_rounds(*floor)}


def main() -> int:
    if not hasattr(os, "sched_setaffinity"):
        print("bench_growth.py: CPU time is read as Linux gives it; left out")
        return 0
    parser = create_parser("growth")
    add = parser.add_argument
    parser.set_defaults(rounds=ROUNDS, slices=SLICES, calls=CALLS)
    text = f"calls of one session, a power of ten ({MAX_CALLS})"
    add("--max-calls", type=positive_int, default=MAX_CALLS, help=text)
    text = f"open sessions, a power of ten ({MAX_SESSIONS})"
    add("--max-sessions", type=positive_int, default=MAX_SESSIONS, help=text)
    text = f"calls in flight, a power of two ({MAX_IN_FLIGHT})"
    add("--max-in-flight", type=positive_int, default=MAX_IN_FLIGHT, help=text)
    options = parser.parse_args()
    with build.exit_on_compile_error("growth") as notes:
        known_paths = paths()
    selected = [
        path
        for path in known_paths
        if not options.only or any(text in path.name for text in options.only)
    ]
    if not selected:
        sys.exit(f"no path is named like {options.only!r}")
    effort = Effort(options.rounds, options.slices, options.calls)
    machine_facts = machine.describe() | notes
    machine_facts["placed"] = (
        "clients and null servers on one core, servers on one of their own"
    )
    by_variant = {}
    for path in selected:
        by_variant |= asyncio.run(measure_path(path, effort, options))
    rounds = [
        {name: variant_rounds[number] for name, variant_rounds in by_variant.items()}
        for number in range(options.rounds)
    ]
    plan = Plan(options.rounds, options.slices, options.calls, ())
    budget_list = budgets(
        options.max_calls, options.max_sessions, options.max_in_flight
    )
    baselines = dict.fromkeys(by_variant, BASELINE)
    return save_and_print(options, plan, machine_facts, rounds, baselines, budget_list)


if __name__ == "__main__":
    sys.exit(main())
