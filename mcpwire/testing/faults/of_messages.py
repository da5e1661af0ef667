"""Faults of messages: late, lost, doubled, out of order, and noise between them.

Each holds back a line until it is complete.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.testing.faults.base import (
    Fault,
    Item,
    LineStage,
    Pause,
    Stage,
    above_zero,
    numbers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["ByteOrderMark", "Delay", "Drop", "Duplicate", "Noise", "Swap"]

LONGEST_DELAY_S: Final = 60.0
"""A longer delay is a `Stall`."""


def _as_chance(_: Any, __: Any, value: float) -> None:
    if not 0 < value <= 1:
        raise ValueError(f"chance must be above 0 and at most 1, got {value!r}")


@attrs.frozen(kw_only=True)
class _OfMessages(Fault):
    """Something that happens to messages.

    Attributes:
        message: To which, counted from 1; to all by default.
        chance: How likely, for each of these, by the seed.
    """

    message: tuple[int, ...] | None = attrs.field(default=None, converter=numbers)
    chance: float = attrs.field(default=1.0, validator=_as_chance)

    def begin(self, chance: random.Random) -> Stage:
        """Return a stage for one connection."""
        return _Changing(self, random.Random(chance.getrandbits(32)))  # noqa: S311 - to repeat a test

    def change(self, line: bytes) -> Iterable[Item]:
        """Return what passes in place of a message."""
        raise NotImplementedError


class _Changing(LineStage):
    def __init__(self, fault: _OfMessages, chance: random.Random) -> None:
        super().__init__()
        self._fault = fault
        self._chance = chance

    def line(self, line: bytes, number: int) -> Iterable[Item]:
        chosen = self._fault.message
        if chosen is not None and number not in chosen:
            return (line,)
        if self._chance.random() >= self._fault.chance:
            return (line,)
        return self._fault.change(line)


@attrs.frozen(kw_only=True)
class Delay(_OfMessages):
    """Let messages come late, and all that follow them.

    Attributes:
        seconds: How late, by the clock of the relay's loop.
    """

    seconds: float = attrs.field(
        validator=[above_zero, attrs.validators.le(LONGEST_DELAY_S)]
    )

    def change(self, line: bytes) -> Iterable[Item]:
        """Return what passes in place of a message."""
        return (Pause(self.seconds), line)


@attrs.frozen(kw_only=True)
class Drop(_OfMessages):
    """Lose messages."""

    def change(self, line: bytes) -> Iterable[Item]:
        """Return what passes in place of a message."""
        return ()


@attrs.frozen(kw_only=True)
class Duplicate(_OfMessages):
    """Let messages come more than once.

    Attributes:
        times: How often.
    """

    times: int = attrs.field(default=2, validator=above_zero)

    def change(self, line: bytes) -> Iterable[Item]:
        """Return what passes in place of a message."""
        return (line,) * self.times


@attrs.frozen(kw_only=True)
class Noise(_OfMessages):
    """Put bytes before messages.

    Attributes:
        data: The bytes, with their newline if they are to be a line.
    """

    data: bytes = b"this is no message\n"

    def change(self, line: bytes) -> Iterable[Item]:
        """Return what passes in place of a message."""
        return (self.data, line)


@attrs.frozen(kw_only=True)
class ByteOrderMark(Noise):
    """Put a byte order mark before the first message."""

    message: tuple[int, ...] | None = attrs.field(default=(1,), converter=numbers)
    data: bytes = b"\xef\xbb\xbf"


@attrs.frozen(kw_only=True)
class Swap(Fault):
    """Let a message come after the one that follows it.

    Attributes:
        message: Which, counted from 1.
    """

    message: int = attrs.field(validator=above_zero)

    def begin(self, chance: random.Random) -> Stage:
        """Return a stage for one connection."""
        return _Swapping(self.message)


class _Swapping(LineStage):
    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._held = b""

    def line(self, line: bytes, number: int) -> Iterable[Item]:
        if number == self._number:
            self._held = line
            return ()
        held, self._held = self._held, b""
        return (line, held) if held else (line,)

    def finish(self) -> Iterator[Item]:
        if self._held:
            yield self._held
        yield from super().finish()
