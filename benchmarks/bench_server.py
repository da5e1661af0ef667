"""Benchmark of servers: CPU time per call, and calls per second.

The same tool, `echo(text: str) -> str`, over stdio and over HTTP, in both eras: on a
bare loop, on mcpwire's `Server` and bare `Dispatcher`, on the official SDKs for Python
and TypeScript and on FastMCP, each in its own environment. Servers that are not
installed are reported and skipped; `make peers` installs them.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.command import run
from harness.figures import Budget, PeerBudget
from harness.programs import ServedProgram
from harness.servers import NODE_MODULES, ROOT, Program, node, peer_python, versions

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from mcpwire import Http, Stdio

PLACED = "servers on one core, the load of `mcpwire bench` on another"
HERE = Path(__file__).resolve().parent
SERVERS = HERE / "servers"
TYPESCRIPT = "@modelcontextprotocol/server"

SLICES = 2


def peer_versions() -> dict[str, str]:
    """Return the versions of the installed peers."""
    packages = {"mcp": ("python-sdk", "mcp"), "fastmcp": ("fastmcp", "fastmcp")}
    return versions({**packages, TYPESCRIPT: ("node", TYPESCRIPT)})


# Programs...


def own_program(path: Path, *words: str, **environment: str) -> Program:
    """Return a program that runs in this environment."""
    return Program((sys.executable, str(path), *words), environment=environment)


def peer_program(name: str, script: str, **environment: str) -> Program:
    """Return a server program that runs in its own Python environment."""
    python = peer_python(name)
    command = (str(python), str(SERVERS / script))
    return Program(command, (python,), environment)


PROGRAMS = {
    "floor": own_program(HERE / "floor_server.py"),
    "floor, tasks": own_program(HERE / "floor_server.py", "task"),
    "floor, HTTP": own_program(HERE / "floor_server_http.py"),
    "floor, HTTP by h11": own_program(HERE / "floor_server_http.py", "h11"),
    "mcpwire": own_program(SERVERS / "mcpwire_server.py"),
    "mcpwire, bare": own_program(SERVERS / "mcpwire_dispatcher.py"),
    "Python SDK": peer_program("python-sdk", "python_sdk_server.py"),
    # By default FastMCP looks for a newer version over the network at each start.
    "FastMCP": peer_program(
        "fastmcp", "fastmcp_server.py", FASTMCP_CHECK_FOR_UPDATES="off"
    ),
    "TypeScript SDK": Program(
        (node(), str(SERVERS / "typescript_server.cjs")),
        (NODE_MODULES / TYPESCRIPT,),
        {"NODE_PATH": str(NODE_MODULES), "NODE_ENV": "production"},
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
    # The SDKs' environments have no httptools, so uvicorn parses with h11 there.
    "floor, h11": "floor, HTTP by h11",
    "mcpwire": "mcpwire",
    "Python SDK": "Python SDK",
    "FastMCP": "FastMCP",
    "TypeScript SDK": "TypeScript SDK",
}
"""Programs by name of variant."""

SESSION, STATELESS = "2025-11-25", "2026-07-28"
MODERN_STDIO, MODERN_HTTP = (
    f"{transport}, {STATELESS}" for transport in ("stdio", "HTTP")
)
LEGS = {
    "stdio": (STDIO, SESSION),
    MODERN_STDIO: (STDIO, STATELESS),
    "HTTP": (HTTP, SESSION),
    MODERN_HTTP: (HTTP, STATELESS),
}
"""Programs and protocol version by leg."""


def opener(program: Program, leg: str) -> AbstractContextManager[Stdio | Http]:
    """Return a context manager for the target of a program on a leg."""
    return program.run_http() if "HTTP" in leg else nullcontext(program.target())


def variants() -> list[ServedProgram]:
    """Return a variant for each leg and each installed program."""
    return [
        ServedProgram(
            name=f"{leg}: {name}",
            baseline=f"{leg}: floor",
            leg=leg,
            revision=revision,
            open_target=partial(opener, PROGRAMS[program], leg),
        )
        for leg, (programs, revision) in LEGS.items()
        for name, program in programs.items()
        if PROGRAMS[program].missing() is None
    ]


PAIRS = [
    (f"{leg}: {peer}", f"{leg}: mcpwire")
    for leg in LEGS
    for peer in ("Python SDK", "FastMCP", "TypeScript SDK")
]
BUDGETS = [
    *(Budget(f"{leg}: mcpwire", "cpu_us", 1.6) for leg in ("stdio", MODERN_STDIO)),
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
        for leg in ("HTTP", MODERN_HTTP)
    ),
    *(PeerBudget(own, against=peer) for peer, own in PAIRS),
]


def main() -> int:
    if not hasattr(os, "sched_setaffinity"):
        print("bench_server.py: CPU time is read as Linux gives it; left out")
        return 0
    for name, program in PROGRAMS.items():
        if (file := program.missing()) is not None:
            missing = file.relative_to(ROOT)
            print(f"{name} is left out: no {missing}; `make peers`", file=sys.stderr)
    notes = {"placed": PLACED, "peers": peer_versions()}
    return run(
        "server",
        variants(),
        BUDGETS,
        notes=notes,
        widths=(32,),
        slices=SLICES,
        pairs=PAIRS,
        is_placed=True,
    )


if __name__ == "__main__":
    sys.exit(main())
