"""What a multi-step operation asks of the shell that drives it.

Paging, input-required rounds, negotiation and reopening are generators: they yield
one of these steps, and the shell sends back the outcome, or throws the exception that
stood in its place. They know neither who performs a step nor how::

    try:
        step = next(operation)
        while True:
            step = operation.send(await perform(step))
    except StopIteration as done:
        return done.value
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

import attrs

__all__ = ["Ask", "Call", "Open", "Sleep", "Step", "Steps"]

T = TypeVar("T")


@attrs.frozen
class Call:
    """Send this request; the outcome is its raw result object."""

    method: str

    params: dict[str, Any]


@attrs.frozen
class Ask:
    """Let our handler answer what the peer asks for; the outcome is the raw answer."""

    key: str
    """The peer's name for this question, unique within its round."""

    method: str

    params: dict[str, Any] | None
    """``None``: the question has none."""


@attrs.frozen
class Open:
    """Open a new channel in place of the one in use; the outcome is the channel."""

    reason: str
    """Why, as one readable clause for the record and the trace."""


@attrs.frozen
class Sleep:
    """Wait before the next step; the outcome is ``None``."""

    seconds: float


Step: TypeAlias = Call | Ask | Open | Sleep

Steps: TypeAlias = Generator[Step, Any, T]
"""An operation that ends with a `T`."""
