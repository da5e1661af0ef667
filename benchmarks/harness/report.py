"""Result files, and their tables for the terminal and the published pages."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from harness.figures import advantages, digits, peer_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.figures import Spread

    Result = dict[str, Any]

    Cell = Callable[[str, Any], str]
    """Formats a figure, given its name and its value or spread."""

FORMAT = 1
FEW_DIGITS = 2

TITLES = {
    "cpu_us": "CPU/call",
    "p50_us": "p50",
    "p99_us": "p99",
    "p999_us": "p99.9",
    "calls_per_s": "calls/s",
    "mib_per_s": "MiB/s",
    "memory_syscalls": "system calls for memory in 10,000 calls",
}
UNITS = {"us": "us", "ms": "ms", "s": "s", "kib": "KiB", "mib": "MiB"}
"""Units by the suffix of a figure's name, for figures without an entry in `TITLES`."""

AXIS_WORDS = {
    "calls": "after {} calls",
    "sessions": "among {} sessions",
    "turns": "{} sessions in turn",
    "kib": "{} KiB",
    "pages": "10,000 tools on {} pages",
}
"""The words for a point on an axis: ``cpu_us@calls=100``: CPU/call, after 100 calls."""


KEY_FIGURES = (
    "cpu_us",
    "p50_us",
    "p99_us",
    "added_us",
    "calls_per_s@8",
    "calls_per_s@32",
)
"""The figures of the tables of peers; a result file has more."""

EVEN_RATIO = 1.0
MIN_ROUNDS = 2
"""With fewer rounds there is no spread, and no claim."""

PEERS_HEADING = (
    "How many times better than each peer mcpwire is: median (lowest-highest round); "
    "above 1 is ahead."
)

DEFAULT_FIGURES = (
    "cpu_us",
    "p50_us",
    "p99_us",
    "p999_us",
    "added_us",
    "calls_per_s@8",
    "calls_per_s@32",
    "calls_per_s@512",
    "cpu_us@32",
)
"""The default figures of a benchmark's table."""

FIXED_TABLES: dict[str, Sequence[Sequence[str]]] = {
    "footprint": (
        ("import_ms", "import_in_process_ms", "first_call_ms"),
        ("import_modules", "call_modules"),
        ("install_mib", "distributions"),
        ("call_rss_kib", "after_rss_kib", "blocks_left", "peak_bytes"),
        (
            "stdio_session_kib",
            "stdio_in_flight_kib",
            "http_session_kib",
            "http_in_flight_kib",
        ),
        ("memory_syscalls",),
    )
}
"""The figures of each table, for benchmarks with several fixed tables."""

IN_FULL = ("footprint", "growth", "large", "many")
"""Benchmarks with all figures in their published tables."""


def heading(name: str) -> str:
    """Return the title of a figure: ``import (ms)`` for ``import_ms``."""
    if name in TITLES:
        return TITLES[name]
    words, _, unit = name.rpartition("_")
    if words and unit in UNITS:
        return f"{words.replace('_', ' ')} ({UNITS[unit]})"
    return name.replace("_", " ")


def title(figure: str) -> str:
    """Return a column's heading: ``calls/s, 32 in flight`` for ``calls_per_s@32``."""
    name, _, point = figure.partition("@")
    axis, _, number = point.rpartition("=")
    if not point:
        return heading(name)
    amount = f"{int(number):,}" if number.isdecimal() else number
    words = AXIS_WORDS.get(axis, f"{axis} {{}}" if axis else "{} in flight").format(
        amount
    )
    return f"{heading(name)}, {words}"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Format rows as a Markdown table with aligned columns."""
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def number(value: float, precision: int | None = 3) -> str:
    """Format a number with `precision` significant digits; ``None`` for a count."""
    if not value:
        return "0"
    if precision is None:
        return f"{value:,.0f}" if value == round(value) else number(value)
    rounded = float(f"{value:.{precision - 1}e}")
    decimals = precision - 1 - math.floor(math.log10(abs(rounded)))
    if precision > FEW_DIGITS and abs(rounded) < 1:
        decimals -= 1  # as many decimals for 0.95 as for 1.05
    return f"{rounded:,.{max(decimals, 0)}f}"


def spread_cell(spread: Spread, precision: int | None = 3) -> str:
    """Return ``median (min-max)``; the median alone if all three read the same."""
    median_text, *ends = (
        number(spread[key], precision) for key in ("median", "min", "max")
    )
    return (
        median_text
        if ends == [median_text] * 2
        else f"{median_text} ({'-'.join(ends)})"
    )


def by_figure(plan: Mapping[str, Any], cell: Callable[..., str]) -> Cell:
    """Return a formatter that uses the significant digits of a plan's figures."""
    return lambda name, value: cell(value, digits(name, plan))


