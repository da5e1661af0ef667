"""Benchmark of 1,000 servers in a group and of 1,000 sessions at a gateway.

Memory, open files, opening time and CPU time per call, with calls to all in turn: of
`Group` with a child for each server beside a hand-written loop, and of a gateway over
HTTP, with a child for each session or one for all, beside a server with as many
sessions. Memory is that of the measured process alone, without its children.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from harness import machine
from harness.command import chosen, conclude, parser, positive, tell
from harness.rounds import Child, Plan, Variant, opened
from null import build

if TYPE_CHECKING:
    from harness.rounds import Round

MANY = 1_000
FLOOR, SERVER = "floor, children", "server, sessions"
MS = 1e3


def variants() -> list[Variant]:
    null = str(build.build("stdio_null"))
    return [
        Variant(FLOOR, "growth.sessions:stdio_floor", null, FLOOR),
        Variant("Group, children", "growth.many:group", null, FLOOR),
        Variant(SERVER, "growth.sessions:http_server", "mcpwire", SERVER),
        Variant("gateway, one child", "growth.many:gateway", "identity", SERVER),
        Variant("gateway, a child each", "growth.many:gateway", "session", SERVER),
    ]


def held(child: Child) -> dict[str, float]:
    """Return the memory and the open files of a variant's process."""
    return child.ask(**{"do": "memory", "with": 0}) | child.ask(
        **{"do": "files", "with": 0}
    )


def looked_at(variant: Variant, many: int) -> dict[str, float]:
    """Return the cost of each server or session after the first."""
    more = many - 1
    with opened(variant, ()) as child:
        before = held(child)
        began = time.perf_counter()
        child.ask(**{"do": "grow", "with": many})
        seconds = time.perf_counter() - began
        child.ask(**{"do": "take_turns", "with": many})
        cpu = child.ask(calls=many, width=1)["cpu_us@1"]
        after = held(child)
    return {
        "each_kib": (after["rss_kib"] - before["rss_kib"]) / more,
        "files_each": (after["files"] - before["files"]) / more,
        "opening_ms": seconds / more * MS,
        "cpu_us": cpu,
    }


def reckoned(variants: list[Variant], many: int) -> Round:
    """Return the figures of one round, with ratios to the baselines."""
    found = {each.name: looked_at(each, many) for each in variants}
    return {
        each.name: {
            name: {"value": value, "ratio": value / (found[each.baseline][name] or 1)}
            for name, value in found[each.name].items()
        }
        for each in variants
    }


def main() -> int:
    if not hasattr(os, "sched_setaffinity"):
        print("bench_many.py: memory is read as Linux gives it; left out")
        return 0
    reading = parser("many")
    reading.set_defaults(rounds=3)
    text = f"servers, or sessions ({MANY})"
    reading.add_argument("--many", type=positive, default=MANY, help=text)
    options = reading.parse_args()
    with build.compiling("many") as notes:
        found = chosen(variants(), options.only)
    if not found:
        sys.exit(f"no variant is named like {options.only!r}")
    described = machine.describe() | notes
    described["placed"] = f"{options.many:,} of each"
    rounds = []
    for number in range(options.rounds):
        tell(f"round {number + 1} of {options.rounds}")
        rounds.append(reckoned(found, options.many))
    plan = Plan(options.rounds, 1, options.many, ())
    baselines = {each.name: each.baseline for each in found}
    return conclude(options, plan, described, rounds, baselines, [])


if __name__ == "__main__":
    sys.exit(main())
