"""Is one server slower than another, or than it was? With an interval, or no answer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from math import comb, lcm
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

import attrs

from mcpwire.bench.results import FIGURES
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcpwire.bench.results import Result, Subject

__all__ = [
    "FEWEST",
    "Difference",
    "compare",
    "differences",
    "interval",
    "medians",
    "verdict",
]

Verdict = Literal["better", "worse", "no difference shown"]

_TAIL: Final = 0.005
"""What lies beyond either end of an interval, of all figures together.

Each of n figures has an n-th of it (Bonferroni). So in 99 of 100 cases all intervals
hold their ratios, and of many figures none is called different more easily than of one.
"""

_MOST_VALUES: Final = 60
"""Of more slices in all, neighbours of one round are taken together."""

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
    """The interval of the ratio; as the ratio where there are too few rounds.

    The intervals of all figures of one comparison hold together in 99 of 100 cases.
    """

    verdict: Verdict


def differences(
    result: Result,
    figures: Sequence[str] = tuple(FIGURES),
    *,
    against: str | None = None,
) -> list[Difference]:
    """Compare another server of a run with the first, slice beside slice.

    Args:
        result: The run.
        figures: Which figures; those that not every slice has are left out. The fewer,
            the narrower are the intervals.
        against: The name of the other server, where the run has several.

    Raises:
        ValueError: The run had no such server.
    """
    servers = result.targets if result.highest is None else ()
    others = {each.name: each for each in servers[1:]}
    if against is None and len(others) == 1:
        (against,) = others
    if against not in others:
        known = ", ".join(others) or "none"
        raise ValueError(
            f"against must name a server that the first was measured with ({known}), "
            f"got {against!r}"
        )
    before, after = result.targets[0], others[against]
    names = _compared(before, after, figures)
    found = []
    for name in names:
        old, new = before.figures_of_slices(name), after.figures_of_slices(name)
        groups: dict[int, list[float]] = {}
        for one, a, b in zip(before.slices, old, new, strict=True):
            if a:
                groups.setdefault(one.round, []).append(b / a)
        drawn = interval(list(groups.values()), count=len(names))
        found.append(_difference(name, (median(old), median(new)), drawn))
    return found


def compare(
    before: Result,
    after: Result,
    figures: Sequence[str] = tuple(FIGURES),
    *,
    comparisons: int = 1,
) -> list[Difference]:
    """Compare two runs of one load, each with its floor where both have one.

    Args:
        before: The first run.
        after: The second run.
        figures: As for `differences`.
        comparisons: How many such comparisons are judged together, as of many loads;
            all their intervals are wider for it. None is wider than what its rounds
            span, so 300 figures need eight rounds to hold in 95 of 100 cases.

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
    names = _compared(old, new, figures)
    found = []
    for name in names:
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
        drawn = interval(rows[1], rows[0], count=len(names) * comparisons)
        values = (
            median(old.figures_of_slices(name)),
            median(new.figures_of_slices(name)),
        )
        found.append(_difference(name, values, drawn))
    return found


def _compared(before: Subject, after: Subject, figures: Iterable[str]) -> Sequence[str]:
    """Return the figures that every slice of both has."""
    return [
        name
        for name in figures
        if name in FIGURES
        and FIGURES[name].is_compared
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
    after: list[list[float]], before: list[list[float]] | None = None, *, count: int = 1
) -> tuple[float, float, float]:
    """Return the ratio of two medians, or a median of ratios, and its interval.

    Rounds are drawn with replacement, and then slices within them: slices of one round
    share what a process was stuck with.

    Args:
        after: The figure of each slice, by rounds; or its ratios.
        before: What it is divided by.
        count: How many figures are compared.
    """
    fewest = min(len(after), len(before or after))
    after, before = _pooled(after), _pooled(before or [[1.0]])
    ratio = median(chain(*after)) / median(chain(*before))
    if fewest < FEWEST:
        return ratio, ratio, ratio
    bases = medians(before)
    ratios = sorted(
        (value / base, part * share)
        for value, part in medians(after)
        for base, share in bases
    )
    sums = list(accumulate(part for _, part in ratios))
    tail = _TAIL / count
    low = bisect_right(sums, tail)
    high = min(bisect_left(sums, 1 - tail), len(sums) - 1)
    return ratio, ratios[low][0], ratios[high][0]


def _pooled(groups: list[list[float]]) -> list[list[float]]:
    """Return no more values of each round than can be counted with."""
    most = max(1, _MOST_VALUES // len(groups))
    found = []
    for group in groups:
        count = min(most, len(group))
        ends = [number * len(group) // count for number in range(count + 1)]
        found.append([median(group[a:b]) for a, b in pairwise(ends)])
    return found


def medians(groups: list[list[float]]) -> list[tuple[float, float]]:
    """Return the medians that such draws can have, each with its probability.

    A median is at most a value if half of the draw is. How many draws have so many low
    values is a coefficient of a polynomial: that of one round to the power of the
    rounds. The polynomial is one integer, with so many bits for each coefficient.
    """
    rounds = [sorted(group) for group in groups]
    size, whole = max(map(len, rounds)), lcm(*map(len, rounds))
    every = (len(rounds) * whole**size) ** len(rounds)
    bits = every.bit_length() + 1
    # Of an even number, the median lies between two.
    total = size * len(rounds)
    middle = (total + 1) // 2, total // 2 + 1
    found, sooner = [], 0
    for value in sorted(set(chain(*rounds))):
        low = [bisect_right(each, value) * (whole // len(each)) for each in rounds]
        draws = sum(_draws(size, whole, each, bits) for each in low) ** len(rounds)
        # Modulo 2^bits - 1, a number is the sum of its parts of so many bits.
        at_most = sum((draws >> bits * half) % ((1 << bits) - 1) for half in middle)
        found.append((value, (at_most - sooner) / (2 * every)))
        sooner = at_most
    return found


@lru_cache(maxsize=10_000)
def _draws(size: int, whole: int, low: int, bits: int) -> int:
    """Return in how many draws of one round so many values are low ones, for each."""
    return sum(
        comb(size, count) * low**count * (whole - low) ** (size - count) << bits * count
        for count in range(size + 1)
    )


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
