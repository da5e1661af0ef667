"""What an idle session weighs, and what a call that is under way does.

    python -m footprint.weighing SESSIONS CALLS (PATH MODULE:FUNCTION ARGUMENT)...

The function is one of a variant's: a context manager that gives what calls. Standard
library only, for it runs in every client's own environment. It needs Linux: null
servers are stopped while calls are under way, so that none is answered.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tracemalloc
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from harness.child import load

from footprint.programs.told import rss_kib, tell

PART = 5
"""Which part is opened before the first look: what is made once is made then."""

UNDER_WAY_S = 0.5
KIB = 1024


def children() -> list[int]:
    """Return the processes that this one started."""
    texts = Path("/proc/self/task").glob("*/children")
    return [int(pid) for each in texts for pid in each.read_text().split()]


def signal_all(number: int) -> None:
    """Send a signal to what this process started."""
    for pid in children():
        os.kill(pid, number)


async def opened(target: str, argument: str, many: int, stack: AsyncExitStack) -> Any:
    """Open so many sessions; return the last one's call."""
    call = None
    for _ in range(many):
        call = await stack.enter_async_context(load(target)(argument))
    return call


async def session_kib(target: str, argument: str, many: int) -> float:
    """Return what one more idle session weighs."""
    async with AsyncExitStack() as stack:
        await opened(target, argument, max(2, many // PART), stack)
        before = rss_kib()
        await opened(target, argument, many, stack)
        return (rss_kib() - before) / many


async def in_flight_kib(target: str, argument: str, many: int) -> float:
    """Return what one more call under way weighs, with its connection if it has one."""
    async with load(target)(argument) as call:
        for _ in range(PART):
            await call()
        signal_all(signal.SIGSTOP)
        try:
            tracemalloc.start()
            tasks = [asyncio.create_task(call()) for _ in range(many)]
            await asyncio.sleep(UNDER_WAY_S)  # nothing tells that all were written
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        finally:
            signal_all(signal.SIGCONT)
        await asyncio.gather(*tasks)
        return held / many / KIB


async def main(sessions: str, calls: str, *paths: str) -> None:
    for path, target, argument in zip(*[iter(paths)] * 3, strict=True):
        held = await session_kib(target, argument, int(sessions))
        under_way = await in_flight_kib(target, argument, int(calls))
        tell(**{f"{path}_session_kib": held, f"{path}_in_flight_kib": under_way})


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
