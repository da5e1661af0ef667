"""Results as text, and as percentile distributions for HdrHistogram's plotter."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from mcpwire.bench.charts import SCALES, scaled
from mcpwire.bench.footprint import SIZE_UNITS, START_UNITS
from mcpwire.bench.results import FIGURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwire.bench.client_side import ClientFigures
    from mcpwire.bench.compare import Difference
    from mcpwire.bench.floor import Floor
    from mcpwire.bench.footprint import Sizes, StartUp
    from mcpwire.bench.results import Result, Subject

_STEP_COLUMNS: Final = (
    *("offered", "rate", "p50", "p99", "p99.9", "missed", "errors", "cpu"),
    "generator lag p99",
)
_FAULTS: Final = {"missed", "errors", "reconnects"}
_SCALE: Final = 1_000.0
"""Nanoseconds per unit of the percentile distribution: microseconds."""


def amount(value: float, unit: str) -> str:
    """Format a figure with three digits and a suitable unit."""
    base = unit.removesuffix("/s")
    if base in SCALES:
        size, shown = scaled(base, abs(value))
        return f"{_digits(value / size)} {shown}{unit.removeprefix(base)}"
    return f"{value:,g}" if unit == "" else f"{_digits(value)}{unit}"


def _digits(value: float) -> str:
    if value == 0:
        return "0"
    size = abs(value)
    if value == int(value) and size < 1_000_000:
        return f"{value:,.0f}"
    places = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{places}f}"


def to_text(result: Result) -> str:
    """Format a result for a terminal."""
    load = result.load
    rounds = "1 round" if load["rounds"] == 1 else f"{load['rounds']} rounds"
    lines = [
        f"{result.title}; {rounds}, {load['seconds']:g} s each",
        *_names(result),
        "",
    ]
    if result.highest is None:
        lines += table(figure_rows(result))
        for one in result.targets:
            lines += _details(one)
    else:
        lines += table(step_rows(result))
        lines += ["", f"highest rate that kept the condition: {result.highest:,.0f}/s"]
    return "\n".join([*lines, *(f"note: {note}" for note in result.notes), ""])


def _names(result: Result) -> Iterable[str]:
    for one in result.targets[:1] if result.highest is not None else result.targets:
        server = one.server
        title = f"{server['name']} {server['version']}".strip()
        name = "target" if result.highest is not None else one.name
        yield f"{name}: {title or one.target}, {server['revision']}"


def figure_rows(result: Result) -> Sequence[Sequence[str]]:
    """Return a row for each figure and a column for each server."""
    floor = result.floor
    shown = [*result.targets, *([floor] if floor is not None else [])]
    columns = [each.figures() for each in shown]
    multiples = floor is not None and len(result.targets) == 1
    rows = [["", *(each.name for each in shown), *(["multiple"] if multiples else [])]]
    for name, figure in FIGURES.items():
        values = [column.get(name) for column in columns]
        if values[0] is None or (name in _FAULTS and not any(values)):
            continue
        row = [name, *("-" if v is None else amount(v, figure.unit) for v in values)]
        if multiples:
            base = values[-1]
            has_one = figure.is_compared and not figure.more_is_better and base
            row.append(f"{values[0] / base:.2f}" if has_one and base else "")
        rows.append(row)
    return rows


def step_rows(result: Result) -> Sequence[Sequence[str]]:
    """Return a row for each rate that was tried."""
    rows = [list(_STEP_COLUMNS)]
    for one in result.subjects:
        values = one.figures()
        rows.append(
            [
                amount(values[name], FIGURES[name].unit) if name in values else "-"
                for name in _STEP_COLUMNS
            ]
        )
    return rows


def _details(one: Subject) -> Iterable[str]:
    if one.errors:
        said = ", ".join(f"{kind} {count:,}" for kind, count in one.errors.items())
        yield f"{one.name}: errors: {said}"
    for what, phases in (
        ("one call alone", one.phases),
        ("a call under load", one.phases_under_load),
    ):
        if phases:
            said = ", ".join(
                f"{name} {amount(value, 'us')}" for name, value in phases.items()
            )
            yield f"{one.name}: {what}: {said}"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the first column is text, the others are numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _interval(found: Difference) -> str:
    """Format an interval, or a dash if there were too few rounds."""
    return f"{found.low:.3f} to {found.high:.3f}" if found.low < found.high else "-"


def verdict_rows(
    found: Iterable[Difference], names: tuple[str, str] = ("before", "after")
) -> list[list[str]]:
    """Return a header row and a row for each compared figure."""
    rows = [["", *names, "ratio", "interval", ""]]
    for each in found:
        unit = FIGURES[each.figure].unit
        rows.append(
            [
                each.figure,
                amount(each.before, unit),
                amount(each.after, unit),
                f"{each.ratio:.3f}",
                _interval(each),
                each.verdict,
            ]
        )
    return rows


def verdicts(
    found: Iterable[Difference], names: tuple[str, str] = ("before", "after")
) -> str:
    """Format a comparison for a terminal."""
    found = list(found)
    lines = table(verdict_rows(found, names))
    if any(each.low < each.high for each in found):
        count = len(found)
        said = f"all {count} intervals hold" if count > 1 else "the interval holds"
        lines.insert(0, f"In 99 of 100 cases {said} the ratio.")
    return "".join(f"{line}\n" for line in lines)


_CLIENT_ROWS: Final = (
    ("calls", "calls", ""),
    ("calls_per_s", "rate", "/s"),
    ("turnaround_p50_us", "turnaround p50", "us"),
    ("turnaround_p99_us", "turnaround p99", "us"),
    ("cpu_us", "cpu", "us"),
    ("start_cpu_ms", "cpu until the first call", "ms"),
    ("total_cpu_ms", "cpu of the whole run", "ms"),
    ("peak_memory", "peak memory", "B"),
    ("octets_per_call", "bytes", "B"),
)


def to_client_text(figures: ClientFigures) -> str:
    """Format the figures of a client for a terminal."""
    rows = []
    for attribute, name, unit in _CLIENT_ROWS:
        value = figures.median(attribute)
        if value is None:
            shown = "-"
        elif unit == "ms":
            shown = amount(value * 1_000, "us")
        else:
            shown = amount(value, unit)
        rows.append([name, shown])
    count = len(figures.runs)
    title = f"median of {count} runs" if count > 1 else "one run"
    return "".join(f"{line}\n" for line in [title, *table(rows)])


def to_floor_text(found: Mapping[str, Floor]) -> str:
    """Format the floor of this machine for a terminal."""
    rows = [["", "p50", "p99", "rate", "client cpu", "server cpu"]]
    for kind, one in found.items():
        rows.append(
            [
                kind,
                amount(one.p50_us, "us"),
                amount(one.p99_us, "us"),
                amount(one.calls_per_s, "/s"),
                amount(one.client_cpu_us, "us"),
                amount(one.server_cpu_us, "us"),
            ]
        )
    return "".join(f"{line}\n" for line in table(rows))


def to_start_text(found: Sequence[StartUp]) -> str:
    """Format the start-up times of a server for a terminal."""
    *floors, target = found
    name = f"{target.server['name']} {target.server['version']}".strip()
    lines = [f"{name or target.target}: {len(target.starts)} starts", ""]
    rows = [["", "median", "least", "most", *(["floor", "multiple"] if floors else [])]]
    for figure, value in target.figures().items():
        unit, values = START_UNITS[figure], target.values(figure)
        row = [figure, *(amount(v, unit) for v in (value, values[0], values[-1]))]
        for floor in floors:
            base = floor.figures()[figure]
            row += [amount(base, unit), f"{value / base:.2f}"]
        rows.append(row)
    return "".join(f"{line}\n" for line in [*lines, *table(rows)])


def to_size_text(found: Sizes) -> str:
    """Format the resources of a server for a terminal."""
    name = f"{found.server['name']} {found.server['version']}".strip()
    names = ("processes", "threads", "descriptors", "resident", "private")
    rows = [["after", *names]]
    for each in found.sizes:
        values = [(getattr(each, name), SIZE_UNITS[name]) for name in names]
        shown = ["-" if v is None else amount(v, unit) for v, unit in values]
        rows.append([each.when, *shown])
    total = amount(sum(found.files.values()), "B")
    last = f"mapped files: {len(found.files)}, {total}"
    lines = [name or found.target, "", *table(rows), last]
    return "".join(f"{line}\n" for line in lines)


def to_hgrm(result: Result) -> dict[str, bytes]:
    """Return the percentile distribution of each subject, in microseconds."""
    found = {}
    for one in result.subjects:
        out = io.BytesIO()
        one.latencies().output_percentile_distribution(out, _SCALE)
        found[one.name] = out.getvalue()
    return found
