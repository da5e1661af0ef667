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

    def check(self, weighed: int) -> None:
        """Assert before the measurement that the result has the expected size."""
        wanted = TOOLS if self.is_list else self.kib * KIB
        assert weighed == wanted, (self.name, weighed)


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


class Asked(NamedTuple):
    """The parsed argument of a variant."""

    server: str
    points: list[Point]


def ask(server: str, points: Sequence[Point]) -> str:
    """Return the argument of a variant."""
    return json.dumps({"server": server, "points": [point.name for point in points]})


def asked(argument: str) -> Asked:
    """Parse the argument of a variant."""
    told = json.loads(argument)
    return Asked(told["server"], [BY_NAME[name] for name in told["points"]])


def resident_bytes(field: str) -> int:
    """Return this process's memory on Linux, current (`VmRSS`) or peak (`VmHWM`)."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"{field}:\s+(\d+) kB", text)
    assert found is not None, text
    return int(found[1]) * KIB


def begin_peak() -> int:
    """Reset Linux's peak of this process's memory; return the current value."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return resident_bytes("VmRSS")


class Measured:
    """An open call for each point, and its measurement."""

    def __init__(self, calls: dict[str, Call]) -> None:
        self.calls = calls

    async def measure(self, wanted: dict[str, int]) -> dict[str, float]:
        """Return CPU and wall time per call at each point; `wanted` has the numbers."""
        figures = {}
        for name, count in wanted.items():
            call = self.calls[name]
            await call()
            wall, cpu = perf_counter_ns(), process_time_ns()
            for _ in range(count):
                await call()
            wall, cpu = perf_counter_ns() - wall, process_time_ns() - cpu
            figures[f"cpu_us@{name}"] = cpu / count / 1e3
            figures[f"took_us@{name}"] = wall / count / 1e3
        return figures

    async def peak(self, names: list[str]) -> dict[str, float]:
        """Return a call's peak memory as a multiple of the size of its result."""
        figures = {}
        for name in names:
            with suppress(OSError):  # not on other systems than Linux
                before = begin_peak()
                await self.calls[name]()
                more = resident_bytes("VmHWM") - before
                figures[f"peak@{name}"] = more / (BY_NAME[name].kib * KIB)
        return figures
