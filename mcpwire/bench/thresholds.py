"""Conditions on figures: ``p99 > 20ms``, ``p99 +10% vs base.json``."""

from __future__ import annotations

import re
from math import copysign
from typing import TYPE_CHECKING, Final

import attrs

from mcpwire.bench.results import FIGURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_CONDITION_PATTERN: Final = re.compile(
    r"\s*([a-z0-9. ]+?)\s*(<=|>=|<|>)\s*([0-9]+(?:\.[0-9]+)?)\s*(\S*)\s*"
)
_CHANGE_PATTERN: Final = re.compile(
    r"\s*([a-z0-9. ]+?)\s*([+-][0-9]+(?:\.[0-9]+)?)%\s+vs\s+(\S.*?)\s*"
)

_UNITS: Final[dict[str, dict[str, float]]] = {
    "us": {"us": 1, "ms": 1_000, "s": 1_000_000},
    "/s": {"/s": 1, "": 1},
    "B": {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "B/s": {"B/s": 1, "KiB/s": 2**10, "MiB/s": 2**20},
    "%": {"%": 1},
    "": {"": 1},
}


@attrs.frozen
class Threshold:
    """A condition on one figure."""

    text: str
    figure: str
    is_below: bool
    limit: float
    """In the figure's own unit."""

    or_equal: bool = False

    def is_true(self, figures: Mapping[str, float]) -> bool:
        """Return whether the condition holds for these figures.

        Raises:
            ValueError: The figure was not measured.
        """
        value = figures.get(self.figure)
        if value is None:
            raise ValueError(f"{self.text!r}: {self.figure} was not measured")
        if value == self.limit:
            return self.or_equal
        return value < self.limit if self.is_below else value > self.limit


@attrs.frozen
class Change:
    """A condition on the relative change of a figure since an earlier run."""

    text: str
    figure: str
    part: float
    """The relative change, such as 0.1 for +10 %; negative: a decrease."""

    file: str

    def is_true(self, ratio: float) -> bool:
        """Return whether a ratio (after / before) exceeds the change."""
        is_decrease = copysign(1, self.part) < 0  # also of -0 %
        return ratio < 1 + self.part if is_decrease else ratio > 1 + self.part


_FIGURES: Final = {name: figure.unit for name, figure in FIGURES.items()}


def parse_condition(text: str, figures: Mapping[str, str] = _FIGURES) -> Threshold:
    """Parse a condition, such as ``p99<20ms``.

    Args:
        text: The condition.
        figures: The known figures and their units.

    Raises:
        ValueError: The syntax is wrong, or the figure or unit is unknown.
    """
    match = _CONDITION_PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(
            f"a condition is FIGURE < VALUE UNIT, such as 'p99 < 20ms', got {text!r}"
        )
    name, sign, number, unit = match.groups()
    _check_figure(name, figures)
    units = _UNITS[figures[name]]
    if unit not in units:
        known = ", ".join(filter(None, units)) or "none"
        raise ValueError(f"{text!r}: the units of {name} are {known}, got {unit!r}")
    return Threshold(
        text.strip(), name, sign[0] == "<", float(number) * units[unit], "=" in sign
    )


def parse_failure(text: str) -> Threshold | Change:
    """Parse a condition, or a change such as ``p99 +10% vs base.json``.

    Raises:
        ValueError: The syntax is wrong, or the figure or unit is unknown.
    """
    match = _CHANGE_PATTERN.fullmatch(text)
    if match is None:
        return parse_condition(text)
    name, percent, file = match.groups()
    _check_figure(name, _FIGURES)
    return Change(text.strip(), name, float(percent) / 100, file)


def _check_figure(name: str, figures: Iterable[str]) -> None:
    if name not in figures:
        raise ValueError(f"no figure is named {name!r}; there are {', '.join(figures)}")
