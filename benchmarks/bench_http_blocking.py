"""What does a call of the blocking client over HTTP cost above a bare loop?

The same `tools/call` to the same null server in C: by a bare loop of `sendall` and
`recv`, and by `mcpwire.sync`'s typed `call_tool`, in both eras, answered in JSON or
with an event stream. Client and server have a core each; `bench_stdio_blocking.py` says
why. Beside them the client of the official SDK on its event loop.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from floor import ARGUMENTS
from floor_blocking import place
from harness.command import run
from harness.figures import Budget
from harness.rounds import Variant
from null import build
from null.serving import serving
from threads.peers import interpreter, python_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from floor_blocking import Call


@contextmanager
def typed(
    server: str, era: str, shape: str, engine: str = "direct", *, apart: bool = True
) -> Iterator[Call]:
    """Call a tool; the import belongs to the child that measures it."""
    import mcpwire
    import mcpwire.sync

    with serving(server, era, shape) as null:
        place(null.pid, apart=apart)
        target = mcpwire.Http(null.url, engine=engine)
        with mcpwire.sync.Client(target) as client:
            expected = "2026-07-28" if era == "--modern" else "2025-11-25"
            assert str(client.protocol_version) == expected, client.protocol_version

            def call() -> Any:
                return client.call_tool("echo", ARGUMENTS)

            result = call()
            assert result.text == "hello", result
            yield call


def json_session(server: str) -> Any:
    return typed(server, "--legacy", "--json")


def json_stateless(server: str) -> Any:
    return typed(server, "--modern", "--json")


def sse_session(server: str) -> Any:
    return typed(server, "--legacy", "--sse")


def json_one_core(server: str) -> Any:
    return typed(server, "--legacy", "--json", apart=False)


def json_httpx(server: str) -> Any:
    return typed(server, "--legacy", "--json", "httpx")


JSON, LATER_JSON, SSE = "floor, JSON", "floor, JSON, 2026-07-28", "floor, SSE"
ONE_CORE = "floor, JSON, one core"
HTTPX_PORTION = 10
VARIANTS = {
    JSON: ("floor_http_blocking:json_session", JSON),
    # The same thing twice: how far its ratio strays from 1 is the machine's noise.
    "floor, again": ("floor_http_blocking:json_session", JSON),
    LATER_JSON: ("floor_http_blocking:json_stateless", LATER_JSON),
    SSE: ("floor_http_blocking:sse_session", SSE),
    "JSON": ("bench_http_blocking:json_session", JSON),
    "JSON, 2026-07-28": ("bench_http_blocking:json_stateless", LATER_JSON),
    "SSE": ("bench_http_blocking:sse_session", SSE),
    "JSON by httpx": ("bench_http_blocking:json_httpx", JSON),
    ONE_CORE: ("floor_http_blocking:json_one_core", ONE_CORE),
    "JSON, one core": ("bench_http_blocking:json_one_core", ONE_CORE),
}
PEER_PORTION = 10
PEERS = {
    "Python SDK, asyncio, JSON": ("--json", JSON, "JSON"),
    "Python SDK, asyncio, SSE": ("--sse", SSE, "SSE"),
}
"""How it is answered, its floor, and what it stands beside."""

BUDGETS = [
    Budget(peer, "p50_us", 6, at_least=True, against=ours)
    for peer, (_, _, ours) in PEERS.items()
]


def peers(server: str) -> list[Variant]:
    """Return the official SDK's client, where it is installed."""
    if not python_of("python-sdk").exists():
        print("the Python SDK is left out: `make peers`", file=sys.stderr)
        return []
    return [
        Variant(
            name,
            "threads.peers:python_sdk_on_loop",
            json.dumps([server, "--legacy", shape, "apart"]),
            baseline,
            portion=PEER_PORTION,
            interpreter=interpreter("python-sdk"),
        )
        for name, (shape, baseline, _) in PEERS.items()
    ]


def main() -> int:
    try:
        server = str(build.build("http_null"))
        notes = {"compiler": build.compiler_version()}
    except (build.NoCompiler, subprocess.CalledProcessError) as error:
        sys.exit(f"bench_http_blocking.py: {error}")
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
    return run(
        "http_blocking",
        [*variants, *peers(server)],
        BUDGETS,
        notes=notes,
        pairs=[(peer, ours) for peer, (_, _, ours) in PEERS.items()],
        is_blocking=True,
    )


if __name__ == "__main__":
    sys.exit(main())
