"""Benchmark of many threads that call on one session of the blocking client.

The same `tools/call` to the same null servers in C, over stdio and over HTTP, by 1, 2,
8 and 32 concurrent threads: by bare loops, by `mcpwire.sync.Client`, and by the asyncio
clients of the official SDK and FastMCP, called from a thread pool on a loop in another
thread (`asyncio.run_coroutine_threadsafe`). Beside them mcpwire's asyncio client with
as many calls in flight.

The client's threads share one core and the server has another: only one thread of an
interpreter runs at a time, and on two cores the figures vary with the scheduler. With
client and server on one core there is no wake-up, and the cost of threads remains.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness.command import run
from harness.figures import Budget
from harness.rounds import Variant
from harness.servers import ROOT, interpreter, peer_python
from null import build

if TYPE_CHECKING:
    from pathlib import Path

WIDTHS = (1, 2, 8, 32)
SLICES = 6
PLACED = (
    "client and server with a core each, or on one core where it says so; "
    "calls in flight are threads, but tasks in mcpwire's asyncio client"
)

LEGS = {
    "stdio": "stdio --legacy apart",
    "stdio, one core": "stdio --legacy together",
    "stdio, 2026-07-28": "stdio --modern apart",
    "JSON": "json --legacy apart",
    "JSON, 2026-07-28": "json --modern apart",
    "SSE": "sse --legacy apart",
}

# The reference for many threads, measured in adjacent slices.
ONE_THREAD = "mcpwire, one thread"
OURS = {
    "mcpwire": ("mcpwire_variants:blocking", tuple(LEGS)),
    ONE_THREAD: ("mcpwire_variants:blocking", ("stdio", "stdio, one core", "JSON")),
    "mcpwire on asyncio": (
        "mcpwire_variants:typed",
        ("stdio", "stdio, one core", "JSON", "SSE"),
    ),
}
"""The function that measures a variant, and its legs."""

PEER_LEGS = ("stdio", "JSON", "SSE")
PEERS = {
    "Python SDK": ("portal:python_sdk", "python-sdk"),
    "FastMCP": ("portal:fastmcp", "fastmcp"),
}
"""The function that measures a peer, and its environment."""


def missing_peers() -> dict[str, Path]:
    """Return the missing interpreters of the peers that are not installed."""
    pythons = {
        name: peer_python(environment) for name, (_, environment) in PEERS.items()
    }
    return {name: python for name, python in pythons.items() if not python.exists()}


def peer_variants(leg: str, argument: str) -> list[Variant]:
    """Return the installed peers, measured in their own environments."""
    missing = missing_peers()
    return [
        Variant(
            f"{leg}: {name}",
            target,
            argument,
            f"{leg}: floor",
            interpreter=interpreter(environment),
        )
        for name, (target, environment) in PEERS.items()
        if name not in missing
    ]


def variants() -> list[Variant]:
    """Return all installed variants."""
    variants = []
    for leg, words in LEGS.items():
        argument = build.leg_argument(words)
        base = f"{leg}: floor"
        variants.append(Variant(base, "floor_blocking:shared", argument, base))
        variants += [
            Variant(
                f"{leg}: {name}",
                target,
                argument,
                base,
                max_users=1 if name == ONE_THREAD else None,
            )
            for name, (target, legs) in OURS.items()
            if leg in legs
        ]
        if leg in PEER_LEGS:
            variants += peer_variants(leg, argument)
    return variants


PAIRS = [
    (f"{leg}: {other}", f"{leg}: mcpwire")
    for leg in LEGS
    for other in (*list(OURS)[1:], *PEERS)
]


def at_least(limit: float, leg: str, other: str) -> Budget:
    """Return a budget for eight threads against another variant of the leg."""
    figure, against = "calls_per_s@8", f"{leg}: {other}"
    return Budget(f"{leg}: mcpwire", figure, limit, at_least=True, against=against)


BUDGETS = [
    # No budget on one core, where threads gain nothing.
    *(at_least(1, leg, ONE_THREAD) for leg in ("stdio", "JSON")),
    *(at_least(3, leg, "Python SDK") for leg in PEER_LEGS),
]


def main() -> int:
    for name, python in missing_peers().items():
        missing = python.relative_to(ROOT)
        print(f"{name} is left out: no {missing}; `make peers`", file=sys.stderr)
    with build.exit_on_compile_error("threads") as notes:
        measured_variants = variants()
    return run(
        "threads",
        measured_variants,
        BUDGETS,
        notes={**notes, "placed": PLACED},
        widths=WIDTHS,
        slices=SLICES,
        pairs=PAIRS,
        is_placed=True,
    )


if __name__ == "__main__":
    sys.exit(main())
