"""What a fork copies and may not use: the connections of the process it came from.

The forked process holds the same pipe ends and the same epoll instance. Writing to the
one would corrupt the parent's session, changing the other would make the parent deaf,
and what runs at its exit would kill the parent's servers. So in the forked process
every connection lets go of its descriptors at once, and refuses calls.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["Forkable", "let_go_after_fork"]


class Forkable(Protocol):
    """Something that must not be used, or ended, by a forked process."""

    def forked(self) -> None:
        """Let go, in the forked process, without touching what is still shared."""


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
