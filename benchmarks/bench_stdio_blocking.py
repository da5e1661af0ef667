"""Benchmark of the blocking client over stdio: cost above a bare loop.

The same `tools/call` to the same null server in C: by a bare loop of `os.write` and
`os.read`, by `mcpwire.sync`'s typed `call_tool` in both eras, and by its raw `request`.
Client and server have a core each, as on an idle machine: the wake-up of a process that
waits in a system call is part of the latency that a user sees. On one core there is no
wake-up, and the figures show the cost of Python alone. Beside them the asyncio client
of the official SDK, which has no blocking one.
"""

from __future__ import annotations

import sys

from harness.command import run
from harness.figures import Budget
from harness.rounds import Variant
from harness.servers import interpreter, peer_python
from null import build

APART, MODERN = "stdio --legacy apart", "stdio --modern apart"
TOGETHER = "stdio --legacy together"
VARIANTS = {
    "floor": ("floor_blocking:connect", APART, "floor"),
    # Measured twice: the deviation of the ratio from 1 is the machine's noise.
    "floor, again": ("floor_blocking:connect", APART, "floor"),
    "floor, 2026-07-28": ("floor_blocking:connect", MODERN, "floor, 2026-07-28"),
    "call_tool": ("mcpwire_variants:blocking", APART, "floor"),
    "call_tool, 2026-07-28": ("mcpwire_variants:blocking", MODERN, "floor, 2026-07-28"),
    "request": ("mcpwire_variants:raw_blocking", APART, "floor"),
    "floor, one core": ("floor_blocking:connect", TOGETHER, "floor, one core"),
    "call_tool, one core": ("mcpwire_variants:blocking", TOGETHER, "floor, one core"),
}
PEER = "Python SDK, asyncio"
BUDGETS = [Budget(PEER, "p50_us", 1.6, at_least=True, against="call_tool")]


def peers() -> list[Variant]:
    """Return the official SDK's client if it is installed."""
    if not peer_python("python-sdk").exists():
        print(f"{PEER} is left out: `make peers`", file=sys.stderr)
        return []
    return [
        Variant(
            PEER,
            "clients.python_sdk:connect",
            build.leg_argument(APART),
            "floor",
            interpreter=interpreter("python-sdk"),
        )
    ]


def main() -> int:
    with build.exit_on_compile_error("stdio_blocking") as notes:
        variants = [
            Variant(name, target, build.leg_argument(leg), baseline)
            for name, (target, leg, baseline) in VARIANTS.items()
        ]
        variants += peers()
    return run(
        "stdio_blocking",
        variants,
        BUDGETS,
        notes=notes,
        pairs=[(PEER, "call_tool")],
        is_blocking=True,
    )


if __name__ == "__main__":
    sys.exit(main())
