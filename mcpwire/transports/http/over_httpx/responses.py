"""What comes back: heads are checked, and bodies read as they are or decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import MessageTooLarge, RemoteProtocolError

if TYPE_CHECKING:
    from mcpwire.limits import Limits

__all__ = [
    "FRESH_S",
    "Head",
    "body_of",
    "head_too_large",
    "is_http2",
    "read_head",
]

FRESH_S: Final = 0.02
"""How long the next exchange waits for the rest of a body, to have its connection."""


@attrs.frozen
class Head:
    """The head of a response, checked."""

    status: int
    fields: dict[bytes, bytes]
    """Names in lower case, repeated fields in one."""

    is_encoded: bool
    """Whether its body is to be decoded."""

    is_muted: bool
    """Whether its body says nothing, for nobody here can decode it."""


def is_http2(response: Any) -> bool:
    """Tell whether a response came over HTTP/2."""
    return bool(response.extensions.get("http_version") == b"HTTP/2")


def body_of(response: Any, head: Head) -> Any:
    """Return the iterator over a body."""
    # A hook of the user's client may have read it already.
    kind = "bytes" if head.is_encoded or response.is_stream_consumed else "raw"
    return getattr(response, f"aiter_{kind}")()


def read_head(response: Any, limits: Limits, *, decodes: bool) -> Head:
    """Return the head of a response.

    Args:
        response: httpx's.
        limits: `Limits.head` bounds it.
        decodes: Whether a body may come encoded: we never ask for it, but a user's
            client may.

    Raises:
        RemoteProtocolError: It is not acceptable HTTP.
        MessageTooLarge: It is over its limit.
    """
    raw = response.headers.raw
    size = sum(len(name) + len(value) + 4 for name, value in raw)
    if size > limits.head:
        raise head_too_large(limits)
    fields: dict[bytes, bytes] = {}
    for given, value in raw:
        name = given.lower()
        known = fields.get(name)
        fields[name] = value if known is None else b"%b, %b" % (known, value)
    status = response.status_code
    if status < 200:
        raise RemoteProtocolError(f"status {status} is no answer to this request")
    # RFC 9112, 6.3: two lengths may be an attempt to smuggle.
    if b"content-length" in fields and b"transfer-encoding" in fields:
        raise RemoteProtocolError("the response has two lengths")
    encoding = fields.get(b"content-encoding", b"identity")
    if encoding.lower() == b"identity":
        return Head(status, fields, is_encoded=False, is_muted=False)
    if decodes:
        # They tell of the bytes that came, not of those that are passed on.
        del fields[b"content-encoding"]
        fields.pop(b"content-length", None)
    elif status < 300:
        raise RemoteProtocolError(
            f"content-encoding {encoding[:40]!r} although only identity is accepted"
        )
    # What an error says by its status holds all the same.
    return Head(status, fields, is_encoded=decodes, is_muted=not decodes)


def head_too_large(limits: Limits) -> MessageTooLarge:
    """Build the error for a head that is over its limit."""
    return MessageTooLarge(
        f"the head of the response is over the limit of {limits.head} bytes",
        limit=limits.head,
    )
