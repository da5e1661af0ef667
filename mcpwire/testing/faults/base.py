"""What a fault is made of: stages that bytes pass, and the chain they form.

Nothing here moves a byte: see `mcpwire.testing.faults.relay`.
"""

from __future__ import annotations

import random
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "END",
    "Chain",
    "Fault",
    "Item",
    "LineStage",
    "Pause",
    "Stage",
    "above_zero",
    "not_negative",
    "numbers",
]


class _End(Enum):
    END = "end"


END: Final = _End.END
"""Close this direction; nothing after it passes."""


@attrs.frozen
class Pause:
    """Let nothing pass for so many seconds (infinite: ever), nor be read."""

    seconds: float


Item: TypeAlias = bytes | Pause | _End
"""What a stage lets pass."""


def _as_direction(_: Any, __: Any, value: object) -> None:
    if value not in {"client", "server"}:
        raise ValueError(f"toward must be 'client' or 'server', got {value!r}")


def above_zero(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Refuse zero and what is below it."""
    if value is not None and not value > 0:
        raise ValueError(f"{attribute.name} must be above zero, got {value!r}")


def not_negative(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Refuse what is below zero."""
    if not value >= 0:
        raise ValueError(f"{attribute.name} must not be negative, got {value!r}")


def numbers(value: int | Iterable[int] | None) -> tuple[int, ...] | None:
    """Return one number or several as a tuple."""
    if value is None:
        return None
    return (value,) if isinstance(value, int) else tuple(value)


class Stage:
    """Bytes of one direction on their way; this one lets them pass as they are."""

    def start(self) -> Iterable[Item]:
        """Return what passes before any bytes."""
        return ()

    def feed(self, data: bytes) -> Iterable[Item]:
        """Take bytes and return what passes."""
        return (data,)

    def finish(self) -> Iterable[Item]:
        """Return what was held back, at the end of the bytes."""
        return ()


@attrs.frozen(kw_only=True)
class Fault:
    """Something that goes wrong in one direction.

    Attributes:
        toward: ``"client"`` (what the server says) or ``"server"``.
    """

    toward: str = attrs.field(default="client", validator=_as_direction)

    def begin(self, chance: random.Random) -> Stage:
        """Return a stage for one connection."""
        raise NotImplementedError


class LineStage(Stage):
    """Holds back what is no whole line and passes on lines with their number."""

    def __init__(self) -> None:
        self._partial: list[bytes] = []
        self._count = 0

    def feed(self, data: bytes) -> Iterator[Item]:
        """Take bytes and return what passes of the lines that they complete."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole = b"".join([*self._partial, line, b"\n"])
            self._partial.clear()
            self._count += 1
            yield from self.line(whole, self._count)
        if rest:
            self._partial.append(rest)

    def finish(self) -> Iterator[Item]:
        """Return the line that lacks its newline, if there is one."""
        if self._partial:
            yield b"".join(self._partial)

    def line(self, line: bytes, number: int) -> Iterable[Item]:
        """Return what passes in place of a line."""
        raise NotImplementedError


class Chain:
    """The stages of one direction of one connection, one after the other."""

    def __init__(self, faults: Sequence[Fault], toward: str, seed: int) -> None:
        chance = random.Random(f"{seed} {toward}")  # noqa: S311 - to repeat a test
        self._stages = [f.begin(chance) for f in faults if f.toward == toward]

    def start(self) -> list[Item]:
        """Return what comes out before any bytes."""
        items: list[Item] = []
        for place, stage in enumerate(self._stages):
            items += self._pass(list(stage.start()), place + 1)
        return items

    def feed(self, data: bytes) -> list[Item]:
        """Take bytes and return what comes out at the end."""
        return self._pass([data], 0)

    def finish(self) -> list[Item]:
        """Return what was held back, at the end of the bytes, and the end."""
        items: list[Item] = []
        for place, stage in enumerate(self._stages):
            items += self._pass(list(stage.finish()), place + 1)
        return [*items, END]

    def _pass(self, items: list[Item], place: int) -> list[Item]:
        for stage in self._stages[place:]:
            passed: list[Item] = []
            for item in items:
                passed += stage.feed(item) if isinstance(item, bytes) else [item]
            items = passed
        return items
