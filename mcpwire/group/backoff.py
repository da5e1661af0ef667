"""Delays between the reconnection attempts of a group, in the background.

A client by itself reconnects on the next call (`recovery.restarts`). A group with a
`Backoff` reconnects without waiting for a call::

    ready ──lost──► restarting ──connected──► ready
                        ▲  │ failed: a longer delay
                        └──┴─ out of attempts ──► failed

The delays grow while attempts fail, and while new connections are lost again soon: a
child that crashes at its first call does not reset the count by passing the handshake.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from mcpwire.limits import MAX_TIMEOUT_S, validate_count


def _range_validator(low: float, high: float, words: str) -> Any:
    """Return a validator of numbers in a range; `words` describe it in errors."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{attribute.name} must be a number, got {value!r}")
        if not low <= value <= high:  # refuses NaN as well
            raise ValueError(f"{attribute.name} must be {words}, got {value!r}")

    return check


_SECONDS: Final = _range_validator(5e-324, MAX_TIMEOUT_S, "above zero")


@attrs.frozen(kw_only=True)
class Backoff:
    """Exponential backoff of reconnecting in the background; times in seconds.

    Raises:
        ValueError: A value is out of its range; the message names the value.
    """

    first: float = attrs.field(default=0.5, validator=_SECONDS)
    """The longest delay before the first attempt."""

    factor: float = attrs.field(
        default=2.0, validator=_range_validator(1, MAX_TIMEOUT_S, "at least 1")
    )
    """The factor by which each failed attempt lengthens the delay."""

    maximum: float = attrs.field(default=30.0, validator=_SECONDS)
    """The longest delay; a connection that lasted this long resets the count."""

    jitter: float = attrs.field(
        default=0.5, validator=_range_validator(0, 1, "from 0 to 1")
    )
    """The part of each delay that is random, from 0 to 1, so that a hundred clients of
    one server do not reconnect at the same time."""

    attempts: int | None = attrs.field(default=None, validator=validate_count)
    """Attempts in a row before reconnecting is given up; ``None``: no limit."""

    def pause(self, in_vain: int, chance: float) -> float:
        """Return the delay, in seconds, after `in_vain` failed attempts.

        `chance` is a random number of the caller, from 0 to below 1.
        """
        bound = self.first
        # A power would overflow: 2.0 ** 1024 is an OverflowError.
        while in_vain and bound < self.maximum and self.factor > 1:
            bound *= self.factor
            in_vain -= 1
        return min(bound, self.maximum) * (1.0 - self.jitter * chance)
