"""Result files and the tables printed from them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from harness.figures import Budget, Figure, Spread, Summary
    from harness.rounds import Round

FORMAT = 1

TITLES = {
    "cpu_us": "CPU/call",
    "p50_us": "p50",
    "p99_us": "p99",
    "p999_us": "p99.9",
    "calls_per_s": "calls/s",
}


def title(figure: str) -> str:
    """Return a column's heading: ``calls_per_s@32`` reads ``calls/s, 32 in flight``."""
    name, _, width = figure.partition("@")
    return f"{TITLES[name]}, {width} in flight" if width else TITLES[name]


def table(rows: Iterable[Sequence[str]]) -> str:
    """Lay rows out as a Markdown table that also reads well on a terminal."""
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def spread_cell(spread: Spread) -> str:
    """Return ``median (min-max)``."""
    return f"{spread['median']:.2f} ({spread['min']:.2f}-{spread['max']:.2f})"


def ratio_cell(figure: Figure) -> str:
    """Return ``median (min-max)`` of the ratios."""
    return spread_cell(figure["ratio"])


def value_cell(figure: Figure) -> str:
    """Return the median as measured."""
    value = figure["value"]["median"]
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def grouped(figures: Iterable[str]) -> list[list[str]]:
    """Return the figures of each table: one call at a time, and two of more."""
    names = list(figures)
    groups = [
        [name for name in names if "@" not in name],
        [name for name in names if name.startswith("calls_per_s@")],
        [name for name in names if name.startswith("cpu_us@")],
    ]
    return [group for group in groups if group]


def tables(summary: Summary, cell: Callable[[Figure], str]) -> str:
    """Return one table of the calls one at a time and two of the calls in flight."""
    return "\n\n".join(
        table(
            [
                ["variant", *map(title, group)],
                *(
                    [name, *(cell(of[g]) for g in group)]
                    for name, of in summary.items()
                ),
            ]
        )
        for group in grouped(next(iter(summary.values())))
    )


def pair_tables(pairs: Sequence[dict[str, Any]]) -> str:
    """Return the same of variants divided by each other."""
    return "\n\n".join(
        table(
            [
                ["variant", "divided by", *map(title, group)],
                *(
                    [
                        each["variant"],
                        each["against"],
                        *(spread_cell(each["figures"][name]) for name in group),
                    ]
                    for each in pairs
                ),
            ]
        )
        for group in grouped(pairs[0]["figures"])
    )


def budget_lines(
    budgets: Sequence[Budget], rounds: Sequence[Round]
) -> list[tuple[bool, str]]:
    """Return each budget that applies: whether it holds, and a sentence."""
    lines = []
    for budget in budgets:
        ratio = budget.ratio(rounds)
        if ratio is None:
            continue
        holds = budget.holds(ratio)
        verdict = "ok  " if holds else "OVER"
        sign = ">=" if budget.at_least else "<="
        what = f"{budget.variant}, {title(budget.figure)}"
        of = f" of {budget.against}" if budget.against else ""
        line = f"{ratio:.2f} x{of}, budget {sign} {budget.limit:.2f} x"
        lines.append((holds, f"{verdict} {what}: {line}"))
    return lines


def setting(result: dict[str, Any]) -> str:
    """Return where and how the figures were taken, in two lines."""
    machine, plan = result["machine"], result["plan"]
    facts = [
        machine["cpu"],
        f"{machine['cores']} cores",
        machine["system"],
        machine["python"],
        machine["event_loop"],
        *(f"{name} {version}" for name, version in machine["packages"].items()),
        f"commit {machine['commit']}",
        f"load {machine['load_before']} at the start",
    ]
    where = "pinned to one core" if machine["pinned"] else "unpinned"
    beside = ", calls in flight unpinned" if plan["widths"] else ""
    placed = machine.get("placed", f"one call at a time {where}{beside}")
    return (
        f"{', '.join(facts)}\n"
        f"{plan['rounds']} rounds of {plan['slices']} x {plan['calls']} calls; {placed}"
    )


def render(result: dict[str, Any]) -> str:
    """Return everything that is printed of one result."""
    baselines, summary = result["baselines"], result["summary"]
    others = {name: of for name, of in summary.items() if baselines[name] != name}
    parts = [
        setting(result),
        *(
            [
                "Ratios to the floor: median of the rounds (lowest-highest)",
                tables(others, ratio_cell),
            ]
            if others
            else []
        ),
        *(
            ["Divided by each other", pair_tables(result["compared"])]
            if result.get("compared")
            else []
        ),
        "As measured: medians (microseconds; calls per second)",
        tables(summary, value_cell),
    ]
    return "\n\n".join(parts)


def save(path: Path, result: dict[str, Any]) -> None:
    """Write a result file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    """Read a result file.

    Raises:
        ValueError: It is none, or of another format.
    """
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        result = None
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        raise ValueError(f"{path.name} is no result file of format {FORMAT}")
    return result
