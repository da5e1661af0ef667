"""From rounds to figures: the median and the spread of values and ratios; budgets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.rounds import Round


class Spread(TypedDict):
    """One figure over all rounds."""

    median: float
    min: float
    max: float


class Figure(TypedDict):
    """A figure as measured, and divided by the baseline's."""

    value: Spread
    ratio: Spread


Summary = dict[str, dict[str, Figure]]
"""Figures by name, by variant."""

MORE_IS_BETTER = ("calls_per_s", "mib_per_s")
"""What these names begin with; of everything else less is better."""


TIMES = ("_us", "_ms", "_s")
"""How figures end that are times; all others are counted."""

QUOTIENTS = ("least_of_all_figures", "growth")
"""What is reckoned from times, whatever its name ends with."""

MANY_SLICES = 30
"""From how many slices on a timed figure has a third digit."""


def is_counted(figure: str) -> bool:
    """Tell whether a figure is the same each time, more or less."""
    name = figure.partition("@")[0]
    return not (name.endswith(TIMES) or name in QUOTIENTS or more_is_better(name))


def slices(plan: Mapping[str, Any]) -> int:
    """Return how many slices of each variant a plan takes."""
    return int(plan["rounds"] * plan["slices"])


def digits(figure: str, plan: Mapping[str, Any]) -> int | None:
    """Return how many digits of a figure its slices carry; ``None``: it is counted."""
    if is_counted(figure):
        return None
    return 3 if slices(plan) >= MANY_SLICES else 2


@dataclass(frozen=True)
class Budget:
    """A line that the median ratio of one figure must keep."""

    variant: str
    figure: str
    limit: float
    at_least: bool = False
    against: str = ""
    """Divided by the same figure of that variant instead of the baseline's."""
    is_value: bool = False
    """Whether the figure itself keeps the line, and no ratio."""

    def ratio(self, rounds: Sequence[Round]) -> float | None:
        """Return the ratio it is about; ``None`` where that was not measured."""
        if self.against:
            figures = compared(rounds, self.variant, self.against) or {}
            return figures[self.figure]["median"] if self.figure in figures else None
        figure = summarise(rounds).get(self.variant, {}).get(self.figure)
        kind: Literal["value", "ratio"] = "value" if self.is_value else "ratio"
        return None if figure is None else figure[kind]["median"]

    def holds(self, ratio: float) -> bool:
        """Tell whether a ratio keeps the line."""
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    def verdict(self, rounds: Sequence[Round]) -> dict[str, Any] | None:
        """Return what a result file keeps of it; ``None`` where it was not measured."""
        ratio = self.ratio(rounds)
        if ratio is None:
            return None
        return {**asdict(self), "ratio": ratio, "holds": self.holds(ratio)}


def more_is_better(figure: str) -> bool:
    """Tell whether a figure is to be high."""
    return figure.startswith(MORE_IS_BETTER)


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the extremes."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def summarise(rounds: Sequence[Round]) -> Summary:
    """Return every figure of every variant over all rounds."""

    def over(variant: str, figure: str, kind: str) -> Spread:
        return spread([each[variant][figure][kind] for each in rounds])

    return {
        variant: {
            figure: {
                "value": over(variant, figure, "value"),
                "ratio": over(variant, figure, "ratio"),
            }
            for figure in figures
        }
        for variant, figures in rounds[0].items()
    }


def compared(
    rounds: Sequence[Round], variant: str, other: str
) -> dict[str, Spread] | None:
    """Return a variant's figures divided by another's, round by round.

    ``None`` where one of them was not measured. What is nothing cannot be divided by:
    such a figure is left out.
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
        if all(figure in of and of[figure]["value"] for of in divisors)
    }


def peer_pairs(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the pairs of a peer and ours; a floor is nobody's peer."""
    pairs = result.get("compared", [])
    return [pair for pair in pairs if "floor" not in pair["against"]]


def times_better(figure: str, ratio: Spread) -> Spread:
    """Return how many times better ours is, where a peer's figure is so many times."""
    if not more_is_better(figure):
        return ratio
    middle, low, high = (1 / ratio[of] for of in ("median", "max", "min"))
    return {"median": middle, "min": low, "max": high}


def ahead(pair: Mapping[str, Any]) -> dict[str, Spread]:
    """Return how many times better ours is in each figure of a pair."""
    return {
        figure: times_better(figure, spread)
        for figure, spread in pair["figures"].items()
        if spread["min"]
    }


@dataclass(frozen=True)
class Ahead(Budget):
    """In no figure may ours be behind a peer."""

    figure: str = "least_of_all_figures"
    limit: float = 1.0
    at_least: bool = True

    def ratio(self, rounds: Sequence[Round]) -> float | None:
        figures = compared(rounds, self.against, self.variant)
        if not figures:
            return None
        return min(each["median"] for each in ahead({"figures": figures}).values())
