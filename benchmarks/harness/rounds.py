"""Interleaved rounds: each round starts all variants and takes slices in turn.

On a shared machine the speed varies by far more than the differences to measure. So all
variants of a leg are open together, each in its own interpreter, and make a few hundred
calls in turn; a ratio is computed from adjacent slices. Fresh interpreters in each
round average over properties that are fixed per process (heap addresses, hash seed).

One call at a time is measured with client and child pinned to one core, if the system
supports it: they never run at the same time, and a shared core avoids migrations, which
cause outliers. Calls in flight are measured unpinned, and so are blocking variants,
whose work includes the wake-up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from harness.programs import ServedProgram, measure_programs
from harness.servers import process_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

FOLDER = Path(__file__).resolve().parent.parent
CLOSE_TIMEOUT_S = 30
CALLS_PER_WIDTH = 4
CHILD = (sys.executable, "-m", "harness.child")

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
    divisor: int = 1
    """The divisor of the number of calls in a slice, for slow variants."""
    interpreter: tuple[str, ...] = ()
    """The measuring command instead of `CHILD`: the interpreter of another environment,
    or a program with the same line protocol (see `child`)."""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Additional environment variables of the command."""
    leg: str = ""
    """Variants of the same leg are open together; a baseline has the same leg."""
    widths: tuple[int, ...] | None = None
    """The numbers of calls in flight to measure; ``None`` for all of the plan's."""

    def measures_width(self, width: int | None) -> bool:
        """Return whether the variant is measured with `width` calls in flight."""
        return width is None or self.widths is None or width in self.widths

    def calls(self, plan: Plan, width: int | None) -> int:
        """Return the number of calls in a slice, at least one for each in flight.

        Fast variants make `CALLS_PER_WIDTH` calls for each, because the common start
        has a cost, too.
        """
        calls = max(plan.calls, CALLS_PER_WIDTH * (width or 0))
        return max(width or 1, calls // self.divisor)


@dataclass(frozen=True)
class Plan:
    """The amount of measurement."""

    rounds: int
    slices: int
    """Slices of each variant in one round."""
    calls: int
    """Calls in one slice; those of programs last half a second instead."""
    widths: tuple[int, ...]
    pinned: bool = True
    """Whether one call at a time is measured separately, on one core."""


def usable_cores() -> set[int]:
    """Return the cores of this process; empty if the system cannot pin."""
    return getattr(os, "sched_getaffinity", lambda _: set[int]())(0)


def pin_processes(pid: int, cores: set[int]) -> None:
    """Pin a process, its descendants and all their threads to cores."""
    for descendant in process_tree(pid):
        for thread in Path(f"/proc/{descendant}/task").iterdir():
            with suppress(ProcessLookupError):  # the thread has just ended
                os.sched_setaffinity(int(thread.name), cores)


class Child:
    """An open variant in its own interpreter."""

    def __init__(self, variant: Variant, process: subprocess.Popen[str]) -> None:
        self.variant = variant
        self.process = process

    def read(self) -> dict[str, float]:
        """Return the answer to the oldest request."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.variant.name}: the measuring process failed (see above)")
        figures: dict[str, float] = json.loads(line)
        return figures

    def request(self, **fields: Any) -> dict[str, float]:
        """Send a request and return its figures."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(fields) + "\n")
        self.process.stdin.flush()
        return self.read()


@contextmanager
def start_variant(variant: Variant, prefix: Sequence[str] = ()) -> Iterator[Child]:
    """Yield a started variant; its first line of output means that it is connected."""
    command = [*prefix, *(variant.interpreter or CHILD)]
    no_bytecode = {"PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [*command, variant.target, variant.argument],
        cwd=FOLDER,
        env={**os.environ, **no_bytecode, **variant.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Child(variant, process)
        process.communicate(timeout=CLOSE_TIMEOUT_S)
    finally:
        process.kill()
        process.communicate()
    if process.returncode:
        sys.exit(f"{variant.name}: the measuring process failed at its end (see above)")


@contextmanager
def open_variant(variant: Variant, prefix: Sequence[str]) -> Iterator[Child]:
    """Yield a variant that is connected."""
    with start_variant(variant, prefix) as child:
        child.read()
        yield child


def open_all(variants: Sequence[Variant], plan: Plan, stack: ExitStack) -> list[Child]:
    """Open the variants of a leg: concurrently, or one by one if the plan is unpinned.

    Unpinned variants bind a port that was found free; two must not find the same.
    """
    if not plan.pinned:
        return [stack.enter_context(open_variant(variant, ())) for variant in variants]
    children = [stack.enter_context(start_variant(variant)) for variant in variants]
    for child in children:
        child.read()
    return children


def measure_slices(
    children: list[Child],
    plan: Plan,
    *,
    widths: Sequence[int | None],
    slices: Slices,
) -> None:
    """Add the slices of all open children; the width ``None`` is one call at a time."""
    for _ in range(plan.slices):
        # Rotate the order of the children.
        children.append(children.pop(0))
        for width in widths:
            for child in children:
                variant = child.variant
                if variant.measures_width(width):
                    figures = child.request(
                        calls=variant.calls(plan, width), width=width
                    )
                    add_figures(slices[variant.name], figures)
    if None in widths:
        for child in children:
            add_figures(slices[child.variant.name], child.request())


def measure_leg(variants: Sequence[Variant], plan: Plan, slices: Slices) -> None:
    """Open the variants of a leg and take all slices of this round."""
    cores = usable_cores()
    with ExitStack() as stack:
        children = open_all(variants, plan, stack)
        if not plan.pinned:
            measure_slices(children, plan, widths=(None, *plan.widths), slices=slices)
            return
        for widths, allowed_cores in (
            ((None,), set(sorted(cores)[:1])),
            (plan.widths, cores),
        ):
            if widths:
                for child in children if allowed_cores else ():
                    pin_processes(child.process.pid, allowed_cores)
                measure_slices(children, plan, widths=widths, slices=slices)


def add_figures(values: dict[str, list[float]], figures: dict[str, float]) -> None:
    """Append the figures of one slice."""
    for name, value in figures.items():
        values.setdefault(name, []).append(value)


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
