"""Servers and gateways: programs that `mcpwire.bench` puts under load in turns.

Each round starts all programs of a leg anew and measures them in slices of half a
second, side by side: one call at a time, and then with more in flight.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leg import ARGUMENTS, NAME

from harness.servers import on_the_loads_core
from mcpwire.bench import Call, Load, run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from harness.rounds import Plan, Slices
    from mcpwire import Http, Stdio
    from mcpwire.bench import Result

SLICE_S: Final = 0.5
WARM_UP_S: Final = 0.5
"""V8 has compiled by then what runs often."""

ALONE: Final = {"cpu_us": "cpu", "p50_us": "p50", "p99_us": "p99"}
IN_FLIGHT: Final = {"calls_per_s": "rate", "cpu_us": "cpu"}
"""The figures of `mcpwire.bench` by what they are called here."""


@dataclass(frozen=True)
class Served:
    """A program that is called from outside, which costs it CPU time of its own."""

    name: str
    baseline: str
    """The name of the program that it is divided by; its own for a baseline."""
    leg: str
    """Only programs of the same leg are measured in turns."""
    revision: str
    opened: Callable[[], AbstractContextManager[Stdio | Http]]
    """Runs what has to run already, and gives where it is called."""


def measure_programs(programs: Sequence[Served], plan: Plan, slices: Slices) -> None:
    """Start the programs of a leg and add the slices of this round."""
    with ExitStack() as stack:
        stack.enter_context(on_the_loads_core())
        targets = {each.name: stack.enter_context(each.opened()) for each in programs}
        for width in (1, *plan.widths):
            result = asyncio.run(under_load(targets, plan, programs[0], width))
            names = IN_FLIGHT if width > 1 else ALONE
            place = f"@{width}" if width > 1 else ""
            for name, subject in zip(targets, result.targets, strict=True):
                if subject.errors:
                    raise SystemExit(f"{name}: calls failed: {subject.errors}")
                for ours, theirs in names.items():
                    values = subject.figures_of_slices(theirs)
                    slices[name].setdefault(ours + place, []).extend(values)


async def under_load(
    targets: Mapping[str, Stdio | Http], plan: Plan, one: Served, width: int
) -> Result:
    """Measure all targets in turns, with so many calls in flight."""
    load = Load(
        calls=(Call.tool(NAME, ARGUMENTS),),
        users=width,
        seconds=SLICE_S * plan.slices,
        rounds=1,
        warm_up=WARM_UP_S,
        mode=one.revision,
    )
    first, *others = targets
    return await run(
        targets[first],
        load,
        against={name: targets[name] for name in others},
        with_floor=False,
        with_details=False,
    )
