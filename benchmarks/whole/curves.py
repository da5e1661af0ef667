"""The data of the plots: bars for peers, and lines along an axis.

In a result with peers a variant is named ``path: name``, such as ``stdio: mcpwire``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.figures import ahead, peer_pairs

if TYPE_CHECKING:
    from harness.figures import Spread
    from harness.report import Result

Line = list[tuple[int, float]]
"""Points of a line: position on the axis, and value."""

Lines = dict[str, Line]
"""Lines by name of the program."""

CPU, CALLS = "cpu_us", "calls_per_s@"


def split(variant: str) -> tuple[str, str]:
    """Return the path and the name of a variant."""
    path, _, name = variant.rpartition(": ")
    return path, name


def bars(result: Result, figure: str = CPU) -> dict[str, dict[str, Spread]]:
    """Return how many times better mcpwire is than each peer, by path."""
    found: dict[str, dict[str, Spread]] = {}
    for pair in peer_pairs(result):
        path, name = split(pair["variant"])
        better = ahead(pair)
        if figure in better:
            found.setdefault(path, {})[name] = better[figure]
    return found


def along(result: Result, variant: str, axis: str, kind: str = "value") -> Line:
    """Return one variant's figures along an axis, such as ``calls_per_s@``."""
    return sorted(
        (int(figure.removeprefix(axis)), each[kind]["median"])
        for figure, each in result["summary"][variant].items()
        if figure.startswith(axis) and figure.removeprefix(axis).isdecimal()
    )


def widths(result: Result) -> dict[str, Lines]:
    """Return by path and name the lines of calls per second over calls in flight."""
    found: dict[str, Lines] = {}
    for variant in result.get("summary", ()):
        path, name = split(variant)
        if line := along(result, variant, CALLS):
            found.setdefault(path, {})[name] = line
    return found


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
            if (line := along(result, variant, axis, "ratio"))
        }
        for words, axis in axes
    }
