"""What does a call over stdio cost above the least loop?

The same `tools/call` to the same null server in C: by the floor loop, by mcpwire's
typed `call_tool` in both eras, and by its raw `request`.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from floor import ARGUMENTS, Call, check
from harness.command import run
from harness.figures import Budget
from harness.rounds import Variant
from null import build

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def connected(server: str, option: str) -> AsyncIterator[Any]:
    """Give a connected client; the import belongs to the child that measures it."""
    import mcpwire

    client = mcpwire.Client(mcpwire.Stdio(server, [option]))
    await client.connect()
    expected = "2026-07-28" if option == "--modern" else "2025-11-25"
    assert str(client.protocol_version) == expected, client.protocol_version
    yield client
    await client.aclose()


@asynccontextmanager
async def typed(server: str, option: str) -> AsyncIterator[Call]:
    async with connected(server, option) as client:

        async def call() -> Any:
            return await client.call_tool("echo", ARGUMENTS)

        result = await call()
        assert result.text == "hello", result
        yield call


def typed_legacy(server: str) -> Any:
    return typed(server, "--legacy")


def typed_modern(server: str) -> Any:
    return typed(server, "--modern")


@asynccontextmanager
async def raw_legacy(server: str) -> AsyncIterator[Call]:
    async with connected(server, "--legacy") as client:

        async def call() -> Any:
            params = {"name": "echo", "arguments": ARGUMENTS}
            return await client.request("tools/call", params)

        check(await call())
        yield call


VARIANTS = {
    "floor": ("floor:legacy", "floor"),
    # The same thing twice: how far its ratio strays from 1 is the machine's noise.
    "floor, again": ("floor:legacy", "floor"),
    "floor, 2026-07-28": ("floor:modern", "floor, 2026-07-28"),
    "call_tool": ("bench_stdio:typed_legacy", "floor"),
    "call_tool, 2026-07-28": ("bench_stdio:typed_modern", "floor, 2026-07-28"),
    "request": ("bench_stdio:raw_legacy", "floor"),
}
BUDGETS = [
    budget
    for variant in ("call_tool", "call_tool, 2026-07-28", "request")
    for budget in (
        Budget(variant, "cpu_us", 1.45),
        Budget(variant, "cpu_us@32", 2.2),
    )
]


def main() -> int:
    try:
        server = str(build.build("stdio_null"))
        notes = {"compiler": build.compiler_version()}
    except (build.NoCompiler, subprocess.CalledProcessError) as error:
        sys.exit(f"bench_stdio.py: {error}")
    variants = [
        Variant(name, target, server, baseline)
        for name, (target, baseline) in VARIANTS.items()
    ]
    return run("stdio", variants, BUDGETS, notes=notes)


if __name__ == "__main__":
    sys.exit(main())
