"""The axes of growth: calls made on a session, calls in flight, open sessions.

Two points of an axis are measured seconds apart, and the machine's speed changes in
between. So each slice is divided by an adjacent slice of a floor that does not grow; a
point's ratio is this quotient divided by that of the first point. Calls in flight do
not need a floor: their slices are adjacent in one process.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from mcpwire.bench import CodeProcess

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.rounds import Variant

Point = dict[str, float]
"""`value` and `ratio` of one figure."""

FIRST_CALLS = 100
FIRST_SLICES = 2
WIDTH = 32
"""Calls in flight between two points, when nothing is measured."""

WARM_UP_CALLS = 50
"""Calls before each slice: the CPU caches hold the data of other variants."""


@dataclass(frozen=True)
class MeasuredPath:
    """A client or server over one transport, measured for growth."""

    name: str
    variant: Variant
    floor: Variant
    max_calls: int
    """The maximum number of calls on one session, unless the command line is lower."""

    max_sessions: int
    prefix: tuple[str, ...] = ()
    """The command prefix that pins it to one core for one call at a time."""


@dataclass(frozen=True)
class Effort:
    """The amount of measurement at each point."""

    rounds: int
    slices: int
    calls: int


def decades(maximum: int, first: int = FIRST_CALLS) -> list[int]:
    """Return `first` and its multiples by powers of ten, up to `maximum`."""
    points = [first]
    while points[-1] * 10 <= maximum:
        points.append(points[-1] * 10)
    return points


def powers_of_two(maximum: int) -> list[int]:
    """Return the powers of two up to `maximum`."""
    return [2**n for n in range(maximum.bit_length())]


async def open_code(
    variant: Variant, path: MeasuredPath, stack: AsyncExitStack
) -> CodeProcess:
    """Open a variant of a path, on the path's core, until the stack closes."""
    return await stack.enter_async_context(CodeProcess(variant.code(path.prefix)))


async def make_calls(child: CodeProcess, calls: int, width: int) -> int:
    """Make a number of calls; return their CPU time in nanoseconds."""
    answer = await child.request(users=width, calls=calls, timed=False, timeout=None)
    return int(answer["cpu"])


async def cpu(child: CodeProcess, calls: int, width: int = 1) -> float:
    """Return the CPU time per call of one slice, in microseconds."""
    await make_calls(child, max(width, WARM_UP_CALLS), width)
    return await make_calls(child, calls, width) / calls / 1e3


async def measure_beside_floor(
    child: CodeProcess, floor: CodeProcess, slices: int, calls: int
) -> Point:
    """Return the medians of a round of slices that alternate with the floor's."""
    pairs = []
    for number in range(slices):
        order = (child, floor) if number % 2 else (floor, child)
        cpu_by_child = {process: await cpu(process, calls) for process in order}
        pairs.append((cpu_by_child[child], cpu_by_child[floor]))
    return {
        "value": median(own for own, _ in pairs),
        "ratio": median(own / floor_cpu for own, floor_cpu in pairs),
    }


def relative_to_first(
    axis: str, points: dict[str, list[Point]]
) -> list[dict[str, Point]]:
    """Return each round's figures, with ratios to the first point."""
    first = next(iter(points.values()))
    return [
        {
            axis + name: {
                "value": point["value"],
                "ratio": point["ratio"] / reference["ratio"],
            }
            for name, rounds in points.items()
            for point in (rounds[number],)
        }
        for number, reference in enumerate(first)
    ]


async def memory(child: CodeProcess) -> Point:
    """Return the resident memory of a variant's process."""
    value = (await child.request(method="memory", argument=0))["rss_kib"]
    return {"value": value, "ratio": value}


