"""Comparison of two servers or two runs: ratios of figures with their intervals."""

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

Verdict = Literal["better", "worse", "no difference shown"]

_TAIL_PROBABILITY: Final = 0.005
"""Probability beyond either end of an interval, shared by all figures.

Each of n figures gets 1/n of it (Bonferroni): all intervals together contain their
ratios in 99 of 100 cases, so more figures do not mean more false differences.
"""

_MAX_VALUES: Final = 60
"""Maximum number of values; adjacent slices of a round are merged to keep it."""

_MIN_CHANGE: Final = 0.02
"""Minimum relative difference: two starts of one program may differ by this much."""

_EQUAL_FIELDS: Final = ("calls", "rate", "users", "shape", "sessions", "workers")
"""Load fields that must be equal in compared runs; the duration may differ."""

MIN_ROUNDS: Final = 3
"""Minimum rounds for an interval, because starts of one program differ."""


@attrs.frozen(kw_only=True)
class Difference:
    """One figure compared between two servers or two runs."""

    figure: str
    before: float
    after: float
    ratio: float
    """`after` / `before`; each divided by its run's floor if both runs have one."""

    low: float
    high: float
    """Upper end of the interval; with too few rounds, `low` and `high` equal `ratio`.

    All intervals of one comparison together contain their ratios in 99 of 100 cases.
    """

    verdict: Verdict


def differences(
    result: Result,
    figures: Sequence[str] = tuple(FIGURES),
    *,
    against: str | None = None,
) -> list[Difference]:
    """Compare the first server of a run with another one, slice by slice.

    Args:
        result: The run.
        figures: The figures; a figure that a slice lacks, or that is zero in a slice
            to compare with, is omitted. Fewer figures have narrower intervals.
        against: The name of the other server; optional if there is only one.

    Raises:
        ValueError: The run has no server with that name.
    """
    servers = result.targets if result.highest is None else ()
    others = {subject.name: subject for subject in servers[1:]}
    if against is None and len(others) == 1:
        (against,) = others
    if against not in others:
        known = ", ".join(others) or "none"
        raise ValueError(
            f"against must name a server that the first was measured with ({known}), "
            f"got {against!r}"
        )
    before, after = result.targets[0], others[against]
    names = _comparable(figures, after, before)
    results = []
    for name in names:
        olds, news = (before.figures_of_slices(name), after.figures_of_slices(name))
        ratios: dict[int, list[float]] = {}
        for slice, old, new in zip(before.slices, olds, news, strict=True):
            ratios.setdefault(slice.round, []).append(new / old)
        bounds = interval(list(ratios.values()), count=len(names))
        results.append(_difference(name, (median(olds), median(news)), bounds))
    return results


def compare(
    before: Result,
    after: Result,
    figures: Sequence[str] = tuple(FIGURES),
    *,
    comparisons: int = 1,
) -> list[Difference]:
    """Compare two runs of one load, each relative to its floor if both have one.

    Args:
        before: The first run.
        after: The second run.
        figures: As for `differences`.
        comparisons: The number of comparisons that are judged together, such as of
            several loads; more give wider intervals. An interval is never wider than
            the range of its rounds: 300 figures need eight rounds for 95 of 100 cases.

    Raises:
        ValueError: The loads differ, or a run measured more than one server.
    """
    if before.title != after.title:
        raise ValueError(f"the loads differ: {before.title!r} and {after.title!r}")
    old_load, new_load = (loads(encode(result.load)) for result in (before, after))
    for field in _EQUAL_FIELDS:
        values = old_load.get(field), new_load.get(field)
        if values[0] != values[1]:
            raise ValueError(
                f"the loads differ: {field} is {values[0]!r} and {values[1]!r}"
            )
    if len(before.targets) != 1 or len(after.targets) != 1:
        raise ValueError("each of the two runs must have measured one server")
    old, new = before.targets[0], after.targets[0]
    floors = [floor for run in (before, after) if (floor := run.floor) is not None]
    has_floors = len(floors) == 2
    names = _comparable(figures, new, old, *(floors if has_floors else ()))
    results = []
    for name in names:
        groups = [_group_by_round(old, name), _group_by_round(new, name)]
        if has_floors:
            groups = [
                [
                    [value / base for value in values]
                    for values, base in zip(
                        rounds, map(median, _group_by_round(floor, name)), strict=True
                    )
                ]
                for rounds, floor in zip(groups, floors, strict=True)
            ]
        bounds = interval(groups[1], groups[0], count=len(names) * comparisons)
        medians = (
            median(old.figures_of_slices(name)),
            median(new.figures_of_slices(name)),
        )
        results.append(_difference(name, medians, bounds))
    return results


