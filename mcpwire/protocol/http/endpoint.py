"""Where the messages of an HTTP+SSE connection are posted to, if that is acceptable.

2024-11-05 basic/transports, "HTTP with SSE": the server names the URI in its first
event. What it names gets our credentials with every message, so it is of the very
origin that the stream came from, or it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.errors import RemoteProtocolError
from mcpwire.wire.urls import mask_url, resolve_url, same_origin

if TYPE_CHECKING:
    from mcpwire.wire.urls import Url

__all__ = ["LONGEST_ENDPOINT", "resolve_endpoint"]

LONGEST_ENDPOINT: Final = 8_000
"""As much as any server must take in a request line (RFC 9110, 4.1), and no more: it is
sent with every message."""


def resolve_endpoint(stream: Url, data: bytes) -> Url:
    """Return the URL that an ``endpoint`` event names.

    Args:
        stream: Where the event stream came from.
        data: The event's data: a path, relative or not, or a URL of the same origin.

    Raises:
        RemoteProtocolError: It names another origin, or it is nothing that every
            reader of URLs reads alike; says which, without its secrets.
    """
    text = data[: LONGEST_ENDPOINT + 1].decode("utf-8", "replace")
    if not text or len(data) > LONGEST_ENDPOINT:
        raise _refused(text, f"it must be 1 to {LONGEST_ENDPOINT} bytes long")
    if text.startswith("//"):
        raise _refused(text, "it must not begin with the name of a host")
    try:
        url = resolve_url(stream, text)
    except ValueError as error:
        # The reason stands behind the masked text, which is shown already.
        raise _refused(text, str(error).rpartition("': ")[2]) from error
    if not same_origin(stream, url):
        raise _refused(text, f"it must be of the same origin, {stream.origin}")
    return url


def _refused(text: str, reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"the server's endpoint '{mask_url(text)}' is refused: {reason}"
    )
