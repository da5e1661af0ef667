"""How many tasks are kept, and which one gives way to a new one.

A finished task is kept for its time, since its client was told so. Only where there is
no room at all is one forgotten earlier, and then one of the client with the most: its
oldest finished one, or if all of them run, its oldest one, which has to be ended first.
A client that has no more tasks than the newcomer's client loses none for it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Held", "TaskLimits", "choose_leavers", "choose_to_end"]


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
    """Return which finished tasks give way to a new one; ``None``: not enough do.

    Args:
        held: The tasks that are kept, the oldest first.
        owner: Whose the new one is.
        limits: The bounds.
    """
    leavers = _leavers(held, owner, limits)
    if leavers is None or not all(task.is_final for task in leavers):
        return None
    return [task.id for task in leavers]


def choose_to_end(held: Collection[Held], owner: str, limits: TaskLimits) -> str | None:
    """Return the task under way that has to end first; ``None``: none may.

    Args:
        held: The tasks that are kept, the oldest first.
        owner: Whose the new one is.
        limits: The bounds.
    """
    leavers = _leavers(held, owner, limits) or ()
    return next((task.id for task in leavers if not task.is_final), None)


def _leavers(
    held: Collection[Held], owner: str, limits: TaskLimits
) -> list[Held] | None:
    under_way = sum(task.owner == owner and not task.is_final for task in held)
    if under_way >= limits.unfinished:
        return None
    leavers: list[Held] = []
    left = list(held)
    while len(left) >= limits.kept:
        leaver = _leaver(left, owner)
        if leaver is None:
            return None
        left.remove(leaver)
        leavers.append(leaver)
    return leavers


def _leaver(held: Collection[Held], owner: str) -> Held | None:
    kept = Counter(task.owner for task in held)
    most = max(kept.values())
    is_greedier = most > kept[owner]
    may_leave = [
        task
        for task in held
        if (kept[task.owner] == most if is_greedier else task.owner == owner)
    ]
    finished = (task for task in may_leave if task.is_final)
    return next(finished, may_leave[0] if is_greedier else None)
