"""Heads of POSTs that were let in before: what was found out need not be found again.

A client sends the same few fields with each request. What is the same to the byte in
all that is looked at is let in as before; everything else is looked at in the order of
`protocol.serving.ladder`. Who asks is none of it: credentials are checked every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from mcpwire.server.http.exchange import Exchange

    Key = tuple[Any, ...]

__all__ = ["Accepted", "Head"]

MOST: Final = 256

LONGEST: Final = 1_024
"""The bytes of those fields, beyond which a head is not remembered."""


@attrs.frozen
class Head:
    """What the head of a POST to the endpoint means, beyond that it may come in."""

    extra: tuple[tuple[bytes, bytes], ...]
    """Fields that go with the answer."""

    stands_alone: bool
    """Whether the head alone says that the message belongs to the stateless era."""

    version: str | None
    """The revision that it names, where each of its fields came once."""

    method: str | None
    """The method that it names, likewise."""


class Accepted:
    """Remembers heads, so many at most; see the module's text."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[Key, Head] = {}

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._heads)

    def find(self, exchange: Exchange) -> Head | None:
        """Return what a head means; ``None``: it has to be looked at."""
        key = _key(exchange)
        return None if key is None else self._heads.get(key)

    def remember(self, exchange: Exchange, head: Head) -> None:
        """Take note of a head that is let in."""
        key = _key(exchange)
        if key is None or sum(map(len, filter(None, key))) > LONGEST:
            return
        if len(self._heads) >= MOST:
            self._heads.clear()
        self._heads[key] = head


def _key(exchange: Exchange) -> Key | None:
    """Return all of a head that decides whether it is let in.

    ``None`` where that is not all in the fields: one came twice, or there are chunks,
    beside which other fields matter.
    """
    fields = exchange.headers.plain
    if fields is None or b"transfer-encoding" in fields:
        return None
    scope, get = exchange.scope, fields.get
    server = scope.get("server")
    return (
        exchange.verb,
        exchange.path,
        scope.get("root_path"),
        server[0] if server else None,
        get(b"host"),
        get(b"origin"),
        get(b"accept"),
        get(b"content-type"),
        get(b"content-encoding"),
        get(b"mcp-protocol-version"),
        get(b"mcp-method"),
    )
