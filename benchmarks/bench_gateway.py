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
from harness.figures import Ahead, Budget
from harness.programs import Served
from harness.servers import (
    ROOT,
    Program,
    on_the_servers_core,
    python_of,
    versions,
)
from null import build
from null.serving import serving

from mcpwire import Http

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.rounds import Round

    from mcpwire import Stdio

FOLDER = Path(__file__).resolve().parent / "gateway"
LATER = ", 2026-07-28"
SLICES = 2
WIDTHS = (32,)
DIRECT, OURS = "direct", "mcpwire"


def foreign(name: str, script: str, **environment: str) -> Program:
    """Return a gateway program that runs in its own Python environment."""
    python = python_of(name)
    command = (str(python), str(FOLDER / script))
    return Program(command, (python,), environment)


PROGRAMS = {
    OURS: Program((sys.executable, str(FOLDER / "mcpwire_gateway.py"))),
    # By default FastMCP looks for a newer version over the network at each start.
    "FastMCP": foreign(
        "fastmcp", "fastmcp_gateway.py", FASTMCP_CHECK_FOR_UPDATES="off"
    ),
    "mcp-proxy": foreign("mcp-proxy", "mcp_proxy_gateway.py"),
}
REMARKS = {
    "direct": "the same load on the server itself, without a gateway",
    "FastMCP": "its proxy is given a client that stays connected",
    "mcp-proxy": "has sessions only, and these two of the ways",
}


TO_STDIO, TO_HTTP = "HTTP to stdio", "stdio to HTTP"
LEGS = {TO_STDIO: SESSION, TO_STDIO + LATER: STATELESS, TO_HTTP: SESSION}
"""The protocol version of each direction."""

ERAS = {SESSION: "--legacy", STATELESS: "--modern"}
"""The era option of the null servers."""


def takes(name: str, leg: str) -> bool:
    """Return whether a gateway supports a leg."""
    return name != "mcp-proxy" or LATER not in leg


# Targets...


@contextmanager
def before_stdio(name: str, revision: str) -> Iterator[Stdio | Http]:
    """Yield the HTTP target of a gateway for the stdio null server, or its pipes."""
    command, option = str(build.build("stdio_null")), ERAS[revision]
    if name == DIRECT:
        yield Program((command, option)).target()
        return
    with before(PROGRAMS[name], [command, [option]]).at_url() as url:
        yield url


@contextmanager
def before_http(name: str, revision: str) -> Iterator[Stdio | Http]:
    """Yield the stdio target of a gateway for the HTTP null server, or its URL."""
    server = str(build.build("http_null"))
    with ExitStack() as stack:
        with on_the_servers_core():
            null = stack.enter_context(serving(server, ERAS[revision], "--json"))
        if name == DIRECT:
            yield Http(null.url)
        else:
            yield before(PROGRAMS[name], null.url).target()


def before(program: Program, upstream: object) -> Program:
    """Return a gateway program with its upstream server set."""
    told = {**program.environment, "UPSTREAM": json.dumps(upstream)}
    return replace(program, environment=told)


# Variants...


def variants() -> list[Served]:
    """Return the server itself and all installed gateways, leg by leg."""
    return [
        Served(
            name=f"{leg}: {name}",
            baseline=f"{leg}: {DIRECT}",
            leg=leg,
            revision=revision,
            opened=partial(
                before_http if leg == TO_HTTP else before_stdio, name, revision
            ),
        )
        for leg, revision in LEGS.items()
        for name in (DIRECT, *PROGRAMS)
        if name == DIRECT or (takes(name, leg) and PROGRAMS[name].missing() is None)
    ]


def add_what_is_added(rounds: list[Round]) -> None:
    """Add to each round the latency that a gateway adds to a direct call.

    The ratio is to the latency of a direct call: 2 means three times as long in all.
    """
    for measured in rounds:
        for name, figures in measured.items():
            direct = measured[f"{name.rpartition(': ')[0]}: {DIRECT}"]["p50_us"][
                "value"
            ]
            added = figures["p50_us"]["value"] - direct
            if added:
                figures["added_us"] = {"value": added, "ratio": added / direct}


PAIRS = [
    (f"{leg}: {peer}", f"{leg}: {OURS}")
    for leg in LEGS
    for peer in PROGRAMS
    if peer != OURS and takes(peer, leg)
]
BUDGETS = [
    *(
        Budget(peer, "added_us", 5, at_least=True, against=mine)
        for peer, mine in PAIRS
        if peer.endswith("FastMCP")
    ),
    *(Ahead(mine, against=peer) for peer, mine in PAIRS),
]


PACKAGES = {"fastmcp": ("fastmcp", "fastmcp"), "mcp-proxy": ("mcp-proxy", "mcp_proxy")}


def main() -> int:
    if not hasattr(os, "sched_setaffinity"):
        print("bench_gateway.py: CPU time is read as Linux gives it; left out")
        return 0
    remarks = dict(REMARKS)
    for name, program in PROGRAMS.items():
        if (file := program.missing()) is not None:
            where = file.relative_to(ROOT)
            remarks[name] = f"left out: no {where}; `make bench-peers`"
    with build.compiling("gateway") as notes:
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
        derive=add_what_is_added,
    )


if __name__ == "__main__":
    sys.exit(main())
