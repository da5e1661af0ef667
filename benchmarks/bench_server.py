"""What does a call cost the server, and how many can it answer?

The same tool, `echo(text: str) -> str`, over stdio and over HTTP, in both eras: on a
bare loop, on mcpwire's `Server` and bare `Dispatcher`, on the official SDKs for Python
and TypeScript and on FastMCP, each in its own environment. What is not installed is
named and left out; `make peers` installs it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import floor
import floor_http
from harness.command import run
from harness.figures import Ahead, Budget
from harness.rounds import Variant
from harness.servers import (
    INITIALIZE,
    NODE_MODULES,
    ROOT,
    Program,
    cpu_ns,
    listening,
    node,
    on_the_servers_core,
    open_session,
    python_of,
    versions,
)
from leg import ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PLACED = "server and load on a core each"
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
HERE = Path(__file__).resolve().parent
SERVERS = HERE / "servers"
TYPESCRIPT = "@modelcontextprotocol/server"

SLICES = 5
SLOW_PORTION = 5
"""By what the calls are divided for what takes much longer."""

COMPILED_CALLS = 2_000
"""After so many V8 has compiled what runs often; before, one costs thrice as much."""


def peers() -> dict[str, str]:
    """Return the versions of those who are installed."""
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


class Driven:
    """Performs calls for a floor, and knows what they cost the server."""

    def __init__(self, one: Any, pid: int, *, modern: bool) -> None:
        self.floor = one
        self.pid = pid
        self.params = floor_http.params(modern=modern)

    async def __call__(self) -> Any:
        return await self.floor.call("tools/call", self.params)

    def cpu_ns(self) -> int:
        return cpu_ns(self.pid)


def check(result: dict[str, Any]) -> None:
    """Fail before anything is measured when the call does not do its work."""
    assert result["content"][0]["text"] == ARGUMENTS["text"], result
    assert not result.get("isError"), result


async def begin(call: Driven, program: Program) -> None:
    """See that a call does its work; let the server get warm."""
    check(await call())
    for _ in range(program.warm_up):
        await call()


@asynccontextmanager
async def over_stdio(name: str, *, modern: bool) -> AsyncIterator[Driven]:
    """Call the tool of that program over its pipes."""
    program = PROGRAMS[name]
    os.environ.update(program.environment)
    with on_the_servers_core():
        one = floor.Floor(list(program.command))
    with closing(one):
        if not modern:
            await one.call("initialize", INITIALIZE)
            os.write(one.stdin, INITIALIZED)
        call = Driven(one, one.process.pid, modern=modern)
        await begin(call, program)
        yield call


@asynccontextmanager
async def over_http(name: str, *, modern: bool) -> AsyncIterator[Driven]:
    """Call the tool of that program over HTTP."""
    program = PROGRAMS[name]
    with listening(program) as (port, pid):
        one = floor_http.Floor(port, modern=modern)
        if not modern:
            one.head = session_head(port)
        call = Driven(one, pid, modern=modern)
        await begin(call, program)
        yield call
        one.close()
        await asyncio.sleep(0)  # where asyncio closes what was aborted


def session_head(port: int) -> bytes:
    """Return what requests of a new session begin with."""
    field = "mcp-session-id: "
    session_id = open_session(port)
    lines = floor_http.head(port, modern=False).decode().split("\r\n")
    at = next(n for n, line in enumerate(lines) if line.startswith(field))
    lines[at : at + 1] = [] if session_id is None else [field + session_id]
    return "\r\n".join(lines).encode()


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
