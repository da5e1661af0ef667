"""The sizes of results, and their measurement.

Standard library only, because it runs in every client's environment.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    Call = Callable[[], Awaitable[Any]]

KIB = 1024
SIZES_KIB = (1, 64, 1024, 8 * 1024, 32 * 1024)
TOOLS = 10_000
PAGES = (1, 100)
TOOL_KIB = TOOLS * 124 // KIB
"""The approximate size of such a list."""

SMALL, LARGE = "kib=1024", "kib=32768"
"""The points between which the cost per byte should be constant."""


class Point(NamedTuple):
    """A size of result to measure."""

    name: str
    """The part of a figure's name after `@`."""
    options: tuple[str, ...]
    """The options of the null server."""
    kib: int
    is_list: bool = False

    def check(self, size: int) -> None:
        """Assert before the measurement that the result has the expected size."""
        expected = TOOLS if self.is_list else self.kib * KIB
        assert size == expected, (self.name, size)


TEXTS = [Point(f"kib={kib}", ("--bytes", str(kib * KIB)), kib) for kib in SIZES_KIB]
LISTS = [
    Point(
        f"pages={pages}",
        ("--tools", str(TOOLS), "--pages", str(pages)),
        TOOL_KIB,
        is_list=True,
    )
    for pages in PAGES
]
BY_NAME = {point.name: point for point in (*TEXTS, *LISTS)}


class Argument(NamedTuple):
    """The parsed argument of a variant."""

    server: str
    points: list[Point]


def format_argument(server: str, points: Sequence[Point]) -> str:
    """Return the argument of a variant."""
    return json.dumps({"server": server, "points": [point.name for point in points]})


def parse_argument(argument: str) -> Argument:
    """Parse the argument of a variant."""
    fields = json.loads(argument)
    return Argument(fields["server"], [BY_NAME[name] for name in fields["points"]])


def resident_bytes(field: str) -> int:
    """Return this process's memory on Linux, current (`VmRSS`) or peak (`VmHWM`)."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    match = re.search(rf"{field}:\s+(\d+) kB", text)
    assert match is not None, text
    return int(match[1]) * KIB


def reset_peak() -> int:
    """Reset Linux's peak of this process's memory; return the current value."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return resident_bytes("VmRSS")


class PointCalls:
    """An open call for each point, and its measurement."""

    def __init__(self, calls: dict[str, Call]) -> None:
        self.calls = calls

    async def measure(self, calls_by_point: dict[str, int]) -> dict[str, float]:
        """Return CPU and wall time per call, from a number of calls at each point."""
        figures = {}
        for name, calls in calls_by_point.items():
            call = self.calls[name]
            await call()
            wall, cpu = perf_counter_ns(), process_time_ns()
            for _ in range(calls):
                await call()
            wall, cpu = perf_counter_ns() - wall, process_time_ns() - cpu
            figures[f"cpu_us@{name}"] = cpu / calls / 1e3
            figures[f"took_us@{name}"] = wall / calls / 1e3
        return figures

    async def peak(self, names: list[str]) -> dict[str, float]:
        """Return a call's peak memory as a multiple of the size of its result."""
        figures = {}
        for name in names:
            with suppress(OSError):  # not on other systems than Linux
                before = reset_peak()
                await self.calls[name]()
                growth = resident_bytes("VmHWM") - before
                figures[f"peak@{name}"] = growth / (BY_NAME[name].kib * KIB)
        return figures
