"""Which process and which loop a connection belongs to.

A forked process holds the same pipe ends and the same epoll instance. Writing to the
one would corrupt the parent's session, changing the other would make the parent deaf,
and what runs at its exit would kill the parent's servers. So in the forked process
every connection lets go of its descriptors at once, and refuses calls.

The loop of a blocking client runs in another thread each time.
"""

from __future__ import annotations

import asyncio
import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["Forkable", "let_go_after_fork", "runs_here"]


class Forkable(Protocol):
    """Something that must not be used, or ended, by a forked process."""

    def forked(self) -> None:
        """Let go, in the forked process, without touching what is still shared."""


def runs_here(loop: asyncio.AbstractEventLoop | None = None) -> bool:
    """Tell whether this thread runs that loop; ``None``: any loop."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return loop is None or running is loop


_held: WeakSet[Forkable] = WeakSet()


def let_go_after_fork(held: Forkable) -> None:
    """Have `held.forked()` called in every process forked off this one."""
    _held.add(held)


def _let_go() -> None:
    for held in list(_held):
        held.forked()
    _held.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_let_go)
