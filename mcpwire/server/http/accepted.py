"""Heads of POSTs that were let in before: what was found out need not be found again.

A client sends the same few fields with each request. What is the same to the byte in
all that is looked at is let in as before; everything else is looked at in the order of
`protocol.request_validation`. Credentials are not part of it: they are checked every
time.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.server.http.headers import Headers, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.server.http.exchange import Exchange

    Key = tuple[Any, ...]

__all__ = ["Accepted", "Head"]

MOST: Final = 256

LONGEST: Final = 1_024
"""The bytes of names, and those of values, beyond which a head is not remembered."""

_LOOKED_AT: Final = frozenset(
    {
        b"accept",
        b"content-encoding",
        b"content-type",
        b"host",
        b"mcp-method",
        b"mcp-protocol-version",
        b"origin",
    }
)
"""The fields that decide whether a POST is let in, and what its head means."""

_NEVER: Final = b"transfer-encoding"
"""With chunks, other fields matter, too."""


@attrs.frozen
class Head:
    """What the head of a POST to the endpoint means, beyond that it may come in."""

    extra: tuple[tuple[bytes, bytes], ...]
    """Fields that go with the answer."""

    is_stateless: bool
    """Whether the head alone says that the message belongs to the stateless era."""


class _Known(Shape):
    """A shape, and heads that have it."""

    __slots__ = ("heads", "looked_at")

    def __init__(self, names: tuple[bytes, ...]) -> None:
        super().__init__(names)
        places = [at for at, name in enumerate(names) if name in _LOOKED_AT]
        self.looked_at = itemgetter(*places)
        self.heads: dict[Key, Head] = {}


class Accepted:
    """Remembers heads, so many at most; see the module's text."""

    __slots__ = ("_count", "_shapes")

    def __init__(self) -> None:
        self._shapes: dict[tuple[bytes, ...], _Known] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many are remembered."""
        return self._count

    def read(self, raw: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Return the fields of a head."""
        fields = raw if type(raw) is list else list(raw)
        if fields:
            names, values = zip(*fields, strict=True)
            shape = self._shapes.get(names)
            if shape is not None:
                return Headers(fields, shape, values)
        return Headers(fields)

    def find(self, exchange: Exchange) -> Head | None:
        """Return what a head means; ``None``: it has to be looked at."""
        headers = exchange.headers
        shape = headers.shape
        if type(shape) is not _Known:
            return None
        return shape.heads.get(_key(exchange, shape.looked_at(headers.values)))

    def remember(self, exchange: Exchange, head: Head) -> None:
        """Take note of a head that is let in, and is worth it."""
        fields = list(exchange.scope["headers"])
        names = tuple(name for name, _ in fields)
        if not _can_be_known(names):
            return
        if self._count >= MOST:
            self._shapes.clear()
            self._count = 0
        shape = self._shapes.get(names) or _Known(names)
        values = shape.looked_at([value for _, value in fields])
        if len(exchange.path) + sum(map(len, values)) > LONGEST:
            return
        self._shapes[names] = shape
        shape.heads[_key(exchange, values)] = head
        self._count += 1


def _can_be_known(names: tuple[bytes, ...]) -> bool:
    """Tell whether a head with these names is let in again by what is looked at."""
    text = b"".join(names)
    return (
        # ASGI, "HTTP Connection Scope": names should be in lower case, and need not.
        text.islower()
        and len(text) <= LONGEST
        and len(set(names)) == len(names)
        and _NEVER not in names
        # With two of them, what is picked is a tuple.
        and len(_LOOKED_AT.intersection(names)) > 1
    )


def _key(exchange: Exchange, values: Any) -> Key:
    """Return all of a request that decides whether it is let in."""
    scope = exchange.scope
    server = scope.get("server")
    return (
        exchange.verb,
        exchange.path,
        scope.get("root_path"),
        server[0] if server else None,
        values,
    )
