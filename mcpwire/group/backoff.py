"""When the lost connection to one server of a group is opened again in the background.

A client alone opens a lost connection for the next call (`recovery.restarts`). A group
that was given a `Backoff` does not wait for a call::

    ready ──lost──► restarting ──opened──► ready
                        ▲  │ failed: a longer pause
                        └──┴─ out of attempts ──► failed

The pauses grow while openings fail, and while what was opened does not live: a child
that crashes at its first call gets no fresh count by surviving the handshake.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from mcpwire.limits import LONGEST_TIMEOUT_S, check_count

__all__ = ["Backoff"]


def _between(low: float, high: float, words: str) -> Any:
    """Return a validator of numbers in a range; `words` name it."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{attribute.name} must be a number, got {value!r}")
        if not low <= value <= high:  # nor is NaN
            raise ValueError(f"{attribute.name} must be {words}, got {value!r}")

    return check


_SECONDS: Final = _between(5e-324, LONGEST_TIMEOUT_S, "above zero")


def _count(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None:
        check_count(value, attribute.name)


@attrs.frozen(kw_only=True)
class Backoff:
    """How a lost server is connected again in the background; times in seconds.

    Raises:
        ValueError: A value is out of its range; names it.
    """

    first: float = attrs.field(default=0.5, validator=_SECONDS)
    """The longest pause before the first attempt."""

    factor: float = attrs.field(
        default=2.0, validator=_between(1, LONGEST_TIMEOUT_S, "at least 1")
    )
    """By what each attempt in vain lengthens the pause."""

    maximum: float = attrs.field(default=30.0, validator=_SECONDS)
    """What no pause is longer than; a connection that stood so long has lived."""

    jitter: float = attrs.field(default=0.5, validator=_between(0, 1, "from 0 to 1"))
    """How much of a pause chance may take off, from 0 to 1, so that a hundred clients
    of one server do not come back together."""

    attempts: int | None = attrs.field(default=None, validator=_count)
    """Attempts in a row before it is left alone; ``None``: no end."""

    def pause(self, in_vain: int, chance: float) -> float:
        """Return the seconds to wait after so many attempts in vain.

        `chance`, from 0 to below 1, is the caller's.
        """
        bound = self.first
        # Not by a power: 2.0 ** 1024 is an OverflowError.
        while in_vain and bound < self.maximum and self.factor > 1:
            bound *= self.factor
            in_vain -= 1
        return min(bound, self.maximum) * (1.0 - self.jitter * chance)
