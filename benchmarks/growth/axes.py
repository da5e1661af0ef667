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
from harness.rounds import Child, Variant, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Point = dict[str, float]
"""`value` and `ratio` of one figure."""

FIRST_CALLS = 100
FIRST_SLICES = 2
WIDTH = 32
"""Calls in flight between two points, when nothing is measured."""

ONE = 1
CPU = "cpu_us@1"


@dataclass(frozen=True)
class Path:
    """A client or server over one transport, measured for growth."""

    name: str
    variant: Variant
    floor: Variant
    most_calls: int
    """The maximum number of calls on one session, unless the command line is lower."""

    most_sessions: int
    prefix: tuple[str, ...] = ()
    """The command prefix that pins it to one core for one call at a time."""


@dataclass(frozen=True)
class Effort:
    """The amount of measurement at each point."""

    rounds: int
    slices: int
    calls: int


def decades(most: int, first: int = FIRST_CALLS) -> list[int]:
    """Return `first` and its multiples by powers of ten, up to `most`."""
    points = [first]
    while points[-1] * 10 <= most:
        points.append(points[-1] * 10)
    return points


def doubled(most: int) -> list[int]:
    """Return the powers of two up to `most`."""
    return [2**n for n in range(most.bit_length())]


def cpu(child: Child, calls: int, width: int = ONE) -> float:
    """Return the CPU time per call of one slice, in microseconds."""
    return child.ask(calls=calls, width=width)[f"cpu_us@{width}"]


def beside(child: Child, floor: Child, slices: int, calls: int) -> Point:
    """Return the medians of a round of slices that alternate with the floor's."""
    pairs = []
    for turn in range(slices):
        order = (child, floor) if turn % 2 else (floor, child)
        taken = {one: cpu(one, calls) for one in order}
        pairs.append((taken[child], taken[floor]))
    return {
        "value": median(mine for mine, _ in pairs),
        "ratio": median(mine / theirs for mine, theirs in pairs),
    }


def to_the_first(axis: str, points: dict[str, list[Point]]) -> list[dict[str, Point]]:
    """Return each round's figures, with ratios to the first point."""
    first = next(iter(points.values()))
    return [
        {
            axis + name: {
                "value": one["value"],
                "ratio": one["ratio"] / reference["ratio"],
            }
            for name, each in points.items()
            for one in (each[number],)
        }
        for number, reference in enumerate(first)
    ]


def memory(child: Child) -> Point:
    """Return the resident memory of a variant's process."""
    value = child.ask(**{"do": "memory", "with": 0})["rss_kib"]
    return {"value": value, "ratio": value}


def order(child: Child, what: str, number: int) -> None:
    """Call a method of the variant itself."""
    child.ask(**{"do": what, "with": number})


def aged(path: Path, effort: Effort, most: int) -> list[dict[str, Point]]:
    """Measure one session after growing numbers of calls.

    The measurement itself makes calls, so at the first point it must be short: there a
    new process is opened for each round, and the last one is used for the other points.
    """
    points: dict[str, list[Point]] = {}
    first, *others = decades(min(most, path.most_calls))
    young = min(effort.calls, FIRST_CALLS * 9 // FIRST_SLICES - WARM_UP_CALLS)
    with ExitStack() as stack:
        floor = stack.enter_context(opened(path.floor, path.prefix))
        taken, sizes = [], []
        for _ in range(effort.rounds):
            mine = stack.enter_context(ExitStack())
            child = mine.enter_context(opened(path.variant, path.prefix))
            child.ask(calls=first, width=WIDTH)
            taken.append(beside(child, floor, FIRST_SLICES, young))
            sizes.append(memory(child))
            if len(taken) < effort.rounds:
                mine.close()
        points[str(first)] = taken
        held = {str(first): sizes}
        done = first + FIRST_SLICES * (young + WARM_UP_CALLS)
        for many in others:
            child.ask(calls=max(1, many - done), width=WIDTH)
            points[str(many)] = [
                beside(child, floor, effort.slices, effort.calls)
                for _ in range(effort.rounds)
            ]
            done = many + effort.rounds * effort.slices * (effort.calls + WARM_UP_CALLS)
            held[str(many)] = [memory(child)] * effort.rounds
    return joined(
        to_the_first("cpu_us@calls=", points), to_the_first("rss_kib@calls=", held)
    )


def multiplied(
    variant: Variant, path: Path, effort: Effort, most: int
) -> list[dict[str, Point]]:
    """Measure growing numbers of open sessions: calls to one, then to all in turn."""
    alone: dict[str, list[Point]] = {}
    in_turn: dict[str, list[Point]] = {}
    held: dict[str, list[Point]] = {}
    with ExitStack() as stack:
        floor = stack.enter_context(opened(path.floor, path.prefix))
        child = stack.enter_context(opened(variant, path.prefix))
        for many in decades(min(most, path.most_sessions), first=1):
            order(child, "grow", many)
            for turns, points in ((1, alone), (many, in_turn)):
                order(child, "take_turns", turns)
                calls = max(effort.calls, turns)
                points[str(many)] = [
                    beside(child, floor, effort.slices, calls)
                    for _ in range(effort.rounds)
                ]
            held[str(many)] = [memory(child)] * effort.rounds
    return joined(
        to_the_first("cpu_us@sessions=", alone),
        to_the_first("cpu_us@turns=", in_turn),
        to_the_first("rss_kib@sessions=", held),
    )


def widened(variant: Variant, effort: Effort, most: int) -> list[dict[str, Point]]:
    """Measure growing numbers of calls in flight."""
    found = []
    with opened(variant, ()) as child:
        for width in doubled(most):  # opens the connections
            child.ask(calls=2 * width, width=width)
        for _ in range(effort.rounds):
            taken = [
                {w: cpu(child, max(effort.calls, 2 * w), w) for w in doubled(most)}
                for _ in range(effort.slices)
            ]
            found.append(
                {
                    f"cpu_us@{width}": {
                        "value": median(each[width] for each in taken),
                        "ratio": median(each[width] / each[1] for each in taken),
                    }
                    for width in doubled(most)
                }
            )
    return found


def joined(
    *parts: Sequence[dict[str, Point]],
) -> list[dict[str, Point]]:
    """Return the figures of several axes, round by round."""
    return [merged(figures) for figures in zip(*parts, strict=True)]


def merged(parts: Iterable[dict[str, Point]]) -> dict[str, Point]:
    """Return all figures of one round."""
    return {name: point for part in parts for name, point in part.items()}
