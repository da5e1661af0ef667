"""Object counts of a server under load, and how much they may grow."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True)
class Count:
    """The counts of the server at one time."""

    sessions: int
    tasks: int
    objects: int
    memory: int


OBJECTS = (1_000, 500)
"""How many more objects there may be after the first run and after the second."""

KEPT_BYTES = (28 * KIB, 8 * KIB)
"""How many bytes per session may remain after the first run and after the second.

An allocator frees whole pages only, and a page with a live object stays: of the forty
KiB of a session with its stream and its call, some remain for reuse. A third run adds
nothing more.
"""

NOISE = 4 * MIB


def allowed(sessions: int) -> list[Count]:
    """Return how much each count may grow in the first run and in the second."""
    return [
        Count(0, 0, objects, NOISE + kept * sessions)
        for objects, kept in zip(OBJECTS, KEPT_BYTES, strict=True)
    ]


def grown(before: Count, after: Count, maximum: Count) -> list[str]:
    """Return the counts that grew by more than allowed."""
    return [
        f"{name}: {getattr(before, name):,} before, {getattr(after, name):,} after"
        for name, limit in vars(maximum).items()
        if getattr(after, name) - getattr(before, name) > limit
    ]
