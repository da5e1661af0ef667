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
from harness.figures import Budget, PeerBudget
from harness.rounds import Variant
from harness.servers import NODE_MODULES, ROOT, interpreter, node, peer_python, versions
from null import build

from mcpwire.bench.client_code import CHILD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


SLICES = 3
WIDTHS = (1, 8, 32, 64, 512)
UP_TO_64 = WIDTHS[:-1]
MODERN_SUFFIX = ", 2026-07-28"
SCRIPT = Path(__file__).resolve().parent / "clients/typescript_client.cjs"


LEGS = {
    "stdio": "stdio --legacy",
    "JSON": "json --legacy",
    "SSE": "sse --legacy",
    "stdio" + MODERN_SUFFIX: "stdio --modern",
    "JSON" + MODERN_SUFFIX: "json --modern",
    "SSE" + MODERN_SUFFIX: "sse --modern",
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
    program: str = CHILD
    """The program that the interpreter runs."""
    environment: Mapping[str, str] = field(default_factory=dict)
    is_modern: bool = True
    """Whether the client supports 2026-07-28."""
    widths: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The supported numbers of calls in flight, by shape, if not all of `WIDTHS`."""
    remark: str = ""
    """A remark printed below the figures."""

    def supports(self, leg: str) -> bool:
        """Return whether the client is installed and supports the leg."""
        return self.needs.exists() and (self.is_modern or MODERN_SUFFIX not in leg)


def python_peer(peer: str, module: str, **fields: Any) -> Peer:
    """Return a client that runs in its own Python environment."""
    target = f"clients.{module}:connect"
    return Peer(interpreter(peer), target, peer_python(peer), **fields)


CLOSES = "closes the connection after each event stream, and opens one for each call"
CLIENTS = {
    "Python SDK": python_peer("python-sdk", "python_sdk", remark=CLOSES),
    "FastMCP": python_peer(
        "fastmcp",
        "fastmcp_client",
        remark=CLOSES,
        # By default FastMCP looks for a newer version over the network at each start.
        environment={"FASTMCP_CHECK_FOR_UPDATES": "off"},
    ),
    "TypeScript SDK": Peer(
        (node(),),
        "-",
        NODE_MODULES / "@modelcontextprotocol/client",
        str(SCRIPT),
        environment={"NODE_PATH": str(NODE_MODULES), "NODE_ENV": "production"},
    ),
    "mcp-use": python_peer(
        "mcp-use",
        "mcp_use_client",
        # By default mcp-use sends telemetry.
        environment={"MCP_USE_ANONYMIZED_TELEMETRY": "false"},
        is_modern=False,
        widths={"json": UP_TO_64, "sse": UP_TO_64},
        remark=(
            "uses version 1 of the Python SDK, which supports sessions only and also "
            "closes the connection after each event stream; a call that waits 5 s for "
            "a connection ends the session, which happens with 512 calls in flight"
        ),
    ),
    "chuk-mcp": python_peer(
        "chuk-mcp",
        "chuk_mcp_client",
        is_modern=False,
        widths={"stdio": UP_TO_64, "json": (1,), "sse": (1,)},
        remark=(
            "supports sessions only, up to 2025-06-18; it gives an answer to the call "
            "that has waited longest, and drops the answer if that is another call's, "
            "so over stdio it is measured with up to 64 calls in flight; over HTTP it "
            "makes one call at a time, each on a new connection with a new TLS context"
        ),
    ),
}


# Variants...


def variants() -> Iterator[Variant]:
    """Yield the floor, mcpwire and each installed client, leg by leg."""
    for leg, words in LEGS.items():
        argument, shape = build.leg_argument(words), shape_of(leg)
        base = f"{leg}: floor"
        floor = "floor" if shape == "stdio" else "floor_http"
        yield Variant(base, f"{floor}:connect", argument, base, leg=leg)
        yield Variant(
            f"{leg}: mcpwire", "mcpwire_variants:typed", argument, base, leg=leg
        )
        for name, peer in CLIENTS.items():
            if peer.supports(leg):
                yield Variant(
                    f"{leg}: {name}",
                    peer.target,
                    argument,
                    base,
                    peer.interpreter,
                    peer.program,
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
    if peer.is_modern or MODERN_SUFFIX not in leg
]
LIMITS = {"stdio": (10, 20), "json": (15, 20), "sse": (20, 25)}
"""By shape: the required ratios to the Python SDK, less CPU per call and more calls
per second with 32 in flight."""


def budgets() -> Iterator[Budget]:
    """Yield the budgets to check."""
    for leg in LEGS:
        cpu, calls = LIMITS[shape_of(leg)]
        own, sdk = f"{leg}: mcpwire", f"{leg}: Python SDK"
        yield Budget(sdk, "cpu_us", cpu, at_least=True, against=own)
        yield Budget(own, "calls_per_s@32", calls, at_least=True, against=sdk)
    for peer, own in PAIRS:
        yield PeerBudget(own, against=peer)


def main() -> int:
    with build.exit_on_compile_error("clients") as notes:
        measured = list(variants())
    notes["peers"] = versions({**PACKAGES, TYPESCRIPT: ("node", TYPESCRIPT)})
    remarks = {name: peer.remark for name, peer in CLIENTS.items() if peer.remark}
    for name, peer in CLIENTS.items():
        if not peer.needs.exists():
            missing = peer.needs.relative_to(ROOT)
            remarks[name] = f"left out: no {missing}; `make bench-peers`"
    code = run(
        "clients",
        measured,
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
