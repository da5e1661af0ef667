"""What does a call over Streamable HTTP cost above the least loop?

The same `tools/call` to the same null server in C, which answers in JSON or with an
event stream: by the floor loop, and by mcpwire's typed `call_tool` in both eras, over
its own connections and over httpx.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from floor import ARGUMENTS, Call
from harness.command import run
from harness.figures import Budget
from harness.rounds import Variant
from null import build
from null.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HTTPX_PORTION = 20
"""httpx takes so much longer that fewer calls must do."""


@asynccontextmanager
async def typed(
    server: str, era: str, shape: str, engine: str = "direct"
) -> AsyncIterator[Call]:
    """Call a tool; the import belongs to the child that measures it."""
    import mcpwire

    with serving(server, era, shape) as null:
        client = mcpwire.Client(mcpwire.Http(null.url, engine=engine))
        async with client:
            expected = "2026-07-28" if era == "--modern" else "2025-11-25"
            assert str(client.protocol_version) == expected, client.protocol_version

            async def call() -> Any:
                return await client.call_tool("echo", ARGUMENTS)

            result = await call()
            assert result.text == "hello", result
            yield call


def json_session(server: str) -> Any:
    return typed(server, "--legacy", "--json")


def json_stateless(server: str) -> Any:
    return typed(server, "--modern", "--json")


def sse_session(server: str) -> Any:
    return typed(server, "--legacy", "--sse")


def sse_stateless(server: str) -> Any:
    return typed(server, "--modern", "--sse")


def json_httpx(server: str) -> Any:
    return typed(server, "--legacy", "--json", "httpx")


def sse_httpx(server: str) -> Any:
    return typed(server, "--legacy", "--sse", "httpx")


JSON, LATER_JSON = "floor, JSON", "floor, JSON, 2026-07-28"
SSE, LATER_SSE = "floor, SSE", "floor, SSE, 2026-07-28"
VARIANTS = {
    JSON: ("floor_http:json_session", JSON),
    # The same thing twice: how far its ratio strays from 1 is the machine's noise.
    "floor, again": ("floor_http:json_session", JSON),
    LATER_JSON: ("floor_http:json_stateless", LATER_JSON),
    SSE: ("floor_http:sse_session", SSE),
    LATER_SSE: ("floor_http:sse_stateless", LATER_SSE),
    "JSON": ("bench_http:json_session", JSON),
    "JSON, 2026-07-28": ("bench_http:json_stateless", LATER_JSON),
    "SSE": ("bench_http:sse_session", SSE),
    "SSE, 2026-07-28": ("bench_http:sse_stateless", LATER_SSE),
    "JSON by httpx": ("bench_http:json_httpx", JSON),
    "SSE by httpx": ("bench_http:sse_httpx", SSE),
}
LIMITS = {"JSON": 1.5, "SSE": 1.6}
BUDGETS = [
    Budget(variant, "cpu_us", limit)
    for shape, limit in LIMITS.items()
    for variant in (shape, f"{shape}, 2026-07-28")
]


def main() -> int:
    try:
        server = str(build.build("http_null"))
        notes = {"compiler": build.compiler_version()}
    except (build.NoCompiler, subprocess.CalledProcessError) as error:
        sys.exit(f"bench_http.py: {error}")
    variants = [
        Variant(
            name,
            target,
            server,
            baseline,
            portion=HTTPX_PORTION if "httpx" in target else 1,
        )
        for name, (target, baseline) in VARIANTS.items()
    ]
    return run("http", variants, BUDGETS, notes=notes, widths=(8, 32))


if __name__ == "__main__":
    sys.exit(main())
