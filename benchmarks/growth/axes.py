"""The axes of growth: calls made on a session, calls in flight, open sessions.

Two points of an axis are measured seconds apart, and the machine's speed changes in
between. So each slice is divided by an adjacent slice of a floor that does not grow; a
point's ratio is this quotient divided by that of the first point. Calls in flight do
not need a floor: their slices are adjacent in one process.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from harness.measure import WARM_UP_CALLS
from harness.rounds import Child, Variant, open_variant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Point = dict[str, float]
"""`value` and `ratio` of one figure."""

FIRST_CALLS = 100
FIRST_SLICES = 2
WIDTH = 32
"""Calls in flight between two points, when nothing is measured."""

SINGLE_WIDTH = 1
CPU = "cpu_us@1"


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


def cpu(child: Child, calls: int, width: int = SINGLE_WIDTH) -> float:
    """Return the CPU time per call of one slice, in microseconds."""
    return child.request(calls=calls, width=width)[f"cpu_us@{width}"]


def measure_beside_floor(child: Child, floor: Child, slices: int, calls: int) -> Point:
    """Return the medians of a round of slices that alternate with the floor's."""
    pairs = []
    for number in range(slices):
        order = (child, floor) if number % 2 else (floor, child)
        cpu_by_child = {process: cpu(process, calls) for process in order}
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


def memory(child: Child) -> Point:
    """Return the resident memory of a variant's process."""
    value = child.request(**{"do": "memory", "with": 0})["rss_kib"]
    return {"value": value, "ratio": value}


def call_method(child: Child, method: str, number: int) -> None:
    """Call a method of the variant itself."""
    child.request(**{"do": method, "with": number})


def measure_calls_made(
    path: MeasuredPath, effort: Effort, maximum: int
) -> list[dict[str, Point]]:
    """Measure one session after growing numbers of calls.

    The measurement itself makes calls, so at the first point it must be short: there a
    new process is opened for each round, and the last one is used for the other points.
    """
    points: dict[str, list[Point]] = {}
    first, *later_points = decades(min(maximum, path.max_calls))
    young = min(effort.calls, FIRST_CALLS * 9 // FIRST_SLICES - WARM_UP_CALLS)
    with ExitStack() as stack:
        floor = stack.enter_context(open_variant(path.floor, path.prefix))
        first_points, sizes = [], []
        for _ in range(effort.rounds):
            child_stack = stack.enter_context(ExitStack())
            child = child_stack.enter_context(open_variant(path.variant, path.prefix))
            child.request(calls=first, width=WIDTH)
            first_points.append(measure_beside_floor(child, floor, FIRST_SLICES, young))
            sizes.append(memory(child))
            if len(first_points) < effort.rounds:
                child_stack.close()
        points[str(first)] = first_points
        memory_points = {str(first): sizes}
        calls_made = first + FIRST_SLICES * (young + WARM_UP_CALLS)
        for calls in later_points:
            child.request(calls=max(1, calls - calls_made), width=WIDTH)
            points[str(calls)] = [
                measure_beside_floor(child, floor, effort.slices, effort.calls)
                for _ in range(effort.rounds)
            ]
            calls_made = calls + effort.rounds * effort.slices * (
                effort.calls + WARM_UP_CALLS
            )
            memory_points[str(calls)] = [memory(child)] * effort.rounds
    return join_rounds(
        relative_to_first("cpu_us@calls=", points),
        relative_to_first("rss_kib@calls=", memory_points),
    )


def measure_sessions(
    variant: Variant, path: MeasuredPath, effort: Effort, maximum: int
) -> list[dict[str, Point]]:
    """Measure growing numbers of open sessions: calls to one, then to all in turn."""
    alone: dict[str, list[Point]] = {}
    in_turn: dict[str, list[Point]] = {}
    memory_points: dict[str, list[Point]] = {}
    with ExitStack() as stack:
        floor = stack.enter_context(open_variant(path.floor, path.prefix))
        child = stack.enter_context(open_variant(variant, path.prefix))
        for sessions in decades(min(maximum, path.max_sessions), first=1):
            call_method(child, "grow", sessions)
            for turns, points in ((1, alone), (sessions, in_turn)):
                call_method(child, "take_turns", turns)
                calls = max(effort.calls, turns)
                points[str(sessions)] = [
                    measure_beside_floor(child, floor, effort.slices, calls)
                    for _ in range(effort.rounds)
                ]
            memory_points[str(sessions)] = [memory(child)] * effort.rounds
    return join_rounds(
        relative_to_first("cpu_us@sessions=", alone),
        relative_to_first("cpu_us@turns=", in_turn),
        relative_to_first("rss_kib@sessions=", memory_points),
    )


def measure_in_flight(
    variant: Variant, effort: Effort, maximum: int
) -> list[dict[str, Point]]:
    """Measure growing numbers of calls in flight."""
    rounds = []
    with open_variant(variant, ()) as child:
        for width in powers_of_two(maximum):  # opens the connections
            child.request(calls=2 * width, width=width)
        for _ in range(effort.rounds):
            slices = [
                {
                    w: cpu(child, max(effort.calls, 2 * w), w)
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
