"""How many tasks are kept, and which one gives way to a new one.

A finished task is kept for its time, since its client was told so. Only where there is
no room at all is one forgotten earlier, and then one of whoever keeps the most: nobody
can push out what others keep by starting many of their own.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Held", "TaskLimits", "choose_leavers"]


class TaskLimits(NamedTuple):
    """Bounds on the tasks of one server."""

    kept: int
    """How many are kept in all, finished or not."""

    unfinished: int
    """How many of one owner may be under way."""


class Held(NamedTuple):
    """What matters of a task that is kept."""

    id: str
    owner: str
    is_final: bool


def choose_leavers(
    held: Collection[Held], owner: str, limits: TaskLimits
) -> list[str] | None:
    """Return which tasks give way to a new one; ``None``: it has to be refused.

    Args:
        held: The tasks that are kept, the oldest first.
        owner: Whose the new one is.
        limits: The bounds.
    """
    under_way = sum(task.owner == owner and not task.is_final for task in held)
    if under_way >= limits.unfinished:
        return None
    leavers: list[str] = []
    for _ in range(len(held) - limits.kept + 1):
        leaver = _first_of_the_most(held, leavers)
        if leaver is None:
            return None
        leavers.append(leaver)
    return leavers


def _first_of_the_most(held: Collection[Held], gone: Collection[str]) -> str | None:
    left = [task for task in held if task.id not in gone]
    kept = Counter(task.owner for task in left)
    finished = (task for task in left if task.is_final)
    # The first of several that are alike is the oldest.
    leaver = max(finished, key=lambda task: kept[task.owner], default=None)
    return None if leaver is None else leaver.id
