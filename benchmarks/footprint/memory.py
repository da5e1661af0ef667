"""Memory of an idle session, and of a call in flight.

    python -m footprint.memory SESSIONS CALLS (PATH MODULE:FUNCTION ARGUMENT)...

The function is that of a variant: its context manager yields a function that makes one
call. Standard library only, because it runs in every client's environment. Linux only:
null servers are stopped by SIGSTOP while calls are in flight, so that none returns.
"""

from __future__ import annotations

import asyncio
import os
import pkgutil
import signal
import sys
import tracemalloc
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from footprint.programs.measurements import print_figures, rss_kib

WARM_UP_DIVISOR = 5
"""The divisor for the sessions that are opened first, for one-time allocations."""

SETTLE_S = 0.5
KIB = 1024


def child_pids() -> list[int]:
    """Return the ids of this process's children."""
    files = Path("/proc/self/task").glob("*/children")
    return [int(pid) for text in files for pid in text.read_text().split()]


def signal_children(number: int) -> None:
    """Send a signal to all children."""
    for pid in child_pids():
        os.kill(pid, number)


async def open_sessions(
    target: str, argument: str, count: int, stack: AsyncExitStack
) -> Any:
    """Open a number of sessions; return the call of the last one."""
    call = None
    for _ in range(count):
        call = await stack.enter_async_context(pkgutil.resolve_name(target)(argument))
    return call


async def session_kib(target: str, argument: str, sessions: int) -> float:
    """Return the memory of one more idle session in KiB."""
    async with AsyncExitStack() as stack:
        await open_sessions(
            target, argument, max(2, sessions // WARM_UP_DIVISOR), stack
        )
        before = rss_kib()
        await open_sessions(target, argument, sessions, stack)
        return (rss_kib() - before) / sessions


async def in_flight_kib(target: str, argument: str, calls: int) -> float:
    """Return the memory of one more call in flight in KiB, with its connection."""
    async with pkgutil.resolve_name(target)(argument) as call:
        for _ in range(WARM_UP_DIVISOR):
            await call()
        signal_children(signal.SIGSTOP)
        try:
            tracemalloc.start()
            tasks = [asyncio.create_task(call()) for _ in range(calls)]
            await asyncio.sleep(SETTLE_S)  # no event reports that all were written
            allocated, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        finally:
            signal_children(signal.SIGCONT)
        await asyncio.gather(*tasks)
        return allocated / calls / KIB


async def main(sessions: str, calls: str, *paths: str) -> None:
    for path, target, argument in zip(*[iter(paths)] * 3, strict=True):
        session = await session_kib(target, argument, int(sessions))
        call_in_flight = await in_flight_kib(target, argument, int(calls))
        print_figures(
            **{f"{path}_session_kib": session, f"{path}_in_flight_kib": call_in_flight}
        )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
