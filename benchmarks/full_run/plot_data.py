"""The data of the plots: bars for peers, and lines along an axis.

In a result with peers a variant is named ``path: name``, such as ``stdio: mcpwire``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.figures import advantages, peer_pairs

if TYPE_CHECKING:
    from harness.figures import Spread
    from harness.report import Result

Line = list[tuple[int, float]]
"""Points of a line: position on the axis, and value."""

Lines = dict[str, Line]
"""Lines by name of the program."""

CPU, CALLS = "cpu_us", "calls_per_s@"


def split_name(variant: str) -> tuple[str, str]:
    """Return the path and the name of a variant."""
    path, _, name = variant.rpartition(": ")
    return path, name


def bars(result: Result, figure: str = CPU) -> dict[str, dict[str, Spread]]:
    """Return how many times better mcpwire is than each peer, by path."""
    bars_by_path: dict[str, dict[str, Spread]] = {}
    for pair in peer_pairs(result):
        path, name = split_name(pair["variant"])
        better = advantages(pair)
        if figure in better:
            bars_by_path.setdefault(path, {})[name] = better[figure]
    return bars_by_path


def line_along(result: Result, variant: str, axis: str, kind: str = "value") -> Line:
    """Return one variant's figures along an axis, such as ``calls_per_s@``."""
    return sorted(
        (int(figure.removeprefix(axis)), spreads[kind]["median"])
        for figure, spreads in result["summary"][variant].items()
        if figure.startswith(axis) and figure.removeprefix(axis).isdecimal()
    )


def widths(result: Result) -> dict[str, Lines]:
    """Return by path and name the lines of calls per second over calls in flight."""
    lines_by_path: dict[str, Lines] = {}
    for variant in result.get("summary", ()):
        path, name = split_name(variant)
        if line := line_along(result, variant, CALLS):
            lines_by_path.setdefault(path, {})[name] = line
    return lines_by_path


GROWTH = {
    "calls on the session before": "cpu_us@calls=",
    "calls in flight": "cpu_us@",
    "open sessions, one of them called": "cpu_us@sessions=",
    "open sessions, called in turn": "cpu_us@turns=",
}
"""The axes of growth."""


def growth(result: Result) -> dict[str, Lines]:
    """Return by axis and variant the CPU per call as multiples of the first point."""
    axes = GROWTH.items() if result else ()
    return {
        words: {
            variant: line
            for variant in result["summary"]
            if (line := line_along(result, variant, axis, "ratio"))
        }
        for words, axis in axes
    }
