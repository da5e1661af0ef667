"""The load on a server: its calls, rate, duration and shape."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping  # noqa: TC003 - attrs resolves them
from math import ceil, inf
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from mcpwire.protocol.methods import LISTEN
from mcpwire.protocol.negotiation import parse_mode
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import Iterator

Shape = Literal["constant", "ramp", "spike"]

MAX_RATE: Final = 1_000_000
"""Highest rate that is accepted; no machine reaches it."""

CLIENT_CODE: Final = "client code"
"""The method in place of a request's, if client code makes the calls."""

_ROUNDING: Final = 1e-6
_RAMP_START: Final = 0.05
_SPIKE_BASE: Final = 0.2
_SPIKE_RANGE: Final = (0.4, 0.6)
"""Begin and end of a spike, as parts of the total time."""


def check_positive(_: object, field: attrs.Attribute[Any], value: float | None) -> None:
    """Validate that a field is above zero and finite, or ``None``."""
    if value is not None and not 0 < value < inf:
        raise ValueError(f"{field.name} must be above zero and finite, got {value!r}")


@attrs.frozen
class Call:
    """A request that is sent repeatedly.

    ``ping``, ``tools/list`` (all pages are one call) and ``tools/call`` are sent by the
    methods of `Client`, in the server's revision; any other method is sent unchanged.
    """

    method: str
    params: Mapping[str, Any] = attrs.field(factory=dict, hash=False)
    weight: float = attrs.field(default=1.0, validator=check_positive)

    @classmethod
    def tool(cls, name: str, arguments: Mapping[str, Any] | None = None) -> Call:
        """Return a `tools/call` request."""
        return cls("tools/call", {"name": name, "arguments": dict(arguments or {})})

    def __str__(self) -> str:
        """Return the method and the name or URI in its parameters."""
        name = self.params.get("name") or self.params.get("uri")
        return self.method if name is None else f"{self.method} {name}"


@attrs.frozen(kw_only=True)
class Load:
    """The load that a server is measured under.

    With a `rate`, calls begin at their due times independently of earlier calls (open
    loop), and latency counts from the due time. Without, each of `users` begins a call
    when its last one has been answered (closed loop): a slow server reduces the load.
    """

    calls: tuple[Call, ...] = (Call("ping"),)
    """One or more calls, chosen at random by their weights."""

    rate: float | None = attrs.field(default=None, validator=check_positive)
    """Calls per second; the rate at the end of a ramp or at the peak of a spike."""

    users: int = attrs.field(default=1, validator=check_positive)
    seconds: float = attrs.field(default=10.0, validator=check_positive)
    """The total time for which each server is measured."""

    warm_up: float = attrs.field(default=0.5)
    """Seconds of load at the start of each round that are not measured."""

    rounds: int = attrs.field(default=5, validator=check_positive)
    """Number of restarts of all servers; `seconds` is divided among the rounds."""

    shape: Shape = "constant"
    sessions: int | Literal["per-call"] = 1
    """Connections of each worker; ``"per-call"``: a new connection for each call."""

    workers: int = attrs.field(default=1, validator=check_positive)
    """Processes that generate the load."""

    timeout: float | None = attrs.field(default=30.0, validator=check_positive)
    """Seconds after which a call fails; ``None``: no limit."""

    connect_timeout: float | None = attrs.field(default=60.0, validator=check_positive)
    """Seconds after which connecting fails; ``None``: no limit."""

    max_in_flight: int = attrs.field(default=10_000, validator=check_positive)
    """Maximum calls in flight of one worker; further due calls count as missed."""

    mode: str = "auto"
    """The mode of `Client`: a protocol revision or an era."""

    seed: int = 1

    def __attrs_post_init__(self) -> None:
        parse_mode(self.mode)
        if not self.calls:
            raise ValueError("a load needs at least one call")
        if self.rate is not None and self.rate > MAX_RATE:
            raise ValueError(
                f"rate must be at most {MAX_RATE:,} a second, got {self.rate!r}"
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
        """A short description of the load."""
        calls = ", ".join(str(call) for call in self.calls)
        if self.rate is None:
            users = "1 user" if self.users == 1 else f"{self.users} users"
            return f"{calls}, {users}"
        shape = "" if self.shape == "constant" else f" ({self.shape})"
        return f"{calls}, {self.rate:g} calls/s{shape}"

    @property
    def client_options(self) -> dict[str, Any]:
        """The options of the clients that generate the load."""
        names = ("timeout", "connect_timeout", "mode")
        return {name: getattr(self, name) for name in names}

    def rate_at(self, part: float) -> float:
        """Return the rate after a part (0 to 1) of the total time."""
        assert self.rate is not None
        if self.shape == "ramp":
            return self.rate * (_RAMP_START + (1 - _RAMP_START) * part)
        if self.shape == "spike" and not _SPIKE_RANGE[0] <= part < _SPIKE_RANGE[1]:
            return self.rate * _SPIKE_BASE
        return self.rate

    def due(self, begin: float, end: float, worker: int = 0) -> Iterator[float]:
        """Yield the due times of one worker's calls between two times, in seconds."""
        assert self.rate is not None
        if self.shape == "constant":
            rate = self.rate
            first, last = (ceil(time * rate - _ROUNDING) for time in (begin, end))
            numbers = range(first, last)
            yield from (
                number / rate for number in numbers if number % self.workers == worker
            )
            return
        time, number = 0.0, 0
        while time < end:
            if time >= begin and number % self.workers == worker:
                yield time
            time += 1 / self.rate_at(time / self.seconds)
            number += 1

    def choices(self, *keys: object) -> Iterator[Call]:
        """Yield random calls by weight without end; equal keys give equal calls."""
        if len(self.calls) == 1:
            while True:
                yield self.calls[0]
        generator = random.Random(repr((self.seed, *keys)))  # noqa: S311 - no secret
        weights = [call.weight for call in self.calls]
        while True:
            yield from generator.choices(self.calls, weights, k=64)


def read_mix(text: str) -> tuple[Call, ...]:
    """Parse a mix of calls.

    The text is a JSON array of objects with `method`, and optionally `params` and
    `weight` (default 1), or a tape (`mcpwire.testing.tape`): its requests are the
    calls, except those of the handshake and of subscriptions.

    Raises:
        ValueError: The text is neither.
    """
    try:
        is_tape = text.startswith('{"tape":')
        items = _recorded_calls(text) if is_tape else loads(text.encode())
    except ValueError as error:
        raise ValueError(f"a mix must be JSON or a tape: {error}") from error
    if not isinstance(items, list) or not items:
        raise ValueError("a mix must be a JSON array or a tape with at least one call")
    return tuple(_parse_call(number, item) for number, item in enumerate(items, 1))


def _recorded_calls(text: str) -> list[dict[str, Any]]:
    """Return each request of a tape once, with the number of its repetitions."""
    from mcpwire.testing.tape import HANDSHAKE, parse_tape, read_messages

    weights: Counter[bytes] = Counter()
    for message in read_messages(parse_tape(text.encode().splitlines())):
        content = message.content
        if message.side == "client" and isinstance(content, dict) and "id" in content:
            method, params = content.get("method"), content.get("params")
            if isinstance(params, dict):
                params = {name: params[name] for name in params if name != "_meta"}
            if method is not None and method not in (*HANDSHAKE, LISTEN):
                weights[encode({"method": method, "params": params or {}})] += 1
    return [{**loads(call), "weight": weight} for call, weight in weights.items()]


def _parse_call(number: int, item: object) -> Call:
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
