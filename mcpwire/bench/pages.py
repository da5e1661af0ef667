"""Results as one self-contained HTML file without scripts."""

from __future__ import annotations

import shlex
from math import log10
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.bench import charts
from mcpwire.bench.compare import differences
from mcpwire.bench.histogram import percentiles
from mcpwire.bench.load import Load
from mcpwire.bench.reports import amount, figure_rows, step_rows, verdict_rows
from mcpwire.bench.results import step_name
from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from mcpwire.bench.charts import Axis, Line
    from mcpwire.bench.compare import Difference
    from mcpwire.bench.results import Result, Subject

_POINTS: Final = 60
"""Points of a percentile curve for each power of ten of calls."""

_COLOURS: Final = 4
_STEEP: Final = 30.0
"""Maximum ratio of latencies on a linear axis; above it the axis is logarithmic."""

_PANEL: Final = 170
_PANEL_TICKS: Final = 7
_VERDICTS: Final = {"better": "better", "worse": "worse"}


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
    compared: Sequence[Sequence[Sequence[str]]]
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
    sections = [_section(f"r{at}", result) for at, result in enumerate(results, 1)]
    page = _templates().get_template("page.html")
    text = page.render(sections=sections, amount=amount)
    path.write_text(text, encoding="utf-8")


def _templates() -> Any:
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
    compared = []
    is_search = result.highest is not None
    made = [_rates(id, result)] if is_search else []
    measured = [each for each in result.subjects if each.total("done")]
    if measured:
        made.append(_percentiles(id, result, measured))
    if not is_search:
        first, *others = (each.name for each in result.targets)
        for at, other in enumerate(others):
            found = differences(result, against=other)
            compared.append(verdict_rows(found, (first, other)))
            name = f"{id}-ratios{at or ''}"
            made += _ratios(name, f"{other} / {first}", found)
        made += _time_line(id, result.targets)
    rows = step_rows(result) if is_search else figure_rows(result)
    return Section(id, result, rows, compared, made, _command(result))


def _command(result: Result) -> str:
    """Return the command line that repeats a run; empty if there is no such command."""
    if len(result.targets) > 2 and result.highest is None:
        return ""
    load, usual = result.load, attrs.asdict(Load())
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
        value = load.get(name)
        if value not in {None, usual[name]}:
            shown = f"{value:g}" if isinstance(value, float) else str(value)
            words += [option, f"{shown}{suffix}"]
    first, *others = result.targets
    if others and result.highest is None:
        words += ["--against", others[0].target]
    calls = load.get("calls", ())
    given: list[str] = []
    if len(calls) > 1:
        words += ["--mix", "FILE"]
    elif calls and calls[0]["method"] == "tools/call":
        params = calls[0]["params"]
        words += ["--call", str(params["name"])]
        given = [_argument(*each) for each in params.get("arguments", {}).items()]
    elif calls and calls[0]["method"] == "tools/list":
        words.append("--list")
    return f"{shlex.join([*words, *given])} -- {first.target}"


def _argument(name: str, value: object) -> str:
    from mcpwire.wire.json import encode

    if isinstance(value, str):
        return f"{name}={value}"
    return f"{name}:={encode(value).decode()}"


# --- charts


def _style(subjects: Sequence[Subject], subject: Subject) -> str:
    """Return the CSS class with the colour of a subject."""
    if subject.name == "floor":
        return "s0"
    number = [each for each in subjects if each.name != "floor"].index(subject)
    return f"s{number % _COLOURS + 1}"


def _latency_axis(lines: Sequence[Line], **options: int) -> Axis:
    values = _heights(lines)
    found = [value for value in values if value > 0]
    if found and max(found) > _STEEP * min(found):
        return charts.logarithmic("latency", values, "us", **options)
    return charts.linear("latency", values, "us")


def _heights(lines: Sequence[Line]) -> list[float]:
    return [y for line in lines for _, y in line.points]


def _percentiles(id: str, result: Result, subjects: Sequence[Subject]) -> Chart:
    if result.highest is not None:
        subjects = _chosen_steps(result.highest, subjects)
    is_open = result.load.get("rate") is not None and result.highest is None
    lines = []
    for one in subjects:
        style = _style(subjects, one)
        lines.append(charts.Line(one.name, _curve(one, "latency"), style))
        if is_open and one.name == "target":
            name = f"{one.name}, from the begin of each call"
            lines.append(charts.Line(name, _curve(one, "service"), f"{style} dotted"))
    count = max(each.total("done") for each in subjects)
    axes = charts.percentiles(count), _latency_axis(lines)
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


def _chosen_steps(highest: float, subjects: Sequence[Subject]) -> list[Subject]:
    """Return the lowest rate, the highest that held, and the lowest that failed."""
    names = [each.name for each in subjects]
    name = step_name(highest)
    kept = names.index(name) + 1 if name in names else 0
    found = [*subjects[: min(kept, 1)], *subjects[max(kept - 1, 0) : kept + 1]]
    return [each for at, each in enumerate(found) if each not in found[:at]]


def _curve(subject: Subject, kind: str) -> list[tuple[float, float]]:
    """Return latency in microseconds over log10(1 / (1 - percentile))."""
    found = subject.latencies(kind)
    last = log10(max(found.total_count, 2))
    steps = [last * at / round(last * _POINTS) for at in range(round(last * _POINTS))]
    percents = {100 * (1 - 10**-step): step for step in steps}
    percents[100.0] = last
    values = percentiles(found, percents)
    return [(step, values[percent] / 1_000) for percent, step in percents.items()]


