"""The figures that stand in a text, between two marks, as the result files have them.

    <!-- figures: stdio -->
    ...
    <!-- end of figures -->

The name is that of a question. `headline` is the one table of the page that people
read, `behind` is every line that is not kept, `summary` is the tables of a whole run.
`run.py --tables` writes what stands between the marks. Each result file has a text
beside it, which is begun where there is none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from harness import report
from harness.figures import digits
from harness.report import all_figures, by_figure, number, spread_cell, table, title

from whole import headline, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.report import Cell

    from whole.summary import Result

TEXTS = ("README.md", "benchmarks/README.md", "docs/performance.md")
"""Where there may be such marks, from the root of the tree, beside the results."""

PEERS = (
    "How many times better than each peer mcpwire is: median (lowest-highest round); "
    "above 1 is ahead."
)
BEGUN = "# {}\n\n<!-- figures: {} -->\n<!-- end of figures -->\n"

MARKS = re.compile(
    r"(?<=<!-- figures: )(?P<name>[\w.]+)( -->\n).*?(?=<!-- end of figures -->)",
    re.DOTALL,
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
"""The figures of a table where a question names none of its own."""

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
"""The tables of a question that has more than one, by figure."""

ALL = ("footprint", "growth", "large", "many")
"""Questions all of whose figures stand there."""


def measured(result: Result) -> str:
    """Return when, where and how in one paragraph, with the versions of all peers."""
    machine, name = result["machine"], result["benchmark"]
    peers = machine.get("peers", {})
    beside = ", ".join(f"{peer} {version}" for peer, version in peers.items())
    return "\n".join(
        [
            f"Measured on {machine['date']} ([{name}.json]({name}.json)): "
            + report.setting(result).replace("\n", ".\n")
            + ".",
            *([f"Beside it: {beside}."] if beside else []),
        ]
    )


def rows(
    named: Mapping[str, Mapping[str, Any]],
    wanted: Sequence[str],
    cell: Cell,
) -> str:
    """Return a table of these figures, as far as there are any."""
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
    return report.grouped(known) if name in ALL else [WANTED]


def in_tables(
    result: Result,
    named: Mapping[str, Mapping[str, Any]],
    cell: Callable[..., str],
) -> str:
    """Return these figures in as many tables as the question has."""
    found = groups(result, all_figures(named.values()))
    write = by_figure(result["plan"], cell)
    return "\n\n".join(filter(None, (rows(named, group, write) for group in found)))


def ratios(result: Result) -> str:
    """Return the ratios of what has a baseline other than itself."""
    named = {
        name: report.ratios(of)
        for name, of in result["summary"].items()
        if result["baselines"][name] != name
    }
    return in_tables(result, named, spread_cell)


def values(result: Result) -> str:
    """Return the medians as measured."""
    named = {name: report.values(of) for name, of in result["summary"].items()}
    return in_tables(result, named, number)


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
    """Return how many times better than each peer ours is."""
    if result["benchmark"] in AXES:
        return ""  # one table of values says it all
    figures = () if result["benchmark"] in ALL else summary.KEY_FIGURES
    pairs = summary.peer_pairs(result)
    return summary.peer_table([result], figures) if pairs else ""


def section(result: Result) -> str:
    """Return all that stands in a text of one question."""
    of = report.whose(result["baselines"])
    has_ratios = result["benchmark"] not in AXES
    remarks = result["machine"].get("remarks", {})
    parts = [
        measured(result),
        "\n".join(f"- {name}: {remark}." for name, remark in remarks.items()),
        budgets([result]),
        *_under(
            f"Ratios to {of}: median of the rounds (lowest-highest).",
            ratios(result) if has_ratios else "",
        ),
        *_under(
            PEERS,
            peers(result),
        ),
        *_under(
            "As measured: medians, in microseconds and calls per second or as it says.",
            values(result),
        ),
    ]
    return "\n\n".join(part for part in parts if part)


def _under(line: str, text: str) -> list[str]:
    """Return a text under its line, or nothing."""
    return [line, text] if text else []


def everything(results: Sequence[Result]) -> str:
    """Return the tables of a whole run."""
    return "\n\n".join(
        part
        for part in (
            budgets(results),
            PEERS,
            summary.peer_table(results),
        )
        if part
    )


WHOLE = {
    "behind": headline.behind,
    "headline": headline.render,
    "summary": everything,
}
"""What is made of all results, by name."""


def block(name: str, folder: Path) -> str:
    """Return what stands between the marks of that name.

    Raises:
        ValueError: A result file is none.
    """
    if name in WHOLE:
        files = sorted(folder.glob("*.json"))
        return WHOLE[name]([report.load(file) for file in files])
    file = folder / f"{name}.json"
    return section(report.load(file)) if file.exists() else "Not measured yet."


def filled(text: str, folder: Path) -> str:
    """Return a text with everything between its marks as the results have it."""
    return MARKS.sub(
        lambda found: f"{found['name']}{found[2]}\n{block(found['name'], folder)}\n\n",
        text,
    )


def stale(root: Path, folder: Path) -> dict[Path, str]:
    """Return what the texts should say that say something else."""
    found = {}
    beside = {path.with_suffix(".md") for path in folder.glob("*.json")}
    texts = [*(root / name for name in TEXTS), *sorted({*folder.glob("*.md"), *beside})]
    for path in texts:
        begun = BEGUN.format(path.stem, path.stem) if path in beside else ""
        text = path.read_text(encoding="utf-8") if path.exists() else begun
        if (right := filled(text, folder)) != text:
            found[path] = right
    return found


def write(root: Path, folder: Path) -> list[Path]:
    """Write the texts that say something else anew; return which."""
    changed = stale(root, folder)
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")
    return list(changed)
