"""Memory of an idle session, and of a call in flight.

    python -m footprint.weighing SESSIONS CALLS (PATH MODULE:FUNCTION ARGUMENT)...

The function is that of a variant: its context manager yields a function that makes one
call. Standard library only, because it runs in every client's environment. Linux only:
null servers are stopped by SIGSTOP while calls are in flight, so that none returns.
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
"""The divisor for the sessions that are opened first, for one-time allocations."""

UNDER_WAY_S = 0.5
KIB = 1024


def children() -> list[int]:
    """Return the ids of this process's children."""
    texts = Path("/proc/self/task").glob("*/children")
    return [int(pid) for each in texts for pid in each.read_text().split()]


def signal_all(number: int) -> None:
    """Send a signal to all children."""
    for pid in children():
        os.kill(pid, number)


async def opened(target: str, argument: str, many: int, stack: AsyncExitStack) -> Any:
    """Open a number of sessions; return the call of the last one."""
    call = None
    for _ in range(many):
        call = await stack.enter_async_context(load(target)(argument))
    return call


async def session_kib(target: str, argument: str, many: int) -> float:
    """Return the memory of one more idle session in KiB."""
    async with AsyncExitStack() as stack:
        await opened(target, argument, max(2, many // PART), stack)
        before = rss_kib()
        await opened(target, argument, many, stack)
        return (rss_kib() - before) / many


async def in_flight_kib(target: str, argument: str, many: int) -> float:
    """Return the memory of one more call in flight in KiB, with its connection."""
    async with load(target)(argument) as call:
        for _ in range(PART):
            await call()
        signal_all(signal.SIGSTOP)
        try:
            tracemalloc.start()
            tasks = [asyncio.create_task(call()) for _ in range(many)]
            await asyncio.sleep(UNDER_WAY_S)  # no event reports that all were written
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
