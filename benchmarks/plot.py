"""Draw the plots of the published figures.

    python benchmarks/plot.py [FOLDER]

Draws `plots/*.svg` from `results/*.json`, or from the results of another folder; plots
without results are skipped. The same figures make byte-identical files.
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from full_run import plot_data
from harness import report

from mcpwire.bench.charts import (
    Interval,
    Line,
    draw_intervals,
    draw_lines,
    linear_axis,
    logarithmic_axis,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.report import Result

HERE = Path(__file__).resolve().parent
PLOTS = HERE / "plots"

GREY = "#7d8590"
"""Like all colours here, legible on white and on black."""

COLOURS = {
    "mcpwire": "#2f81f7",
    "floor": GREY,
    "Python SDK": "#d29922",
    "FastMCP": "#db61a2",
    "chuk-mcp": "#8957e5",
    "mcp-use": "#3fb950",
    "TypeScript SDK": "#f0883e",
    "stdio client": "#2f81f7",
    "HTTP client": "#3fb950",
    "stdio server": "#d29922",
    "HTTP server": "#db61a2",
}
STYLE = f"""
svg {{ overflow: visible; }}
text {{ fill: {GREY}; font: 13px system-ui, sans-serif; }}
.grid {{ stroke: {GREY}; opacity: .25; }} .one {{ stroke: {GREY}; stroke-width: 2; }}
polyline {{ fill: none; stroke-width: 2; stroke-linejoin: round; }}
.dotted polyline {{ stroke-dasharray: 1 4; stroke-linecap: round; }}
"""
WIDTH, GAP, HEAD = 480, 24, 24
LIMIT = 1.25
"""The limit of the last point as a multiple of the first, as in `bench_growth`."""


def style(name: str) -> str:
    """Return the CSS class of a name."""
    return re.sub(r"\W", "-", name)


def text_at(x: float, y: float, text: str, attributes: str) -> str:
    """Return an SVG text element."""
    return f'<text x="{x}" y="{y}" {attributes}>{escape(text)}</text>'


def page(charts: Mapping[str, str], names: Sequence[str] = ()) -> str:
    """Return an SVG page with titled charts in two columns and a legend."""
    parts, top = [], 0
    for number, (title, chart) in enumerate(charts.items()):
        if number % 2 == 0:
            row = list(charts.values())[number : number + 2]
            height = max(int(re.findall(r'viewBox="0 0 \d+ (\d+)"', c)[0]) for c in row)
        left = number % 2 * (WIDTH + GAP)
        parts += [
            text_at(left + WIDTH / 2, top + 16, title, 'text-anchor="middle"'),
            re.sub(
                r'<svg class="chart" role="img" viewBox="0 0 (\d+) (\d+)"',
                rf'<svg x="{left}" y="{top + HEAD}" width="\1" height="\2"',
                chart,
            ),
        ]
        if number % 2 or number == len(charts) - 1:
            top += HEAD + height
    for number, name in enumerate(names):
        css_class = f'class="{style(name)}"'
        parts.append(
            text_at(20 + 130 * number, top + 18, f"\N{BLACK SQUARE} {name}", css_class)
        )
    colours = "\n".join(
        f".{style(name)} {{ stroke: {colour}; }} "
        f"text.{style(name)} {{ fill: {colour}; stroke: none; }} "
        f".{style(name)} circle {{ fill: {colour}; }}"
        for name, colour in COLOURS.items()
    )
    width, height = 2 * WIDTH + GAP, top + (HEAD if names else 0)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
            f"<style>{STYLE}{colours}\n</style>",
            *parts,
            "</svg>\n",
        ]
    )


def peers(results: Mapping[str, Result]) -> str | None:
    """Draw the CPU per call of peers as multiples of mcpwire's."""
    charts = {}
    for side, question in (("client", "clients"), ("server", "server")):
        for path, spreads in plot_data.bars(results.get(question, {})).items():
            title = f"{side}, {path}"
            rows = [
                Interval(
                    name, spread["median"], spread["min"], spread["max"], style(name)
                )
                for name, spread in spreads.items()
            ]
            charts[title] = draw_intervals(style(title), title, rows)
    return page(charts) if charts else None


def widths(results: Mapping[str, Result]) -> str | None:
    """Draw calls per second by calls in flight."""
    charts, names = {}, {}
    for path, lines in plot_data.widths(results.get("clients", {})).items():
        points = [point for line in lines.values() for point in line]
        axes = (
            logarithmic_axis("calls in flight", [x for x, _ in points]),
            logarithmic_axis("", [y for _, y in points]),
        )
        names |= dict.fromkeys(lines)
        chart_lines = [
            Line(name, line, f"{style(name)}{' dotted' if name == 'floor' else ''}")
            for name, line in lines.items()
        ]
        title = f"{path}: calls per second"
        charts[title] = draw_lines(style(path), title, axes, chart_lines)
    return page(charts, list(names)) if charts else None


def growth(results: Mapping[str, Result]) -> str | None:
    """Draw CPU per call as multiples of the first point's."""
    charts, names = {}, {}
    for title, lines in plot_data.growth(results.get("growth", {})).items():
        points = [point for line in lines.values() for point in line]
        axes = (
            logarithmic_axis("", [x for x, _ in points], max_ticks=9),
            linear_axis("times the first", [y for _, y in points]),
        )
        chart_lines = [growth_line(name, line) for name, line in lines.items()]
        ends = [(axes[0].low, LIMIT), (axes[0].high, LIMIT)]
        chart_lines.append(Line("limit", ends, "one"))
        names |= {name: None for name in lines if not name.startswith("floor")}
        charts[title] = draw_lines(style(title), title, axes, chart_lines)
    return page(charts, list(names)) if charts else None


def growth_line(name: str, line: plot_data.Line) -> Line:
    """Return the line of a variant, dotted for a floor."""
    own = name.removeprefix("floor, ")
    kind = " dotted" if own != name else ""
    return Line(name, line, style(own) + kind, has_dots=own == name)


PLOT_FUNCTIONS = {"peers": peers, "widths": widths, "growth": growth}


def main(folder: Path = HERE / "results") -> int:
    results = {path.stem: report.load(path) for path in folder.glob("*.json")}
    PLOTS.mkdir(exist_ok=True)
    for name, draw in PLOT_FUNCTIONS.items():
        path = PLOTS / f"{name}.svg"
        if (svg := draw(results)) is None:
            print(f"{path.name} is not drawn: nothing was measured for it")
        else:
            path.write_text(svg, encoding="utf-8")
            print(path.relative_to(HERE))
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