def _rates(id: str, result: Result) -> Chart:
    highest = result.highest or 0.0
    rows = [each.figures() for each in result.subjects]
    lines = [
        charts.Line(
            name,
            [(each["offered"], each[name]) for each in rows if name in each],
            style,
            has_dots=True,
        )
        for name, style in (("p50", "s1 dashed"), ("p99", "s1"), ("p99.9", "s2"))
    ]
    axes = (
        charts.linear("offered rate", [each["offered"] for each in rows], "calls/s"),
        _latency_axis(lines),
    )
    title = "Rate against latency"
    text = "No rate kept the condition."
    marks = []
    if highest:
        marks.append(charts.Mark(highest, f"{highest:,.0f}/s"))
        text = (
            "One dot for each rate that was tried. The vertical line is the knee: the "
            f"highest rate that kept the condition, {highest:,.0f}/s."
        )
    svg = charts.draw_lines(f"{id}-rates", title, axes, lines, marks=marks)
    return Chart(title, text, svg, lines)


def _ratios(name: str, what: str, found: Sequence[Difference]) -> Iterable[Chart]:
    rows = [
        charts.Interval(
            each.figure,
            each.ratio,
            each.low,
            each.high,
            _VERDICTS.get(each.verdict, "same"),
        )
        for each in found
    ]
    if rows:
        title = f"Ratio {what}"
        text = (
            "Each figure with its interval; in 99 of 100 cases all of them hold their "
            "ratios. Where the line at 1 lies in the interval, no difference is shown."
        )
        yield Chart(title, text, charts.draw_intervals(name, title, rows))


@attrs.frozen
class _Second:
    """The figures of one second, or of a part of it at the end of a slice."""

    at: float
    p50: float
    p99: float
    rate: float
    errors: int


def _seconds(subject: Subject) -> list[_Second]:
    found = []
    for each in subject.slices:
        for at, done, errors, middle, last in each.windows:
            width = min(1.0, max(each.elapsed - (at - each.at), 0.001))
            found.append(_Second(at, middle, last, done / width, errors))
    return found


def _time_line(id: str, subjects: Sequence[Subject]) -> Iterable[Chart]:
    """Yield charts of latency, rate, faults and memory over time."""
    last = [each.slices[-1] for each in subjects if each.slices]
    end = max((each.at + each.seconds for each in last), default=0)
    seconds = {each.name: _seconds(each) for each in subjects}
    if not any(seconds.values()):
        return
    rounds = {each.round: each.at for each in subjects[0].slices[::-1]}
    marks = [charts.Mark(at) for at in rounds.values() if at]
    across = charts.linear("time", [end], "s")
    text = "A dotted line is where a round starts all anew." if marks else ""

    def chart(title: str, what: str, up: Axis, lines: Sequence[Line]) -> Chart:
        svg = charts.draw_lines(
            f"{id}-{what}", title, (across, up), lines, marks=marks, height=_PANEL
        )
        return Chart(title, text, svg, lines)

    latencies = [
        charts.Line(
            f"{one.name} {name}",
            [(each.at, getattr(each, name)) for each in seconds[one.name] if each.p99],
            f"{_style(subjects, one)}{dashes}",
        )
        for one in subjects
        for name, dashes in (("p99", ""), ("p50", " dashed"))
    ]
    up = _latency_axis(latencies, most=_PANEL_TICKS)
    yield chart("Latency over time", "latency", up, latencies)
    rates = [
        charts.Line(
            one.name,
            [(each.at, each.rate) for each in seconds[one.name]],
            _style(subjects, one),
        )
        for one in subjects
    ]
    up = charts.linear("calls/s", _heights(rates))
    yield chart("Answers a second", "rate", up, rates)
    faults = list(_faults(subjects, seconds))
    if faults:
        up = charts.linear("count", _heights(faults))
        yield chart("Errors and reconnects", "faults", up, faults)
    memory = [
        charts.Line(one.name, _memory(one), _style(subjects, one))
        for one in subjects
        if one.samples
    ]
    if memory:
        up = charts.linear("resident", _heights(memory), "B")
        yield chart("Memory of the server", "memory", up, memory)


def _faults(
    subjects: Sequence[Subject], seconds: dict[str, list[_Second]]
) -> Iterable[Line]:
    """Yield the errors of each second and the reconnects of each slice, if any."""
    for one in subjects:
        style = _style(subjects, one)
        errors = [(each.at, float(each.errors)) for each in seconds[one.name]]
        lost = [(each.at, float(each.reconnects)) for each in one.slices]
        for kind, points, dashes in (
            ("errors", errors, ""),
            ("reconnects", lost, " dashed"),
        ):
            if found := [point for point in points if point[1]]:
                name = f"{one.name} {kind}"
                yield charts.Line(
                    name, found, f"{style}{dashes}", has_dots=True, is_bars=True
                )


def _memory(subject: Subject) -> list[tuple[float, float]]:
    """Return memory over total time; the time of samples restarts in each round."""
    begins = {each.round: each.at for each in subject.slices[::-1]}
    starts = [begins[round] for round in sorted(begins)]
    return [
        (start + each.at, float(each.memory))
        for start, samples in zip(starts, subject.samples_of_rounds(), strict=False)
        for each in samples
    ]
