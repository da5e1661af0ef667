"""Faults of bytes: split, spoiled, lost, and the end or standstill of a stream."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.testing.faults.base import (
    END,
    Fault,
    Item,
    LineStage,
    Pause,
    Stage,
    above_zero,
    not_negative,
    numbers,
)
from mcpwire.testing.wire import at_random, cut

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator

    from mcpwire.testing.wire import Split as Cuts

__all__ = ["Corrupt", "HangUp", "Lose", "Split", "Stall"]


@attrs.frozen(kw_only=True)
class Split(Fault):
    """Let bytes pass in parts, each read by itself: the last fault of a list.

    Attributes:
        size: The size of each part; 1 unless `at` or `longest` is given.
        at: Offsets in each piece the relay reads, instead.
        longest: Parts of 1 to so many bytes by chance, instead.
        gap: Seconds between parts.
    """

    size: int = attrs.field(default=1, validator=above_zero)
    at: tuple[int, ...] | None = attrs.field(default=None, converter=numbers)
    longest: int | None = attrs.field(default=None, validator=above_zero)
    gap: float = attrs.field(default=0.0, validator=not_negative)

    def begin(self, chance: random.Random) -> Stage:
        """Return a stage for one connection."""
        split: Cuts = self.size if self.at is None else self.at
        if self.longest is not None:
            split = at_random(chance.getrandbits(32), self.longest)
        return _Splitting(split, self.gap)


@attrs.define
class _Splitting(Stage):
    split: Cuts
    gap: float

    def feed(self, data: bytes) -> Iterator[Item]:
        for part in cut(data, self.split):
            yield part
            if self.gap:
                yield Pause(self.gap)


@attrs.frozen(kw_only=True)
class Corrupt(Fault):
    """Change one byte.

    Attributes:
        at: Which one, counted from 0.
        value: What it becomes; by default all of its bits are turned round.
    """

    at: int = attrs.field(validator=not_negative)
    value: int | None = None

    def begin(self, chance: random.Random) -> Stage:
        """Return a stage for one connection."""
        return _AtOffset(self.at, 1, self._spoil)

    def _spoil(self, data: bytes) -> bytes:
        return bytes([data[0] ^ 0xFF if self.value is None else self.value])


@attrs.frozen(kw_only=True)
class Lose(Fault):
    """Lose bytes.

    Attributes:
        at: The first of them, counted from 0.
        count: How many.
    """

    at: int = attrs.field(validator=not_negative)
    count: int = attrs.field(default=1, validator=above_zero)

    def begin(self, chance: random.Random) -> Stage:
        """Return a stage for one connection."""
        return _AtOffset(self.at, self.count, lambda _: b"")


@attrs.define
class _AtOffset(Stage):
    at: int
    count: int
    change: Any
    passed: int = 0

    def feed(self, data: bytes) -> Iterator[Item]:
        start = max(self.at - self.passed, 0)
        end = min(max(self.at + self.count - self.passed, 0), len(data))
        self.passed += len(data)
        if start < end:
            data = data[:start] + self.change(data[start:end]) + data[end:]
        if data:
            yield data


@attrs.frozen(kw_only=True)
class _AtPoint(Fault):
    """Something that happens once, after so many bytes or messages; else at once."""

    after_bytes: int | None = None
    after_message: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.after_bytes is not None and self.after_message is not None:
            raise ValueError("after_bytes and after_message exclude each other")

    def begin(self, chance: random.Random) -> Stage:
        """Return a stage for one connection."""
        if self.after_message is not None:
            return _AfterMessage(self.after_message, self._item())
        return _AfterBytes(self.after_bytes or 0, self._item())

    def _item(self) -> Item:
        raise NotImplementedError


@attrs.frozen(kw_only=True)
class HangUp(_AtPoint):
    """Close this direction: the reader sees the end, the writer a broken pipe.

    Attributes:
        after_bytes: After so many bytes.
        after_message: Or after this message, counted from 1; else at once.
    """

    def _item(self) -> Item:
        return END


@attrs.frozen(kw_only=True)
class Stall(_AtPoint):
    """Read and pass nothing: the writer's pipe fills, the reader waits.

    Attributes:
        after_bytes: After so many bytes.
        after_message: Or after this message, counted from 1; else at once.
        seconds: For so long; for ever by default.
    """

    seconds: float = attrs.field(default=inf, validator=above_zero)

    def _item(self) -> Item:
        return Pause(self.seconds)


@attrs.define
class _AfterBytes(Stage):
    left: int
    item: Item
    is_over: bool = False

    def start(self) -> Iterable[Item]:
        self.is_over = self.left == 0
        return (self.item,) if self.is_over else ()

    def feed(self, data: bytes) -> Iterator[Item]:
        if self.is_over or len(data) < self.left:
            self.left -= len(data)
            yield data
            return
        self.is_over = True
        yield data[: self.left]
        yield self.item
        if data[self.left :]:
            yield data[self.left :]


class _AfterMessage(LineStage):
    def __init__(self, number: int, item: Item) -> None:
        super().__init__()
        self._number = number
        self._item = item

    def line(self, line: bytes, number: int) -> Iterable[Item]:
        return (line, self._item) if number == self._number else (line,)
