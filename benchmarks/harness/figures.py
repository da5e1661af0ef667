"""Statistics over rounds: medians and spreads of values and ratios; budgets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.rounds import Round


class Spread(TypedDict):
    """Median and extremes of a figure over all rounds."""

    median: float
    min: float
    max: float


class Figure(TypedDict):
    """A figure as measured, and as a ratio to the baseline's."""

    value: Spread
    ratio: Spread


Summary = dict[str, dict[str, Figure]]
"""Figures by variant, then by name."""

MORE_IS_BETTER = ("calls_per_s", "mib_per_s")
"""Prefixes of figures for which more is better; for all others less is."""


TIMES = ("_us", "_ms", "_s")
"""Suffixes of figures that are times; all others are counted."""

QUOTIENTS = ("least_of_all_figures", "growth")
"""Figures that are computed from times."""

MIN_SLICES_FOR_3_DIGITS = 30
"""The number of slices from which a timed figure has a third digit."""


def is_counted(figure: str) -> bool:
    """Return whether a figure is a count, which varies little, and not a time."""
    name = figure.partition("@")[0]
    return not (name.endswith(TIMES) or name in QUOTIENTS or more_is_better(name))


def slice_count(plan: Mapping[str, Any]) -> int:
    """Return the number of slices of each variant in a plan."""
    return int(plan["rounds"] * plan["slices"])


def digits(figure: str, plan: Mapping[str, Any]) -> int | None:
    """Return the significant digits of a figure; ``None`` if it is counted."""
    if is_counted(figure):
        return None
    return 3 if slice_count(plan) >= MIN_SLICES_FOR_3_DIGITS else 2


@dataclass(frozen=True)
class Budget:
    """A limit for the median ratio of one figure."""

    variant: str
    figure: str
    limit: float
    at_least: bool = False
    against: str = ""
    """The variant to divide by instead of the baseline."""
    is_value: bool = False
    """Whether the limit is for the figure itself instead of a ratio."""

    def ratio(self, rounds: Sequence[Round]) -> float | None:
        """Return the limited ratio or value; ``None`` if it was not measured."""
        if self.against:
            figures = compare_variants(rounds, self.variant, self.against) or {}
            return figures[self.figure]["median"] if self.figure in figures else None
        figure = summarise(rounds).get(self.variant, {}).get(self.figure)
        kind: Literal["value", "ratio"] = "value" if self.is_value else "ratio"
        return None if figure is None else figure[kind]["median"]

    def holds(self, ratio: float) -> bool:
        """Return whether a ratio is within the limit."""
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    def verdict(self, rounds: Sequence[Round]) -> dict[str, Any] | None:
        """Return the entry for a result file; ``None`` if not measured."""
        ratio = self.ratio(rounds)
        if ratio is None:
            return None
        return {**asdict(self), "ratio": ratio, "holds": self.holds(ratio)}


def more_is_better(figure: str) -> bool:
    """Return whether more is better for a figure."""
    return figure.startswith(MORE_IS_BETTER)


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the extremes."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def summarise(rounds: Sequence[Round]) -> Summary:
    """Return the spread of every figure of every variant over all rounds."""

    def spread_of(variant: str, figure: str, kind: str) -> Spread:
        return spread([each[variant][figure][kind] for each in rounds])

    return {
        variant: {
            figure: {
                "value": spread_of(variant, figure, "value"),
                "ratio": spread_of(variant, figure, "ratio"),
            }
            for figure in figures
        }
        for variant, figures in rounds[0].items()
    }


def compare_variants(
    rounds: Sequence[Round], variant: str, other: str
) -> dict[str, Spread] | None:
    """Return a variant's figures divided by another's, round by round.

    Return ``None`` if one of the variants was not measured. Figures with the divisor 0
    are left out.
    """
    if not {variant, other} <= rounds[0].keys():
        return None
    divisors = [each[other] for each in rounds]
    return {
        figure: spread(
            [
                each[variant][figure]["value"] / each[other][figure]["value"]
                for each in rounds
            ]
        )
        for figure in rounds[0][variant]
        if all(figure in figures and figures[figure]["value"] for figures in divisors)
    }


def peer_pairs(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the compared pairs of a peer and mcpwire, without those with a floor."""
    pairs = result.get("compared", [])
    return [pair for pair in pairs if "floor" not in pair["against"]]


def times_better(figure: str, ratio: Spread) -> Spread:
    """Convert the ratio of a peer's figure to mcpwire's into "times better"."""
    if not more_is_better(figure):
        return ratio
    median, low, high = (1 / ratio[key] for key in ("median", "max", "min"))
    return {"median": median, "min": low, "max": high}


def advantages(pair: Mapping[str, Any]) -> dict[str, Spread]:
    """Return how many times better mcpwire is than a peer, by figure."""
    return {
        figure: times_better(figure, spread)
        for figure, spread in pair["figures"].items()
        if spread["min"]
    }


@dataclass(frozen=True)
class PeerBudget(Budget):
    """A budget: mcpwire must not be worse than a peer in any figure."""

    figure: str = "least_of_all_figures"
    limit: float = 1.0
    at_least: bool = True

    def ratio(self, rounds: Sequence[Round]) -> float | None:
        figures = compare_variants(rounds, self.against, self.variant)
        if not figures:
            return None
        return min(
            spread["median"] for spread in advantages({"figures": figures}).values()
        )
