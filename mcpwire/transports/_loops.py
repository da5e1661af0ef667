"""Which event loop runs where: of a blocking client it is another thread each time."""

from __future__ import annotations

import asyncio

__all__ = ["runs_here"]


def runs_here(loop: asyncio.AbstractEventLoop | None = None) -> bool:
    """Tell whether this thread runs that loop; ``None``: any loop."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return loop is None or running is loop