def axis_of(figure: str) -> tuple[str, str]:
    """Return the name and axis of a figure; figures with both equal share a table."""
    name, _, point = figure.partition("@")
    return (name, point.rpartition("=")[0]) if point else ("", "")


def group_by_axis(figures: Iterable[str]) -> list[list[str]]:
    """Group figures into tables: those without a point first, then axis by axis."""
    groups: dict[tuple[str, str], list[str]] = {("", ""): []}
    for figure in figures:
        groups.setdefault(axis_of(figure), []).append(figure)
    return [group for group in groups.values() if group]


def union_of_figures(rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the figures of all rows, in order of first appearance."""
    return list(dict.fromkeys(figure for row in rows for figure in row))


def budget_subject(budget: Mapping[str, Any]) -> str:
    """Return the variant and the figure of a budget as text."""
    return f"{budget['variant']}, {title(budget['figure'])}"


def budget_text(budget: Mapping[str, Any]) -> str:
    """Return the subject of an unmeasured budget, and the variant to divide by."""
    divisor = f", beside {budget['against']}" if budget["against"] else ""
    return budget_subject(budget) + divisor


def are_budgets_met(result: Result) -> bool:
    """Return whether all budgets of a result hold."""
    return all(budget["holds"] for budget in result.get("budgets", ()))


def describe_setting(result: dict[str, Any]) -> str:
    """Return the machine and the plan of a result, in two lines."""
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
    pinning = "pinned to one core" if machine["pinned"] else "unpinned"
    unpinned = ", calls in flight unpinned" if plan["widths"] else ""
    placement = machine.get("placed", f"one call at a time {pinning}{unpinned}")
    calls = plan["calls"]
    amount = f"{calls} calls" if calls else plan.get("slice", "half a second")
    return (
        f"{', '.join(facts)}\n"
        f"{plan['rounds']} rounds of {plan['slices']} x {amount}; {placement}"
    )


def baseline_name(baselines: Mapping[str, str]) -> str:
    """Return the common name of a result's baselines."""
    is_floor = all("floor" in name for name in baselines.values())
    return "the floor" if is_floor else "what each is measured against"


def verdict_of_spread(better: Spread, rounds: int) -> str:
    """Return the verdict that the spread of the rounds supports."""
    if rounds < MIN_ROUNDS:
        return "not repeated"
    if better["min"] > EVEN_RATIO:
        return "ahead"
    return "BEHIND" if better["max"] < EVEN_RATIO else "level"


def lowest_advantage(
    better_by_figure: Mapping[str, Spread], plan: Mapping[str, Any]
) -> str:
    """Return the figure with the lowest "times better", and its verdict."""
    figure = min(better_by_figure, key=lambda name: better_by_figure[name]["median"])
    better = better_by_figure[figure]
    verdict = verdict_of_spread(better, plan["rounds"])
    return f"{verdict}: {spread_cell(better, digits(figure, plan))}, {title(figure)}"


def measured_figures(
    selected: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return the wanted figures that occur in a row."""
    measured = {figure for row in rows for figure in row}
    return [figure for figure in selected if figure in measured]


def peer_table(results: Sequence[Result], selected: Sequence[str] = KEY_FIGURES) -> str:
    """Return the table of "times better" than each peer, with the lowest figure."""
    pairs = [
        (result, pair, better)
        for result in results
        for pair in peer_pairs(result)
        if (better := advantages(pair))
    ]
    if not pairs:
        return "nothing was compared with a peer"
    figures = measured_figures(selected, (better for *_, better in pairs))
    rows = [
        [
            result["benchmark"],
            pair["against"],
            pair["variant"],
            *cells(better, figures, result["plan"]),
            lowest_advantage(better, result["plan"]),
        ]
        for result, pair, better in pairs
    ]
    heads = ["question", "this", "beside", *map(title, figures)]
    return table([[*heads, "the least of all figures"], *rows])


def cells(
    spreads: Mapping[str, Spread], figures: Sequence[str], plan: Mapping[str, Any]
) -> list[str]:
    """Return the cells of a row, with the significant digits of the plan."""
    cell = by_figure(plan, spread_cell)
    return [cell(name, spreads[name]) if name in spreads else "-" for name in figures]


def describe_measurement(result: Result) -> str:
    """Return date, machine, plan and versions of the peers, in one paragraph."""
    machine, name = result["machine"], result["benchmark"]
    peers = machine.get("peers", {})
    versions = ", ".join(f"{peer} {version}" for peer, version in peers.items())
    return "\n".join(
        [
            f"Measured on {machine['date']} ([{name}.json]({name}.json)): "
            + describe_setting(result).replace("\n", ".\n")
            + ".",
            *([f"Beside it: {versions}."] if versions else []),
        ]
    )


def figure_table(
    by_variant: Mapping[str, Mapping[str, Any]], selected: Sequence[str], cell: Cell
) -> str:
    """Return a table of the wanted figures that occur; "" without rows."""
    measured = union_of_figures(by_variant.values())
    figures = [figure for figure in selected if figure in measured]
    rows = [
        [
            name,
            *(
                cell(figure, cells_of_variant[figure])
                if figure in cells_of_variant
                else "-"
                for figure in figures
            ),
        ]
        for name, cells_of_variant in by_variant.items()
        if not cells_of_variant.keys().isdisjoint(figures)
    ]
    return table([["variant", *map(title, figures)], *rows]) if rows else ""


def table_figures(result: Result, figures: Sequence[str]) -> Sequence[Sequence[str]]:
    """Return the figures of each table of a result."""
    name = result["benchmark"]
    if name in FIXED_TABLES:
        return FIXED_TABLES[name]
    return group_by_axis(figures) if name in IN_FULL else [DEFAULT_FIGURES]


def figure_tables(
    result: Result,
    by_variant: Mapping[str, Mapping[str, Any]],
    cell: Callable[..., str],
    *,
    in_full: bool,
) -> str:
    """Return the figures in the tables of the benchmark."""
    figures = union_of_figures(by_variant.values())
    groups = group_by_axis(figures) if in_full else table_figures(result, figures)
    write = by_figure(result["plan"], cell)
    return "\n\n".join(
        filter(None, (figure_table(by_variant, group, write) for group in groups))
    )


def ratio_tables(result: Result, *, in_full: bool) -> str:
    """Return the ratios of all variants except baselines."""
    by_variant = {
        name: {figure: spreads["ratio"] for figure, spreads in figures.items()}
        for name, figures in result["summary"].items()
        if result["baselines"][name] != name
    }
    return figure_tables(result, by_variant, spread_cell, in_full=in_full)


def value_tables(result: Result, *, in_full: bool) -> str:
    """Return the medians as measured."""
    by_variant = {
        name: {
            figure: spreads["value"]["median"] for figure, spreads in figures.items()
        }
        for name, figures in result["summary"].items()
    }
    return figure_tables(result, by_variant, number, in_full=in_full)


def budget_table(results: Sequence[Result]) -> str:
    """Return a table of the budgets."""
    rows = [
        [
            f"{budget['variant']}, {title(budget['figure'])}",
            budget["against"] or result["baselines"][budget["variant"]],
            f"{'>=' if budget['at_least'] else '<='} {budget['limit']:g}",
            number(budget["ratio"], digits(budget["figure"], result["plan"])),
            "kept" if budget["holds"] else "**over**",
        ]
        for result in results
        for budget in result.get("budgets", [])
    ]
    heads = ["budget", "divided by", "limit", "measured", ""]
    return table([heads, *rows]) if rows else ""


def peers_section(result: Result) -> str:
    """Return the table of "times better" than each peer; "" if there is none."""
    if result["benchmark"] in FIXED_TABLES:
        return ""  # the table of values suffices
    figures = () if result["benchmark"] in IN_FULL else KEY_FIGURES
    pairs = peer_pairs(result)
    return peer_table([result], figures) if pairs else ""


def section(result: Result, *, in_full: bool = False) -> str:
    """Return the section of one benchmark's result.

    Args:
        result: The result file's content.
        in_full: Whether the tables have all figures instead of the published ones.
    """
    baseline = baseline_name(result["baselines"])
    has_ratios = result["benchmark"] not in FIXED_TABLES
    remarks = result["machine"].get("remarks", {})
    parts = [
        describe_measurement(result),
        "\n".join(f"- {name}: {remark}." for name, remark in remarks.items()),
        budget_table([result]),
        *_with_heading(
            f"Ratios to {baseline}: median of the rounds (lowest-highest).",
            ratio_tables(result, in_full=in_full) if has_ratios else "",
        ),
        *_with_heading(PEERS_HEADING, peers_section(result)),
        *_with_heading(
            "As measured: medians, in microseconds and calls per second or as it says.",
            value_tables(result, in_full=in_full),
        ),
    ]
    return "\n\n".join(part for part in parts if part)


def _with_heading(line: str, text: str) -> list[str]:
    """Return a line and its text; nothing without text."""
    return [line, text] if text else []


def summary_tables(results: Sequence[Result]) -> str:
    """Return the summary tables of a whole run."""
    return "\n\n".join(
        filter(None, (budget_table(results), PEERS_HEADING, peer_table(results)))
    )


def unmeasured_lines(results: Sequence[Result]) -> list[str]:
    """Return a line for each budget without figures."""
    return [
        f"not measured: {result['benchmark']}: {budget}"
        for result in results
        for budget in result.get("unmeasured", [])
    ]


def save(path: Path, result: dict[str, Any]) -> None:
    """Write a result file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    """Read a result file.

    Raises:
        ValueError: The file is no result file, or has another format.
    """
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        result = None
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        raise ValueError(f"{path.name} is no result file of format {FORMAT}")
    return result