async def measure_calls_made(
    path: MeasuredPath, effort: Effort, maximum: int
) -> list[dict[str, Point]]:
    """Measure one session after growing numbers of calls.

    The measurement itself makes calls, so at the first point it must be short: there a
    new process is opened for each round, and the last one is used for the other points.
    """
    points: dict[str, list[Point]] = {}
    first, *later_points = decades(min(maximum, path.max_calls))
    young = min(effort.calls, FIRST_CALLS * 9 // FIRST_SLICES - WARM_UP_CALLS)
    async with AsyncExitStack() as stack:
        floor = await open_code(path.floor, path, stack)
        first_points, sizes = [], []
        for _ in range(effort.rounds):
            child_stack = await stack.enter_async_context(AsyncExitStack())
            child = await open_code(path.variant, path, child_stack)
            await make_calls(child, first, WIDTH)
            first_points.append(
                await measure_beside_floor(child, floor, FIRST_SLICES, young)
            )
            sizes.append(await memory(child))
            if len(first_points) < effort.rounds:
                await child_stack.aclose()
        points[str(first)] = first_points
        memory_points = {str(first): sizes}
        calls_made = first + FIRST_SLICES * (young + WARM_UP_CALLS)
        for calls in later_points:
            await make_calls(child, max(1, calls - calls_made), WIDTH)
            points[str(calls)] = [
                await measure_beside_floor(child, floor, effort.slices, effort.calls)
                for _ in range(effort.rounds)
            ]
            calls_made = calls + effort.rounds * effort.slices * (
                effort.calls + WARM_UP_CALLS
            )
            memory_points[str(calls)] = [await memory(child)] * effort.rounds
    return join_rounds(
        relative_to_first("cpu_us@calls=", points),
        relative_to_first("rss_kib@calls=", memory_points),
    )


async def measure_sessions(
    variant: Variant, path: MeasuredPath, effort: Effort, maximum: int
) -> list[dict[str, Point]]:
    """Measure growing numbers of open sessions: calls to one, then to all in turn."""
    alone: dict[str, list[Point]] = {}
    in_turn: dict[str, list[Point]] = {}
    memory_points: dict[str, list[Point]] = {}
    async with AsyncExitStack() as stack:
        floor = await open_code(path.floor, path, stack)
        child = await open_code(variant, path, stack)
        for sessions in decades(min(maximum, path.max_sessions), first=1):
            await child.request(method="grow", argument=sessions, timeout=None)
            for turns, points in ((1, alone), (sessions, in_turn)):
                await child.request(method="take_turns", argument=turns)
                calls = max(effort.calls, turns)
                points[str(sessions)] = [
                    await measure_beside_floor(child, floor, effort.slices, calls)
                    for _ in range(effort.rounds)
                ]
            memory_points[str(sessions)] = [await memory(child)] * effort.rounds
    return join_rounds(
        relative_to_first("cpu_us@sessions=", alone),
        relative_to_first("cpu_us@turns=", in_turn),
        relative_to_first("rss_kib@sessions=", memory_points),
    )


async def measure_in_flight(
    variant: Variant, effort: Effort, maximum: int
) -> list[dict[str, Point]]:
    """Measure growing numbers of calls in flight."""
    rounds = []
    async with CodeProcess(variant.code()) as child:
        for width in powers_of_two(maximum):  # opens the connections
            await make_calls(child, 2 * width, width)
        for _ in range(effort.rounds):
            slices = [
                {
                    w: await cpu(child, max(effort.calls, 2 * w), w)
                    for w in powers_of_two(maximum)
                }
                for _ in range(effort.slices)
            ]
            rounds.append(
                {
                    f"cpu_us@{width}": {
                        "value": median(each[width] for each in slices),
                        "ratio": median(each[width] / each[1] for each in slices),
                    }
                    for width in powers_of_two(maximum)
                }
            )
    return rounds


def join_rounds(*parts: Sequence[dict[str, Point]]) -> list[dict[str, Point]]:
    """Return the figures of several axes, round by round."""
    return [merge(figures) for figures in zip(*parts, strict=True)]


def merge(parts: Iterable[dict[str, Point]]) -> dict[str, Point]:
    """Return all figures of one round."""
    return {name: point for part in parts for name, point in part.items()}
