"""Results as one self-contained HTML file without scripts."""

from __future__ import annotations

import shlex
from math import inf, log10
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.bench import charts
from mcpwire.bench.compare import differences
from mcpwire.bench.histogram import percentiles
from mcpwire.bench.load import CLIENT_CODE, Load
from mcpwire.bench.reports import figure_rows, format_amount, step_rows, verdict_rows
from mcpwire.bench.results import step_name
from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from mcpwire.bench.charts import Axis, Line
    from mcpwire.bench.compare import Difference
    from mcpwire.bench.results import Result, Subject

_POINTS_PER_DECADE: Final = 60
"""Points of a percentile curve for each power of ten of calls."""

_COLOUR_COUNT: Final = 4
_MAX_LINEAR_RATIO: Final = 30.0
"""Maximum ratio of latencies on a linear axis; above it the axis is logarithmic."""

_PANEL_HEIGHT: Final = 170
_PANEL_TICKS: Final = 7
_VERDICT_STYLES: Final = {"better": "better", "worse": "worse"}


@attrs.frozen
class Chart:
    """A chart with its title, text and legend."""

    title: str
    text: str
    svg: str
    legend: Sequence[Line] = ()


@attrs.frozen
class Section:
    """The section of the page for one result."""

    id: str
    result: Result
    rows: Sequence[Sequence[str]]
    comparisons: Sequence[Sequence[Sequence[str]]]
    """A table for each server that is compared with the first one."""
    charts: Sequence[Chart]
    command: str
    """The command line that repeats the run; empty if there is no such command."""


def write_page(path: Path, results: Sequence[Result]) -> None:
    """Write results as one HTML file.

    Raises:
        LocalProtocolError: Jinja2 is not installed.
        OSError: The file cannot be written.
    """
    sections = [
        _section(f"r{number}", result) for number, result in enumerate(results, 1)
    ]
    page = _template_environment().get_template("page.html")
    text = page.render(sections=sections, format_amount=format_amount)
    path.write_text(text, encoding="utf-8")


