"""A whole run in three tables: the budgets, the floors, the peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.figures import Budget, compared, digits, more_is_better
from harness.report import (
    budget_line,
    by_figure,
    ratios,
    spread_cell,
    table,
    title,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.figures import Spread
    from harness.rounds import Round

Result = dict[str, Any]

KEY_FIGURES = (
    "cpu_us",
    "p50_us",
    "p99_us",
    "added_us",
    "calls_per_s@8",
    "calls_per_s@32",
)
"""What a row of the last tables has; a file has more."""

LEVEL = 1.0
MIN_ROUNDS = 2
"""With fewer there is no spread, and nothing is said."""


def peer_pairs(result: Result) -> list[dict[str, Any]]:
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


def claim(better: Spread, rounds: int) -> str:
    """Return what the spread of the rounds lets one say."""
    if rounds < MIN_ROUNDS:
        return "not repeated"
    if better["min"] > LEVEL:
        return "ahead"
    return "BEHIND" if better["max"] < LEVEL else "level"


def least(times_ahead: Mapping[str, Spread], plan: Mapping[str, Any]) -> str:
    """Return the figure in which ours is the least ahead, and what that shows."""
    figure = min(times_ahead, key=lambda name: times_ahead[name]["median"])
    better = times_ahead[figure]
    said = claim(better, plan["rounds"])
    return f"{said}: {spread_cell(better, digits(figure, plan))}, {title(figure)}"


def present(wanted: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return those of the figures that any row has."""
    known = {figure for row in rows for figure in row}
    return [figure for figure in wanted if figure in known]


def peer_table(results: Sequence[Result], wanted: Sequence[str] = KEY_FIGURES) -> str:
    """Return how many times better than each peer ours is, and where the least."""
    pairs = [
        (result, pair, better)
        for result in results
        for pair in peer_pairs(result)
        if (better := ahead(pair))
    ]
    if not pairs:
        return "nothing was compared with a peer"
    figures = present(wanted, (better for *_, better in pairs))
    rows = [
        [
            result["benchmark"],
            pair["against"],
            pair["variant"],
            *cells(better, figures, result["plan"]),
            least(better, result["plan"]),
        ]
        for result, pair, better in pairs
    ]
    heads = ["question", "this", "beside", *map(title, figures)]
    return table([[*heads, "the least of all figures"], *rows])


def cells(
    of: Mapping[str, Spread], figures: Sequence[str], plan: Mapping[str, Any]
) -> list[str]:
    """Return the cells of a row, with the digits that the plan's slices carry."""
    cell = by_figure(plan, spread_cell)
    return [cell(name, of[name]) if name in of else "-" for name in figures]


def floor_rows(result: Result) -> dict[str, dict[str, Spread]]:
    """Return the ratios of what is ours, by variant."""
    peers = {pair["variant"] for pair in peer_pairs(result)}
    return {
        name: ratios(figures)
        for name, figures in result["summary"].items()
        if result["baselines"][name] != name and name not in peers
    }


def floor_table(results: Sequence[Result], wanted: Sequence[str] = KEY_FIGURES) -> str:
    """Return the ratio of each variant of ours to what it is measured against."""
    rows = [
        (result, name, of)
        for result in results
        for name, of in floor_rows(result).items()
        if not of.keys().isdisjoint(wanted)
    ]
    figures = present(wanted, (of for *_, of in rows))
    lines = [
        [
            result["benchmark"],
            name,
            result["baselines"][name],
            *cells(of, figures, result["plan"]),
        ]
        for result, name, of in rows
    ]
    heads = ["question", "variant", "against", *map(title, figures)]
    return table([heads, *lines]) if lines else "nothing was measured against a floor"


def budget_list(results: Sequence[Result]) -> str:
    """Return a line for each budget."""
    lines = [
        f"{result['benchmark']}: {budget_line(verdict)}"
        for result in results
        for verdict in result.get("budgets", [])
    ]
    return "\n".join(lines) or "no budget was measured"


def over(results: Sequence[Result]) -> list[str]:
    """Return a line for each budget that is not kept."""
    return [
        f"{result['benchmark']}: {budget_line(verdict)}"
        for result in results
        for verdict in result.get("budgets", [])
        if not verdict["holds"]
    ]


def unmeasured(results: Sequence[Result]) -> list[str]:
    """Return a line for each budget of which nothing was measured: nothing is won."""
    return [
        f"not measured: {result['benchmark']}: {what}"
        for result in results
        for what in result.get("unmeasured", [])
    ]


def render(results: Sequence[Result]) -> str:
    """Return all of it."""
    kept = sum(len(result.get("budgets", [])) for result in results)
    missed = len(over(results))
    return "\n\n".join(
        [
            "Ratios to the floor (CPU and time: less is better; calls/s: more is)",
            floor_table(results),
            "How many times better mcpwire is than its peers (above 1 is ahead)",
            peer_table(results),
            f"Budgets: {kept - missed} of {kept} kept",
            "\n".join([budget_list(results), *unmeasured(results)]),
        ]
    )
