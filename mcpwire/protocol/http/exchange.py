"""What an HTTP answer means: a verdict for every status, content type and body.

=========================  ==================================================
200, application/json      the answer itself, one JSON-RPC message
200, text/event-stream     a stream that holds the answer and what precedes it
2xx to a notification      accepted
404, or 400 that says so   to a request with a session id: the session is over
4xx, 5xx with an error     that JSON-RPC error; its ``status`` is kept
anything else              `HTTPError`, or `RemoteProtocolError` for a success
                           that can never bring an answer
=========================  ==================================================

2026-07-28 and 2025-11-25 basic/transports, "Sending Messages"; where they are silent,
an answer that can complete no call is an error at once, and names what came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from mcpwire.errors import (
    HTTPError,
    InvalidMessage,
    MCPError,
    RemoteProtocolError,
    RPCError,
)
from mcpwire.protocol.negotiation import MODERN_ERRORS
from mcpwire.versions import Era
from mcpwire.wire import jsonrpc
from mcpwire.wire.headers import is_session_id, media_type
from mcpwire.wire.json import JSONDecodeError, loads

if TYPE_CHECKING:
    from collections.abc import Mapping

    Fields = Mapping[bytes, bytes]

__all__ = [
    "BODY_SHOWN",
    "BodyKind",
    "as_text",
    "body_kind",
    "contradicts",
    "error_in",
    "fault",
    "is_expired",
    "is_success",
    "session_id_in",
]

BodyKind: TypeAlias = Literal["json", "stream", "other"]

JSON: Final = b"application/json"
EVENT_STREAM: Final = b"text/event-stream"

BODY_SHOWN: Final = 200
"""How much of an unexpected body an error keeps and shows, in bytes."""

_KINDS: Final[dict[str, BodyKind]] = {
    "application/json": "json",
    "text/event-stream": "stream",
}


def body_kind(fields: Fields) -> BodyKind:
    """Return what a body is by its content type."""
    given = fields.get(b"content-type", b"")
    if given == JSON:
        return "json"
    if given == EVENT_STREAM:
        return "stream"
    return _KINDS.get(media_type(given.decode("latin-1")), "other")


def is_success(status: int) -> bool:
    """Tell whether a status is one of success."""
    return 200 <= status < 300


def error_in(body: bytes) -> RPCError | None:
    """Return the JSON-RPC error that a body is, whatever id it names."""
    try:
        message = loads(body)
        if type(message) is list and len(message) == 1:
            message = message[0]
        parsed = jsonrpc.parse_message(message)
    except (JSONDecodeError, InvalidMessage):
        return _loose_error_in(body)
    return parsed.error if type(parsed) is jsonrpc.Failure else None


def _loose_error_in(body: bytes) -> RPCError | None:
    """Read an error whose envelope is not quite one: its code is what counts."""
    try:
        message = loads(body)
    except JSONDecodeError:
        return None
    error = message.get("error") if type(message) is dict else None
    if type(error) is not dict:
        return None
    try:
        parsed = jsonrpc.parse_message({"jsonrpc": "2.0", "error": error})
    except InvalidMessage:
        return None
    assert type(parsed) is jsonrpc.Failure
    return parsed.error


def as_text(fields: Fields) -> dict[str, str]:
    """Return header fields as text."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in fields.items()
    }


def fault(
    what: str,
    status: int,
    fields: Fields,
    body: bytes,
    *,
    target: str | None,
    detail: str = "",
) -> MCPError:
    """Build the error for an answer that can complete nothing.

    Args:
        what: What was asked, such as ``tools/call``.
        status: The status of the answer.
        fields: Its header fields.
        body: Its body, or as much of it as was read.
        target: The URL, without secrets.
        detail: Why it is of no use, where status and content type do not say it.
    """
    error = error_in(body) if not is_success(status) else None
    if error is not None:
        error.status = status
        error.method = what
        return error
    shown = _describe(status, fields, body)
    text = f"{what}: {target or 'the server'} answered {shown}{detail}"
    if is_success(status):
        return RemoteProtocolError(text)
    return HTTPError(
        text,
        status=status,
        headers=as_text(fields),
        body=body[: BODY_SHOWN * 10],
        target=target,
    )


def _describe(status: int, fields: Fields, body: bytes) -> str:
    text = str(status)
    given = fields.get(b"content-type", b"")
    kind = media_type(given.decode("latin-1"))[:80]
    if body or kind:
        text += f" ({kind or 'no content type'})"
    if body:
        text += f": {body[:BODY_SHOWN].decode('utf-8', 'replace')!r}"
    return text


# Eras and sessions...

SESSION_STATUSES: Final = frozenset({400, 404})

METHOD_NOT_FOUND: Final = -32601

UNDEFINED: Final = range(-32019, -31999)
"""Codes without a meaning of their own, which session servers use for transport."""


def is_expired(error: MCPError, *, has_session: bool) -> bool:
    """Tell whether an error means that the server has forgotten our session.

    2025-11-25 basic/transports, "Session Management": 404 to a request with a session
    id. Widespread servers answer 400 with an error whose code has no meaning of its
    own and whose text names the session; only that text tells it from other mistakes.
    """
    if not has_session or isinstance(error, RemoteProtocolError):
        return False
    status = error.status if isinstance(error, (HTTPError, RPCError)) else None
    if status == 404:
        return True
    return (
        status == 400
        and isinstance(error, RPCError)
        and error.code in UNDEFINED
        and "session" in error.message.lower()
    )


def contradicts(error: MCPError, era: Era, method: str) -> bool:
    """Tell whether an error shows that the server no longer speaks the agreed era.

    2026-07-28 basic/transports/streamable-http, "Backward Compatibility": the era is
    remembered, and probed again when the assumption fails.
    """
    if era is Era.SESSION:
        return (
            isinstance(error, RPCError)
            and error.status is not None
            and error.code in MODERN_ERRORS
        )
    if isinstance(error, HTTPError):
        return error.status in {400, 404, 405, 406}
    if not isinstance(error, RPCError) or error.status is None:
        return False
    # A modern server lacks any method but this one (`server/discover` is a MUST).
    if error.code == METHOD_NOT_FOUND:
        return method == "server/discover"
    return error.status in SESSION_STATUSES and error.code in UNDEFINED


def session_id_in(fields: Fields) -> str | None:
    """Return the session id that an InitializeResult came with, if any.

    Raises:
        RemoteProtocolError: It is not visible ASCII (2025-11-25 basic/transports,
            "Session Management").
    """
    given = fields.get(b"mcp-session-id")
    if not given:
        return None
    session_id = given.decode("latin-1")
    if not is_session_id(session_id):
        raise RemoteProtocolError(
            f"Mcp-Session-Id must be visible ASCII, got {len(session_id)} characters "
            "with others among them"
        )
    return session_id
