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
    from collections.abc import Callable, Generator, Iterable, Sequence

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

Stage: TypeAlias = "Generator[Iterable[Item], bytes | None, None]"
"""Transforms the bytes of one direction to items.

The first bytes are none. ``None`` asks for the items that are held back at the end.
"""


class Chain:
    """The sequence of stages of one direction of one connection."""

    def __init__(self, faults: Sequence[Fault], toward: str, seed: int) -> None:
        rng = random.Random(f"{seed} {toward}")  # noqa: S311 - to repeat a test
        self._stages = [f.stage(rng) for f in faults if f.toward == toward]
        for stage in self._stages:
            next(stage)

    def start(self) -> list[Item]:
        """Return the items before any bytes."""
        return self._transform([], b"")

    def feed(self, data: bytes) -> list[Item]:
        """Transform bytes by all stages."""
        return self._transform([data])

    def finish(self) -> list[Item]:
        """Return the held-back items at the end of the stream, and `END`."""
        return [*self._transform([], None), END]

    def _transform(self, items: list[Item], *to_each: bytes | None) -> list[Item]:
        """Send items through all stages, and then something to each stage itself."""
        for stage in self._stages:
            outputs: list[Item] = []
            for item in (*items, *to_each):
                outputs += (
                    [item] if isinstance(item, (Pause, _End)) else stage.send(item)
                )
            items = outputs
        return [item for item in items if item != b""]


def _change_lines(
    change: Callable[[bytes, int], Iterable[Item]], held: Sequence[bytes] = ()
) -> Stage:
    """Change complete lines, given each with its number; `held` follows at the end."""
    buffer, number = bytearray(), 0
    items: list[Item] = []
    while True:
        data = yield items
        items = [*held, bytes(buffer)] if data is None else []
        buffer += data or b""
        if data and b"\n" in data:
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                number += 1
                items += change(bytes(line) + b"\n", number)


def _change_bytes(at: int, count: int, change: Callable[[bytes], bytes]) -> Stage:
    """Change some bytes at an offset, in one piece or in several."""
    items: list[Item] = []
    while True:
        data = (yield items) or b""
        start, end = max(at, 0), min(max(at + count, 0), len(data))
        at -= len(data)
        if start < end:
            data = data[:start] + change(data[start:end]) + data[end:]
        items = [data]


def _insert(item: Item, after: int) -> Stage:
    """Insert an item once, after some bytes."""
    items: list[Item] = []
    while True:
        data = (yield items) or b""
        if 0 <= after <= len(data):
            items, after = [data[:after], item, data[after:]], -1
        else:
            items, after = [data], after - len(data)


# --- the faults


def _validator(is_valid: Callable[[Any], bool], rule: str) -> Any:
    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None and not is_valid(value):
            raise ValueError(f"{attribute.name} must {rule}, got {value!r}")

    return check


_check_chance: Final = _validator(
    lambda value: 0 < value <= 1, "be above 0 and at most 1"
)
_check_positive: Final = _validator(lambda value: value > 0, "be above zero")
_check_byte: Final = _validator(
    lambda value: type(value) is int and 0 <= value <= 255, "be from 0 to 255"
)
_check_not_negative: Final = _validator(lambda value: value >= 0, "not be negative")


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

    def stage(self, rng: random.Random) -> Stage:
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

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        stage_rng = random.Random(rng.getrandbits(32))  # noqa: S311 - to repeat a test

        def change(line: bytes, number: int) -> Iterable[Item]:
            is_selected = self.message is None or number in self.message
            is_changed = is_selected and stage_rng.random() < self.chance
            return self._change(line) if is_changed else (line,)

        return _change_lines(change)

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

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        held: list[bytes] = []

        def swap(line: bytes, number: int) -> Iterable[Item]:
            items = [] if number == self.message else [line, *held]
            held[:] = [] if items else [line]
            return items

        return _change_lines(swap, held)


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

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        split: SplitRule = self.size if self.at is None else self.at
        if self.longest is not None:
            split = at_random(rng.getrandbits(32), self.longest)
        pause: list[Item] = [Pause(self.gap)] if self.gap else []
        items: list[Item] = []
        while True:
            parts = cut((yield items) or b"", split)
            items = []
            for part in parts:
                items += [part, *pause]


@attrs.frozen(kw_only=True)
class Corrupt(Fault):
    """Change one byte.

    Attributes:
        at: The offset of the byte, from 0.
        value: The new value; default: all bits inverted.
    """

    at: int = attrs.field(validator=_check_not_negative)
    value: int | None = attrs.field(default=None, validator=_check_byte)

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""

        def replace_byte(data: bytes) -> bytes:
            return bytes([data[0] ^ 0xFF if self.value is None else self.value])

        return _change_bytes(self.at, 1, replace_byte)


@attrs.frozen(kw_only=True)
class Lose(Fault):
    """Drop bytes.

    Attributes:
        at: The offset of the first byte, from 0.
        count: The number of bytes.
    """

    at: int = attrs.field(validator=_check_not_negative)
    count: int = attrs.field(default=1, validator=_check_positive)

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        return _change_bytes(self.at, self.count, lambda _: b"")


@attrs.frozen(kw_only=True)
class _OneTimeFault(Fault):
    """A fault that occurs once, after some bytes or a message; by default at once."""

    after_bytes: int | None = None
    after_message: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.after_bytes is not None and self.after_message is not None:
            raise ValueError("after_bytes and after_message exclude each other")

    def stage(self, rng: random.Random) -> Stage:
        """Return a stage for one connection."""
        item = self._item()
        if self.after_message is None:
            return _insert(item, self.after_bytes or 0)
        last = self.after_message
        return _change_lines(lambda line, at: (line, item) if at == last else (line,))

    def _item(self) -> Item:
        return END


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
