"""What a server under load holds, and by how much it may be more afterwards."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True)
class Count:
    """What the server holds at one moment."""

    sessions: int
    tasks: int
    objects: int
    memory: int


OBJECTS = (1_000, 500)
"""How many objects there may be more after everything, and after all of it again."""

KEPT = (28 * KIB, 8 * KIB)
"""How many bytes may be left of each session, after everything and after it again.

An allocator gives back whole pages, and one that has a live object on it stays: of the
forty that a session with its stream and its call weighs, some are there to be used
again. The third time nothing more is left.
"""

NOISE = 4 * MIB


def allowed(sessions: int) -> list[Count]:
    """Return by how much each may be more after everything, and after it again."""
    return [
        Count(0, 0, objects, NOISE + kept * sessions)
        for objects, kept in zip(OBJECTS, KEPT, strict=True)
    ]


def grown(before: Count, after: Count, most: Count) -> list[str]:
    """Return what grew by more than it may."""
    return [
        f"{name}: {getattr(before, name):,} before, {getattr(after, name):,} after"
        for name, limit in vars(most).items()
        if getattr(after, name) - getattr(before, name) > limit
    ]
