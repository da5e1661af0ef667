"""Interleaved rounds: each round starts every variant anew and takes slices in turn.

The machine's speed wanders while others use it, by far more than what is to be seen.
So all variants of a leg are open at once, each in an interpreter of its own, and do
a few hundred calls in turn; a ratio is taken between slices that lie side by side.
Fresh interpreters each round average over what a process is stuck with (its heap's
place, its hash seed).

One call at a time is measured with client and child pinned to one core, where the
system can do that: they never run at the same moment, and a shared core spares the
migrations that make such figures jump. Calls in flight are measured unpinned, and so is
what blocks: the wake-up is a part of its work.
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

from harness.programs import Served, measure_programs
from harness.servers import family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

FOLDER = Path(__file__).resolve().parent.parent
CLOSE_TIMEOUT_S = 30
IN_TURN = 4
CHILD = (sys.executable, "-m", "harness.child")

Slices = dict[str, dict[str, list[float]]]
"""The values of each slice, by figure, by variant."""

Round = dict[str, dict[str, dict[str, float]]]
"""`value` and `ratio` of one round, by figure, by variant."""


@dataclass(frozen=True)
class Variant:
    """One way to do the same work."""

    name: str
    target: str
    """``module:function``, importable from the folder of the benchmarks."""
    argument: str
    baseline: str
    """The name of the variant that it is divided by; its own for a baseline."""
    portion: int = 1
    """By what the calls of a slice are divided, for what takes very long."""
    interpreter: tuple[str, ...] = ()
    """The command that measures it instead of `CHILD`: that of another environment, or
    a program that answers the same lines (`child` tells which)."""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What that command finds in its environment beside our own."""
    leg: str = ""
    """Only variants of the same leg are open at once; baselines belong to theirs."""
    widths: tuple[int, ...] | None = None
    """Which of the plan's it is measured with; all where nothing is said."""

    def takes(self, width: int | None) -> bool:
        """Tell whether it is measured with so many calls in flight."""
        return width is None or self.widths is None or width in self.widths

    def calls(self, plan: Plan, width: int | None) -> int:
        """Return how many calls a slice of it has: at least one for each in flight.

        Of more in turn where they are quick: that they begin together has a cost, too.
        """
        wanted = max(plan.calls, IN_TURN * (width or 0))
        return max(width or 1, wanted // self.portion)


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rounds: int
    slices: int
    """Slices of each variant in one round."""
    calls: int
    """Calls in one slice; those of programs last half a second instead."""
    widths: tuple[int, ...]
    pinned: bool = True
    """Whether one call at a time is measured apart, on one core."""


def usable_cores() -> set[int]:
    """Return where this process may run; nothing where that cannot be chosen."""
    return getattr(os, "sched_getaffinity", lambda _: set[int]())(0)


def move(pid: int, cores: set[int]) -> None:
    """Have a process, what it has started, and all their threads run there."""
    for each in family(pid):
        for thread in Path(f"/proc/{each}/task").iterdir():
            with suppress(ProcessLookupError):  # it has just ended
                os.sched_setaffinity(int(thread.name), cores)


class Child:
    """A variant held open in an interpreter of its own."""

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

    def ask(self, **request: Any) -> dict[str, float]:
        """Have one slice measured and return its figures."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.read()


@contextmanager
def started(variant: Variant, prefix: Sequence[str] = ()) -> Iterator[Child]:
    """Start a variant; the first line that it says tells that it is connected."""
    command = [*prefix, *(variant.interpreter or CHILD)]
    ours = {"PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [*command, variant.target, variant.argument],
        cwd=FOLDER,
        env={**os.environ, **ours, **variant.environment},
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
def opened(variant: Variant, prefix: Sequence[str]) -> Iterator[Child]:
    """Start a variant and wait until it is connected."""
    with started(variant, prefix) as child:
        child.read()
        yield child


def open_all(variants: Sequence[Variant], plan: Plan, stack: ExitStack) -> list[Child]:
    """Open the variants of a leg, all at once unless they choose their own places.

    Such a place may be a port that was free a moment ago.
    """
    if not plan.pinned:
        return [stack.enter_context(opened(each, ())) for each in variants]
    children = [stack.enter_context(started(each)) for each in variants]
    for child in children:
        child.read()
    return children


def take_slices(
    children: list[Child],
    plan: Plan,
    *,
    widths: Sequence[int | None],
    slices: Slices,
) -> None:
    """Add the slices of all open children; no width is one call at a time."""
    for _ in range(plan.slices):
        # The child that went first goes last the next time.
        children.append(children.pop(0))
        for width in widths:
            for child in children:
                variant = child.variant
                if variant.takes(width):
                    figures = child.ask(calls=variant.calls(plan, width), width=width)
                    add(slices[variant.name], figures)
    if None in widths:
        for child in children:
            add(slices[child.variant.name], child.ask())


def measure_leg(variants: Sequence[Variant], plan: Plan, slices: Slices) -> None:
    """Open the variants of a leg and take all slices of this round."""
    cores = usable_cores()
    with ExitStack() as stack:
        children = open_all(variants, plan, stack)
        if not plan.pinned:
            take_slices(children, plan, widths=(None, *plan.widths), slices=slices)
            return
        for widths, where in (((None,), set(sorted(cores)[:1])), (plan.widths, cores)):
            if widths:
                for child in children if where else ():
                    move(child.process.pid, where)
                take_slices(children, plan, widths=widths, slices=slices)


def add(values: dict[str, list[float]], figures: dict[str, float]) -> None:
    """Append the figures of one slice."""
    for name, value in figures.items():
        values.setdefault(name, []).append(value)


def reckon(variants: Sequence[Variant | Served], slices: Slices) -> Round:
    """Return each figure's median over a round, and that of the slices' ratios."""
    return {
        variant.name: {
            name: {
                "value": median(mine),
                "ratio": median(
                    a / b
                    for a, b in zip(mine, slices[variant.baseline][name], strict=True)
                ),
            }
            for name, mine in slices[variant.name].items()
        }
        for variant in variants
    }


def legs(variants: Sequence[Variant | Served]) -> list[list[Variant | Served]]:
    """Return the variants of each leg."""
    found: dict[str, list[Variant | Served]] = {}
    for variant in variants:
        found.setdefault(variant.leg, []).append(variant)
    return list(found.values())


def run_rounds(
    variants: Sequence[Variant | Served], plan: Plan, tell: Callable[[str], None]
) -> list[Round]:
    """Run all rounds; a leg is all of variants or all of programs."""
    rounds: list[Round] = []
    for number in range(plan.rounds):
        tell(f"round {number + 1} of {plan.rounds}")
        slices: Slices = {variant.name: {} for variant in variants}
        for leg in legs(variants):
            if served := [each for each in leg if isinstance(each, Served)]:
                measure_programs(served, plan, slices)
            else:
                own = [each for each in leg if isinstance(each, Variant)]
                measure_leg(own, plan, slices)
        rounds.append(reckon(variants, slices))
    return rounds
