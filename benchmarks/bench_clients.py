"""Benchmark of calls by mcpwire's client and by other Python and TypeScript clients.

The same `tools/call` to the same null server in C, over stdio and over HTTP with
JSON or event-stream responses: by mcpwire's typed `call_tool`, and by the usual call of
the official Python SDK, FastMCP, the official TypeScript SDK, mcp-use and chuk-mcp,
each in its own environment, in both eras if the client supports both. Clients that are
not installed are reported and skipped; `make bench-peers` installs them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.command import run
from harness.figures import Ahead, Budget
from harness.rounds import Variant
from harness.servers import (
    NODE_MODULES,
    ROOT,
    interpreter,
    node,
    python_of,
    versions,
)
from null import build

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


SLICES = 3
WIDTHS = (1, 8, 32, 64, 512)
MANY = WIDTHS[:-1]
LATER = ", 2026-07-28"
SCRIPT = Path(__file__).resolve().parent / "clients/typescript_client.cjs"


LEGS = {
    "stdio": "stdio --legacy",
    "JSON": "json --legacy",
    "SSE": "sse --legacy",
    "stdio" + LATER: "stdio --modern",
    "JSON" + LATER: "json --modern",
    "SSE" + LATER: "sse --modern",
}


def shape_of(leg: str) -> str:
    """Return the transport of a leg: ``stdio``, ``json`` or ``sse``."""
    return LEGS[leg].partition(" ")[0]


@dataclass(frozen=True)
class Peer:
    """A client of another project: how to start it, and its capabilities."""

    interpreter: tuple[str, ...]
    target: str
    needs: Path
    portions: Mapping[str, int]
    """The divisor of the number of calls in a slice, by shape."""
    environment: Mapping[str, str] = field(default_factory=dict)
    is_later: bool = True
    """Whether the client supports 2026-07-28."""
    widths: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The supported numbers of calls in flight, by shape, if not all of `WIDTHS`."""
    remark: str = ""
    """A remark printed below the figures."""

    def takes(self, leg: str) -> bool:
        """Return whether the client is installed and supports the leg."""
        return self.needs.exists() and (self.is_later or LATER not in leg)


def foreign(where: str, module: str, **others: Any) -> Peer:
    """Return a client that runs in its own Python environment."""
    target = f"clients.{module}:connected"
    return Peer(interpreter(where), target, python_of(where), **others)


SLOW = {"stdio": 5, "json": 10, "sse": 10}
HANGS_UP = "hangs up on an event stream that has answered: a connection for each call"
CLIENTS = {
    "Python SDK": foreign("python-sdk", "python_sdk", portions=SLOW, remark=HANGS_UP),
    "FastMCP": foreign(
        "fastmcp",
        "fastmcp_client",
        portions=SLOW,
        remark=HANGS_UP,
        # By default FastMCP looks for a newer version over the network at each start.
        environment={"FASTMCP_CHECK_FOR_UPDATES": "off"},
    ),
    "TypeScript SDK": Peer(
        (node(), str(SCRIPT)),
        "-",
        NODE_MODULES / "@modelcontextprotocol/client",
        portions={"stdio": 1, "json": 5, "sse": 5},
        environment={"NODE_PATH": str(NODE_MODULES), "NODE_ENV": "production"},
    ),
    "mcp-use": foreign(
        "mcp-use",
        "mcp_use_client",
        portions=SLOW,
        # By default mcp-use sends telemetry.
        environment={"MCP_USE_ANONYMIZED_TELEMETRY": "false"},
        is_later=False,
        widths={"json": MANY, "sse": MANY},
        remark=(
            "stands on version 1 of the Python SDK, which has sessions only and hangs "
            "up on event streams, too; a call that waits 5 s for a "
            "connection ends its session, and of 512 some do"
        ),
    ),
    "chuk-mcp": foreign(
        "chuk-mcp",
        "chuk_mcp_client",
        portions={"stdio": 5, "json": 100, "sse": 100},
        is_later=False,
        widths={"stdio": MANY, "json": (1,), "sse": (1,)},
        remark=(
            "has sessions only, up to 2025-06-18; an answer goes to whichever call has "
            "waited longest, and is thrown away where it is another's: it is asked for "
            "no more in flight than goes well; over HTTP it makes one call after the "
            "other, each on a new connection with a new TLS context"
        ),
    ),
}


# Variants...


def variants() -> Iterator[Variant]:
    """Yield the floor, mcpwire and each installed client, leg by leg."""
    for leg, words in LEGS.items():
        argument, shape = build.leg(words), shape_of(leg)
        base = f"{leg}: floor"
        floor = "floor" if shape == "stdio" else "floor_http"
        yield Variant(base, f"{floor}:connected", argument, base, leg=leg)
        yield Variant(f"{leg}: mcpwire", "ours:typed", argument, base, leg=leg)
        for name, peer in CLIENTS.items():
            if peer.takes(leg):
                yield Variant(
                    f"{leg}: {name}",
                    peer.target,
                    argument,
                    base,
                    peer.portions[shape],
                    peer.interpreter,
                    peer.environment,
                    leg,
                    peer.widths.get(shape),
                )


PACKAGES = {
    f"{environment}: {package}": (environment, package)
    for environment, package in (
        ("python-sdk", "mcp"),
        ("fastmcp", "fastmcp"),
        ("mcp-use", "mcp_use"),
        ("mcp-use", "mcp"),
        ("chuk-mcp", "chuk_mcp"),
    )
}
TYPESCRIPT = "@modelcontextprotocol/client"


# Budgets...


PAIRS = [
    (f"{leg}: {name}", f"{leg}: mcpwire")
    for leg in LEGS
    for name, peer in CLIENTS.items()
    if peer.is_later or LATER not in leg
]
LIMITS = {"stdio": (10, 20), "json": (15, 20), "sse": (20, 25)}
"""By shape: the required ratios to the Python SDK, less CPU per call and more calls
per second with 32 in flight."""


def budgets() -> Iterator[Budget]:
    """Yield the budgets to check."""
    for leg in LEGS:
        cpu, calls = LIMITS[shape_of(leg)]
        mine, sdk = f"{leg}: mcpwire", f"{leg}: Python SDK"
        yield Budget(sdk, "cpu_us", cpu, at_least=True, against=mine)
        yield Budget(mine, "calls_per_s@32", calls, at_least=True, against=sdk)
    for peer, mine in PAIRS:
        yield Ahead(mine, against=peer)


def main() -> int:
    with build.compiling("clients") as notes:
        found = list(variants())
    notes["peers"] = versions({**PACKAGES, TYPESCRIPT: ("node", TYPESCRIPT)})
    remarks = {name: peer.remark for name, peer in CLIENTS.items() if peer.remark}
    for name, peer in CLIENTS.items():
        if not peer.needs.exists():
            where = peer.needs.relative_to(ROOT)
            remarks[name] = f"left out: no {where}; `make bench-peers`"
    code = run(
        "clients",
        found,
        list(budgets()),
        notes={**notes, "remarks": remarks},
        widths=WIDTHS,
        slices=SLICES,
        pairs=PAIRS,
    )
    print("\nRemarks")
    for name, remark in remarks.items():
        print(f"{name}: {remark}")
    return code


if __name__ == "__main__":
    sys.exit(main())
