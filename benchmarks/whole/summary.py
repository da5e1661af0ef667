"""A whole run in three tables: the budgets, the floors, the peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.figures import Budget, compared, more_is_better
from harness.report import budget_line, number, table, title

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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

WITHIN_NOISE = 1.0


def times_better(figure: str, ratio: float) -> float:
    """Return how many times better ours is, where a peer's figure is so many times."""
    return 1 / ratio if more_is_better(figure) else ratio


def peer_pairs(result: Result) -> list[dict[str, Any]]:
    """Return the pairs of a peer and ours; a floor is nobody's peer."""
    pairs = result.get("compared", [])
    return [pair for pair in pairs if "floor" not in pair["against"]]


def ahead(pair: Mapping[str, Any]) -> dict[str, float]:
    """Return how many times better ours is in each figure of a pair."""
    return {
        figure: times_better(figure, spread["median"])
        for figure, spread in pair["figures"].items()
        if spread["median"]
    }


@dataclass(frozen=True)
class Ahead(Budget):
    """In no figure may ours be behind a peer."""

    figure: str = "least_of_all_figures"
    limit: float = 1.0
    at_least: bool = True

    def ratio(self, rounds: Sequence[Round]) -> float | None:
        figures = compared(rounds, self.against, self.variant)
        return min(ahead({"figures": figures}).values()) if figures else None


def times(value: float) -> str:
    """Return ``1.07 x``, or ``24 x`` where digits say nothing."""
    return f"{value:.2f} x" if value < 10 else f"{number(round(value))} x"


def least(times_ahead: Mapping[str, float]) -> str:
    """Return the figure in which ours is the least ahead, or behind."""
    figure = min(times_ahead, key=lambda name: times_ahead[name])
    mark = "" if times_ahead[figure] > WITHIN_NOISE else "BEHIND: "
    return f"{mark}{times(times_ahead[figure])} ({title(figure)})"


def present(wanted: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return those of the figures that any row has."""
    known = {figure for row in rows for figure in row}
    return [figure for figure in wanted if figure in known]


def peer_table(results: Sequence[Result], wanted: Sequence[str] = KEY_FIGURES) -> str:
    """Return how many times better than each peer ours is, and where the least."""
    pairs = [
        (result["benchmark"], pair, better)
        for result in results
        for pair in peer_pairs(result)
        if (better := ahead(pair))
    ]
    if not pairs:
        return "nothing was compared with a peer"
    figures = present(wanted, (better for *_, better in pairs))
    rows = [
        [
            question,
            pair["against"],
            pair["variant"],
            *(times(better[name]) if name in better else "-" for name in figures),
            least(better),
        ]
        for question, pair, better in pairs
    ]
    heads = ["question", "this", "is better than", *map(title, figures)]
    return table([[*heads, "the least of all figures"], *rows])


def floor_rows(result: Result) -> dict[str, dict[str, float]]:
    """Return the ratios of what is ours, by variant."""
    peers = {pair["variant"] for pair in peer_pairs(result)}
    return {
        name: {figure: each["ratio"]["median"] for figure, each in figures.items()}
        for name, figures in result["summary"].items()
        if result["baselines"][name] != name and name not in peers
    }


def floor_table(results: Sequence[Result], wanted: Sequence[str] = KEY_FIGURES) -> str:
    """Return the ratio of each variant of ours to what it is measured against."""
    rows = [
        (result, name, ratios)
        for result in results
        for name, ratios in floor_rows(result).items()
        if not ratios.keys().isdisjoint(wanted)
    ]
    figures = present(wanted, (ratios for *_, ratios in rows))
    lines = [
        [
            result["benchmark"],
            name,
            result["baselines"][name],
            *(times(ratios[each]) if each in ratios else "-" for each in figures),
        ]
        for result, name, ratios in rows
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
