"""How do the published figures look?

    .peers/plots/bin/python benchmarks/plot.py [FOLDER]

Draws `plots/*.svg` from `results/*.json`, or from those of another folder: what is
missing there is not drawn. `make plots` brings the environment along. The same figures
make the same files, to the byte.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import report
from harness.figures import digits
from whole import curves

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator
except ModuleNotFoundError as error:
    sys.exit(f"plot.py: {error}; `make plots` brings it along")

if TYPE_CHECKING:
    from collections.abc import Callable

    from whole.curves import Lines
    from whole.summary import Result

HERE = Path(__file__).resolve().parent
PLOTS = HERE / "plots"

GREY = "#7d8590"
"""What can be read on white as well as on black, as all colours here."""

COLOURS = {
    "mcpwire": "#2f81f7",
    "floor": GREY,
    "Python SDK": "#d29922",
    "FastMCP": "#db61a2",
    "chuk-mcp": "#8957e5",
    "mcp-use": "#3fb950",
    "TypeScript SDK": "#f0883e",
}
GROWN = ("#2f81f7", "#3fb950", "#d29922", "#db61a2")
STYLE = {
    "svg.hashsalt": "mcpwire",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "path.simplify": True,
}
MAX_BYTES = 60 * 1024


def small(text: str) -> str:
    """Return the same drawing without what nobody sees, such as most digits."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    text = re.sub(r"^[ \t]+|[ \t]+$", "", text, flags=re.MULTILINE)
    text = re.sub(r"font-family: [^;\"]+", "font-family: sans-serif", text)
    return re.sub(r"(\d+\.\d\d)\d+", r"\1", text)


def draw(name: str, figure: Figure) -> Path:
    """Write a plot, the same bytes for the same figures."""
    PLOTS.mkdir(exist_ok=True)
    path = PLOTS / f"{name}.svg"
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(path, transparent=True, bbox_inches="tight", metadata=nothing)
    text = small(path.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
    if len(text.encode()) > MAX_BYTES:
        sys.exit(f"plot.py: {path.name} has more than {MAX_BYTES} bytes")
    return path


def plain(value: float, _: Any = None) -> str:
    """Return a number as people write it."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def number_axis(axis: Any, ticks: list[float]) -> None:
    """Label a logarithmic axis with plain numbers."""
    axis.set_major_locator(mpl.ticker.FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def peers(results: dict[str, Result]) -> Figure | None:
    """Bars: how many times the CPU of mcpwire's a call takes elsewhere."""
    groups = [
        (f"{who}, {path}", of, digits(curves.CPU, results[name]["plan"]))
        for who, name in (("client", "clients"), ("server", "server"))
        if name in results
        for path, of in curves.bars(results[name]).items()
    ]
    if not groups:
        return None
    bars = sum(len(of) for _, of, _ in groups)
    figure = Figure(figsize=(8, 0.18 * bars + 0.2 * len(groups) + 0.8))
    axes = figure.subplots()
    place, places, labels = 0.0, [], []
    for label, of, shown in groups:
        begun = place
        for name, value in of.items():
            axes.barh(place, value, 0.85, color=COLOURS.get(name, GREY))
            text = report.number(value, shown)
            axes.text(value * 1.04, place, text, va="center", fontsize=7)
            place += 1
        places.append((begun + place - 1) / 2)
        labels.append(label)
        place += 0.8
    values = [value for _, of, _ in groups for value in of.values()]
    axes.set_xscale("log")
    number_axis(axes.xaxis, curves.ticks(values))
    axes.set_yticks(places, labels)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.axvline(1, color=COLOURS["mcpwire"], linewidth=1.5)
    axes.set_xlim(left=min([0.8, *values]))
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.set_title("CPU per call, times that of mcpwire (blue line; less is better)")
    known = [name for name in COLOURS if any(name in of for _, of, _ in groups)]
    handles = [mpl.patches.Patch(color=COLOURS[name], label=name) for name in known]
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.04),
        ncols=len(known),
        fontsize=8,
    )
    return figure


def panels(
    many: dict[str, Lines], paint: Callable[[Any, str, Lines], None], columns: int
) -> Figure:
    """Return a figure with a small plot for each of them."""
    rows = -(-len(many) // columns)
    figure = Figure(figsize=(4.2 * columns, 2.9 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).flat
    for axes, (title, lines) in zip(grid, many.items(), strict=False):
        paint(axes, title, lines)
        axes.set_title(title)
        axes.grid()
    for axes in list(grid)[len(many) :]:
        axes.set_visible(False)
    return figure


def legend_below(figure: Figure) -> None:
    """Name each line once, under all plots."""
    named = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.legend(
        named.values(), named, loc="outside lower center", ncols=min(8, len(named))
    )


def widths(results: dict[str, Result]) -> Figure | None:
    """Lines: calls per second by calls in flight."""
    if "clients" not in results:
        return None

    def paint(axes: Any, _: str, lines: Lines) -> None:
        for name, line in lines.items():
            axes.plot(
                *zip(*line, strict=True),
                label=name,
                color=COLOURS.get(name, GREY),
                linestyle="--" if "floor" in name else "-",
                linewidth=2.2 if name == "mcpwire" else 1.4,
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        number_axis(axes.xaxis, sorted({x for line in lines.values() for x, _ in line}))
        number_axis(axes.yaxis, [10.0**n for n in range(6)])
        axes.set_xlabel("calls in flight")
        axes.set_ylabel("calls per second")

    figure = panels(curves.widths(results["clients"]), paint, 2)
    legend_below(figure)
    return figure


def growth(results: dict[str, Result]) -> Figure | None:
    """Lines: CPU per call as times that of the first point."""
    if "growth" not in results:
        return None
    result = results["growth"]
    ours = [name for name in result["summary"] if not name.startswith("floor")]
    colours = dict(zip(ours, GROWN, strict=False))

    def paint(axes: Any, title: str, lines: Lines) -> None:
        for name, line in lines.items():
            own = name.removeprefix("floor, ")
            is_floor = own != name
            axes.plot(
                *zip(*line, strict=True),
                label="its floor" if is_floor else name,
                color=colours.get(own, GREY),
                alpha=0.5 if is_floor else 1,
                linestyle=":" if is_floor else "-",
                linewidth=1 if is_floor else 1.8,
                marker="" if is_floor else "o",
                markersize=2.5,
            )
        axes.axhline(1.25, color=GREY, linewidth=0.8, linestyle="--")
        axes.set_xscale("log", base=2 if "flight" in title else 10)
        places = sorted({x for line in lines.values() for x, _ in line})
        number_axis(axes.xaxis, places[::3] if "flight" in title else places)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("CPU per call")

    figure = panels(curves.growth(result), paint, 2)
    legend_below(figure)
    return figure


DRAWN = {"peers": peers, "widths": widths, "growth": growth}


def main(folder: Path = HERE / "results") -> int:
    mpl.use("svg")
    mpl.rcParams.update(STYLE)
    results = {path.stem: report.load(path) for path in folder.glob("*.json")}
    for name, make in DRAWN.items():
        figure = make(results)
        if figure is None:
            print(f"{name}.svg is not drawn: nothing was measured for it")
        else:
            print(draw(name, figure).relative_to(HERE))
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
