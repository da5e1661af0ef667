"""Interleaved rounds: each round starts all variants and takes slices in turn.

On a shared machine the speed varies by far more than the differences to measure. So all
variants of a leg are open together, each in its own interpreter, and make calls in
turn; a ratio is computed from adjacent slices. Fresh interpreters in each round average
over properties that are fixed per process (heap addresses, hash seed).

One call at a time is measured with client and child pinned to one core, if the system
supports it: they never run at the same time, and a shared core avoids migrations, which
cause outliers. Calls in flight are measured unpinned, and so are blocking variants,
whose work includes the wake-up.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from harness.programs import (
    ServedProgram,
    add_percentiles,
    add_slices,
    measure_programs,
)
from harness.servers import process_tree
from mcpwire import MCPError
from mcpwire.bench import ClientCode, measure_code
from mcpwire.bench.client_code import CHILD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FOLDER = Path(__file__).resolve().parent.parent

SLICE_S: Final = 0.05
"""The length of a slice of a client, enough for 50 calls of a slow one."""

WARM_UP_S: Final = 0.02
"""The length of the warm-up of each slice."""

Slices = dict[str, dict[str, list[float]]]
"""The values of each slice, by variant, then by figure."""

Round = dict[str, dict[str, dict[str, float]]]
"""`value` and `ratio` of one round, by variant, then by figure."""


@dataclass(frozen=True)
class Variant:
    """One implementation of the measured call."""

    name: str
    target: str
    """``module:function``, importable from the folder of the benchmarks."""
    argument: str
    baseline: str
    """The name of the variant to divide by; its own for a baseline."""
    interpreter: tuple[str, ...] = (sys.executable,)
    """The interpreter of the client's environment."""
    program: str = CHILD
    """The program that it runs: a program with the protocol of the default one."""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Additional environment variables of the command."""
    leg: str = ""
    """Variants of the same leg are open together; a baseline has the same leg."""
    widths: tuple[int, ...] | None = None
    """The numbers of calls in flight to measure; ``None`` for all of the plan's."""
    max_users: int | None = None
    """The most calls that are in flight, even if the plan has more."""

    def measures_width(self, width: int | None) -> bool:
        """Return whether the variant is measured with `width` calls in flight."""
        return width is None or self.widths is None or width in self.widths

    def code(self, prefix: Sequence[str] = ()) -> ClientCode:
        """Return the code to measure; `prefix` comes before the command."""
        return ClientCode(
            self.target,
            self.argument,
            interpreter=(*prefix, *self.interpreter),
            program=self.program,
            env={"PYTHONDONTWRITEBYTECODE": "1", **self.environment},
            folder=FOLDER,
            max_users=self.max_users or max(self.widths or (), default=None),
        )


@dataclass(frozen=True)
class Plan:
    """The amount of measurement."""

    rounds: int
    slices: int
    """Slices of each variant in one round."""
    calls: int
    """Calls in one slice; 0 if a slice is a time."""
    widths: tuple[int, ...]
    pinned: bool = True
    """Whether one call at a time is measured separately, on one core."""
    slice: str = ""
    """The time of a slice in words."""


def usable_cores() -> set[int]:
    """Return the cores of this process; empty if the system cannot pin."""
    return getattr(os, "sched_getaffinity", lambda _: set[int]())(0)


def pin_processes(pid: int, cores: set[int]) -> None:
    """Pin a process, its descendants and all their threads to cores."""
    for descendant in process_tree(pid):
        for thread in Path(f"/proc/{descendant}/task").iterdir():
            with suppress(ProcessLookupError):  # the thread has just ended
                os.sched_setaffinity(int(thread.name), cores)


def measure_leg(variants: Sequence[Variant], plan: Plan, slices: Slices) -> None:
    """Open the variants of a leg and take all slices of this round."""
    cores = usable_cores()

    def place(position: int, pids: Mapping[str, int]) -> None:
        """Pin one call at a time to one core, and leave more in flight unpinned."""
        if plan.pinned and cores:
            for pid in pids.values():
                pin_processes(pid, cores if position else {min(cores)})

    measurement = measure_code(
        {variant.name: variant.code() for variant in variants},
        users=(1, *plan.widths),
        seconds=SLICE_S * plan.slices,
        rounds=1,
        warm_up=WARM_UP_S,
        slice_seconds=SLICE_S,
        on_users=place,
    )
    try:
        results = asyncio.run(measurement)
    except MCPError as error:
        sys.exit(str(error))
    for width, result in zip((None, *plan.widths), results, strict=True):
        for variant, subject in zip(variants, result.subjects, strict=True):
            if variant.measures_width(width):
                add_slices(variant.name, subject, width, slices)
                # Unpinned, a latency depends on the core that the kernel chooses.
                if width is not None and not plan.pinned:
                    add_percentiles(variant.name, subject, f"@{width}", slices)


def summarize_round(
    variants: Sequence[Variant | ServedProgram], slices: Slices
) -> Round:
    """Return the medians over a round: of each figure, and of its slices' ratios."""
    return {
        variant.name: {
            name: {
                "value": median(values),
                "ratio": median(
                    a / b
                    for a, b in zip(values, slices[variant.baseline][name], strict=True)
                ),
            }
            for name, values in slices[variant.name].items()
        }
        for variant in variants
    }


def group_by_leg(
    variants: Sequence[Variant | ServedProgram],
) -> list[list[Variant | ServedProgram]]:
    """Group variants by leg."""
    legs: dict[str, list[Variant | ServedProgram]] = {}
    for variant in variants:
        legs.setdefault(variant.leg, []).append(variant)
    return list(legs.values())


def run_rounds(
    variants: Sequence[Variant | ServedProgram],
    plan: Plan,
    report_progress: Callable[[str], None],
) -> list[Round]:
    """Run all rounds; a leg has either variants or programs."""
    rounds: list[Round] = []
    for number in range(plan.rounds):
        report_progress(f"round {number + 1} of {plan.rounds}")
        slices: Slices = {variant.name: {} for variant in variants}
        for leg in group_by_leg(variants):
            if programs := [
                program for program in leg if isinstance(program, ServedProgram)
            ]:
                measure_programs(programs, plan, slices)
            else:
                clients = [variant for variant in leg if isinstance(variant, Variant)]
                measure_leg(clients, plan, slices)
        rounds.append(summarize_round(variants, slices))
    return rounds
