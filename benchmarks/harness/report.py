"""Result files, and their tables for the terminal and the published pages."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from harness.figures import ahead, digits, peer_pairs

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
    "memory_syscalls": "asked the kernel for memory in 10,000 calls",
}
UNITS = {"us": "us", "ms": "ms", "s": "s", "kib": "KiB", "mib": "MiB"}
"""Units by the suffix of a figure's name, for figures without an entry in `TITLES`."""

PLACES = {
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

LEVEL = 1.0
MIN_ROUNDS = 2
"""With fewer rounds there is no spread, and no claim."""

PEERS = (
    "How many times better than each peer mcpwire is: median (lowest-highest round); "
    "above 1 is ahead."
)

WANTED = (
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

AXES: dict[str, Sequence[Sequence[str]]] = {
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
    ),
}
"""The figures of each table, for benchmarks with several fixed tables."""

ALL = ("footprint", "growth", "large", "many")
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
    name, _, place = figure.partition("@")
    axis, _, number = place.rpartition("=")
    if not place:
        return heading(name)
    many = f"{int(number):,}" if number.isdecimal() else number
    where = PLACES.get(axis, f"{axis} {{}}" if axis else "{} in flight").format(many)
    return f"{heading(name)}, {where}"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Format rows as a Markdown table with aligned columns."""
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def number(value: float, shown: int | None = 3) -> str:
    """Format a number with `shown` significant digits; ``None`` for a count."""
    if not value:
        return "0"
    if shown is None:
        return f"{value:,.0f}" if value == round(value) else number(value)
    rounded = float(f"{value:.{shown - 1}e}")
    decimals = shown - 1 - math.floor(math.log10(abs(rounded)))
    if shown > FEW_DIGITS and abs(rounded) < 1:
        decimals -= 1  # as many decimals for 0.95 as for 1.05
    return f"{rounded:,.{max(decimals, 0)}f}"


def spread_cell(spread: Spread, shown: int | None = 3) -> str:
    """Return ``median (min-max)``; the median alone if all three read the same."""
    middle, *ends = (number(spread[of], shown) for of in ("median", "min", "max"))
    return middle if ends == [middle] * 2 else f"{middle} ({'-'.join(ends)})"


def by_figure(plan: Mapping[str, Any], cell: Callable[..., str]) -> Cell:
    """Return a formatter that uses the significant digits of a plan's figures."""
    return lambda name, value: cell(value, digits(name, plan))


def axis_of(figure: str) -> tuple[str, str]:
    """Return the name and axis of a figure; figures with both equal share a table."""
    name, _, place = figure.partition("@")
    return (name, place.rpartition("=")[0]) if place else ("", "")


def grouped(figures: Iterable[str]) -> list[list[str]]:
    """Group figures into tables: those without a point first, then axis by axis."""
    groups: dict[tuple[str, str], list[str]] = {("", ""): []}
    for figure in figures:
        groups.setdefault(axis_of(figure), []).append(figure)
    return [group for group in groups.values() if group]


def all_figures(rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the figures of all rows, in order of first appearance."""
    return list(dict.fromkeys(figure for row in rows for figure in row))


def subject(budget: Mapping[str, Any]) -> str:
    """Return the variant and the figure of a budget as text."""
    return f"{budget['variant']}, {title(budget['figure'])}"


def left_out(budget: Mapping[str, Any]) -> str:
    """Return the subject of an unmeasured budget, and the variant to divide by."""
    beside = f", beside {budget['against']}" if budget["against"] else ""
    return subject(budget) + beside


def is_kept(result: Result) -> bool:
    """Return whether all budgets of a result hold."""
    return all(budget["holds"] for budget in result.get("budgets", ()))


def setting(result: dict[str, Any]) -> str:
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
    where = "pinned to one core" if machine["pinned"] else "unpinned"
    beside = ", calls in flight unpinned" if plan["widths"] else ""
    placed = machine.get("placed", f"one call at a time {where}{beside}")
    amount = f"{plan['calls']} calls" if plan["calls"] else "half a second"
    return (
        f"{', '.join(facts)}\n"
        f"{plan['rounds']} rounds of {plan['slices']} x {amount}; {placed}"
    )


def whose(baselines: Mapping[str, str]) -> str:
    """Return the common name of a result's baselines."""
    is_floor = all("floor" in name for name in baselines.values())
    return "the floor" if is_floor else "what each is measured against"


def claim(better: Spread, rounds: int) -> str:
    """Return the verdict that the spread of the rounds supports."""
    if rounds < MIN_ROUNDS:
        return "not repeated"
    if better["min"] > LEVEL:
        return "ahead"
    return "BEHIND" if better["max"] < LEVEL else "level"


def least(times_ahead: Mapping[str, Spread], plan: Mapping[str, Any]) -> str:
    """Return the figure with the lowest "times better", and its verdict."""
    figure = min(times_ahead, key=lambda name: times_ahead[name]["median"])
    better = times_ahead[figure]
    said = claim(better, plan["rounds"])
    return f"{said}: {spread_cell(better, digits(figure, plan))}, {title(figure)}"


def present(wanted: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the wanted figures that occur in a row."""
    known = {figure for row in rows for figure in row}
    return [figure for figure in wanted if figure in known]


def peer_table(results: Sequence[Result], wanted: Sequence[str] = KEY_FIGURES) -> str:
    """Return the table of "times better" than each peer, with the lowest figure."""
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
    """Return the cells of a row, with the significant digits of the plan."""
    cell = by_figure(plan, spread_cell)
    return [cell(name, of[name]) if name in of else "-" for name in figures]


def measured(result: Result) -> str:
    """Return date, machine, plan and versions of the peers, in one paragraph."""
    machine, name = result["machine"], result["benchmark"]
    peers = machine.get("peers", {})
    beside = ", ".join(f"{peer} {version}" for peer, version in peers.items())
    return "\n".join(
        [
            f"Measured on {machine['date']} ([{name}.json]({name}.json)): "
            + setting(result).replace("\n", ".\n")
            + ".",
            *([f"Beside it: {beside}."] if beside else []),
        ]
    )


def rows(
    named: Mapping[str, Mapping[str, Any]],
    wanted: Sequence[str],
    cell: Cell,
) -> str:
    """Return a table of the wanted figures that occur; "" without rows."""
    known = all_figures(named.values())
    figures = [figure for figure in wanted if figure in known]
    lines = [
        [name, *(cell(each, of[each]) if each in of else "-" for each in figures)]
        for name, of in named.items()
        if not of.keys().isdisjoint(figures)
    ]
    return table([["variant", *map(title, figures)], *lines]) if lines else ""


def groups(result: Result, known: Sequence[str]) -> Sequence[Sequence[str]]:
    """Return the figures of each table of a result."""
    name = result["benchmark"]
    if name in AXES:
        return AXES[name]
    return grouped(known) if name in ALL else [WANTED]


def in_tables(
    result: Result,
    named: Mapping[str, Mapping[str, Any]],
    cell: Callable[..., str],
    *,
    in_full: bool,
) -> str:
    """Return the figures in the tables of the benchmark."""
    known = all_figures(named.values())
    found = grouped(known) if in_full else groups(result, known)
    write = by_figure(result["plan"], cell)
    return "\n\n".join(filter(None, (rows(named, group, write) for group in found)))


def ratios(result: Result, *, in_full: bool) -> str:
    """Return the ratios of all variants except baselines."""
    named = {
        name: {figure: each["ratio"] for figure, each in of.items()}
        for name, of in result["summary"].items()
        if result["baselines"][name] != name
    }
    return in_tables(result, named, spread_cell, in_full=in_full)


def values(result: Result, *, in_full: bool) -> str:
    """Return the medians as measured."""
    named = {
        name: {figure: each["value"]["median"] for figure, each in of.items()}
        for name, of in result["summary"].items()
    }
    return in_tables(result, named, number, in_full=in_full)


def budgets(results: Sequence[Result]) -> str:
    """Return a table of the budgets."""
    lines = [
        [
            f"{one['variant']}, {title(one['figure'])}",
            one["against"] or result["baselines"][one["variant"]],
            f"{'>=' if one['at_least'] else '<='} {one['limit']:g}",
            number(one["ratio"], digits(one["figure"], result["plan"])),
            "kept" if one["holds"] else "**over**",
        ]
        for result in results
        for one in result.get("budgets", [])
    ]
    heads = ["budget", "divided by", "limit", "measured", ""]
    return table([heads, *lines]) if lines else ""


def peers(result: Result) -> str:
    """Return the table of "times better" than each peer; "" if there is none."""
    if result["benchmark"] in AXES:
        return ""  # the table of values suffices
    figures = () if result["benchmark"] in ALL else KEY_FIGURES
    pairs = peer_pairs(result)
    return peer_table([result], figures) if pairs else ""


def section(result: Result, *, in_full: bool = False) -> str:
    """Return the section of one benchmark's result.

    Args:
        result: The result file's content.
        in_full: Whether the tables have all figures instead of the published ones.
    """
    of = whose(result["baselines"])
    has_ratios = result["benchmark"] not in AXES
    remarks = result["machine"].get("remarks", {})
    parts = [
        measured(result),
        "\n".join(f"- {name}: {remark}." for name, remark in remarks.items()),
        budgets([result]),
        *_under(
            f"Ratios to {of}: median of the rounds (lowest-highest).",
            ratios(result, in_full=in_full) if has_ratios else "",
        ),
        *_under(
            PEERS,
            peers(result),
        ),
        *_under(
            "As measured: medians, in microseconds and calls per second or as it says.",
            values(result, in_full=in_full),
        ),
    ]
    return "\n\n".join(part for part in parts if part)


def _under(line: str, text: str) -> list[str]:
    """Return a line and its text; nothing without text."""
    return [line, text] if text else []


def everything(results: Sequence[Result]) -> str:
    """Return the summary tables of a whole run."""
    return "\n\n".join(filter(None, (budgets(results), PEERS, peer_table(results))))


def unmeasured(results: Sequence[Result]) -> list[str]:
    """Return a line for each budget without figures."""
    return [
        f"not measured: {result['benchmark']}: {what}"
        for result in results
        for what in result.get("unmeasured", [])
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
