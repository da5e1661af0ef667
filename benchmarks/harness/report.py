"""Result files and the tables printed from them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from harness.figures import digits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.figures import Budget, Figure, Spread
    from harness.rounds import Round

    Cell = Callable[[str, Any], str]
    """Writes a figure, given its name and what there is of it."""

FORMAT = 1
FEW_DIGITS = 2

TITLES = {
    "cpu_us": "CPU/call",
    "p50_us": "p50",
    "p99_us": "p99",
    "p999_us": "p99.9",
    "calls_per_s": "calls/s",
    "mib_per_s": "MiB/s",
    "memory_syscalls": "asked the kernel for memory in 10,000 calls",
}
UNITS = {"us": "us", "ms": "ms", "s": "s", "kib": "KiB", "mib": "MiB"}
"""By how the name of a figure ends, where it has no title of its own."""

PLACES = {
    "calls": "after {} calls",
    "sessions": "among {} sessions",
    "turns": "{} sessions in turn",
    "kib": "{} KiB",
    "pages": "10,000 tools on {} pages",
}
"""How a place on an axis reads: ``cpu_us@calls=100`` is CPU/call, after 100 calls."""


def heading(name: str) -> str:
    """Return how a figure is called: ``import_ms`` reads ``import (ms)``."""
    if name in TITLES:
        return TITLES[name]
    words, _, unit = name.rpartition("_")
    if words and unit in UNITS:
        return f"{words.replace('_', ' ')} ({UNITS[unit]})"
    return name.replace("_", " ")


def title(figure: str) -> str:
    """Return a column's heading: ``calls_per_s@32`` reads ``calls/s, 32 in flight``."""
    name, _, place = figure.partition("@")
    axis, _, number = place.rpartition("=")
    if not place:
        return heading(name)
    many = f"{int(number):,}" if number.isdecimal() else number
    where = PLACES.get(axis, f"{axis} {{}}" if axis else "{} in flight").format(many)
    return f"{heading(name)}, {where}"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Lay rows out as a Markdown table that also reads well on a terminal."""
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def number(value: float, shown: int | None = 3) -> str:
    """Return a number with so many digits that count; ``None``: it was counted."""
    if not value:
        return "0"
    if shown is None:
        return f"{value:,.0f}" if value == round(value) else number(value)
    rounded = float(f"{value:.{shown - 1}e}")
    decimals = shown - 1 - math.floor(math.log10(abs(rounded)))
    if shown > FEW_DIGITS and abs(rounded) < 1:
        decimals -= 1  # as exact as what stands beside it above 1
    return f"{rounded:,.{max(decimals, 0)}f}"


def spread_cell(spread: Spread, shown: int | None = 3) -> str:
    """Return ``median (min-max)``; the median alone where there is no spread."""
    middle, *ends = (number(spread[of], shown) for of in ("median", "min", "max"))
    return middle if ends == [middle] * 2 else f"{middle} ({'-'.join(ends)})"


def by_figure(plan: Mapping[str, Any], cell: Callable[..., str]) -> Cell:
    """Return what writes a figure with the digits that a plan's slices carry."""
    return lambda name, value: cell(value, digits(name, plan))


def axis_of(figure: str) -> tuple[str, str]:
    """Return what the figures of one table share beside its rows."""
    name, _, place = figure.partition("@")
    return (name, place.rpartition("=")[0]) if place else ("", "")


def grouped(figures: Iterable[str]) -> list[list[str]]:
    """Return the figures of each table: all without a place, then axis by axis."""
    groups: dict[tuple[str, str], list[str]] = {("", ""): []}
    for figure in figures:
        groups.setdefault(axis_of(figure), []).append(figure)
    return [group for group in groups.values() if group]


def all_figures(rows: Iterable[Iterable[str]]) -> list[str]:
    """Return what any of the rows has, in the order of appearance."""
    return list(dict.fromkeys(figure for row in rows for figure in row))


def figure_tables(
    rows: Sequence[tuple[Sequence[str], Mapping[str, Any]]],
    heads: Sequence[str],
    cell: Cell,
) -> str:
    """Return a table for each group of figures; rows without any are left out."""
    found = []
    for group in grouped(all_figures(of for _, of in rows)):
        lines = [
            [*names, *(cell(name, of[name]) if name in of else "-" for name in group)]
            for names, of in rows
            if not of.keys().isdisjoint(group)
        ]
        found.append(table([[*heads, *map(title, group)], *lines]))
    return "\n\n".join(found)


def ratios(of: Mapping[str, Figure]) -> dict[str, Spread]:
    """Return the ratios of a variant's figures."""
    return {name: each["ratio"] for name, each in of.items()}


def values(of: Mapping[str, Figure]) -> dict[str, float]:
    """Return the medians of a variant's figures as measured."""
    return {name: each["value"]["median"] for name, each in of.items()}


def tables(named: Mapping[str, Mapping[str, Any]], cell: Cell) -> str:
    """Return one table of the calls one at a time and more of the calls in flight."""
    return figure_tables([((n,), of) for n, of in named.items()], ["variant"], cell)


def pair_tables(pairs: Sequence[dict[str, Any]], cell: Cell) -> str:
    """Return the same of variants divided by each other."""
    rows = [((each["variant"], each["against"]), each["figures"]) for each in pairs]
    return figure_tables(rows, ["variant", "divided by"], cell)


def subject(budget: Mapping[str, Any]) -> str:
    """Return what a budget is about."""
    return f"{budget['variant']}, {title(budget['figure'])}"


def left_out(budget: Mapping[str, Any]) -> str:
    """Return what a budget is about of which nothing was measured, and beside whom."""
    beside = f", beside {budget['against']}" if budget["against"] else ""
    return subject(budget) + beside


def budget_line(verdict: Mapping[str, Any]) -> str:
    """Return a sentence on a budget that a result file keeps."""
    mark = "ok  " if verdict["holds"] else "OVER"
    sign = ">=" if verdict["at_least"] else "<="
    what = subject(verdict)
    of = f" of {verdict['against']}" if verdict["against"] else ""
    unit = "" if verdict.get("is_value") else " x"
    limit = f"budget {sign} {verdict['limit']:.2f}{unit}"
    return f"{mark} {what}: {verdict['ratio']:.2f}{unit}{of}, {limit}"


def budget_lines(
    budgets: Sequence[Budget], rounds: Sequence[Round]
) -> list[tuple[bool, str]]:
    """Return each budget that applies: whether it holds, and a sentence."""
    found = [budget.verdict(rounds) for budget in budgets]
    return [(one["holds"], budget_line(one)) for one in found if one is not None]


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


def whose(baselines: Mapping[str, str]) -> str:
    """Return what the ratios of a result are ratios to."""
    is_floor = all("floor" in name for name in baselines.values())
    return "the floor" if is_floor else "what each is measured against"


def render(result: dict[str, Any]) -> str:
    """Return everything that is printed of one result."""
    baselines, summary = result["baselines"], result["summary"]
    others = {n: ratios(of) for n, of in summary.items() if baselines[n] != n}
    ratio = by_figure(result["plan"], spread_cell)
    parts = [
        setting(result),
        *(
            [
                f"Ratios to {whose(baselines)}: median of the rounds (lowest-highest)",
                tables(others, ratio),
            ]
            if others
            else []
        ),
        *(
            ["Divided by each other", pair_tables(result["compared"], ratio)]
            if result.get("compared")
            else []
        ),
        "As measured: medians (microseconds and calls per second, or as it says)",
        tables(
            {name: values(of) for name, of in summary.items()},
            by_figure(result["plan"], number),
        ),
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
