"""Faults of the connection between a client and a server, as values.

Each fault is a stage that transforms the bytes of one direction, `toward` the client by
default; stages apply in the order of the list. Faults of messages count the lines that
reach them from 1, and hold a line back until it is complete, so a fault that splits
bytes comes last. `mcpwire.testing.relay` moves the bytes.
"""

from __future__ import annotations

import random
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.limits import choice_validator
from mcpwire.testing.wire import at_random, cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mcpwire.testing.wire import Split as SplitRule

MAX_DELAY_S: Final = 60.0
"""Limit of `Delay`; a `Stall` may be longer."""


class _End(Enum):
    END = "end"


END: Final = _End.END
"""An item that closes its direction; later items are dropped."""


@attrs.frozen
class Pause:
    """An item that stops reads and writes for some seconds (infinity: forever)."""

    seconds: float


Item: TypeAlias = bytes | Pause | _End
"""The output of a stage."""


class Stage:
    """A transformation of the bytes of one direction; this one changes nothing."""

    def feed(self, data: bytes) -> Iterable[Item]:
        """Transform bytes to items; the first bytes are none."""
        return (data,)

    def finish(self) -> Iterable[Item]:
        """Return the held-back items at the end of the stream."""
        return ()


class _Lines(Stage):
    """A stage that passes complete lines, each with its number, to `change`."""

    def __init__(self, change: Callable[[bytes, int], Iterable[Item]]) -> None:
        self._change = change
        self._partial: list[bytes] = []
        self._count = 0

    def feed(self, data: bytes) -> Iterator[Item]:
        *lines, rest = data.split(b"\n")
        for line in lines:
            complete = b"".join([*self._partial, line, b"\n"])
            self._partial.clear()
            self._count += 1
            yield from self._change(complete, self._count)
        if rest:
            self._partial.append(rest)

    def finish(self) -> Iterator[Item]:
        if self._partial:
            yield b"".join(self._partial)


class Chain:
    """The sequence of stages of one direction of one connection."""

    def __init__(self, faults: Sequence[Fault], toward: str, seed: int) -> None:
        rng = random.Random(f"{seed} {toward}")  # noqa: S311 - to repeat a test
        self._stages = [f.make_stage(rng) for f in faults if f.toward == toward]

    def start(self) -> list[Item]:
        """Return the items before any bytes."""
        return self._collect(lambda stage: stage.feed(b""))

    def feed(self, data: bytes) -> list[Item]:
        """Transform bytes by all stages."""
        return self._apply_stages([data], 0)

    def finish(self) -> list[Item]:
        """Return the held-back items at the end of the stream, and `END`."""
        return [*self._collect(lambda stage: stage.finish()), END]

    def _collect(self, produce: Callable[[Stage], Iterable[Item]]) -> list[Item]:
        """Return the items of each stage, transformed by the stages after it."""
        items: list[Item] = []
        for index, stage in enumerate(self._stages, 1):
            items += self._apply_stages(produce(stage), index)
        return items

    def _apply_stages(self, items: Iterable[Item], index: int) -> list[Item]:
        items = list(items)
        for stage in self._stages[index:]:
            outputs: list[Item] = []
            for item in items:
                outputs += stage.feed(item) if isinstance(item, bytes) else [item]
            items = outputs
        return [item for item in items if item != b""]


# --- the faults


def _check_chance(_: Any, __: Any, value: float) -> None:
    if not 0 < value <= 1:
        raise ValueError(f"chance must be above 0 and at most 1, got {value!r}")


