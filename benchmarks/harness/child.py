"""The child interpreter: holds one variant open and measures a slice when asked.

    python -m harness.child module:function ARGUMENT

A variant is a context manager made by a function of one argument (what to connect to);
it gives a function without arguments that performs one call. Both are async, or neither
is, where what blocks is measured. Requests and
answers are JSON lines on stdin and stdout; the end of stdin closes the variant.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any

from harness import blocking, measure


def load(target: str) -> Any:
    """Return the object that ``module:name`` names."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


async def answer(
    call: measure.Call, request: dict[str, Any], taken: list[int]
) -> measure.Figures:
    """Measure what one request asks for; `taken` gathers the laps of all slices.

    A request with `do` is for the variant itself, which has a method of that name.
    """
    if do := request.get("do"):
        figures = await getattr(call, do)(request["with"])
        return dict(figures)
    if width := request.get("width"):
        return await measure.in_flight(call, request["calls"], width)
    if calls := request.get("calls"):
        figures = await measure.one_at_a_time(call, calls)
        taken += await measure.laps(call, calls)
        return figures
    return measure.percentiles(taken)


async def serve(variant: Any) -> None:
    """Open the variant, say so, and answer until stdin ends."""
    taken: list[int] = []
    async with variant as call:
        print("{}", flush=True)
        # Blocking the loop between slices is meant: a waiting variant costs nothing.
        while line := sys.stdin.readline():
            figures = await answer(call, json.loads(line), taken)
            print(json.dumps(figures), flush=True)


def main(target: str, argument: str) -> None:
    """Measure that variant."""
    variant = load(target)(argument)
    if hasattr(variant, "__aenter__"):
        asyncio.run(serve(variant))
    else:
        blocking.serve(variant)


if __name__ == "__main__":
    main(*sys.argv[1:])
