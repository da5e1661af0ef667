"""From rounds to figures: the median and the spread of values and ratios; budgets."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@dataclass(frozen=True)
class Budget:
    """A line that the median ratio of one figure must keep."""

    variant: str
    figure: str
    limit: float
    at_least: bool = False
    against: str = ""
    """Divided by the same figure of that variant instead of the baseline's."""

    def ratio(self, rounds: Sequence[Round]) -> float | None:
        """Return the ratio it is about; ``None`` where that was not measured."""
        if self.against:
            figures = compared(rounds, self.variant, self.against) or {}
            return figures[self.figure]["median"] if self.figure in figures else None
        figure = summarise(rounds).get(self.variant, {}).get(self.figure)
        return None if figure is None else figure["ratio"]["median"]

    def holds(self, ratio: float) -> bool:
        """Tell whether a ratio keeps the line."""
        return ratio >= self.limit if self.at_least else ratio <= self.limit


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

    ``None`` where one of them was not measured.
    """
    if not {variant, other} <= rounds[0].keys():
        return None
    return {
        figure: spread(
            [
                each[variant][figure]["value"] / each[other][figure]["value"]
                for each in rounds
            ]
        )
        for figure in rounds[0][variant]
    }
