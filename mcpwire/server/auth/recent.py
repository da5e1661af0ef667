"""Remembers what was found out of tokens a moment ago, and none of the tokens."""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Generic, TypeVar

__all__ = ["MOST", "Recent"]

T = TypeVar("T")

MOST: Final = 10_000
"""How many tokens are remembered: as many as there are users at once, roughly."""


class Recent(Generic[T]):
    """Values by token, each until its time; over the bound the oldest goes.

    Args:
        most: How many.
    """

    def __init__(self, most: int = MOST) -> None:
        self._values: dict[bytes, tuple[T, float]] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._values)

    def get(self, token: str, now: float) -> T | None:
        """Return what is known of a token; ``None``: nothing, or no more."""
        found = self._values.get(_digest(token))
        return found[0] if found is not None and now < found[1] else None

    def put(self, token: str, value: T, until: float) -> None:
        """Remember something of a token."""
        digest = _digest(token)
        self._values.pop(digest, None)
        if len(self._values) >= self._most:
            del self._values[next(iter(self._values))]
        self._values[digest] = value, until

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