def _template_environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise LocalProtocolError("pages need Jinja2: pip install Jinja2") from error
    return jinja2.Environment(
        loader=jinja2.PackageLoader("mcpwire.bench"),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _section(id: str, result: Result) -> Section:
    comparisons = []
    is_search = result.highest is not None
    drawings = [_rate_chart(id, result)] if is_search else []
    measured = [subject for subject in result.subjects if subject.total("done")]
    if measured:
        drawings.append(_percentile_chart(id, result, measured))
    if not is_search:
        first, *others = (subject.name for subject in result.targets)
        for number, other in enumerate(others):
            compared = differences(result, against=other)
            comparisons.append(verdict_rows(compared, (first, other)))
            name = f"{id}-ratios{number or ''}"
            drawings += _ratio_charts(name, f"{other} / {first}", compared)
        drawings += _time_charts(id, result.targets)
    rows = step_rows(result) if is_search else figure_rows(result)
    return Section(id, result, rows, comparisons, drawings, _repeat_command(result))


def _repeat_command(result: Result) -> str:
    """Return the command line that repeats a run; empty if there is no such command."""
    if len(result.targets) > 2 and result.highest is None:
        return ""
    load, defaults = result.load, attrs.asdict(Load())
    calls = load.get("calls", ())
    if calls and calls[0]["method"] == CLIENT_CODE:
        return ""
    words = ["mcpwire", "bench"]
    if result.highest is not None:
        words += ["--find-max", "CONDITION"]
    for option, name, suffix in (
        *(
            ("--rate", "rate", "/s"),
            ("--users", "users", ""),
            ("--for", "seconds", "s"),
        ),
        *(("--warm-up", "warm_up", "s"), ("--rounds", "rounds", "")),
        *(("--shape", "shape", ""), ("--sessions", "sessions", "")),
        *(("--workers", "workers", ""), ("--timeout", "timeout", "")),
        ("--mode", "mode", ""),
    ):
        value = load.get(name, defaults[name])
        if value != defaults[name]:
            value = inf if value is None else value
            text = f"{value:g}" if isinstance(value, float) else str(value)
            words += [option, f"{text}{suffix}"]
    first, *others = result.targets
    if others and result.highest is None:
        words += ["--against", others[0].target]
    arguments: list[str] = []
    if len(calls) > 1:
        words += ["--mix", "FILE"]
    elif calls and calls[0]["method"] == "tools/call":
        params = calls[0]["params"]
        words += ["--call", str(params["name"])]
        arguments = [
            _format_argument(*argument)
            for argument in params.get("arguments", {}).items()
        ]
    elif calls and calls[0]["method"] == "tools/list":
        words.append("--list")
    return f"{shlex.join([*words, *arguments])} -- {first.target}"


def _format_argument(name: str, value: object) -> str:
    from mcpwire.wire.json import encode

    if isinstance(value, str):
        return f"{name}={value}"
    return f"{name}:={encode(value).decode()}"


# --- charts


def _style(subjects: Sequence[Subject], subject: Subject) -> str:
    """Return the CSS class with the colour of a subject."""
    if subject.name == "floor":
        return "s0"
    number = [other for other in subjects if other.name != "floor"].index(subject)
    return f"s{number % _COLOUR_COUNT + 1}"


def _latency_axis(lines: Sequence[Line], **options: int) -> Axis:
    values = _y_values(lines)
    positive = [value for value in values if value > 0]
    if positive and max(positive) > _MAX_LINEAR_RATIO * min(positive):
        return charts.logarithmic_axis("latency", values, "us", **options)
    return charts.linear_axis("latency", values, "us")


def _y_values(lines: Sequence[Line]) -> list[float]:
    return [y for line in lines for _, y in line.points]


def _percentile_chart(id: str, result: Result, subjects: Sequence[Subject]) -> Chart:
    if result.highest is not None:
        subjects = _select_steps(result.highest, subjects)
    is_open = result.load.get("rate") is not None and result.highest is None
    lines = []
    for subject in subjects:
        style = _style(subjects, subject)
        lines.append(charts.Line(subject.name, _curve(subject, "latency"), style))
        if is_open and subject.name == "target":
            name = f"{subject.name}, from the start of each call"
            lines.append(
                charts.Line(name, _curve(subject, "service"), f"{style} dotted")
            )
    count = max(subject.total("done") for subject in subjects)
    axes = charts.percentile_axis(count), _latency_axis(lines)
    title = "Latency by percentile"
    text = (
        "The part of the calls (across) that took no longer than this (up). Each "
        "further nine has equal room."
    )
    if is_open:
        text += (
            " Latency counts from when a call was due; the dotted line counts from "
            "when it was begun, which hides what had to wait."
        )
    svg = charts.draw_lines(f"{id}-percentiles", title, axes, lines)
    return Chart(title, text, svg, lines)


def _select_steps(highest: float, subjects: Sequence[Subject]) -> list[Subject]:
    """Return the lowest rate, the highest that held, and the lowest that failed."""
    names = [subject.name for subject in subjects]
    name = step_name(highest)
    count = names.index(name) + 1 if name in names else 0
    selected = [*subjects[: min(count, 1)], *subjects[max(count - 1, 0) : count + 1]]
    return [
        subject for i, subject in enumerate(selected) if subject not in selected[:i]
    ]


def _curve(subject: Subject, kind: str) -> list[tuple[float, float]]:
    """Return latency in microseconds over log10(1 / (1 - percentile))."""
    histogram = subject.latencies(kind)
    last = log10(max(histogram.total_count, 2))
    count = round(last * _POINTS_PER_DECADE)
    steps = [last * number / count for number in range(count)]
    percents = {100 * (1 - 10**-step): step for step in steps}
    percents[100.0] = last
    values = percentiles(histogram, percents)
    return [(step, values[percent] / 1_000) for percent, step in percents.items()]


def _rate_chart(id: str, result: Result) -> Chart:
    highest = result.highest or 0.0
    rows = [subject.figures() for subject in result.subjects]
    lines = [
        charts.Line(
            name,
            [(row["offered"], row[name]) for row in rows if name in row],
            style,
            has_dots=True,
        )
        for name, style in (("p50", "s1 dashed"), ("p99", "s1"), ("p99.9", "s2"))
    ]
    axes = (
        charts.linear_axis("offered rate", [row["offered"] for row in rows], "calls/s"),
        _latency_axis(lines),
    )
    title = "Rate against latency"
    text = "No rate met the condition."
    marks = []
    if highest:
        shown = format_amount(highest, "/s")
        marks.append(charts.Mark(highest, shown))
        text = (
            "One dot for each rate that was tried. The vertical line is the knee: the "
            f"highest rate that met the condition, {shown}."
        )
    svg = charts.draw_lines(f"{id}-rates", title, axes, lines, marks=marks)
    return Chart(title, text, svg, lines)


def _ratio_charts(
    name: str, title: str, compared: Sequence[Difference]
) -> Iterable[Chart]:
    rows = [
        charts.Interval(
            difference.figure,
            difference.ratio,
            difference.low,
            difference.high,
            _VERDICT_STYLES.get(difference.verdict, "same"),
        )
        for difference in compared
    ]
    if rows:
        heading = f"Ratio {title}"
        text = (
            "Each figure with its interval; in 99 of 100 cases all of them hold their "
            "ratios. Where the line at 1 lies in the interval, no difference is shown."
        )
        yield Chart(heading, text, charts.draw_intervals(name, heading, rows))


@attrs.frozen
class _Second:
    """The figures of one second, or of a part of it at the end of a slice."""

    at: float
    p50: float
    p99: float
    rate: float
    errors: int


def _seconds(subject: Subject) -> list[_Second]:
    seconds = []
    for slice in subject.slices:
        for at, done, errors, p50, p99 in slice.windows:
            width = min(1.0, max(slice.elapsed - (at - slice.at), 0.001))
            seconds.append(_Second(at, p50, p99, done / width, errors))
    return seconds


def _time_charts(id: str, subjects: Sequence[Subject]) -> Iterable[Chart]:
    """Yield charts of latency, rate, faults and memory over time."""
    last = [subject.slices[-1] for subject in subjects if subject.slices]
    end = max((slice.at + slice.seconds for slice in last), default=0)
    seconds = {subject.name: _seconds(subject) for subject in subjects}
    if not any(seconds.values()):
        return
    rounds = {slice.round: slice.at for slice in subjects[0].slices[::-1]}
    marks = [charts.Mark(at) for at in rounds.values() if at]
    time_axis = charts.linear_axis("time", [end], "s")
    text = "A dotted line is where a round starts all anew." if marks else ""

    def chart(title: str, suffix: str, axis: Axis, lines: Sequence[Line]) -> Chart:
        svg = charts.draw_lines(
            f"{id}-{suffix}",
            title,
            (time_axis, axis),
            lines,
            marks=marks,
            height=_PANEL_HEIGHT,
        )
        return Chart(title, text, svg, lines)

    latencies = [
        charts.Line(
            f"{subject.name} {name}",
            [
                (second.at, getattr(second, name))
                for second in seconds[subject.name]
                if second.p99
            ],
            f"{_style(subjects, subject)}{dashes}",
        )
        for subject in subjects
        for name, dashes in (("p99", ""), ("p50", " dashed"))
    ]
    axis = _latency_axis(latencies, max_ticks=_PANEL_TICKS)
    yield chart("Latency over time", "latency", axis, latencies)
    rates = [
        charts.Line(
            subject.name,
            [(second.at, second.rate) for second in seconds[subject.name]],
            _style(subjects, subject),
        )
        for subject in subjects
    ]
    axis = charts.linear_axis("calls/s", _y_values(rates))
    yield chart("Answers a second", "rate", axis, rates)
    faults = list(_fault_lines(subjects, seconds))
    if faults:
        axis = charts.linear_axis("count", _y_values(faults))
        yield chart("Errors and reconnects", "faults", axis, faults)
    memory = [
        charts.Line(subject.name, _memory_points(subject), _style(subjects, subject))
        for subject in subjects
        if subject.samples
    ]
    if memory:
        axis = charts.linear_axis("resident", _y_values(memory), "B")
        yield chart("Memory of the server", "memory", axis, memory)


def _fault_lines(
    subjects: Sequence[Subject], seconds: dict[str, list[_Second]]
) -> Iterable[Line]:
    """Yield the errors of each second and the reconnects of each slice, if any."""
    for subject in subjects:
        style = _style(subjects, subject)
        errors = [(second.at, float(second.errors)) for second in seconds[subject.name]]
        reconnects = [(slice.at, float(slice.reconnects)) for slice in subject.slices]
        for kind, points, dashes in (
            ("errors", errors, ""),
            ("reconnects", reconnects, " dashed"),
        ):
            if nonzero := [point for point in points if point[1]]:
                name = f"{subject.name} {kind}"
                yield charts.Line(
                    name, nonzero, f"{style}{dashes}", has_dots=True, is_bars=True
                )


def _memory_points(subject: Subject) -> list[tuple[float, float]]:
    """Return memory over total time; the time of samples restarts in each round."""
    round_starts = {slice.round: slice.at for slice in subject.slices[::-1]}
    starts = [round_starts[round] for round in sorted(round_starts)]
    return [
        (start + sample.at, float(sample.memory))
        for start, samples in zip(starts, subject.samples_of_rounds(), strict=False)
        for sample in samples
    ]
