"""The data of a session that is kept by its id, enough to open the session again.

The encoding is canonical: it does not depend on the order of the data's parts. It holds
credentials of upstream servers, so that it must be sealed before a client gets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.wire.json import encode_sorted, loads

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

VERSION: Final = 1
"""Version of the encoding; other versions are not decoded."""


@attrs.frozen(kw_only=True)
class ChosenServer:
    """An upstream server that a client chose for its session."""

    url: str = attrs.field(repr=False)
    """The URL of the server; its query may hold secrets."""

    name: str
    """The name of the server, as the names of its tools contain it."""

    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """The header fields of every request to the server."""


@attrs.frozen(kw_only=True)
class SessionData:
    """The data of a session, enough to open the session again."""

    nonce: str
    """A random text that identifies the session."""

    revision: str
    """The negotiated protocol revision."""

    client_info: Mapping[str, Any] = attrs.field(factory=dict)
    """The client's info: its name, title and version."""

    client_capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    """The client's declared capabilities."""

    only_server: str | None = None
    """The one server that the session is limited to; ``None``: all servers."""

    owner: tuple[str | None, ...] | None = None
    """The authenticated owner of the session, if any."""

    client: Hashable = ""
    """The client that the session counts for in limits; not encoded."""

    servers: tuple[ChosenServer, ...] | None = None
    """The servers that the client chose; ``None``: those of its source."""

    upstream_sessions: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """The session ids that upstream servers issued, by server name."""

    expires_at: int | None = None
    """When the id expires, in seconds since 1970."""


def encode_session(data: SessionData) -> bytes:
    """Encode the data of a session canonically."""
    servers = None
    if data.servers is not None:
        chosen = sorted(data.servers, key=lambda server: server.url)
        servers = [[server.url, server.name, dict(server.headers)] for server in chosen]
    return encode_sorted(
        {
            "v": VERSION,
            "n": data.nonce,
            "r": data.revision,
            "p": data.only_server,
            "i": dict(data.client_info),
            "c": dict(data.client_capabilities),
            "o": None if data.owner is None else list(data.owner),
            "s": servers,
            "u": dict(data.upstream_sessions),
            "e": data.expires_at,
        }
    )


def decode_session(text: bytes, now: float) -> SessionData | None:
    """Decode the data of a session; ``None``: expired, or of another version."""
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
    return SessionData(
        nonce=members["n"],
        revision=members["r"],
        only_server=members["p"],
        client_info=members["i"],
        client_capabilities=members["c"],
        owner=None if owner is None else tuple(owner),
        servers=None
        if servers is None
        else tuple(ChosenServer(url=u, name=n, headers=h) for u, n, h in servers),
        upstream_sessions=members["u"],
        expires_at=expires_at,
    )
