"""What the plots show, taken from results: bars beside peers, and lines along an axis.

A variant of a result with peers is called ``path: name``, as in ``stdio: mcpwire``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.figures import ahead, peer_pairs

if TYPE_CHECKING:
    from harness.figures import Spread
    from harness.report import Result

Line = list[tuple[int, float]]
"""Points of a line, by their place on an axis."""

Lines = dict[str, Line]
"""Lines by the name of the program that they belong to."""

CPU, CALLS = "cpu_us", "calls_per_s@"


def split(variant: str) -> tuple[str, str]:
    """Return the path and the name of a variant."""
    path, _, name = variant.rpartition(": ")
    return path, name


def bars(result: Result, figure: str = CPU) -> dict[str, dict[str, Spread]]:
    """Return how many times better ours is than each peer, by path."""
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
    """Return calls per second by calls in flight, by name, by path."""
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
    """Return CPU per call as times that of the first point, by variant, by axis."""
    axes = GROWTH.items() if result else ()
    return {
        words: {
            variant: line
            for variant in result["summary"]
            if (line := along(result, variant, axis, "ratio"))
        }
        for words, axis in axes
    }
