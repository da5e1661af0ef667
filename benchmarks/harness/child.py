"""The child interpreter: keeps one variant open and measures slices on request.

    python -m harness.child module:function ARGUMENT

A variant is a context manager returned by a function of one argument (the target); it
yields a function without arguments that makes one call. Both are async, or neither for
a blocking variant. Requests and responses are JSON lines on stdin and stdout; the end
of stdin closes the variant.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any

from harness import blocking, measure


def load(target: str) -> Any:
    """Import and return the object ``module:name``."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


async def handle_request(
    call: measure.Call, request: dict[str, Any], latencies: list[int]
) -> measure.Figures:
    """Measure the slice of a request; `latencies` collects those of all slices.

    A request with `do` calls the method of that name of the variant itself.
    """
    if method := request.get("do"):
        figures = await getattr(call, method)(request["with"])
        return dict(figures)
    if width := request.get("width"):
        return await measure.measure_in_flight(call, request["calls"], width)
    if calls := request.get("calls"):
        figures = await measure.measure_cpu(call, calls)
        latencies += await measure.time_calls(call, calls)
        return figures
    return measure.percentiles(latencies)


async def serve(variant: Any) -> None:
    """Open the variant, print a first line, and answer requests until stdin ends."""
    latencies: list[int] = []
    async with variant as call:
        print("{}", flush=True)
        # Blocks the loop between slices on purpose: a waiting variant costs no CPU.
        while line := sys.stdin.readline():
            figures = await handle_request(call, json.loads(line), latencies)
            print(json.dumps(figures), flush=True)


def main(target: str, argument: str) -> None:
    """Serve a variant, async or blocking."""
    variant = load(target)(argument)
    if hasattr(variant, "__aenter__"):
        asyncio.run(serve(variant))
    else:
        blocking.serve(variant)


if __name__ == "__main__":
    main(*sys.argv[1:])
