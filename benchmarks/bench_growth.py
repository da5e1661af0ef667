"""Benchmark of growth: cost of a call by calls made, calls in flight and sessions.

CPU time per call of mcpwire's client and server over stdio and HTTP, at growing numbers
of calls on one session, calls in flight, and open sessions, of which one is called or
all in turn; and memory by calls and sessions. Each point is divided by the first. With
all sessions in turn the floor slows down, too: the CPU caches do not hold them all.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from growth.axes import Effort, Path, aged, joined, multiplied, widened
from harness import machine
from harness.command import conclude, parser, positive, tell
from harness.figures import Budget
from harness.rounds import Plan, Variant
from harness.servers import pinning
from null import build

if TYPE_CHECKING:
    import argparse

    from growth.axes import Point

MOST_CALLS = 10_000
MOST_SESSIONS = 100
MOST_IN_FLIGHT = 512
LIMIT = 1.25
"""The limit of the last point's CPU time, as a multiple of the first point's."""

FLAT = 1.05
"""The limit of memory after all calls, as a multiple of the first point's."""

FIRST = "its first point"
ROUNDS, SLICES, CALLS = 3, 2, 200


def paths() -> list[Path]:
    """Return the measured paths."""
    stdio, http = str(build.build("stdio_null")), str(build.build("http_null"))
    core = tuple(pinning())

    def path(
        name: str, kind: str, mine: str, floor: str, calls: int, sessions: int
    ) -> Path:
        module = "growth.sessions"
        target = f"{kind}_server" if "server" in name else f"{kind}_client"
        ground = f"{kind}_server" if "server" in name else f"{kind}_floor"
        return Path(
            name,
            Variant(name, f"{module}:{target}", mine, name),
            Variant(f"floor, {name}", f"{module}:{ground}", floor, name),
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
    found = []
    for path in paths():
        ends = [f"cpu_us@calls={min(calls, path.most_calls)}", f"cpu_us@{in_flight}"]
        if path.most_sessions > 1:
            ends.append(f"cpu_us@sessions={min(sessions, path.most_sessions)}")
        found += [Budget(path.name, end, LIMIT) for end in ends]
        end = f"rss_kib@calls={min(calls, path.most_calls)}"
        found.append(Budget(path.name, end, FLAT))
    return found


def looked_at(
    path: Path, effort: Effort, options: argparse.Namespace
) -> dict[str, list[dict[str, Point]]]:
    """Return each round's figures of one path and of its floor."""
    # One slice suffices within one process, and for the floor.
    brief = replace(effort, slices=1)
    tell(f"{path.name}: calls")
    mine = [aged(path, effort, options.most_calls)]
    tell(f"{path.name}: in flight")
    mine.append(widened(path.variant, brief, options.most_in_flight))
    floor = [widened(path.floor, brief, options.most_in_flight)]
    if path.most_sessions > 1:
        tell(f"{path.name}: sessions")
        most = options.most_sessions
        mine.append(multiplied(path.variant, path, effort, most))
        floor.append(multiplied(path.floor, path, brief, most))
    return {path.name: joined(*mine), path.floor.name: joined(*floor)}


def main() -> int:
    if not hasattr(os, "sched_setaffinity"):
        print("bench_growth.py: CPU time is read as Linux gives it; left out")
        return 0
    reading = parser("growth")
    add = reading.add_argument
    reading.set_defaults(rounds=ROUNDS, slices=SLICES, calls=CALLS)
    text = f"calls of one session, a power of ten ({MOST_CALLS})"
    add("--most-calls", type=positive, default=MOST_CALLS, help=text)
    text = f"open sessions, a power of ten ({MOST_SESSIONS})"
    add("--most-sessions", type=positive, default=MOST_SESSIONS, help=text)
    text = f"calls in flight, a power of two ({MOST_IN_FLIGHT})"
    add("--most-in-flight", type=positive, default=MOST_IN_FLIGHT, help=text)
    options = reading.parse_args()
    with build.compiling("growth") as notes:
        everything = paths()
    chosen = [
        path
        for path in everything
        if not options.only or any(text in path.name for text in options.only)
    ]
    if not chosen:
        sys.exit(f"no path is named like {options.only!r}")
    effort = Effort(options.rounds, options.slices, options.calls)
    described = machine.describe() | notes
    described["placed"] = (
        "clients and null servers on one core, servers on one of their own"
    )
    by_variant = {}
    for path in chosen:
        by_variant |= looked_at(path, effort, options)
    rounds = [
        {name: each[number] for name, each in by_variant.items()}
        for number in range(options.rounds)
    ]
    plan = Plan(options.rounds, options.slices, options.calls, ())
    lines = budgets(options.most_calls, options.most_sessions, options.most_in_flight)
    baselines = dict.fromkeys(by_variant, FIRST)
    return conclude(options, plan, described, rounds, baselines, lines)


if __name__ == "__main__":
    sys.exit(main())
