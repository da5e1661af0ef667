"""What does a call cost the server, and how many can it answer?

The same tool, `echo(text: str) -> str`, over stdio and over HTTP, in both eras: on a
bare loop, on mcpwire's `Server` and bare `Dispatcher`, on the official SDKs for Python
and TypeScript and on FastMCP, each in its own environment. What is not installed is
named and left out; `make peers` installs it.
"""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driven import pipes, port_of, session_head
from harness.command import run
from harness.figures import Ahead, Budget
from harness.rounds import Variant
from harness.servers import (
    NODE_MODULES,
    ROOT,
    Program,
    listening,
    node,
    python_of,
    versions,
)
from leg import ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from driven import Driven

PLACED = "server and load on a core each"
HERE = Path(__file__).resolve().parent
SERVERS = HERE / "servers"
TYPESCRIPT = "@modelcontextprotocol/server"

SLICES = 5
SLOW_PORTION = 5
"""By what the calls are divided for what takes much longer."""

COMPILED_CALLS = 2_000
"""After so many V8 has compiled what runs often; before, one costs thrice as much."""


def peers() -> dict[str, str]:
    """Return the versions of the peers that are installed."""
    packages = {"mcp": ("python-sdk", "mcp"), "fastmcp": ("fastmcp", "fastmcp")}
    return versions({**packages, TYPESCRIPT: ("node", TYPESCRIPT)})


# What is compared...


def own(path: Path, *words: str, **environment: str) -> Program:
    """Return a program of this environment."""
    return Program((sys.executable, str(path), *words), environment=environment)


def foreign(name: str, script: str, **environment: str) -> Program:
    """Return a program of an environment of its own."""
    python = python_of(name)
    command = (str(python), str(SERVERS / script))
    return Program(command, (python,), environment, SLOW_PORTION)


PROGRAMS = {
    "floor": own(HERE / "floor_server.py"),
    "floor, tasks": own(HERE / "floor_server.py", "task"),
    "floor, HTTP": own(HERE / "floor_server_http.py"),
    "floor, HTTP by h11": own(HERE / "floor_server_http.py", "h11"),
    "mcpwire": own(SERVERS / "mcpwire_server.py"),
    "mcpwire, bare": own(SERVERS / "mcpwire_dispatcher.py"),
    "Python SDK": foreign("python-sdk", "python_sdk_server.py"),
    # Unless told not to, it asks the network for a newer version at each start.
    "FastMCP": foreign("fastmcp", "fastmcp_server.py", FASTMCP_CHECK_FOR_UPDATES="off"),
    "TypeScript SDK": Program(
        (node(), str(SERVERS / "typescript_server.cjs")),
        (NODE_MODULES / TYPESCRIPT,),
        {"NODE_PATH": str(NODE_MODULES), "NODE_ENV": "production"},
        warm_up=COMPILED_CALLS,
    ),
}

AGAIN = "floor, again"
STDIO = {
    "floor": "floor",
    AGAIN: "floor",
    "floor, tasks": "floor, tasks",
    "mcpwire": "mcpwire",
    "mcpwire, bare": "mcpwire, bare",
    "Python SDK": "Python SDK",
    "FastMCP": "FastMCP",
    "TypeScript SDK": "TypeScript SDK",
}
HTTP = {
    "floor": "floor, HTTP",
    AGAIN: "floor, HTTP",
    # The SDKs' own environments have no httptools, so uvicorn parses with h11 there.
    "floor, h11": "floor, HTTP by h11",
    "mcpwire": "mcpwire",
    "Python SDK": "Python SDK",
    "FastMCP": "FastMCP",
    "TypeScript SDK": "TypeScript SDK",
}
"""Programs by the names of variants."""

LATER_STDIO, LATER_HTTP = "stdio, 2026-07-28", "HTTP, 2026-07-28"
LEGS = {
    "stdio": (STDIO, "stdio_session"),
    LATER_STDIO: (STDIO, "stdio_stateless"),
    "HTTP": (HTTP, "http_session"),
    LATER_HTTP: (HTTP, "http_stateless"),
}


# How it is called...


@asynccontextmanager
async def over_stdio(name: str, *, modern: bool) -> AsyncIterator[Driven]:
    """Call the tool of that program over its pipes."""
    program = PROGRAMS[name]
    os.environ.update(program.environment)
    async with pipes(program.command, modern=modern) as call:
        await call.begin(ARGUMENTS["text"], program.warm_up)
        yield call


@asynccontextmanager
async def over_http(name: str, *, modern: bool) -> AsyncIterator[Driven]:
    """Call the tool of that program over HTTP."""
    program = PROGRAMS[name]
    with listening(program) as (port, pid):
        head = None if modern else session_head(port)
        async with port_of(port, pid, head) as call:
            await call.begin(ARGUMENTS["text"], program.warm_up)
            yield call


def stdio_session(name: str) -> Any:
    return over_stdio(name, modern=False)


def stdio_stateless(name: str) -> Any:
    return over_stdio(name, modern=True)


def http_session(name: str) -> Any:
    return over_http(name, modern=False)


def http_stateless(name: str) -> Any:
    return over_http(name, modern=True)


# The question...


def variants() -> list[Variant]:
    """Return a variant for each leg and each program that is installed."""
    return [
        Variant(
            f"{leg}: {name}",
            f"bench_server:{function}",
            program,
            f"{leg}: floor",
            portion=PROGRAMS[program].portion,
        )
        for leg, (programs, function) in LEGS.items()
        for name, program in programs.items()
        if PROGRAMS[program].missing() is None
    ]


PAIRS = [
    (f"{leg}: {peer}", f"{leg}: mcpwire")
    for leg in LEGS
    for peer in ("Python SDK", "FastMCP", "TypeScript SDK")
]
BUDGETS = [
    *(Budget(f"{leg}: mcpwire", "cpu_us", 1.6) for leg in ("stdio", LATER_STDIO)),
    *(
        Budget(
            f"{leg}: {peer}", "cpu_us", times, at_least=True, against=f"{leg}: mcpwire"
        )
        for leg in LEGS
        for peer, times in (("Python SDK", 8), ("FastMCP", 12))
    ),
    *(
        Budget(
            f"{leg}: mcpwire",
            "calls_per_s@32",
            5,
            at_least=True,
            against=f"{leg}: Python SDK",
        )
        for leg in ("HTTP", LATER_HTTP)
    ),
    *(Ahead(mine, against=peer) for peer, mine in PAIRS),
]


def main() -> int:
    if not hasattr(os, "sched_setaffinity"):
        print("bench_server.py: CPU time is read as Linux gives it; left out")
        return 0
    for name, program in PROGRAMS.items():
        if (file := program.missing()) is not None:
            where = file.relative_to(ROOT)
            print(f"{name} is left out: no {where}; `make peers`", file=sys.stderr)
    notes = {"placed": PLACED, "peers": peers()}
    return run(
        "server",
        variants(),
        BUDGETS,
        notes=notes,
        widths=(1, 8, 32),
        slices=SLICES,
        pairs=PAIRS,
        is_placed=True,
    )


if __name__ == "__main__":
    sys.exit(main())
