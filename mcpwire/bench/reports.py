"""Results as text, and as percentile distributions for HdrHistogram's plotter."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from mcpwire.bench.charts import SCALES, select_unit
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
_FAULT_FIGURES: Final = {"missed", "errors", "reconnects"}
_NS_PER_UNIT: Final = 1_000.0
"""Nanoseconds per unit of the percentile distribution: microseconds."""


def format_amount(value: float, unit: str) -> str:
    """Format a figure with three digits and a suitable unit."""
    base = unit.removesuffix("/s")
    if base in SCALES:
        size, suffix = select_unit(base, abs(value))
        return f"{_format_number(value / size)} {suffix}{unit.removeprefix(base)}"
    return f"{value:,g}" if unit == "" else f"{_format_number(value)}{unit}"


def _format_number(value: float) -> str:
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
        *_server_lines(result),
        "",
    ]
    if result.highest is None:
        lines += format_table(figure_rows(result))
        for subject in result.targets:
            lines += _detail_lines(subject)
    else:
        lines += format_table(step_rows(result))
        highest = format_amount(result.highest, "/s")
        lines += ["", f"highest rate that met the condition: {highest}"]
    return "\n".join([*lines, *(f"note: {note}" for note in result.notes), ""])


def _server_lines(result: Result) -> Iterable[str]:
    for subject in result.targets[:1] if result.highest is not None else result.targets:
        server = subject.server
        title = f"{server['name']} {server['version']}".strip() or subject.target
        name = "target" if result.highest is not None else subject.name
        facts = (title, server["revision"], subject.load)
        yield f"{name}: {', '.join(filter(None, facts))}"


def figure_rows(result: Result) -> Sequence[Sequence[str]]:
    """Return a row for each figure and a column for each server."""
    floor = result.floor
    subjects = [*result.targets, *([floor] if floor is not None else [])]
    columns = [subject.figures() for subject in subjects]
    has_multiple = floor is not None and len(result.targets) == 1
    rows = [
        [
            "",
            *(subject.name for subject in subjects),
            *(["multiple"] if has_multiple else []),
        ]
    ]
    for name, figure in FIGURES.items():
        values = [column.get(name) for column in columns]
        if values[0] is None or (name in _FAULT_FIGURES and not any(values)):
            continue
        row = [
            name,
            *("-" if v is None else format_amount(v, figure.unit) for v in values),
        ]
        if has_multiple:
            base = values[-1]
            has_ratio = figure.is_compared and not figure.more_is_better and base
            row.append(f"{values[0] / base:.2f}" if has_ratio and base else "")
        rows.append(row)
    return rows


def step_rows(result: Result) -> Sequence[Sequence[str]]:
    """Return a row for each rate that was tried."""
    rows = [list(_STEP_COLUMNS)]
    for subject in result.subjects:
        values = subject.figures()
        rows.append(
            [
                format_amount(values[name], FIGURES[name].unit)
                if name in values
                else "-"
                for name in _STEP_COLUMNS
            ]
        )
    return rows


def _detail_lines(subject: Subject) -> Iterable[str]:
    if subject.errors:
        text = ", ".join(f"{kind} {count:,}" for kind, count in subject.errors.items())
        yield f"{subject.name}: errors: {text}"
    for title, phases in (
        ("one call alone", subject.phases),
        ("a call under load", subject.phases_under_load),
    ):
        if phases:
            text = ", ".join(
                f"{name} {format_amount(value, 'us')}" for name, value in phases.items()
            )
            yield f"{subject.name}: {title}: {text}"


def format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the first column is text, the others are numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _format_interval(difference: Difference) -> str:
    """Format an interval, or a dash if there were too few rounds."""
    return (
        f"{difference.low:.3f} to {difference.high:.3f}"
        if difference.low < difference.high
        else "-"
    )


def verdict_rows(
    differences: Iterable[Difference], names: tuple[str, str] = ("before", "after")
) -> list[list[str]]:
    """Return a header row and a row for each compared figure."""
    rows = [["", *names, "ratio", "interval", ""]]
    for difference in differences:
        unit = FIGURES[difference.figure].unit
        rows.append(
            [
                difference.figure,
                format_amount(difference.before, unit),
                format_amount(difference.after, unit),
                f"{difference.ratio:.3f}",
                _format_interval(difference),
                difference.verdict,
            ]
        )
    return rows


def format_verdicts(
    differences: Iterable[Difference], names: tuple[str, str] = ("before", "after")
) -> str:
    """Format a comparison for a terminal."""
    differences = list(differences)
    lines = format_table(verdict_rows(differences, names))
    if any(difference.low < difference.high for difference in differences):
        count = len(differences)
        statement = (
            f"all {count} intervals contain" if count > 1 else "the interval contains"
        )
        lines.insert(0, f"In 99 of 100 cases {statement} the true ratio.")
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
            text = "-"
        elif unit == "ms":
            text = format_amount(value * 1_000, "us")
        else:
            text = format_amount(value, unit)
        rows.append([name, text])
    count = len(figures.runs)
    title = f"median of {count} runs" if count > 1 else "one run"
    return "".join(f"{line}\n" for line in [title, *format_table(rows)])


def to_floor_text(floors: Mapping[str, Floor]) -> str:
    """Format the floor of this machine for a terminal."""
    rows = [["", "p50", "p99", "rate", "client cpu", "server cpu"]]
    for kind, floor in floors.items():
        rows.append(
            [
                kind,
                format_amount(floor.p50_us, "us"),
                format_amount(floor.p99_us, "us"),
                format_amount(floor.calls_per_s, "/s"),
                format_amount(floor.client_cpu_us, "us"),
                format_amount(floor.server_cpu_us, "us"),
            ]
        )
    return "".join(f"{line}\n" for line in format_table(rows))


def to_start_text(start_ups: Sequence[StartUp]) -> str:
    """Format the start-up times of a server for a terminal."""
    *floors, target = start_ups
    name = f"{target.server['name']} {target.server['version']}".strip()
    lines = [f"{name or target.target}: {len(target.starts)} starts", ""]
    rows = [["", "median", "least", "most", *(["floor", "multiple"] if floors else [])]]
    for figure, value in target.figures().items():
        unit, values = START_UNITS[figure], target.values(figure)
        row = [
            figure,
            *(format_amount(number, unit) for number in (value, values[0], values[-1])),
        ]
        for floor in floors:
            base = floor.figures()[figure]
            row += [format_amount(base, unit), f"{value / base:.2f}"]
        rows.append(row)
    return "".join(f"{line}\n" for line in [*lines, *format_table(rows)])


def to_size_text(sizes: Sizes) -> str:
    """Format the resources of a server for a terminal."""
    name = f"{sizes.server['name']} {sizes.server['version']}".strip()
    names = ("processes", "threads", "descriptors", "resident", "private")
    rows = [["after", *names]]
    for size in sizes.sizes:
        values = [(getattr(size, name), SIZE_UNITS[name]) for name in names]
        cells = [
            "-" if value is None else format_amount(value, unit)
            for value, unit in values
        ]
        rows.append([size.when, *cells])
    total = format_amount(sum(sizes.files.values()), "B")
    last = f"mapped files: {len(sizes.files)}, {total}"
    lines = [name or sizes.target, "", *format_table(rows), last]
    return "".join(f"{line}\n" for line in lines)


def to_hgrm(result: Result) -> dict[str, bytes]:
    """Return the percentile distribution of each subject, in microseconds."""
    distributions = {}
    for subject in result.subjects:
        out, histogram = io.BytesIO(), subject.latencies()
        histogram.output_percentile_distribution(out, _NS_PER_UNIT)
        head, mark, tail = out.getvalue().partition(b"StdDeviation   = ")
        right = b"%12.3f" % (histogram.get_stddev() / _NS_PER_UNIT)  # it is not scaled
        distributions[subject.name] = head + mark + right + tail[tail.index(b"]") :]
    return distributions
