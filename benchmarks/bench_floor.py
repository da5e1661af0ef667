"""Benchmark of the floors of `mcpwire.bench` against the same programs in C.

The same bytes over two pipes, one call at a time, by the loop of `mcpwire.bench.floor`
and by the same loop in C. Both sides share a core, as in `mcpwire bench floor`, or have
a core each: most of the time of a call is then the wake-up of the other side. And
`mcpwire bench` with its null server, the floor of its runs, and with one in C.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from harness import machine
from harness.command import create_parser, print_progress, save_and_print
from harness.figures import Budget
from harness.placement import pin_process, start_on_server_core
from harness.programs import PERCENTILES, SINGLE_FIGURES, measure_in_turns
from harness.rounds import Plan
from harness.servers import on_load_core
from null import build

from mcpwire import Stdio
from mcpwire.bench import ClientCode, CodeProcess, Load
from mcpwire.bench.floor import floor_loop
from mcpwire.bench.null import percentile
from mcpwire.bench.null_process import null_command

if TYPE_CHECKING:
    from harness.rounds import Round

    Values = dict[str, float]

PLACEMENTS = {"one core": "together", "two cores": "apart"}
IN_A_RUN = "in a run"
RUN_S = 2.0
"""Measured time of each server in a round."""
MAX_ABOVE_C_US = 15.0
MAX_RATIO_TO_C = 1.1
ABOVE = "p50_above_C_us"
BUDGETS = [
    budget
    for place in (*PLACEMENTS, IN_A_RUN)
    for budget in (
        Budget(f"Python, {place}", ABOVE, MAX_ABOVE_C_US, is_value=True),
        Budget(f"Python, {place}", "p50_us", MAX_RATIO_TO_C),
    )
]


async def measure_placement(
    place: str, program: str, plan: Plan
) -> tuple[Values, Values]:
    """Return the figures of both loops, measured in alternating slices."""
    in_c = ClientCode("pipe_loop", "-", interpreter=(), program=program)
    latencies: list[int] = []
    cpu_ns = 0
    async with AsyncExitStack() as stack:
        with start_on_server_core(PLACEMENTS[place]):
            loop = stack.enter_context(floor_loop("pipe"))
            child = await stack.enter_async_context(CodeProcess(in_c))
        pin_process(child.pid, PLACEMENTS[place], 0)
        for _ in range(plan.slices):
            loop.measure(plan.calls)
            answer = await child.request(users=1, calls=plan.calls)
            cpu_ns += answer["cpu"]
            latencies += answer["latencies"]
        floor = loop.floor()
    latencies.sort()
    shares = {"p50_us": 0.5, "p99_us": 0.99}
    return (
        {"cpu_us": floor.client_cpu_us, "p50_us": floor.p50_us, "p99_us": floor.p99_us},
        {
            "cpu_us": cpu_ns / len(latencies) / 1e3,
            **{
                name: (percentile(latencies, share) or 0) / 1e3
                for name, share in shares.items()
            },
        },
    )


def measure_run(server: str) -> tuple[Values, Values]:
    """Return the figures of `mcpwire bench` for its null server and for one in C."""
    load = Load(seconds=RUN_S, rounds=1, mode="2025-11-25")
    commands = {"Python": null_command("--stdio"), "C": [server]}
    with on_load_core():
        subjects = measure_in_turns(
            {
                name: (Stdio(command[0], command[1:]), load)
                for name, command in commands.items()
            }
        )
    names = SINGLE_FIGURES | PERCENTILES
    in_python, in_c = (
        {name: subject.figures()[figure] for name, figure in names.items()}
        for subject in subjects.values()
    )
    return in_python, in_c


def measure_round(program: str, server: str, plan: Plan) -> Round:
    """Return the figures of all comparisons, and their ratios to C."""
    measured = {
        place: asyncio.run(measure_placement(place, program, plan))
        for place in PLACEMENTS
    }
    measured[IN_A_RUN] = measure_run(server)
    round_figures: Round = {}
    for place, (in_python, in_c) in measured.items():
        for name, values in (("Python", in_python), ("C", in_c)):
            figures = {
                figure: {"value": value, "ratio": value / in_c[figure]}
                for figure, value in values.items()
            }
            above = values["p50_us"] - in_c["p50_us"]
            figures[ABOVE] = {"value": above, "ratio": figures["p50_us"]["ratio"]}
            round_figures[f"{name}, {place}"] = figures
    return round_figures


def main(arguments: list[str] | None = None) -> int:
    if not hasattr(os, "sched_setaffinity"):
        print("bench_floor.py: the system does not let a program choose its core")
        return 0
    options = create_parser("floor").parse_args(arguments)
    with build.exit_on_compile_error("floor") as notes:
        program = str(build.build("pipe_loop"))
        server = str(build.build("stdio_null"))
    plan = Plan(options.rounds, options.slices, options.calls, ())
    rounds = []
    for number in range(plan.rounds):
        print_progress(f"round {number + 1} of {plan.rounds}")
        rounds.append(measure_round(program, server, plan))
    baselines = {name: f"C, {name.partition(', ')[2]}" for name in rounds[0]}
    machine_facts = machine.describe() | notes | {"placed": "on one core, and on two"}
    return save_and_print(options, plan, machine_facts, rounds, baselines, BUDGETS)


if __name__ == "__main__":
    sys.exit(main())
