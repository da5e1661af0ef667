"""Benchmark of gateways: latency added to a call, and calls per second.

The same `tools/call` to the same null server in C: directly, and through mcpwire's
`Gateway`, FastMCP's proxy and mcp-proxy, each in its own environment, in the directions
that it supports: HTTP to a stdio server, in both eras, and stdio to an HTTP server.
Gateways that are not installed are reported and skipped; `make bench-peers`.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench_server import PLACED, SESSION, STATELESS
from harness.command import run
from harness.figures import Budget, PeerBudget
from harness.programs import ServedProgram
from harness.servers import ROOT, Program, on_server_core, peer_python, versions
from null import build
from null.server import run_null_server

from mcpwire import Http

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.rounds import Round

    from mcpwire import Stdio

FOLDER = Path(__file__).resolve().parent / "gateway"
MODERN_SUFFIX = ", 2026-07-28"
SLICES = 2
WIDTHS = (32,)
DIRECT, OURS = "direct", "mcpwire"


def python_gateway(name: str, script: str, **environment: str) -> Program:
    """Return a gateway program that runs in its own Python environment."""
    python = peer_python(name)
    command = (str(python), str(FOLDER / script))
    return Program(command, (python,), environment)


PROGRAMS = {
    OURS: Program((sys.executable, str(FOLDER / "mcpwire_gateway.py"))),
    # By default FastMCP looks for a newer version over the network at each start.
    "FastMCP": python_gateway(
        "fastmcp", "fastmcp_gateway.py", FASTMCP_CHECK_FOR_UPDATES="off"
    ),
    "mcp-proxy": python_gateway("mcp-proxy", "mcp_proxy_gateway.py"),
}
REMARKS = {
    "direct": "the same load on the server itself, without a gateway",
    "FastMCP": "its proxy is given a client that stays connected",
    "mcp-proxy": "has sessions only, and these two of the ways",
}


TO_STDIO, TO_HTTP = "HTTP to stdio", "stdio to HTTP"
LEGS = {TO_STDIO: SESSION, TO_STDIO + MODERN_SUFFIX: STATELESS, TO_HTTP: SESSION}
"""The protocol version of each direction."""

ERAS = {SESSION: "--legacy", STATELESS: "--modern"}
"""The era option of the null servers."""


def supports(name: str, leg: str) -> bool:
    """Return whether a gateway supports a leg."""
    return name != "mcp-proxy" or MODERN_SUFFIX not in leg


# Targets...


@contextmanager
def target_for_stdio(name: str, revision: str) -> Iterator[Stdio | Http]:
    """Yield the HTTP target of a gateway for the stdio null server, or its pipes."""
    command, option = str(build.build("stdio_null")), ERAS[revision]
    if name == DIRECT:
        yield Program((command, option)).target()
        return
    with with_upstream(PROGRAMS[name], [command, [option]]).run_http() as target:
        yield target


@contextmanager
def target_for_http(name: str, revision: str) -> Iterator[Stdio | Http]:
    """Yield the stdio target of a gateway for the HTTP null server, or its URL."""
    server = str(build.build("http_null"))
    with ExitStack() as stack:
        with on_server_core():
            null = stack.enter_context(
                run_null_server(server, ERAS[revision], "--json")
            )
        if name == DIRECT:
            yield Http(null.url)
        else:
            yield with_upstream(PROGRAMS[name], null.url).target()


def with_upstream(program: Program, upstream: object) -> Program:
    """Return a gateway program with its upstream server set."""
    environment = {**program.environment, "UPSTREAM": json.dumps(upstream)}
    return replace(program, environment=environment)


# Variants...


def variants() -> list[ServedProgram]:
    """Return the server itself and all installed gateways, leg by leg."""
    return [
        ServedProgram(
            name=f"{leg}: {name}",
            baseline=f"{leg}: {DIRECT}",
            leg=leg,
            revision=revision,
            open_target=partial(
                target_for_http if leg == TO_HTTP else target_for_stdio, name, revision
            ),
        )
        for leg, revision in LEGS.items()
        for name in (DIRECT, *PROGRAMS)
        if name == DIRECT or (supports(name, leg) and PROGRAMS[name].missing() is None)
    ]


def add_latency(rounds: list[Round]) -> None:
    """Add to each round the latency that a gateway adds to a direct call.

    The ratio is to the latency of a direct call: 2 means three times as long in all.
    """
    for round_figures in rounds:
        for name, figures in round_figures.items():
            direct = round_figures[f"{name.rpartition(': ')[0]}: {DIRECT}"]["p50_us"][
                "value"
            ]
            added = figures["p50_us"]["value"] - direct
            if added:
                figures["added_us"] = {"value": added, "ratio": added / direct}


PAIRS = [
    (f"{leg}: {peer}", f"{leg}: {OURS}")
    for leg in LEGS
    for peer in PROGRAMS
    if peer != OURS and supports(peer, leg)
]
BUDGETS = [
    *(
        Budget(peer, "added_us", 5, at_least=True, against=own)
        for peer, own in PAIRS
        if peer.endswith("FastMCP")
    ),
    *(PeerBudget(own, against=peer) for peer, own in PAIRS),
]


PACKAGES = {"fastmcp": ("fastmcp", "fastmcp"), "mcp-proxy": ("mcp-proxy", "mcp_proxy")}


def main() -> int:
    if not hasattr(os, "sched_setaffinity"):
        print("bench_gateway.py: CPU time is read as Linux gives it; left out")
        return 0
    remarks = dict(REMARKS)
    for name, program in PROGRAMS.items():
        if (file := program.missing()) is not None:
            missing = file.relative_to(ROOT)
            remarks[name] = f"left out: no {missing}; `make bench-peers`"
    with build.exit_on_compile_error("gateway") as notes:
        build.build("stdio_null")
        notes["placed"] = PLACED
    return run(
        "gateway",
        variants(),
        BUDGETS,
        notes=notes | {"peers": versions(PACKAGES), "remarks": remarks},
        widths=WIDTHS,
        slices=SLICES,
        pairs=PAIRS,
        is_placed=True,
        derive=add_latency,
    )


if __name__ == "__main__":
    sys.exit(main())
