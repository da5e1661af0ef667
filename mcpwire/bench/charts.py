"""SVG charts: axes, lines and intervals, coloured by the style sheet of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence  # noqa: TC003 - attrs resolves them
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

_WIDTH: Final = 480
_LEFT: Final = 58
_RIGHT: Final = 14
_TOP: Final = 12
_BOTTOM: Final = 42
_ROW_HEIGHT: Final = 26
_MIN_NAME_WIDTH: Final = 76
"""Minimum width of the column of figure names left of the intervals, in pixels."""

_CHARACTER_WIDTH: Final = 8

_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_TICK_COUNT: Final = 5
_MAX_TICKS: Final = 14
"""Maximum number of ticks; a longer logarithmic axis shows powers of ten only."""

_MIN_LOG_SPAN: Final = 0.7
"""Powers of ten; a shorter logarithmic axis has ticks at equal steps."""

SCALES: Final[dict[str, tuple[tuple[float, str], ...]]] = {
    "us": ((1e6, "s"), (1e3, "ms"), (1.0, "us")),
    "B": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
}


@attrs.frozen(kw_only=True)
class Axis:
    """An axis: its range, its ticks and its scale."""

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    scale: Callable[[float], float] = float

    def position(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 to 1."""
        low, high = self.scale(self.low), self.scale(self.high)
        value = min(max(value, self.low), self.high)  # a logarithm takes no 0
        return (self.scale(value) - low) / (high - low)


@attrs.frozen
class Line:
    """A series of points in the order of x; may be empty."""

    name: str
    points: Sequence[tuple[float, float]]
    style: str
    """CSS classes."""

    has_dots: bool = False
    is_bars: bool = False
    """Whether each point is drawn as a bar."""


@attrs.frozen
class Mark:
    """A vertical line across the chart, with an optional label."""

    x: float
    text: str = ""


@attrs.frozen
class Interval:
    """A value with its interval, drawn on one row."""

    name: str
    value: float
    low: float
    high: float
    style: str


def select_unit(unit: str, highest: float) -> tuple[float, str]:
    """Return the size and the name of the unit for a highest value."""
    scales = SCALES.get(unit, ((1.0, unit),))
    return next((scale for scale in scales if highest >= scale[0]), scales[-1])


