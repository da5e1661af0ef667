"""What is asked of a server: which calls, how often, for how long, in which shape."""

from __future__ import annotations

import random
from collections.abc import Mapping  # noqa: TC003 - attrs resolves them
from math import ceil, inf
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from mcpwire.protocol.negotiation import parse_mode
from mcpwire.wire.json import loads

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Call", "Load", "Shape", "read_mix"]

Shape = Literal["constant", "ramp", "spike"]

MOST_RATE: Final = 1_000_000
"""More than any machine makes; each call that is due is counted."""

_ROUNDING: Final = 1e-6
_RAMP_START: Final = 0.05
_SPIKE_BASE: Final = 0.2
_SPIKE: Final = (0.4, 0.6)
"""When a spike begins and ends, as parts of the whole time."""


def _positive(_: object, field: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 < value < inf:
        raise ValueError(f"{field.name} must be above zero and finite, got {value!r}")


@attrs.frozen
class Call:
    """One request that is sent again and again.

    ``ping``, ``tools/list`` (all pages are one call) and ``tools/call`` are sent as
    `Client` sends them in the server's revision; any other method as it is given.
    """

    method: str
    params: Mapping[str, Any] = attrs.field(factory=dict, hash=False)
    weight: float = attrs.field(default=1.0, validator=_positive)

    @classmethod
    def tool(cls, name: str, arguments: Mapping[str, Any] | None = None) -> Call:
        """Return the call of a tool."""
        return cls("tools/call", {"name": name, "arguments": dict(arguments or {})})

    def __str__(self) -> str:
        """Return the method, and of which tool."""
        name = self.params.get("name") or self.params.get("uri")
        return self.method if name is None else f"{self.method} {name}"


@attrs.frozen(kw_only=True)
class Load:
    """A load that a server is put under.

    With a `rate` calls begin when they are due, whatever became of those before (open
    loop), and latency counts from when a call was due. Without, each of `users` begins
    a call when its last one is answered (closed loop): a slow server slows them down.
    """

    calls: tuple[Call, ...] = (Call("ping"),)
    """At least one; of more, each is chosen by its weight."""

    rate: float | None = attrs.field(default=None, validator=_positive)
    """Calls per second; that of a ramp at its end, of a spike at its height."""

    users: int = attrs.field(default=1, validator=_positive)
    seconds: float = attrs.field(default=10.0, validator=_positive)
    """How long each server is measured in all."""

    warm_up: float = attrs.field(default=0.5)
    """Seconds of load in each round that are not measured."""

    rounds: int = attrs.field(default=5, validator=_positive)
    """How often all is started anew; the time is spread over the rounds."""

    shape: Shape = "constant"
    sessions: int | Literal["per-call"] = 1
    """Connections of each worker; ``"per-call"``: each call connects anew."""

    workers: int = attrs.field(default=1, validator=_positive)
    """Processes that make the load."""

    timeout: float = attrs.field(default=30.0, validator=_positive)
    """Seconds after which a call is an error."""

    most_open: int = attrs.field(default=10_000, validator=_positive)
    """Calls in flight of one worker beyond which those that are due are not made."""

    mode: str = "auto"
    """As for `Client`: a revision's name, or an era."""

    seed: int = 1

    def __attrs_post_init__(self) -> None:
        parse_mode(self.mode)
        if not self.calls:
            raise ValueError("a load needs at least one call")
        if self.rate is not None and self.rate > MOST_RATE:
            raise ValueError(
                f"rate must be at most {MOST_RATE:,} a second, got {self.rate!r}"
            )
        if self.shape != "constant" and self.rate is None:
            raise ValueError(f"the shape {self.shape!r} needs a rate")
        if not 0 <= self.warm_up < inf:
            raise ValueError(
                f"warm_up must be finite and not negative, got {self.warm_up!r}"
            )
        if self.sessions != "per-call" and self.sessions < 1:
            raise ValueError(f"sessions must be at least 1, got {self.sessions!r}")

    @property
    def title(self) -> str:
        """The load in a few words."""
        what = ", ".join(str(call) for call in self.calls)
        if self.rate is None:
            users = "1 user" if self.users == 1 else f"{self.users} users"
            return f"{what}, {users}"
        shape = "" if self.shape == "constant" else f" ({self.shape})"
        return f"{what}, {self.rate:g} calls/s{shape}"

    def rate_at(self, part: float) -> float:
        """Return the rate after a part of the whole time, from 0 to 1."""
        assert self.rate is not None
        if self.shape == "ramp":
            return self.rate * (_RAMP_START + (1 - _RAMP_START) * part)
        if self.shape == "spike" and not _SPIKE[0] <= part < _SPIKE[1]:
            return self.rate * _SPIKE_BASE
        return self.rate

    def due(self, begin: float, end: float, worker: int = 0) -> Iterator[float]:
        """Give when one worker's calls are due, between two seconds of all."""
        assert self.rate is not None
        if self.shape == "constant":
            rate = self.rate
            first, last = (ceil(at * rate - _ROUNDING) for at in (begin, end))
            numbers = range(first, last)
            yield from (n / rate for n in numbers if n % self.workers == worker)
            return
        at, number = 0.0, 0
        while at < end:
            if at >= begin and number % self.workers == worker:
                yield at
            at += 1 / self.rate_at(at / self.seconds)
            number += 1

    def choices(self, *keys: object) -> Iterator[Call]:
        """Choose calls by weight without end; the same keys, the same calls."""
        if len(self.calls) == 1:
            while True:
                yield self.calls[0]
        chosen = random.Random(repr((self.seed, *keys)))  # noqa: S311 - no secret
        weights = [call.weight for call in self.calls]
        while True:
            yield from chosen.choices(self.calls, weights, k=64)


def read_mix(text: str) -> tuple[Call, ...]:
    """Read a mix of calls.

    It is a JSON array of objects with `method`, and where they are needed `params` and
    `weight` (1).

    Raises:
        ValueError: The text is no such array.
    """
    try:
        items = loads(text.encode())
    except ValueError as error:
        raise ValueError(f"a mix must be JSON: {error}") from error
    if not isinstance(items, list) or not items:
        raise ValueError("a mix must be a JSON array with at least one call")
    return tuple(_call(number, item) for number, item in enumerate(items, 1))


def _call(number: int, item: object) -> Call:
    if not isinstance(item, dict):
        raise ValueError(f"call {number} of the mix must be an object, got {item!r}")
    if unknown := sorted(item.keys() - {"method", "params", "weight"}):
        raise ValueError(f"call {number} of the mix has an unknown key {unknown[0]!r}")
    method, params = item.get("method"), item.get("params", {})
    weight = item.get("weight", 1)
    if not isinstance(method, str):
        raise ValueError(f"call {number} of the mix needs a method, got {method!r}")
    if not isinstance(params, dict):
        raise ValueError(f"params of call {number} must be an object, got {params!r}")
    if method == "tools/call" and not isinstance(params.get("name"), str):
        raise ValueError(f"call {number} of the mix needs the name of a tool in params")
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise ValueError(f"weight of call {number} must be a number, got {weight!r}")
    return Call(method, params, float(weight))
