"""What a gateway's session id can hold: all that is needed to open the session again.

The text is canonical: one meaning has one spelling, however its parts were ordered. It
holds credentials of upstream servers, so that it must be sealed before anybody gets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

__all__ = ["VERSION", "Chosen", "Kept", "decode_kept", "encode_kept"]

VERSION: Final = 1
"""How the text is written; another one is read by nobody here."""


@attrs.frozen(kw_only=True)
class Chosen:
    """An upstream server that a client chose for its session."""

    url: str = attrs.field(repr=False)
    """Where it is; its query may hold secrets."""

    name: str
    """What it is called in the names of its tools."""

    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """What goes with every request to it."""


@attrs.frozen(kw_only=True)
class Kept:
    """What is kept of a session."""

    nonce: str
    """By which it is told from every other one."""

    revision: str
    """The protocol revision that was agreed on."""

    client_info: Mapping[str, Any] = attrs.field(factory=dict)
    """What the client says of itself."""

    client_capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    """What it declared."""

    place: str | None = None
    """The one server that it is with; ``None``: all of them."""

    owner: tuple[str | None, ...] | None = None
    """Its owner, where that was proved."""

    client: Hashable = ""
    """The client that it counts to; not a part of the text."""

    servers: tuple[Chosen, ...] | None = None
    """What the client chose; ``None``: the gateway's own configuration says it."""

    upstream_sessions: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """The session that each upstream server gave us, by its name."""

    expires_at: int | None = None
    """When it is too old, in seconds since 1970."""


def encode_kept(kept: Kept) -> bytes:
    """Return what is kept as one canonical text."""
    # Encoded once for its bound on depth, which `_sorted` then relies on.
    encode([dict(kept.client_info), dict(kept.client_capabilities)])
    servers = None
    if kept.servers is not None:
        chosen = sorted(kept.servers, key=lambda each: each.url)
        servers = [[each.url, each.name, _sorted(each.headers)] for each in chosen]
    return encode(
        {
            "v": VERSION,
            "n": kept.nonce,
            "r": kept.revision,
            "p": kept.place,
            "i": _sorted(kept.client_info),
            "c": _sorted(kept.client_capabilities),
            "o": None if kept.owner is None else list(kept.owner),
            "s": servers,
            "u": _sorted(kept.upstream_sessions),
            "e": kept.expires_at,
        }
    )


def decode_kept(text: bytes, now: float) -> Kept | None:
    """Return what was kept; ``None``: it is too old, or written otherwise."""
    try:
        members = loads(text)
    except ValueError:
        return None
    if type(members) is not dict or members.get("v") != VERSION:
        return None
    expires_at = members["e"]
    if expires_at is not None and now >= expires_at:
        return None
    owner, servers = members["o"], members["s"]
    return Kept(
        nonce=members["n"],
        revision=members["r"],
        place=members["p"],
        client_info=members["i"],
        client_capabilities=members["c"],
        owner=None if owner is None else tuple(owner),
        servers=None if servers is None else tuple(map(_chosen, servers)),
        upstream_sessions=members["u"],
        expires_at=expires_at,
    )


def _chosen(item: Sequence[Any]) -> Chosen:
    url, name, headers = item
    return Chosen(url=url, name=name, headers=headers)


def _sorted(value: Any) -> Any:
    """Return the same with the members of all objects in one order."""
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    if hasattr(value, "keys"):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return value