def _axis_label(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _tick_step(span: float) -> float:
    """Return a round step that divides a span into about five."""
    min_step = span / _TICK_COUNT
    power = 10.0 ** floor(log10(min_step))
    return power * next(size for size in _STEPS if size * power >= min_step * 0.999)


def linear_axis(
    name: str, values: Iterable[float], unit: str = "", *, low: float = 0.0
) -> Axis:
    """Return a linear axis from `low` to the first tick at or above all values."""
    highest = max([low, *values])
    size, unit = select_unit(unit, highest)
    span = (highest - low) / size or 1.0
    step = _tick_step(span)
    first, last = ceil(low / size / step), ceil((low / size + span) / step - 1e-9)
    ticks = [(n * step * size, f"{n * step:,g}") for n in range(first, last + 1)]
    return Axis(
        label=_axis_label(name, unit),
        low=low,
        high=max(last * step * size, highest),
        ticks=ticks,
    )


def logarithmic_axis(
    name: str, values: Iterable[float], unit: str = "", *, max_ticks: int = _MAX_TICKS
) -> Axis:
    """Return a logarithmic axis that covers all values above zero."""
    positives = sorted(value for value in values if value > 0) or [1.0]
    size, unit = select_unit(unit, positives[-1])
    low, high = positives[0] / size, positives[-1] / size
    low, high = low * 0.9, max(high * 1.1, low * 2)
    span = log10(high / low)
    if span < _MIN_LOG_SPAN:
        step = _tick_step(high - low)
        steps = [n * step for n in range(ceil(low / step), floor(high / step) + 1)]
    else:
        numbers = (1, 2, 5) if span * 3 <= max_ticks else (1,)
        powers = range(floor(log10(low)), ceil(log10(high)) + 1)
        steps = [n * 10.0**power for power in powers for n in numbers]
    ticks = [(tick * size, f"{tick:,.9g}") for tick in steps if low <= tick <= high]
    return Axis(
        label=_axis_label(name, unit),
        low=low * size,
        high=high * size,
        ticks=ticks,
        scale=log10,
    )


def percentile_axis(count: int) -> Axis:
    """Return the percentile axis for `count` values: each further nine is as wide.

    Its values are log10(1 / (1 - percentile)).
    """
    high = max(log10(max(count, 1)), 1.0)
    ticks = [(0.0, "0"), (log10(2), "50")]
    for nines in range(1, floor(high) + 1):
        digits = max(nines - 2, 0)
        ticks.append((float(nines), f"{100 * (1 - 10.0**-nines):.{digits}f}"))
    return Axis(label="percentile (%)", low=0.0, high=high, ticks=ticks)


def draw_lines(
    name: str,
    title: str,
    axes: tuple[Axis, Axis],
    lines: Iterable[Line],
    *,
    marks: Iterable[Mark] = (),
    height: int = 280,
) -> str:
    """Return a line chart as SVG.

    Args:
        name: The id of the title element; unique in the page.
        title: The title for screen readers.
        axes: The horizontal and the vertical axis.
        lines: The lines.
        marks: Vertical lines.
        height: The height in pixels; the width is 480.
    """
    x, y = axes
    bottom = height - _BOTTOM
    width = _WIDTH - _LEFT - _RIGHT

    def locate(point: tuple[float, float]) -> tuple[str, str]:
        left = _LEFT + width * x.position(point[0])
        return (f"{left:.1f}", f"{bottom - (bottom - _TOP) * y.position(point[1]):.1f}")

    parts = [_svg_head(name, title, height), *_frame_parts(axes, locate, height)]
    for mark in marks:
        left, _ = locate((mark.x, y.low))
        parts.append(
            f'<line class="mark" x1="{left}" x2="{left}" y1="{_TOP}" y2="{bottom}"/>'
        )
        if mark.text:
            side, gap = ("end", -5) if x.position(mark.x) > 0.5 else ("start", 5)
            parts.append(
                f'<text x="{float(left) + gap:.1f}" y="{_TOP + 12}" '
                f'text-anchor="{side}">{escape(mark.text)}</text>'
            )
    parts += (
        _draw_line(line, list(map(locate, line.points)), bottom) for line in lines
    )
    return "\n".join([*parts, "</svg>"])


def _draw_line(line: Line, pixels: Sequence[tuple[str, str]], bottom: int) -> str:
    """Return the SVG of a line: a polyline, or a bar for each point."""
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="3"/>' for x, y in pixels)
    if line.is_bars:
        path = "".join(f'<polyline points="{x},{bottom} {x},{y}"/>' for x, y in pixels)
    else:
        path = f'<polyline points="{" ".join(f"{x},{y}" for x, y in pixels)}"/>'
    has_dots = line.has_dots or len(pixels) == 1
    return (
        f'<g class="{line.style}"><title>{escape(line.name)}</title>'
        f"{path}{dots if has_dots else ''}</g>"
    )


def _svg_head(name: str, title: str, height: int) -> str:
    return (
        f'<svg class="chart" role="img" viewBox="0 0 {_WIDTH} {height}" '
        f'aria-labelledby="{escape(name)}" xmlns="http://www.w3.org/2000/svg">'
        f'\n<title id="{escape(name)}">{escape(title)}</title>'
    )


def _frame_parts(
    axes: tuple[Axis, Axis],
    locate: Callable[[tuple[float, float]], tuple[str, str]],
    height: int,
) -> Iterable[str]:
    """Yield the grid lines, the tick labels and the axis labels."""
    x, y = axes
    bottom, right = height - _BOTTOM, _WIDTH - _RIGHT
    for value, text in y.ticks:
        _, pos = locate((x.low, value))
        yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{pos}" y2="{pos}"/>'
        yield (
            f'<text x="{_LEFT - 6}" y="{pos}" dy="4" text-anchor="end">'
            f"{escape(text)}</text>"
        )
    for value, text in x.ticks:
        pos, _ = locate((value, y.low))
        yield f'<line class="grid" x1="{pos}" x2="{pos}" y1="{_TOP}" y2="{bottom}"/>'
        yield (
            f'<text x="{pos}" y="{bottom + 16}" text-anchor="middle">'
            f"{escape(text)}</text>"
        )
    middle = (_TOP + bottom) / 2
    yield (
        f'<text class="label" x="{(_LEFT + right) / 2}" y="{height - 6}" '
        f'text-anchor="middle">{escape(x.label)}</text>'
    )
    yield (
        f'<text class="label" x="14" y="{middle}" text-anchor="middle" '
        f'transform="rotate(-90 14 {middle})">{escape(y.label)}</text>'
    )


def draw_intervals(name: str, title: str, rows: Sequence[Interval]) -> str:
    """Return a chart with one row for each interval and a vertical line at 1."""
    ends = [end for row in rows for end in (row.low, row.high)]
    axis = logarithmic_axis("ratio", [0.9, 1.1, *ends])
    height = _TOP + _ROW_HEIGHT * len(rows) + _BOTTOM
    bottom = height - _BOTTOM
    left = max([_MIN_NAME_WIDTH, *(_CHARACTER_WIDTH * len(row.name) for row in rows)])

    def locate(value: float) -> str:
        return f"{left + (_WIDTH - left - _RIGHT) * axis.position(value):.1f}"

    parts = [_svg_head(name, title, height)]
    for value, text in [*(tick for tick in axis.ticks if tick[0] != 1), (1.0, "1")]:
        style, pos = "one" if value == 1 else "grid", locate(value)
        parts += [
            f'<line class="{style}" x1="{pos}" x2="{pos}" y1="{_TOP}" y2="{bottom}"/>',
            f'<text x="{pos}" y="{bottom + 16}" text-anchor="middle">{text}</text>',
        ]
    for number, row in enumerate(rows):
        y = _TOP + _ROW_HEIGHT * (number + 0.5)
        low, pos, high = map(locate, (row.low, row.value, row.high))
        parts += [
            f'<text x="{left - 8}" y="{y}" dy="4" text-anchor="end">',
            f"{escape(row.name)}</text>",
            f'<g class="{row.style}"><title>{escape(row.name)}</title>',
            f'<line x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>',
            f'<circle cx="{pos}" cy="{y}" r="4"/></g>',
        ]
    middle = (left + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text class="label" x="{middle}" y="{height - 6}" '
        f'text-anchor="middle">{axis.label}</text>'
    )
    return "\n".join([*parts, "</svg>"])
