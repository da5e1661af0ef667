"""Benchmark of the client over stdio: cost above the least loop.

The same `tools/call` to the same null server in C: by the floor loop, by mcpwire's
typed `call_tool` in both eras, and by its raw `request`.
"""

from __future__ import annotations

import sys

from harness.command import run
from harness.figures import Budget
from harness.rounds import Variant
from null import build

SESSION, MODERN = "stdio --legacy", "stdio --modern"
VARIANTS = {
    "floor": ("floor:connect", SESSION, "floor"),
    # Measured twice: the deviation of the ratio from 1 is the machine's noise.
    "floor, again": ("floor:connect", SESSION, "floor"),
    "floor, 2026-07-28": ("floor:connect", MODERN, "floor, 2026-07-28"),
    "call_tool": ("mcpwire_variants:typed", SESSION, "floor"),
    "call_tool, 2026-07-28": ("mcpwire_variants:typed", MODERN, "floor, 2026-07-28"),
    "request": ("mcpwire_variants:raw", SESSION, "floor"),
}
BUDGETS = [
    budget
    for variant in ("call_tool", "call_tool, 2026-07-28", "request")
    for budget in (Budget(variant, "cpu_us", 1.45), Budget(variant, "cpu_us@32", 2.2))
]


def main() -> int:
    with build.exit_on_compile_error("stdio") as notes:
        variants = [
            Variant(name, target, build.leg_argument(leg), baseline)
            for name, (target, leg, baseline) in VARIANTS.items()
        ]
    return run("stdio", variants, BUDGETS, notes=notes)


if __name__ == "__main__":
    sys.exit(main())
