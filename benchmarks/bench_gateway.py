"""What does a gateway add to a call, and how many calls go through it?

The same `tools/call` to the same null server in C: directly, and through mcpwire's
`Gateway`, FastMCP's proxy and mcp-proxy, each in its own environment, in the ways that
they have: HTTP before a child, in both eras, and stdio before a server over HTTP.
What is not installed is named and left out; `make bench-peers` installs it.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import floor_http
from bench_server import PLACED
from driven import pipes, port_of, session_head
from harness.command import run
from harness.figures import Ahead, Budget
from harness.rounds import Variant
from harness.servers import (
    ROOT,
    Program,
    listening,
    on_the_servers_core,
    python_of,
    versions,
)
from leg import ANSWER
from null import build
from null.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from driven import Driven
    from harness.rounds import Round

FOLDER = Path(__file__).resolve().parent / "gateway"
LATER = ", 2026-07-28"
SLICES = 4
WIDTHS = (1, 32)
DIRECT, OURS = "direct", "mcpwire"


def foreign(name: str, script: str, **environment: str) -> Program:
    """Return a program of an environment of its own, ten times fewer calls of it."""
    python = python_of(name)
    command = (str(python), str(FOLDER / script))
    return Program(command, (python,), environment, portion=10)


PROGRAMS = {
    OURS: Program((sys.executable, str(FOLDER / "mcpwire_gateway.py"))),
    # Unless told not to, it asks the network for a newer version at each start.
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


LEGS = {
    "HTTP to stdio": "http_to_stdio",
    "HTTP to stdio" + LATER: "http_to_stdio_later",
    "stdio to HTTP": "stdio_to_http",
}
"""The functions that go each way, through the gateway that they are told."""

ERAS = {False: "--legacy", True: "--modern"}
"""What the null servers are told, by whether a leg is at 2026-07-28."""


def takes(name: str, leg: str) -> bool:
    """Tell whether that one goes that way."""
    return name != "mcp-proxy" or LATER not in leg


# How it is called...


@asynccontextmanager
async def over_http(name: str, *, modern: bool) -> AsyncIterator[Driven]:
    """Call the child over HTTP; directly, over its pipes."""
    upstream = [str(build.build("stdio_null")), ERAS[modern]]
    if name == DIRECT:
        async with pipes(upstream, modern=modern) as call:
            await call.begin(ANSWER)
            yield call
        return
    os.environ["UPSTREAM"] = json.dumps([upstream[0], upstream[1:]])
    with listening(PROGRAMS[name]) as (port, pid):
        head = None if modern else session_head(port)
        async with port_of(port, pid, head) as call:
            await call.begin(ANSWER)
            yield call


@asynccontextmanager
async def stdio_to_http(name: str) -> AsyncIterator[Driven]:
    """Call the server over HTTP through pipes; directly, over HTTP."""
    with ExitStack() as stack:
        with on_the_servers_core():
            server = str(build.build("http_null"))
            null = stack.enter_context(serving(server, ERAS[False], "--json"))
        if name == DIRECT:
            head = floor_http.head(null.port, modern=False)
            async with port_of(null.port, null.pid, head) as call:
                await call.begin(ANSWER)
                yield call
            return
        program = PROGRAMS[name]
        os.environ.update(program.environment, UPSTREAM=json.dumps(null.url))
        async with pipes(program.command, modern=False) as call:
            await call.begin(ANSWER)
            yield call


def http_to_stdio(name: str) -> Any:
    return over_http(name, modern=False)


def http_to_stdio_later(name: str) -> Any:
    return over_http(name, modern=True)


# The question...


def variants() -> list[Variant]:
    """Return the server itself and all that are installed, leg by leg."""
    return [
        Variant(
            f"{leg}: {name}",
            f"bench_gateway:{function}",
            name,
            f"{leg}: {DIRECT}",
            portion=1 if name == DIRECT else PROGRAMS[name].portion,
            leg=leg,
        )
        for leg, function in LEGS.items()
        for name in (DIRECT, *PROGRAMS)
        if name == DIRECT or (takes(name, leg) and PROGRAMS[name].missing() is None)
    ]


def add_what_is_added(rounds: list[Round]) -> None:
    """Add what each call takes longer than a direct one, in each round.

    Its ratio is to the direct call, too: 2 is twice a direct call more.
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
