"""Benchmark of 1,000 servers in a group and of 1,000 sessions at a gateway.

Memory, open files, opening time and CPU time per call, with calls to all in turn: of
`Group` with a child for each server beside a hand-written loop, and of a gateway over
HTTP, with a child for each session or one for all, beside a server with as many
sessions. Memory is that of the measured process alone, without its children.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING

from harness import machine
from harness.command import (
    create_parser,
    positive_int,
    print_progress,
    save_and_print,
    select_variants,
)
from harness.rounds import Plan, Variant
from null import build

from mcpwire.bench import CodeProcess

if TYPE_CHECKING:
    from harness.rounds import Round

MANY = 1_000
FLOOR, SERVER = "floor, children", "server, sessions"
MS = US = 1e3


def variants() -> list[Variant]:
    null = str(build.build("stdio_null"))
    return [
        Variant(FLOOR, "growth.sessions:stdio_floor", null, FLOOR),
        Variant("Group, children", "growth.scale:group", null, FLOOR),
        Variant(SERVER, "growth.sessions:http_server", "mcpwire", SERVER),
        Variant("gateway, one child", "growth.scale:gateway", "identity", SERVER),
        Variant("gateway, a child each", "growth.scale:gateway", "session", SERVER),
    ]


async def process_resources(child: CodeProcess) -> dict[str, float]:
    """Return the memory and the open files of a variant's process."""
    memory = await child.request(method="memory", argument=0)
    return memory | await child.request(method="files", argument=0)


async def measure_variant(variant: Variant, count: int) -> dict[str, float]:
    """Return the cost of each server or session after the first."""
    added = count - 1
    async with CodeProcess(variant.code()) as child:
        before = await process_resources(child)
        start = time.perf_counter()
        await child.request(method="grow", argument=count, timeout=None)
        seconds = time.perf_counter() - start
        await child.request(method="take_turns", argument=count)
        calls = await child.request(users=1, calls=count, timeout=None)
        after = await process_resources(child)
    return {
        "each_kib": (after["rss_kib"] - before["rss_kib"]) / added,
        "files_each": (after["files"] - before["files"]) / added,
        "opening_ms": seconds / added * MS,
        "cpu_us": calls["cpu"] / count / US,
    }


def measure_round(variants: list[Variant], many: int) -> Round:
    """Return the figures of one round, with ratios to the baselines."""
    figures = {
        variant.name: asyncio.run(measure_variant(variant, many))
        for variant in variants
    }
    return {
        variant.name: {
            name: {
                "value": value,
                "ratio": value / (figures[variant.baseline][name] or 1),
            }
            for name, value in figures[variant.name].items()
        }
        for variant in variants
    }


def main() -> int:
    if not hasattr(os, "sched_setaffinity"):
        print("bench_many.py: memory is read as Linux gives it; left out")
        return 0
    parser = create_parser("many", slices=None, counts_calls=False)
    parser.set_defaults(rounds=3)
    text = f"servers, or sessions ({MANY})"
    parser.add_argument("--many", type=positive_int, default=MANY, help=text)
    options = parser.parse_args()
    with build.exit_on_compile_error("many") as notes:
        selected = select_variants(variants(), options.only)
    if not selected:
        sys.exit(f"no variant is named like {options.only!r}")
    machine_facts = machine.describe() | notes
    machine_facts["placed"] = f"{options.many:,} of each"
    rounds = []
    for number in range(options.rounds):
        print_progress(f"round {number + 1} of {options.rounds}")
        rounds.append(measure_round(selected, options.many))
    plan = Plan(options.rounds, 1, options.many, ())
    baselines = {variant.name: variant.baseline for variant in selected}
    return save_and_print(options, plan, machine_facts, rounds, baselines, [])


if __name__ == "__main__":
    sys.exit(main())
