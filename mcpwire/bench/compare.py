"""Is one server slower than another, or than it was? With an interval, or no answer."""

from __future__ import annotations

import random
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

import attrs

from mcpwire.bench.results import FIGURES
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcpwire.bench.results import Result, Subject

__all__ = ["FEWEST", "Difference", "compare", "differences", "interval", "verdict"]

Verdict = Literal["better", "worse", "no difference shown"]

_DRAWS: Final = 2_000
_TAIL: Final = 0.005
"""What lies beyond either end of an interval: it holds the ratio in 99 of 100 cases."""

_LEAST: Final = 0.02
"""Less than this is no difference: two starts of one program differ by as much."""

_SAME: Final = ("calls", "rate", "users", "shape", "sessions", "workers")
"""What two loads that are compared have in common; they may last differently long."""

FEWEST: Final = 3
"""From fewer rounds no interval is drawn: the starts of one program differ."""


@attrs.frozen(kw_only=True)
class Difference:
    """One figure of two servers, or of two runs of one."""

    figure: str
    before: float
    after: float
    ratio: float
    """After by before; of two runs with a floor each, of their multiples of it."""

    low: float
    high: float
    """The interval of the ratio; as the ratio where there are too few rounds."""

    verdict: Verdict


def differences(
    result: Result, figures: Sequence[str] = tuple(FIGURES)
) -> list[Difference]:
    """Compare the second server of a run with the first, slice beside slice.

    Args:
        result: The run.
        figures: Which figures; those that not every slice has are left out.

    Raises:
        ValueError: The run had no second server.
    """
    if len(result.targets) != 2 or result.highest is not None:
        raise ValueError("the run did not measure two servers")
    before, after = result.targets
    found = []
    for name in _compared(before, after, figures):
        old, new = before.figures_of_slices(name), after.figures_of_slices(name)
        rounds = [each.round for each in before.slices]
        ratios = [b / a for a, b in zip(old, new, strict=True) if a]
        groups: dict[int, list[float]] = {}
        for round, ratio in zip(rounds, ratios, strict=False):
            groups.setdefault(round, []).append(ratio)
        drawn = interval(list(groups.values()))
        found.append(_difference(name, (median(old), median(new)), drawn))
    return found


def compare(before: Result, after: Result) -> list[Difference]:
    """Compare two runs of one load, each with its floor where both have one.

    Raises:
        ValueError: The loads differ, or a run measured more than one server.
    """
    if before.title != after.title:
        raise ValueError(f"the loads differ: {before.title!r} and {after.title!r}")
    old_load, new_load = (loads(encode(each.load)) for each in (before, after))
    for field in _SAME:
        values = old_load.get(field), new_load.get(field)
        if values[0] != values[1]:
            raise ValueError(
                f"the loads differ: {field} is {values[0]!r} and {values[1]!r}"
            )
    if len(before.targets) != 1 or len(after.targets) != 1:
        raise ValueError("each of the two runs must have measured one server")
    old, new = before.targets[0], after.targets[0]
    has_floors = before.floor is not None and after.floor is not None
    found = []
    for name in _compared(old, new):
        rows = [_by_round(old, name), _by_round(new, name)]
        if has_floors:
            floors = (before.floor, after.floor)
            rows = [
                [
                    [value / base for value in values]
                    for values, base in zip(
                        of, map(median, _by_round(floor, name)), strict=True
                    )
                ]
                for of, floor in zip(rows, floors, strict=True)
                if floor is not None
            ]
        drawn = interval(rows[1], rows[0])
        values = (
            median(old.figures_of_slices(name)),
            median(new.figures_of_slices(name)),
        )
        found.append(_difference(name, values, drawn))
    return found


def _compared(
    before: Subject, after: Subject, figures: Iterable[str] = FIGURES
) -> Sequence[str]:
    """Return the figures that every slice of both has."""
    return [
        name
        for name in figures
        if FIGURES[name].is_compared
        and all(
            0 < len(one.figures_of_slices(name)) == len(one.slices)
            for one in (before, after)
        )
    ]


def _by_round(subject: Subject, name: str) -> list[list[float]]:
    """Return a figure of each slice, by rounds."""
    found: dict[int, list[float]] = {}
    values = subject.figures_of_slices(name)
    for each, value in zip(subject.slices, values, strict=True):
        found.setdefault(each.round, []).append(value)
    return list(found.values())


def interval(
    after: list[list[float]], before: list[list[float]] | None = None
) -> tuple[float, float, float]:
    """Return the ratio of two medians, or a median of ratios, and its interval.

    Values are given round by round. Rounds are drawn with replacement, and then slices
    within them: slices of one round share what a process was stuck with.
    """
    fewest = min(len(after), len(before or after))
    before = before or [[1.0]]
    ratio = median(chain(*after)) / median(chain(*before))
    if fewest < FEWEST:
        return ratio, ratio, ratio
    chance = random.Random(1)  # noqa: S311 - no secret; the same data, the same answer

    def draw(groups: list[list[float]]) -> float:
        drawn = [
            value
            for group in chance.choices(groups, k=len(groups))
            for value in chance.choices(group, k=len(group))
        ]
        return median(drawn)

    ratios = sorted(draw(after) / draw(before) for _ in range(_DRAWS))
    skipped = int(_DRAWS * _TAIL)
    return ratio, ratios[skipped], ratios[-1 - skipped]


def verdict(drawn: tuple[float, float, float], *, more_is_better: bool) -> Verdict:
    """Say what a ratio with its interval shows."""
    ratio, low, high = drawn
    is_certain = low < high and not low <= 1 <= high
    if not is_certain or abs(ratio - 1) < _LEAST:
        return "no difference shown"
    return "better" if (ratio > 1) == more_is_better else "worse"


def _difference(
    name: str, values: tuple[float, float], drawn: tuple[float, float, float]
) -> Difference:
    return Difference(
        figure=name,
        before=values[0],
        after=values[1],
        ratio=drawn[0],
        low=drawn[1],
        high=drawn[2],
        verdict=verdict(drawn, more_is_better=FIGURES[name].more_is_better),
    )
