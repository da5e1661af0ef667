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

LEGS = {
    "JSON": "json --legacy",
    "JSON, 2026-07-28": "json --modern",
    "SSE": "sse --legacy",
    "SSE, 2026-07-28": "sse --modern",
}
VARIANTS = {
    **{f"floor, {leg}": ("floor_http:connect", leg) for leg in LEGS},
    # Measured twice: the deviation of the ratio from 1 is the machine's noise.
    "floor, again": ("floor_http:connect", "JSON"),
    **{leg: ("mcpwire_variants:typed", leg) for leg in LEGS},
    "JSON by httpx": ("mcpwire_variants:httpx", "JSON"),
    "SSE by httpx": ("mcpwire_variants:httpx", "SSE"),
}
LIMITS = {"JSON": 1.5, "SSE": 1.6}
BUDGETS = [
    Budget(variant, "cpu_us", limit)
    for shape, limit in LIMITS.items()
    for variant in (shape, f"{shape}, 2026-07-28")
]


def http_variants(
    table: Mapping[str, tuple[str, str]], legs: Mapping[str, str]
) -> list[Variant]:
    """Return the variants of a table, with the floor of the leg as baseline."""
    return [
        Variant(name, target, build.leg_argument(legs[leg]), f"floor, {leg}")
        for name, (target, leg) in table.items()
    ]


def main() -> int:
    with build.exit_on_compile_error("http") as notes:
        variants = http_variants(VARIANTS, LEGS)
    return run("http", variants, BUDGETS, notes=notes, widths=(8, 32))


if __name__ == "__main__":
    sys.exit(main())
