"""Cutting bytes into the parts in which they are to arrive.

A `Split` says where: ``None`` leaves the bytes whole, a number is the size of each part
(``1``: every byte by itself), a list holds offsets (negative ones count from the end),
and a function is given the bytes and returns the parts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeAlias

__all__ = ["Split", "at_random", "cut"]

Split: TypeAlias = int | Iterable[int] | Callable[[bytes], Iterable[bytes]] | None


def cut(data: bytes, split: Split) -> list[bytes]:
    """Return the bytes in the parts that a split asks for; none of them is empty.

    Offsets beyond the bytes are left out.

    Raises:
        ValueError: The size is below one, or a function's parts are not the bytes.
    """
    if split is None:
        parts = [data]
    elif isinstance(split, int):
        if split < 1:
            raise ValueError(f"a part has at least one byte, got {split!r}")
        parts = [data[i : i + split] for i in range(0, len(data), split)]
    elif callable(split):
        parts = list(split(data))
        if b"".join(parts) != data:
            raise ValueError(f"the parts of {split!r} are not the bytes it was given")
    else:
        size = len(data)
        places = {place + size if place < 0 else place for place in split}
        inside = sorted(place for place in places if 0 < place < size)
        parts = [data[a:b] for a, b in pairwise([0, *inside, size])]
    return [part for part in parts if part]


def at_random(seed: int, longest: int = 16) -> Callable[[bytes], list[bytes]]:
    """Return a split into parts of 1 to `longest` bytes: by a seed always the same.

    What it returns goes on with its own chance from one message to the next.

    Raises:
        ValueError: `longest` is below one.
    """
    if longest < 1:
        raise ValueError(f"a part has at least one byte, got longest={longest!r}")
    chance = random.Random(seed)  # noqa: S311 - to repeat a test, not to keep a secret

    def split(data: bytes) -> list[bytes]:
        parts = []
        start = 0
        while start < len(data):
            end = start + chance.randint(1, longest)
            parts.append(data[start:end])
            start = end
        return parts

    return split
