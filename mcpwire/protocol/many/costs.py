"""What calls of tools take, learnt from those that were made; pure.

Each tool has a mean of its seconds and of its bytes. The latest call counts with
`weight`, all before it with the rest, so that a tool that changes is known again soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.protocol.many.flattening import json_text
from mcpwire.types import UNSET, encode

if TYPE_CHECKING:
    from mcpwire.types import CallToolResult

__all__ = ["BYTES_PER_TOKEN", "Cost", "Costs", "size_of"]

BYTES_PER_TOKEN: Final = 4
"""A rule of thumb for English text and JSON; tokenizers differ."""

MAX_TOOLS: Final = 10_000
"""As many tools are remembered; the one that was learnt first goes first."""


@attrs.frozen
class Cost:
    """What one call of a tool takes, on average."""

    tokens: int
    """Tokens of its result, estimated by its bytes."""

    seconds: float
    """From sending to the answer."""

    calls: int = 0
    """How many calls that was learnt from; none: it is the value to start with."""


@attrs.define
class _Learnt:
    seconds: float
    size: float
    calls: int


class Costs:
    """What calls take, by tool.

    Args:
        seconds: What a call of an unknown tool is taken to last, in seconds.
        tokens: What the result of an unknown tool is taken to have.
        weight: How much the latest call counts, above 0 and up to 1.

    Raises:
        ValueError: An argument is out of its range; names it.
    """

    def __init__(
        self, *, seconds: float = 5.0, tokens: int = 500, weight: float = 0.2
    ) -> None:
        # `not` before the comparison, so that NaN is refused with the rest.
        if not seconds >= 0:
            raise ValueError(f"seconds must not be negative, got {seconds!r}")
        if not tokens >= 0:
            raise ValueError(f"tokens must not be negative, got {tokens!r}")
        if not 0 < weight <= 1:
            raise ValueError(f"weight must be above 0 and up to 1, got {weight!r}")
        self._start = Cost(tokens, seconds)
        self._weight = weight
        self._learnt: dict[tuple[str, str], _Learnt] = {}

    def note(self, server: str, tool: str, seconds: float, size: int) -> None:
        """Learn from one call.

        Args:
            server: Whose tool it is.
            tool: The server's own name of it.
            seconds: How long it took.
            size: The bytes of its result.
        """
        known = self._learnt.get((server, tool))
        if known is None:
            if len(self._learnt) >= MAX_TOOLS:
                # Other threads may forget the same one.
                self._learnt.pop(next(iter(self._learnt)), None)
            known = self._learnt[server, tool] = _Learnt(seconds, size, 0)
        known.seconds += self._weight * (seconds - known.seconds)
        known.size += self._weight * (size - known.size)
        known.calls += 1

    def of(self, server: str, tool: str) -> Cost:
        """Return what a call takes: learnt, or the value to start with."""
        known = self._learnt.get((server, tool))
        if known is None:
            return self._start
        return Cost(round(known.size / BYTES_PER_TOKEN), known.seconds, known.calls)

    def forget(self, server: str | None = None) -> None:
        """Forget the tools of one server, or all of them."""
        for key in list(self._learnt):
            if server in {None, key[0]}:
                self._learnt.pop(key, None)


def size_of(result: CallToolResult) -> int:
    """Return roughly how many bytes of a result a model gets to see."""
    if not result.content and result.structured_content is not UNSET:
        return len(json_text(result.structured_content))
    return sum(map(_size, result.content))


def _size(block: Any) -> int:
    for part in (block, getattr(block, "resource", None)):
        for name in ("text", "data", "blob"):
            value = getattr(part, name, None)
            if isinstance(value, str):
                return len(value)
    return len(json_text(encode(block)))
