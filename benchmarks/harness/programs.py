"""Measurement of servers and gateways under the load of `mcpwire.bench`.

Each round starts all programs of a leg and measures them in alternating slices of half
a second: first one call at a time, then with more in flight.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leg import ANSWER, ARGUMENTS, NAME

from harness.servers import on_load_core
from mcpwire import Client, MCPError
from mcpwire.bench import Call, Load, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from harness.rounds import Plan, Slices
    from mcpwire import Http, Stdio
    from mcpwire.bench.results import Subject

    Check = Callable[[Client], Awaitable[None]]
    """Raises `MCPError` if a server returns an unexpected result."""

SLICE_S: Final = 0.5
WARM_UP_S: Final = 0.5
"""Long enough for V8 to compile the hot code."""

PERCENTILES: Final = {"p50_us": "p50", "p99_us": "p99", "p999_us": "p99.9"}
SINGLE_FIGURES: Final = {"cpu_us": "cpu"}
IN_FLIGHT_FIGURES: Final = {"calls_per_s": "rate", "cpu_us": "cpu"}
"""The figures of `mcpwire.bench` by their names here."""

EXPECTED_TEXTS: Final = (ARGUMENTS["text"], ANSWER)
"""The results of a server, and of a null server behind a gateway."""


@dataclass(frozen=True)
class ServedProgram:
    """A server or gateway program that is measured from outside its process."""

    name: str
    baseline: str
    """The name of the program to divide by; its own for a baseline."""
    leg: str
    """Programs of the same leg are measured in alternating slices."""
    revision: str
    open_target: Callable[[], AbstractContextManager[Stdio | Http]]
    """Starts the program and servers that it needs, and yields the target to call."""


async def check_answer(client: Client) -> None:
    """Call the tool once and check its result."""
    result = await client.call_tool(NAME, ARGUMENTS)
    if result.text not in EXPECTED_TEXTS:
        raise MCPError(f"a call was answered with {result.text!r}")


def measure_programs(
    programs: Sequence[ServedProgram], plan: Plan, slices: Slices
) -> None:
    """Start the programs of a leg and add the slices of this round."""
    (revision,) = {program.revision for program in programs}
    with open_programs(programs) as targets:
        for width in (None, *plan.widths):
            load = Load(
                calls=(Call.tool(NAME, ARGUMENTS),),
                users=width or 1,
                seconds=SLICE_S * plan.slices,
                rounds=1,
                warm_up=WARM_UP_S,
                mode=revision,
            )
            subjects = measure_in_turns(
                {name: (targets[name], load) for name in targets}
            )
            for name, subject in subjects.items():
                add_slices(name, subject, width, slices)


@contextmanager
def open_programs(
    programs: Sequence[ServedProgram], check: Check = check_answer
) -> Iterator[dict[str, Stdio | Http]]:
    """Start programs, check their results, and yield their targets by name."""
    with ExitStack() as stack:
        stack.enter_context(exit_on_sigterm())
        stack.enter_context(on_load_core())
        targets = {}
        for program in programs:
            try:
                targets[program.name] = stack.enter_context(program.open_target())
                asyncio.run(run_check(targets[program.name], program.revision, check))
            except (MCPError, OSError) as error:
                sys.exit(f"{program.name}: {error}")
        yield targets


async def run_check(target: Stdio | Http, revision: str, check: Check) -> None:
    """Run a check on a connection before the measurement."""
    async with Client(target, mode=revision) as client:
        await check(client)


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Convert SIGTERM to SystemExit within the block, so that servers are stopped."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def measure_in_turns(
    servers: Mapping[str, tuple[Stdio | Http, Load]],
    on_progress: Callable[[object], None] | None = None,
) -> dict[str, Subject]:
    """Measure servers in alternating slices under their loads; exit if calls fail."""
    first, *others = servers
    target, load = servers[first]
    measurement = run(
        target,
        load,
        against={name: servers[name][0] for name in others},
        against_load={name: servers[name][1] for name in others},
        with_floor=False,
        with_details=False,
        on_progress=on_progress,
    )
    result = asyncio.run(measurement)
    for note in result.notes:
        print(note.replace("target", first, 1), file=sys.stderr)
    subjects = dict(zip(servers, result.targets, strict=True))
    for name, subject in subjects.items():
        if subject.errors:
            sys.exit(f"{name}: calls failed: {subject.errors}")
    return subjects


def add_slices(name: str, subject: Subject, width: int | None, slices: Slices) -> None:
    """Add the figures of each slice; for one call at a time, also the percentiles."""
    figures = SINGLE_FIGURES if width is None else IN_FLIGHT_FIGURES
    suffix = "" if width is None else f"@{width}"
    for figure, bench_figure in figures.items():
        values = slice_values(name, subject, bench_figure)
        slices[name].setdefault(figure + suffix, []).extend(values)
    if width is None:
        add_percentiles(name, subject, suffix, slices)


def add_percentiles(name: str, subject: Subject, suffix: str, slices: Slices) -> None:
    """Add the percentiles of a call over all slices."""
    figures = subject.figures()
    for figure, bench_figure in PERCENTILES.items():
        slices[name].setdefault(figure + suffix, []).append(figures[bench_figure])


def slice_values(name: str, subject: Subject, figure: str) -> list[float]:
    """Return the values of a figure, one for each slice."""
    values = subject.figures_of_slices(figure)
    if len(values) != len(subject.slices):
        sys.exit(f"{name}: {figure} is not known in each slice")
    return values
