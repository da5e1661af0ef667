"""Benchmark of the blocking client over HTTP: cost above a bare loop.

The same `tools/call` to the same null server in C, with JSON or event-stream responses:
by a bare loop of `sendall` and `recv`, by `mcpwire.sync`'s typed `call_tool` in both
eras, and by the official SDK's asyncio client. Client and server have a core each;
`bench_stdio_blocking.py` explains why.
"""

from __future__ import annotations

import sys

from bench_http import http_variants
from harness.command import run
from harness.figures import Budget
from harness.rounds import Variant
from harness.servers import interpreter, peer_python
from null import build

LEGS = {
    "JSON": "json --legacy apart",
    "JSON, 2026-07-28": "json --modern apart",
    "SSE": "sse --legacy apart",
    "JSON, one core": "json --legacy together",
}
VARIANTS = {
    **{f"floor, {leg}": ("floor_blocking:connect", leg) for leg in LEGS},
    # Measured twice: the deviation of the ratio from 1 is the machine's noise.
    "floor, again": ("floor_blocking:connect", "JSON"),
    **{leg: ("mcpwire_variants:blocking", leg) for leg in LEGS},
    "JSON by httpx": ("mcpwire_variants:blocking_httpx", "JSON"),
}
PEERS = {f"Python SDK, asyncio, {leg}": leg for leg in ("JSON", "SSE")}
"""The leg of each peer, also the name of mcpwire's variant to compare with."""

BUDGETS = [
    Budget(peer, "p50_us", 6, at_least=True, against=variant)
    for peer, variant in PEERS.items()
]


def peers() -> list[Variant]:
    """Return the official SDK's client if it is installed."""
    if not peer_python("python-sdk").exists():
        print("the Python SDK is left out: `make peers`", file=sys.stderr)
        return []
    return [
        Variant(
            name,
            "clients.python_sdk:connect",
            build.leg_argument(LEGS[leg]),
            f"floor, {leg}",
            interpreter=interpreter("python-sdk"),
        )
        for name, leg in PEERS.items()
    ]


def main() -> int:
    with build.exit_on_compile_error("http_blocking") as notes:
        variants = http_variants(VARIANTS, LEGS)
        variants += peers()
    return run(
        "http_blocking",
        variants,
        BUDGETS,
        notes=notes,
        pairs=list(PEERS.items()),
        is_blocking=True,
    )


if __name__ == "__main__":
    sys.exit(main())
