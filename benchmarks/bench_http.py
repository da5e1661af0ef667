"""Benchmark of the client over Streamable HTTP: cost above the least loop.

The same `tools/call` to the same null server in C, with JSON or event-stream responses:
by the floor loop, and by mcpwire's typed `call_tool` in both eras, over its own
connections and over httpx.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness.command import run
from harness.figures import Budget
from harness.rounds import Variant
from null import build

if TYPE_CHECKING:
    from collections.abc import Mapping

HTTPX_PORTION = 20
"""The divisor of the number of calls with httpx, which takes much longer."""

LEGS = {
    "JSON": "json --legacy",
    "JSON, 2026-07-28": "json --modern",
    "SSE": "sse --legacy",
    "SSE, 2026-07-28": "sse --modern",
}
VARIANTS = {
    **{f"floor, {leg}": ("floor_http:connected", leg) for leg in LEGS},
    # Measured twice: the deviation of the ratio from 1 is the machine's noise.
    "floor, again": ("floor_http:connected", "JSON"),
    **{leg: ("ours:typed", leg) for leg in LEGS},
    "JSON by httpx": ("ours:httpx", "JSON"),
    "SSE by httpx": ("ours:httpx", "SSE"),
}
LIMITS = {"JSON": 1.5, "SSE": 1.6}
BUDGETS = [
    Budget(variant, "cpu_us", limit)
    for shape, limit in LIMITS.items()
    for variant in (shape, f"{shape}, 2026-07-28")
]


def over_http(
    table: Mapping[str, tuple[str, str]], legs: Mapping[str, str], httpx_portion: int
) -> list[Variant]:
    """Return the variants of a table, with the floor of the leg as baseline."""
    return [
        Variant(
            name,
            target,
            build.leg(legs[leg]),
            f"floor, {leg}",
            portion=httpx_portion if "httpx" in target else 1,
        )
        for name, (target, leg) in table.items()
    ]


def main() -> int:
    with build.compiling("http") as notes:
        variants = over_http(VARIANTS, LEGS, HTTPX_PORTION)
    return run("http", variants, BUDGETS, notes=notes, widths=(8, 32))


if __name__ == "__main__":
    sys.exit(main())