def _check_positive(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not value > 0:
        raise ValueError(f"{attribute.name} must be above zero, got {value!r}")


def _check_byte(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if type(value) is not int or not 0 <= value <= 255:
        raise ValueError(f"{attribute.name} must be from 0 to 255, got {value!r}")


def _check_not_negative(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not value >= 0:
        raise ValueError(f"{attribute.name} must not be negative, got {value!r}")


def _numbers(value: int | Iterable[int] | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    return (value,) if isinstance(value, int) else tuple(value)


@attrs.frozen(kw_only=True)
class Fault:
    """A fault in one direction.

    Attributes:
        toward: The direction: ``"client"`` (the server's output) or ``"server"``.
    """

    toward: str = attrs.field(
        default="client", validator=choice_validator("client", "server")
    )

    def make_stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        raise NotImplementedError


@attrs.frozen(kw_only=True)
class _MessageFault(Fault):
    """A fault of messages.

    Attributes:
        message: The numbers of the affected messages, from 1; default: all.
        chance: The probability for each of these, decided by the seed.
    """

    message: tuple[int, ...] | None = attrs.field(default=None, converter=_numbers)
    chance: float = attrs.field(default=1.0, validator=_check_chance)

    def make_stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        stage_rng = random.Random(rng.getrandbits(32))  # noqa: S311 - to repeat a test

        def change(line: bytes, number: int) -> Iterable[Item]:
            is_selected = self.message is None or number in self.message
            is_changed = is_selected and stage_rng.random() < self.chance
            return self._change(line) if is_changed else (line,)

        return _Lines(change)

    def _change(self, line: bytes) -> Iterable[Item]:
        """Return the items that replace a message."""
        raise NotImplementedError


@attrs.frozen(kw_only=True)
class Delay(_MessageFault):
    """Delay messages, and all that follow them.

    Attributes:
        seconds: The delay, by the clock of the relay's loop; at most 60.
    """

    seconds: float = attrs.field(
        validator=[_check_positive, attrs.validators.le(MAX_DELAY_S)]
    )

    def _change(self, line: bytes) -> Iterable[Item]:
        return (Pause(self.seconds), line)


@attrs.frozen(kw_only=True)
class Drop(_MessageFault):
    """Drop messages."""

    def _change(self, line: bytes) -> Iterable[Item]:
        return ()


@attrs.frozen(kw_only=True)
class Duplicate(_MessageFault):
    """Deliver messages more than once.

    Attributes:
        times: The number of copies.
    """

    times: int = attrs.field(default=2, validator=_check_positive)

    def _change(self, line: bytes) -> Iterable[Item]:
        return (line,) * self.times


@attrs.frozen(kw_only=True)
class Noise(_MessageFault):
    """Insert bytes before messages.

    Attributes:
        data: The bytes; they need a newline at the end to be a line of their own.
    """

    data: bytes = attrs.field(
        default=b"this is no message\n", validator=attrs.validators.instance_of(bytes)
    )

    def _change(self, line: bytes) -> Iterable[Item]:
        return (self.data, line)


@attrs.frozen(kw_only=True)
class ByteOrderMark(Noise):
    """Insert a byte order mark before the first message."""

    message: tuple[int, ...] | None = attrs.field(default=(1,), converter=_numbers)
    data: bytes = b"\xef\xbb\xbf"


@attrs.frozen(kw_only=True)
class Swap(Fault):
    """Swap a message with the next one.

    Attributes:
        message: The number of the first of the two, from 1.
    """

    message: int = attrs.field(validator=_check_positive)

    def make_stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        return _SwapStage(self.message)


class _SwapStage(_Lines):
    def __init__(self, swapped: int) -> None:
        super().__init__(self._swap)
        self._swapped = swapped
        self._held = b""

    def _swap(self, line: bytes, number: int) -> Iterable[Item]:
        if number == self._swapped:
            self._held = line
            return ()
        held, self._held = self._held, b""
        return (line, held) if held else (line,)

    def finish(self) -> Iterator[Item]:
        if self._held:
            yield self._held
        yield from super().finish()


@attrs.frozen(kw_only=True)
class Split(Fault):
    """Split bytes into parts that are read separately: the last fault of a list.

    Attributes:
        size: The size of each part in bytes; ignored with `at` or `longest`.
        at: Offsets at which to split each piece that the relay reads, instead.
        longest: The maximum size of parts of random size (at least 1), instead.
        gap: Seconds between parts.
    """

    size: int = attrs.field(default=1, validator=_check_positive)
    at: tuple[int, ...] | None = attrs.field(default=None, converter=_numbers)
    longest: int | None = attrs.field(default=None, validator=_check_positive)
    gap: float = attrs.field(default=0.0, validator=_check_not_negative)

    def make_stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        split: SplitRule = self.size if self.at is None else self.at
        if self.longest is not None:
            split = at_random(rng.getrandbits(32), self.longest)
        return _SplitStage(split, self.gap)


@attrs.define
class _SplitStage(Stage):
    split: SplitRule
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
        at: The offset of the byte, from 0.
        value: The new value; default: all bits inverted.
    """

    at: int = attrs.field(validator=_check_not_negative)
    value: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(_check_byte)
    )

    def make_stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""

        def replace_byte(data: bytes) -> bytes:
            return bytes([data[0] ^ 0xFF if self.value is None else self.value])

        return _ReplaceAtOffset(self.at, 1, replace_byte)


@attrs.frozen(kw_only=True)
class Lose(Fault):
    """Drop bytes.

    Attributes:
        at: The offset of the first byte, from 0.
        count: The number of bytes.
    """

    at: int = attrs.field(validator=_check_not_negative)
    count: int = attrs.field(default=1, validator=_check_positive)

    def make_stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        return _ReplaceAtOffset(self.at, self.count, lambda _: b"")


@attrs.define
class _ReplaceAtOffset(Stage):
    at: int
    count: int
    change: Callable[[bytes], bytes]
    offset: int = 0

    def feed(self, data: bytes) -> Iterator[Item]:
        start = max(self.at - self.offset, 0)
        end = min(max(self.at + self.count - self.offset, 0), len(data))
        self.offset += len(data)
        if start < end:
            data = data[:start] + self.change(data[start:end]) + data[end:]
        yield data


@attrs.frozen(kw_only=True)
class _OneTimeFault(Fault):
    """A fault that occurs once, after some bytes or a message; by default at once."""

    after_bytes: int | None = None
    after_message: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.after_bytes is not None and self.after_message is not None:
            raise ValueError("after_bytes and after_message exclude each other")

    def make_stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        item = self._item()
        if self.after_message is None:
            return _InsertAfterBytes(self.after_bytes or 0, item)
        last = self.after_message
        return _Lines(lambda line, at: (line, item) if at == last else (line,))

    def _item(self) -> Item:
        return END


@attrs.define
class _InsertAfterBytes(Stage):
    remaining: int
    item: Item
    is_over: bool = False

    def feed(self, data: bytes) -> Iterator[Item]:
        if not self.is_over and len(data) >= self.remaining:
            self.is_over = True
            yield data[: self.remaining]
            yield self.item
            data = data[self.remaining :]
        self.remaining -= len(data)
        yield data


@attrs.frozen(kw_only=True)
class HangUp(_OneTimeFault):
    """Close this direction: the reader sees its end, the writer a broken pipe.

    Attributes:
        after_bytes: The number of bytes to pass before.
        after_message: Or the number of the last message to pass; default: at once.
    """


@attrs.frozen(kw_only=True)
class Stall(_OneTimeFault):
    """Stop reading and writing: the writer's pipe fills, the reader waits.

    Attributes:
        after_bytes: The number of bytes to pass before.
        after_message: Or the number of the last message to pass; default: at once.
        seconds: The duration; default: forever.
    """

    seconds: float = attrs.field(default=inf, validator=_check_positive)

    def _item(self) -> Item:
        return Pause(self.seconds)
