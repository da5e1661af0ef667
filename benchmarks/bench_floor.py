"""Benchmark of the floor of `mcpwire.bench` against the same loop in C.

The same bytes over two pipes, one call at a time, by the loop of `mcpwire.bench.floor`
and by the same loop in C. Both sides share a core, as in `mcpwire bench floor`, or have
a core each: most of the time of a call is then the wake-up of the other side.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from harness import machine
from harness.blocking import place_server, settle
from harness.command import conclude, parser, tell
from harness.figures import Budget
from harness.rounds import Plan, Variant, opened
from null import build

from mcpwire.bench.floor import floor_loop

if TYPE_CHECKING:
    from harness.rounds import Round

    Values = dict[str, float]

PLACES = {"one core": "together", "two cores": "apart"}
MOST_ABOVE_C_US = 15.0
MOST_TIMES_C = 1.1
ABOVE = "p50_above_C_us"
BUDGETS = [
    budget
    for place in PLACES
    for budget in (
        Budget(f"Python, {place}", ABOVE, MOST_ABOVE_C_US, is_value=True),
        Budget(f"Python, {place}", "p50_us", MOST_TIMES_C),
    )
]


def measured(place: str, program: str, plan: Plan) -> tuple[Values, Values]:
    """Return the figures of both loops, measured in alternating slices."""
    variant = Variant(f"C, {place}", "-", "-", "", interpreter=(program,))
    with ExitStack() as stack:
        with place_server(PLACES[place]):
            loop = stack.enter_context(floor_loop("pipe"))
            child = stack.enter_context(opened(variant, ()))
        settle(child.process.pid, PLACES[place], 0)
        cpu_us = []
        for _ in range(plan.slices):
            loop.measure(plan.calls)
            cpu_us.append(child.ask(calls=plan.calls)["cpu_us"])
        in_c, found = child.ask(), loop.floor()
    return (
        {"cpu_us": found.client_cpu_us, "p50_us": found.p50_us, "p99_us": found.p99_us},
        {**in_c, "cpu_us": sum(cpu_us) / len(cpu_us)},
    )


def one_round(program: str, plan: Plan) -> Round:
    """Return the figures of both placements, and their ratios to C."""
    found: Round = {}
    for place in PLACES:
        ours, in_c = measured(place, program, plan)
        for name, values in (("Python", ours), ("C", in_c)):
            figures = {
                figure: {"value": value, "ratio": value / in_c[figure]}
                for figure, value in values.items()
            }
            above = values["p50_us"] - in_c["p50_us"]
            figures[ABOVE] = {"value": above, "ratio": figures["p50_us"]["ratio"]}
            found[f"{name}, {place}"] = figures
    return found


def main(arguments: list[str] | None = None) -> int:
    if not hasattr(os, "sched_setaffinity"):
        print("bench_floor.py: the system does not let a program choose its core")
        return 0
    options = parser("floor").parse_args(arguments)
    with build.compiling("floor") as notes:
        program = str(build.build("pipe_loop"))
    plan = Plan(options.rounds, options.slices, options.calls, ())
    rounds = []
    for number in range(plan.rounds):
        tell(f"round {number + 1} of {plan.rounds}")
        rounds.append(one_round(program, plan))
    baselines = {name: f"C, {name.partition(', ')[2]}" for name in rounds[0]}
    described = machine.describe() | notes | {"placed": "on one core, and on two"}
    return conclude(options, plan, described, rounds, baselines, BUDGETS)


if __name__ == "__main__":
    sys.exit(main())
