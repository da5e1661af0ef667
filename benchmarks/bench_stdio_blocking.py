"""What does a call of the blocking client over stdio cost above a bare loop?

The same `tools/call` to the same null server in C: by a bare loop of `os.write` and
`os.read`, by `mcpwire.sync`'s typed `call_tool` in both eras, and by its raw `request`.
Client and server have a core each, as on a machine with time to spare: who waits in a
system call has to be woken, and that is a part of what a user waits for. On one core
nobody is woken, and what is left to see is Python alone. Beside them the client of the
official SDK, which has an event loop only, on its loop.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floor import ARGUMENTS, check
from floor_blocking import place
from harness.command import run
from harness.figures import Budget
from harness.rounds import Variant
from null import build
from threads.peers import interpreter, python_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from floor_blocking import Call


@contextmanager
def connected(server: str, option: str, *, apart: bool = True) -> Iterator[Any]:
    """Give a connected client; the import belongs to the child that measures it."""
    import mcpwire
    import mcpwire.sync

    with mcpwire.sync.Client(mcpwire.Stdio(server, [option])) as client:
        expected = "2026-07-28" if option == "--modern" else "2025-11-25"
        assert str(client.protocol_version) == expected, client.protocol_version
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
        place(int(children), apart=apart)
        yield client


@contextmanager
def typed(server: str, option: str, *, apart: bool = True) -> Iterator[Call]:
    with connected(server, option, apart=apart) as client:

        def call() -> Any:
            return client.call_tool("echo", ARGUMENTS)

        result = call()
        assert result.text == "hello", result
        yield call


def typed_legacy(server: str) -> Any:
    return typed(server, "--legacy")


def typed_modern(server: str) -> Any:
    return typed(server, "--modern")


def typed_one_core(server: str) -> Any:
    return typed(server, "--legacy", apart=False)


@contextmanager
def raw_legacy(server: str) -> Iterator[Call]:
    with connected(server, "--legacy") as client:

        def call() -> Any:
            params = {"name": "echo", "arguments": ARGUMENTS}
            return client.request("tools/call", params)

        check(call())
        yield call


VARIANTS = {
    "floor": ("floor_blocking:legacy", "floor"),
    # The same thing twice: how far its ratio strays from 1 is the machine's noise.
    "floor, again": ("floor_blocking:legacy", "floor"),
    "floor, 2026-07-28": ("floor_blocking:modern", "floor, 2026-07-28"),
    "call_tool": ("bench_stdio_blocking:typed_legacy", "floor"),
    "call_tool, 2026-07-28": ("bench_stdio_blocking:typed_modern", "floor, 2026-07-28"),
    "request": ("bench_stdio_blocking:raw_legacy", "floor"),
    "floor, one core": ("floor_blocking:one_core", "floor, one core"),
    "call_tool, one core": ("bench_stdio_blocking:typed_one_core", "floor, one core"),
}
PEER, PEER_PORTION = "Python SDK, asyncio", 4
BUDGETS = [Budget(PEER, "p50_us", 1.6, at_least=True, against="call_tool")]


def peers(server: str) -> list[Variant]:
    """Return the official SDK's client, where it is installed."""
    if not python_of("python-sdk").exists():
        print(f"{PEER} is left out: `make peers`", file=sys.stderr)
        return []
    return [
        Variant(
            PEER,
            "threads.peers:python_sdk_on_loop",
            json.dumps([server, "--legacy", "apart"]),
            "floor",
            portion=PEER_PORTION,
            interpreter=interpreter("python-sdk"),
        )
    ]


def main() -> int:
    try:
        server = str(build.build("stdio_null"))
        notes = {"compiler": build.compiler_version()}
    except (build.NoCompiler, subprocess.CalledProcessError) as error:
        sys.exit(f"bench_stdio_blocking.py: {error}")
    variants = [
        Variant(name, target, server, baseline)
        for name, (target, baseline) in VARIANTS.items()
    ]
    return run(
        "stdio_blocking",
        [*variants, *peers(server)],
        BUDGETS,
        notes=notes,
        pairs=[(PEER, "call_tool")],
        is_blocking=True,
    )


if __name__ == "__main__":
    sys.exit(main())