def _comparable(
    figures: Iterable[str], after: Subject, *bases: Subject
) -> Sequence[str]:
    """Return the comparable figures that every slice has, above zero in the bases."""
    names = [name for name in figures if name in FIGURES and FIGURES[name].is_compared]
    return [
        name
        for name in names
        if 0 < len(after.figures_of_slices(name)) == len(after.slices)
        and all(
            0
            < sum(value > 0 for value in base.figures_of_slices(name))
            == len(base.slices)
            for base in bases
        )
    ]


def _group_by_round(subject: Subject, name: str) -> list[list[float]]:
    """Return a figure of each slice, grouped by round."""
    groups: dict[int, list[float]] = {}
    values = subject.figures_of_slices(name)
    for slice, value in zip(subject.slices, values, strict=True):
        groups.setdefault(slice.round, []).append(value)
    return list(groups.values())


def interval(
    after: list[list[float]], before: list[list[float]] | None = None, *, count: int = 1
) -> tuple[float, float, float]:
    """Return the ratio of two medians, or the median of ratios, with its interval.

    This is a two-level bootstrap (rounds, then slices within them), because the slices
    of a round share the random state of one process.

    Args:
        after: The figure or the ratio of each slice, grouped by round.
        before: The figure to divide by, grouped by round; ``None`` for ratios.
        count: The number of figures that are compared.
    """
    rounds = min(len(after), len(before or after))
    after, before = _merge_values(after), _merge_values(before or [[1.0]])
    ratio = median(chain(*after)) / median(chain(*before))
    if rounds < MIN_ROUNDS:
        return ratio, ratio, ratio
    bases = median_distribution(before)
    ratios = sorted(
        (value / base, part * share)
        for value, part in median_distribution(after)
        for base, share in bases
    )
    sums = list(accumulate(part for _, part in ratios))
    tail = _TAIL_PROBABILITY / count
    low = bisect_right(sums, tail)
    high = min(bisect_left(sums, 1 - tail), len(sums) - 1)
    return ratio, ratios[low][0], ratios[high][0]


def _merge_values(groups: list[list[float]]) -> list[list[float]]:
    """Merge adjacent values of each round until there are at most `_MAX_VALUES`."""
    max_values = max(1, _MAX_VALUES // len(groups))
    merged = []
    for group in groups:
        count = min(max_values, len(group))
        ends = [number * len(group) // count for number in range(count + 1)]
        merged.append([median(group[start:end]) for start, end in pairwise(ends)])
    return merged


def median_distribution(groups: list[list[float]]) -> list[tuple[float, float]]:
    """Return all possible medians of bootstrap samples with their exact probabilities.

    A median is at most x if half of the sample is. The number of samples with k values
    up to x is a coefficient of a polynomial: one round's to the power of the number of
    rounds. The polynomial is stored in one integer, `bits` bits for each coefficient.
    """
    rounds = [sorted(group) for group in groups]
    size, whole = max(map(len, rounds)), lcm(*map(len, rounds))
    sample_count = (len(rounds) * whole**size) ** len(rounds)
    bits = sample_count.bit_length() + 1
    # The median of an even number of values is the mean of the two in the middle.
    total = size * len(rounds)
    middle = (total + 1) // 2, total // 2 + 1
    distribution, below = [], 0
    for value in sorted(set(chain(*rounds))):
        lows = [bisect_right(group, value) * (whole // len(group)) for group in rounds]
        counts = sum(_polynomial(size, whole, low, bits) for low in lows) ** len(rounds)
        # Modulo 2^bits - 1, an integer is the sum of its groups of `bits` bits.
        at_most = sum((counts >> bits * half) % ((1 << bits) - 1) for half in middle)
        distribution.append((value, (at_most - below) / (2 * sample_count)))
        below = at_most
    return distribution


@lru_cache(maxsize=10_000)
def _polynomial(size: int, whole: int, low: int, bits: int) -> int:
    """Return one round's polynomial: coefficient k counts samples with k low values."""
    return sum(
        comb(size, count) * low**count * (whole - low) ** (size - count) << bits * count
        for count in range(size + 1)
    )


def verdict(bounds: tuple[float, float, float], *, more_is_better: bool) -> Verdict:
    """Return the verdict on a ratio with its interval."""
    ratio, low, high = bounds
    is_certain = low < high and not low <= 1 <= high
    if not is_certain or abs(ratio - 1) < _MIN_CHANGE:
        return "no difference shown"
    return "better" if (ratio > 1) == more_is_better else "worse"


def _difference(
    name: str, medians: tuple[float, float], bounds: tuple[float, float, float]
) -> Difference:
    return Difference(
        figure=name,
        before=medians[0],
        after=medians[1],
        ratio=bounds[0],
        low=bounds[1],
        high=bounds[2],
        verdict=verdict(bounds, more_is_better=FIGURES[name].more_is_better),
    )
