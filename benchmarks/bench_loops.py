"""Benchmark of uvloop against asyncio's own event loop.

The same calls on both loops: by the asyncio client and by the floor over stdio, HTTP
with JSON and with event streams; and to the server over stdio and HTTP. Each ratio is
to the same variant on asyncio's loop. Nothing is measured unless uvloop is installed;
it is not a dependency of mcpwire.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from importlib.metadata import version

import bench_server
from harness.command import run
from harness.programs import ServedProgram
from harness.rounds import Variant
from harness.servers import Program
from null import build

UVLOOP = ", uvloop"
UVLOOP_RUNNER = bench_server.HERE / "loops/under_uvloop.py"

CLIENTS = {
    "stdio": "stdio --legacy",
    "JSON": "json --legacy",
    "SSE, 2026-07-28": "sse --modern",
}

SERVERS = {
    "server, stdio": ("floor", "mcpwire"),
    "server, HTTP": ("floor, HTTP", "mcpwire"),
}
"""Programs of `bench_server` by leg: the floor and mcpwire."""

WIDTHS = (32,)
SLICES = 5
PLACED = (
    "clients and null servers on any core; servers on one in slices of half a second, "
    "their load on another"
)


def on_uvloop(name: str) -> Program:
    """Return a program of `bench_server` that runs on uvloop."""
    program = bench_server.PROGRAMS[name]
    python, *words = program.command
    command = (python, str(UVLOOP_RUNNER), *words)
    return Program(command, environment=program.environment)


def client_variants() -> list[Variant]:
    """Return floor and client of each leg on both loops."""
    interpreter = (sys.executable, str(UVLOOP_RUNNER))
    variants = []
    for leg, words in CLIENTS.items():
        argument = build.leg_argument(words)
        floor = "floor" if leg == "stdio" else "floor_http"
        for kind, target in (
            ("floor", f"{floor}:connect"),
            ("mcpwire", "mcpwire_variants:typed"),
        ):
            name = f"{leg}: {kind}"
            variants += [
                Variant(name, target, argument, name, leg=leg),
                Variant(
                    name + UVLOOP,
                    target,
                    argument,
                    name,
                    interpreter=interpreter,
                    leg=leg,
                ),
            ]
    return variants


def server_variants() -> list[ServedProgram]:
    """Return floor and server of each leg, on both loops, with a load on asyncio."""
    return [
        ServedProgram(
            name=f"{leg}: {kind}{loop}",
            baseline=f"{leg}: {kind}",
            leg=leg,
            revision=bench_server.SESSION,
            open_target=partial(bench_server.opener, server, leg),
        )
        for leg, programs in SERVERS.items()
        for kind, program in zip(("floor", "mcpwire"), programs, strict=True)
        for loop, server in (
            ("", bench_server.PROGRAMS[program]),
            (UVLOOP, on_uvloop(program)),
        )
    ]


PAIRS = [
    (f"{leg}: mcpwire{loop}", f"{leg}: floor{loop}")
    for leg in (*CLIENTS, *SERVERS)
    for loop in ("", UVLOOP)
]


def main() -> int:
    if importlib.util.find_spec("uvloop") is None:
        print("bench_loops.py is left out: no uvloop; `make setup`", file=sys.stderr)
        return 0
    with build.exit_on_compile_error("loops") as notes:
        variants: list[Variant | ServedProgram] = [*client_variants()]
    if sys.platform == "linux":  # where a process's CPU time can be asked for
        variants += server_variants()
    return run(
        "loops",
        variants,
        notes={**notes, "placed": PLACED, "peers": {"uvloop": version("uvloop")}},
        widths=WIDTHS,
        slices=SLICES,
        pairs=PAIRS,
        is_placed=True,
    )


if __name__ == "__main__":
    sys.exit(main())
