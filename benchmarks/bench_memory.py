"""Benchmark of calls with client and server in one process.

The same tool, `echo(text: str) -> str`, in both eras: by mcpwire's client connected to
its server in memory, and through the ASGI application; by the official Python SDK and
FastMCP in memory, each in its own environment. mcpwire's client and server, and the
floor's, share no object: each message is encoded and decoded as on a wire. Peers that
are not installed are reported and skipped; `make peers` installs them.
"""

from __future__ import annotations

import sys

from bench_server import peer_versions
from harness.command import run
from harness.figures import Budget
from harness.rounds import Variant
from harness.servers import ROOT, interpreter, peer_python

ERAS = {"session": "", "stateless": ", 2026-07-28"}
"""The suffix of a variant's name, by era."""

OURS = {
    "floor": "memory.floor:through_bytes",
    # Measured twice: the deviation of the ratio from 1 is the machine's noise.
    "floor, again": "memory.floor:through_bytes",
    # The minimum without encoding, validation and isolation of objects.
    "bare task": "memory.floor:bare_task",
    "call_tool": "memory.mcpwire_client:typed",
    "request": "memory.mcpwire_client:raw",
    "AsgiTransport": "memory.mcpwire_client:asgi",
}
FOREIGN_PEERS = {
    "Python SDK": ("python-sdk", "memory.python_sdk:typed"),
    "FastMCP": ("fastmcp", "memory.fastmcp_client:typed"),
}
"""The environment and the function, by name of variant."""

SESSION_ONLY = frozenset({"floor, again", "bare task", "request"})
"""The variants that are measured in the session era only."""

WIDTHS = (1, 8, 32, 64, 512)
SLICES = 5
PLACED = "client and server in one thread, unpinned"

# By default FastMCP looks for a newer version over the network at each start.
ENVIRONMENT = {"FASTMCP_CHECK_FOR_UPDATES": "off"}


def variants() -> list[Variant]:
    """Return a variant for each era and each installed library."""
    variants = []
    for era, suffix in ERAS.items():
        floor = f"floor{suffix}"
        for name, target in OURS.items():
            if not (suffix and name in SESSION_ONLY):
                variants.append(Variant(name + suffix, target, era, floor))
        for name, (environment, target) in FOREIGN_PEERS.items():
            if peer_python(environment).exists():
                variants.append(
                    Variant(
                        name + suffix,
                        target,
                        era,
                        floor,
                        interpreter=interpreter(environment),
                        environment=ENVIRONMENT,
                    )
                )
    return variants


PAIRS = [
    (peer + suffix, f"call_tool{suffix}")
    for suffix in ERAS.values()
    for peer in FOREIGN_PEERS
]
BUDGETS = [
    budget
    for peer, own in PAIRS
    for budget in (
        Budget(peer, "cpu_us", 1.0, at_least=True, against=own),
        Budget(peer, "p50_us", 1.0, at_least=True, against=own),
        *(Budget(peer, f"calls_per_s@{width}", 1.0, against=own) for width in WIDTHS),
    )
]
"""mcpwire must be at least as good as every peer in every figure."""


def main() -> int:
    for name, (environment, _) in FOREIGN_PEERS.items():
        python = peer_python(environment)
        if not python.exists():
            missing = python.relative_to(ROOT)
            print(f"{name} is left out: no {missing}; `make peers`", file=sys.stderr)
    return run(
        "memory",
        variants(),
        BUDGETS,
        notes={"peers": peer_versions(), "placed": PLACED},
        widths=WIDTHS,
        slices=SLICES,
        pairs=PAIRS,
        is_placed=True,
    )


if __name__ == "__main__":
    sys.exit(main())
