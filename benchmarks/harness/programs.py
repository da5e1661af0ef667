"""Servers and gateways: programs that `mcpwire.bench` puts under load in turns.

Each round starts all programs of a leg anew and measures them in slices of half a
second, one after the other: one call at a time, and then with more in flight.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leg import ANSWER, ARGUMENTS, NAME

from harness.servers import on_the_loads_core
from mcpwire import Client, MCPError
from mcpwire.bench import Call, Load, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from harness.rounds import Plan, Slices
    from mcpwire import Http, Stdio
    from mcpwire.bench import Result

SLICE_S: Final = 0.5
WARM_UP_S: Final = 0.5
"""V8 has compiled by then what runs often."""

ALONE: Final = {"cpu_us": "cpu", "p50_us": "p50", "p99_us": "p99", "p999_us": "p99.9"}
IN_FLIGHT: Final = {"calls_per_s": "rate", "cpu_us": "cpu"}
"""The figures of `mcpwire.bench` by what they are called here."""

ANSWERS: Final = (ARGUMENTS["text"], ANSWER)
"""What a server answers with, and a null server behind a gateway."""


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
    (revision,) = {each.revision for each in programs}
    with ExitStack() as stack:
        stack.enter_context(exit_on_sigterm())
        stack.enter_context(on_the_loads_core())
        targets = {}
        for each in programs:
            try:
                target = stack.enter_context(each.opened())
                asyncio.run(check_answer(target, revision))
            except (MCPError, OSError) as error:
                sys.exit(f"{each.name}: {error}")
            targets[each.name] = target
        for width in (None, *plan.widths):
            result = asyncio.run(under_load(targets, plan, revision, width))
            for note in result.notes:
                print(note.replace("target", programs[0].name, 1), file=sys.stderr)
            take(result, list(targets), width, slices)


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Have SIGTERM end the servers that were started, and then this process."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


async def check_answer(target: Stdio | Http, revision: str) -> None:
    """Fail before anything is measured when a call does not do its work."""
    async with Client(target, mode=revision) as client:
        result = await client.call_tool(NAME, ARGUMENTS)
    if result.text not in ANSWERS:
        raise MCPError(f"a call was answered with {result.text!r}")


async def under_load(
    targets: Mapping[str, Stdio | Http], plan: Plan, revision: str, width: int | None
) -> Result:
    """Measure all targets in turns, with so many calls in flight, or one at a time."""
    load = Load(
        calls=(Call.tool(NAME, ARGUMENTS),),
        users=width or 1,
        seconds=SLICE_S * plan.slices,
        rounds=1,
        warm_up=WARM_UP_S,
        mode=revision,
    )
    first, *others = targets
    return await run(
        targets[first],
        load,
        against={name: targets[name] for name in others},
        with_floor=False,
        with_details=False,
    )


def take(
    result: Result, names: Sequence[str], width: int | None, slices: Slices
) -> None:
    """Add the figures of each slice; programs have the order of the result."""
    figures = ALONE if width is None else IN_FLIGHT
    place = "" if width is None else f"@{width}"
    for name, subject in zip(names, result.targets, strict=True):
        if subject.errors:
            sys.exit(f"{name}: calls failed: {subject.errors}")
        for ours, theirs in figures.items():
            values = subject.figures_of_slices(theirs)
            if len(values) != len(subject.slices):
                sys.exit(f"{name}: {theirs} is not known in each slice")
            slices[name].setdefault(ours + place, []).extend(values)
