"""What an HTTP answer means: a verdict for every status, content type and body.

=========================  ==================================================
200, application/json      the answer itself, one JSON-RPC message
200, text/event-stream     a stream that holds the answer and what precedes it
201, 203                   as 200: frameworks and proxies write them unasked
2xx to a notification      accepted
404, or 400 that says so   to a request with a session id: the session is over
4xx, 5xx with an error     that JSON-RPC error; its ``status`` is kept, and what it
                           came with is its cause
anything else              `HTTPError`, or `RemoteProtocolError` for a success
                           that can never bring an answer
=========================  ==================================================

2026-07-28 and 2025-11-25 basic/transports, "Sending Messages"; where they are silent,
an answer that can complete no call is an error at once, and names what came.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from mcpwire.errors import (
    HTTPError,
    InvalidMessage,
    MCPError,
    RemoteProtocolError,
    RPCError,
)
from mcpwire.protocol.negotiation import METHOD_NOT_FOUND, MODERN_ERRORS
from mcpwire.versions import Era
from mcpwire.wire import jsonrpc
from mcpwire.wire.headers import is_session_id, media_type
from mcpwire.wire.json import JSONDecodeError, loads
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    Fields = Mapping[bytes, bytes]

__all__ = [
    "BODY_SHOWN",
    "KINDS",
    "BodyKind",
    "as_text",
    "body_kind",
    "contradicts",
    "error_in",
    "fault",
    "is_expired",
    "is_success",
    "lone_message",
    "session_id_in",
    "shown",
]

BodyKind: TypeAlias = Literal["json", "stream", "other"]

BODY_SHOWN: Final = 200
"""How much of an unexpected body an error keeps and shows, in bytes."""

HTTP_STATUSES: Final = range(100, 600)

KINDS: Final[dict[bytes | None, BodyKind]] = {
    b"application/json": "json",
    b"text/event-stream": "stream",
}
"""What bodies are whose content type is written as it is nearly always."""


def body_kind(fields: Fields) -> BodyKind:
    """Return what a body is by its content type."""
    given = fields.get(b"content-type", b"").decode("latin-1")
    return KINDS.get(media_type(given).encode("latin-1", "replace"), "other")


_DATA: Final = b"data: {"
_NAMED: Final = b"event: message\ndata: {"
_NAMED_BY_CRLF: Final = b"event: message\r\ndata: {"
_LF, _CR = b"\n\r"  # bytes look for a number far faster than for bytes


def lone_message(piece: bytes) -> bytes | None:
    """Return the data of a piece of a stream that is one message and nothing else.

    ``None``: it may hold anything, and takes a decoder of event streams. The piece
    stands where an event may begin, and no id came before it.
    """
    if piece.startswith(_NAMED):
        start = 21
    elif piece.startswith(_DATA):
        start = 6
    elif piece.startswith(_NAMED_BY_CRLF):
        start = 22
    else:
        return None
    if piece.endswith(b"}\n\n"):
        data = piece[start:-2]
    elif piece.endswith(b"}\r\n\r\n"):
        data = piece[start:-4]
    else:
        return None
    return None if _LF in data or _CR in data else data


def is_success(status: int) -> bool:
    """Tell whether a status is one of success."""
    return 200 <= status < 300


def error_in(body: bytes) -> RPCError | None:
    """Return the JSON-RPC error that a body is, whatever id it names."""
    try:
        message = loads(body)
    except JSONDecodeError:
        return None
    if type(message) is list and len(message) == 1:
        message = message[0]
    if type(message) is not dict:
        return None
    try:
        parsed = jsonrpc.parse_message(message)
    except InvalidMessage:
        return _loose_error_in(message)
    return parsed.error if type(parsed) is jsonrpc.Failure else None


def _loose_error_in(message: dict[str, Any]) -> RPCError | None:
    """Read an error whose envelope is not quite one: its code is what counts."""
    error = message.get("error")
    if type(error) is not dict or "method" in message:
        return None
    try:
        parsed = jsonrpc.parse_message({"jsonrpc": "2.0", "error": error})
    except InvalidMessage:
        return None
    assert type(parsed) is jsonrpc.Failure
    # Many a gateway has errors of the same form, whose code is the status again.
    is_status = "jsonrpc" not in message and parsed.error.code in HTTP_STATUSES
    return None if is_status else parsed.error


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
    shown = _describe(status, fields, body)
    text = f"{what}: {target or 'the server'} answered {shown}{detail}"
    if is_success(status):
        return RemoteProtocolError(text)
    refusal = HTTPError(
        text,
        status=status,
        headers=as_text(fields),
        body=body[: BODY_SHOWN * 10],
        target=target,
    )
    error = error_in(body)
    if error is None:
        return refusal
    error.status = status
    error.method = what
    error.__cause__ = refusal  # it has the headers
    return error


def _describe(status: int, fields: Fields, body: bytes) -> str:
    text = str(status)
    given = fields.get(b"content-type", b"")
    kind = media_type(given.decode("latin-1"))[:80]
    if body or kind:
        text += f" ({ascii(kind)[1:-1] or 'no content type'})"
    if body:
        text += f": {shown(body)}"
    return text


# What may stand in a body that a server or a gateway makes of a request.
_SECRETS: Final = re.compile(
    r"(?P<scheme>\b(?:bearer|basic|digest)[ ]+)(?P<token>[\w.~+/=-]{6,}+)"
    r"|(?P<name>\b[\w-]{0,40}(?:authorization|api[_-]?key|cookie|passw(?:or)?d|secret"
    r"|session[_-]?id|token)[\"']?[ ]?[:=][ ]?[\"']?)"
    r"(?:(?:bearer|basic|digest)[ ]+)?+(?P<value>[^\s\"'<>&,;]++)"
    r"|(?P<url>\b[a-z][a-z0-9+.-]{0,20}://[^\s\"'<>]++)",
    re.IGNORECASE,
)


def _hide(found: re.Match[str]) -> str:
    if found["url"] is not None:
        return mask_url(found["url"])
    return f"{found['scheme'] or found['name']}***"


def shown(body: bytes) -> str:
    """Return the beginning of a body as an error shows it: quoted, without secrets."""
    # Masked before it is cut: half a token is half a secret.
    text = body[: BODY_SHOWN * 10].decode("utf-8", "replace")
    return repr(_SECRETS.sub(_hide, text)[:BODY_SHOWN])


# Eras and sessions...

INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
RESOURCE_NOT_FOUND: Final = -32002

UNDEFINED: Final = frozenset(range(-32019, -31999)) - {RESOURCE_NOT_FOUND}
"""Codes without a meaning of their own, which session servers use for transport."""

OF_TRANSPORT: Final = UNDEFINED | {INVALID_REQUEST}
"""What widespread session servers answer with, before a request has reached anybody."""

OF_METHODS: Final = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND})
"""Codes of a request that was read, and so had its session."""

ANOTHER_ERA: Final = frozenset({400, 404, 405, 406, 422})

_SESSION_LOST: Final = re.compile(r"session|not initialized", re.IGNORECASE)
_OLDER_ERA: Final = re.compile(r"session|initializ|protocol[ -]?version", re.IGNORECASE)


def is_expired(error: MCPError, *, has_session: bool) -> bool:
    """Tell whether an error means that the server has forgotten our session.

    2025-11-25 basic/transports, "Session Management": 404 to a request with a session
    id. Widespread servers answer 400 or 401 with a sentence about sessions, and only
    that tells it from other mistakes; some answer 404 to whatever is not found.
    """
    if not has_session:
        return False
    if isinstance(error, RPCError):
        names_it = _SESSION_LOST.search(error.message) is not None
        if error.status == 404:
            return names_it or error.code not in OF_METHODS
        return error.status == 400 and error.code in OF_TRANSPORT and names_it
    if not isinstance(error, HTTPError):
        return False
    if error.status == 404:
        return True
    # A challenge says what is missing: no session.
    return (
        error.status in {400, 401}
        and "www-authenticate" not in error.headers
        and _SESSION_LOST.search(error.body.decode("latin-1")) is not None
    )


def contradicts(error: MCPError, era: Era, method: str) -> bool:
    """Tell whether an error shows that the server no longer speaks the agreed era.

    2026-07-28 basic/transports/streamable-http, "Backward Compatibility": the era is
    remembered, and probed again when the assumption fails.
    """
    if isinstance(error, HTTPError):
        return era is Era.STATELESS and error.status in ANOTHER_ERA
    if not isinstance(error, RPCError):
        return False
    if era is Era.SESSION:
        return error.status is not None and error.code in MODERN_ERRORS
    # A modern server lacks any method but this one (`server/discover` is a MUST).
    if error.code == METHOD_NOT_FOUND:
        return method == "server/discover"
    if error.status not in {400, 404}:
        return False
    return error.code in UNDEFINED or (
        error.code == INVALID_REQUEST and _OLDER_ERA.search(error.message) is not None
    )


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
            "an Mcp-Session-Id must be visible ASCII, "
            f"got {len(session_id)} characters with others among them"
        )
    return session_id
