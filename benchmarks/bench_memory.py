"""What does a call cost where client and server live in one process?

The same tool, `echo(text: str) -> str`, in both eras: by mcpwire's client given its
server, and through its ASGI application; by the official Python SDK and FastMCP, each
its client given its server, in its own environment. mcpwire's two ends share no object:
each message is encoded and decoded as on any wire, and so it is at the floor. What is
not installed is named and left out; `make peers` installs it.
"""

from __future__ import annotations

import sys

from bench_server import peers
from harness.command import run
from harness.figures import Budget
from harness.rounds import Variant
from harness.servers import PEERS, ROOT

ERAS = {"session": "", "stateless": ", 2026-07-28"}
"""What is added to a variant's name, by era."""

OURS = {
    "floor": "memory.floor:through_bytes",
    # The same thing twice: how far its ratio strays from 1 is the machine's noise.
    "floor, again": "memory.floor:through_bytes",
    # What is left where nothing is encoded, checked or kept apart.
    "bare task": "memory.floor:bare_task",
    "call_tool": "memory.ours:typed",
    "request": "memory.ours:raw",
    "AsgiTransport": "memory.ours:asgi",
}
FOREIGN = {
    "Python SDK": ("python-sdk", "memory.python_sdk:typed"),
    "FastMCP": ("fastmcp", "memory.fastmcp_client:typed"),
}
"""Environment and function by the names of variants."""

ONCE = frozenset({"floor, again", "bare task", "request"})
"""What is measured in one era only."""

SLOW_PORTION = 10
"""By what the calls are divided for what takes much longer."""

WIDTHS = (1, 8, 32, 64, 512)
SLICES = 5
PLACED = "client and server in one thread, unpinned"

# Unless told not to, FastMCP asks the network for a newer version at each start.
ENVIRONMENT = {"FASTMCP_CHECK_FOR_UPDATES": "off"}


def variants() -> list[Variant]:
    """Return a variant for each era and each library that is installed."""
    found = []
    for era, after in ERAS.items():
        floor = f"floor{after}"
        for name, target in OURS.items():
            if not (after and name in ONCE):
                portion = SLOW_PORTION if name == "AsgiTransport" else 1
                found.append(Variant(name + after, target, era, floor, portion))
        for name, (environment, target) in FOREIGN.items():
            python = PEERS / environment / "bin/python"
            if python.exists():
                found.append(
                    Variant(
                        name + after,
                        target,
                        era,
                        floor,
                        SLOW_PORTION,
                        interpreter=(str(python), "-m", "harness.child"),
                        environment=ENVIRONMENT,
                    )
                )
    return found


PAIRS = [
    (peer + after, f"call_tool{after}") for after in ERAS.values() for peer in FOREIGN
]
BUDGETS = [
    budget
    for peer, mine in PAIRS
    for budget in (
        Budget(peer, "cpu_us", 1.0, at_least=True, against=mine),
        Budget(peer, "p50_us", 1.0, at_least=True, against=mine),
        *(Budget(peer, f"calls_per_s@{width}", 1.0, against=mine) for width in WIDTHS),
    )
]
"""Ahead of every peer, in every figure."""


def main() -> int:
    for name, (environment, _) in FOREIGN.items():
        python = PEERS / environment / "bin/python"
        if not python.exists():
            where = python.relative_to(ROOT)
            print(f"{name} is left out: no {where}; `make peers`", file=sys.stderr)
    return run(
        "memory",
        variants(),
        BUDGETS,
        notes={"peers": peers(), "placed": PLACED},
        widths=WIDTHS,
        slices=SLICES,
        pairs=PAIRS,
        is_placed=True,
    )


if __name__ == "__main__":
    sys.exit(main())
