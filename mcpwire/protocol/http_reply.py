"""Client side of an HTTP exchange: our request, and the processing of its response.

::

    head ─► 200 json ───► body ─► end ─► the JSON-RPC response
         ├► 200 stream ─► event … event ─► the JSON-RPC response, or the end without it
         └► other ──────► beginning of the body, for the error message ─► error

An HTTP engine feeds a `Reply` with `head`, `data` and `end`. The reply is over as soon
as its request has a response or an error, or cannot get one; the engine still reads the
rest of the body. The `Owner` gets all other messages. The rules:

=========================  ==================================================
200, application/json      the JSON-RPC response, one message
200, text/event-stream     a stream with the response and earlier messages
201, 203                   as 200: some frameworks and proxies send them
2xx to a notification      accepted
307, 308                   followed within the origin if the user allows that
404, or 400 that says so   to a request with a session id: the session is over
4xx, 5xx with an error     that JSON-RPC error with its ``status``; the HTTP
                           error is its cause
anything else              `HTTPError`, or `RemoteProtocolError` for a success
                           status without a possible response
=========================  ==================================================

2026-07-28 and 2025-11-25 basic/transports, "Sending Messages". In cases that they do
not define, an unusable HTTP response is an immediate error with an excerpt of its body.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import attrs

from mcpwire.errors import (
    HTTPError,
    InvalidMessage,
    MCPError,
    MessageTooLarge,
    RemoteProtocolError,
    RPCError,
)
from mcpwire.protocol.methods import LISTEN
from mcpwire.protocol.negotiation import ENDPOINT_EVENT, METHOD_NOT_FOUND, MODERN_ERRORS
from mcpwire.protocol.peer import ANSWER_KEYS, ID_TYPE_CHANGED, NO_BATCHES
from mcpwire.protocol.retry import Resumption
from mcpwire.versions import Era
from mcpwire.wire import jsonrpc
from mcpwire.wire.headers import is_visible_ascii, media_type
from mcpwire.wire.json import LARGE, JSONDecodeError, check_values, loads, peek_members
from mcpwire.wire.sse import SSEDecoder
from mcpwire.wire.urls import mask_url, resolve_url, same_origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.limits import Limits, Recovery
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.peer import PeerStats
    from mcpwire.protocol.retry import StreamBackoff
    from mcpwire.versions import Revision
    from mcpwire.wire.json import Json
    from mcpwire.wire.jsonrpc import Line, RequestId
    from mcpwire.wire.sse import SSEEvent
    from mcpwire.wire.urls import Url

    Fields: TypeAlias = Mapping[bytes, bytes]

SENT_WHEN_CLOSING: Final = frozenset({"tasks/cancel"})
"""Requests that are still sent after the channel began to close."""


@attrs.define(repr=False)
class Request:
    """An HTTP request; the engine adds Content-Length and sends it."""

    start: bytes
    """Request and field lines with CRLF, without Content-Length and empty line."""

    body: bytes | None = None
    """``None``: no body and no Content-Length."""

    is_background: bool = False
    """Whether no caller waits for it, so that it waits for a login and starts none."""

    is_unattended: bool = False
    """Whether it must not start a login of the user."""

    def __repr__(self) -> str:
        # Without headers, body and query, which may contain tokens.
        return f"<Request {self.verb} {self.target.partition('?')[0]}>"

    @property
    def verb(self) -> str:
        """The HTTP method."""
        return self.start.partition(b" ")[0].decode("ascii")

    @property
    def target(self) -> str:
        """Path and query."""
        return self.start.split(b" ", 2)[1].decode("ascii")

    @property
    def fields(self) -> list[tuple[bytes, bytes]]:
        """The header fields in order."""
        lines = self.start.split(b"\r\n")[1:-1]
        parts = (line.partition(b":") for line in lines)
        return [(name, value.strip(b" ")) for name, _, value in parts]


# Bodies

BodyKind: TypeAlias = Literal["json", "stream", "other"]

BODY_EXCERPT_BYTES: Final = 200
"""Length of the excerpt of an unexpected body in an error message, in bytes."""

MAX_ERROR_BODY: Final = 1024 * 1024
"""Maximum bytes that are read of an error's body: enough for any JSON-RPC error."""

_ANSWER_STATUSES: Final = frozenset({200, 201, 203})

_KINDS: Final[dict[bytes, BodyKind]] = {
    b"application/json": "json",
    b"text/event-stream": "stream",
}

_EVENT_START: Final = re.compile(rb"(?:event: message\r?\n)?data: (?=\{)")


def body_kind(fields: Fields) -> BodyKind:
    """Return the kind of a body by its content type."""
    content_type = fields.get(b"content-type", b"")
    return _KINDS.get(content_type) or _KINDS.get(
        media_type(content_type.decode("latin-1")).encode("latin-1", "replace"), "other"
    )


def single_message(chunk: bytes) -> bytes | None:
    """Return the data of a chunk that is exactly one ``message`` event of a stream.

    ``None``: the chunk needs a decoder. The chunk must start at an event boundary, and
    no event before it may have an id. Saves 3 of 25 µs of a call over SSE.
    """
    start = _EVENT_START.match(chunk)
    end = 2 if chunk.endswith(b"}\n\n") else 4 if chunk.endswith(b"}\r\n\r\n") else 0
    if start is None or not end:
        return None
    data = chunk[start.end() : -end]
    # `int in bytes` is far faster than `bytes in bytes`.
    return None if 0x0A in data or 0x0D in data else data


def is_success(status: int) -> bool:
    """Return whether a status is 2xx."""
    return 200 <= status < 300


# Errors


def read_error(body: bytes) -> RPCError | None:
    """Return the JSON-RPC error in a body, regardless of its ``jsonrpc`` and ``id``."""
    try:
        message = loads(body)
    except JSONDecodeError:
        return None
    if type(message) is list and len(message) == 1:
        message = message[0]
    if type(message) is not dict or "method" in message:
        return None
    try:
        parsed = jsonrpc.parse_message(
            {"jsonrpc": "2.0", "error": message.get("error")}
        )
    except InvalidMessage:
        return None
    assert type(parsed) is jsonrpc.Failure
    # Errors of many gateways have the same structure, with the HTTP status as code.
    is_status = "jsonrpc" not in message and 100 <= parsed.error.code < 600
    return None if is_status else parsed.error


def decode_fields(fields: Fields) -> dict[str, str]:
    """Return header fields as strings."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in fields.items()
    }


def unusable_answer(
    what: str,
    status: int,
    fields: Fields,
    body: bytes,
    *,
    target: str | None,
    detail: str = "",
) -> MCPError:
    """Return the error for an HTTP response without a usable result."""
    text = f"{what}: {target or 'the server'} answered {status}"
    kind = media_type(fields.get(b"content-type", b"").decode("latin-1"))[:80]
    if body or kind:
        text += f" ({ascii(kind)[1:-1] or 'no content type'})"
    if body:
        text += f": {body_excerpt(body)}"
    text += detail
    if is_success(status):
        return RemoteProtocolError(text)
    refusal = HTTPError(
        text,
        status=status,
        headers=decode_fields(fields),
        body=body[: BODY_EXCERPT_BYTES * 10],
        target=target,
    )
    error = read_error(body)
    if error is None:
        return refusal
    error.status = status
    error.method = what
    error.__cause__ = refusal  # which has the headers
    return error


# Secrets of a request that a server or a gateway may repeat in a body.
_SECRETS: Final = re.compile(
    r"(?P<scheme>\b(?:bearer|basic|digest)[ ]+)(?P<token>[\w.~+/=-]{6,}+)"
    r"|(?P<name>\b[\w-]{0,40}(?:authorization|api[_-]?key|cookie|passw(?:or)?d|secret"
    r"|session[_-]?id|token)[\"']?[ ]?[:=][ ]?[\"']?)"
    r"(?:(?:bearer|basic|digest)[ ]+)?+(?P<value>[^\s\"'<>&,;]++)"
    r"|(?P<url>\b[a-z][a-z0-9+.-]{0,20}://[^\s\"'<>]++)",
    re.IGNORECASE,
)


def _mask_match(match: re.Match[str]) -> str:
    if match["url"] is not None:
        return mask_url(match["url"])
    return f"{match['scheme'] or match['name']}***"


def body_excerpt(body: Line) -> str:
    """Return the beginning of a body for an error message, with secrets masked."""
    # Mask before cutting: a cut token may not match the pattern.
    text = body[: BODY_EXCERPT_BYTES * 10].decode("utf-8", "replace")
    return repr(_SECRETS.sub(_mask_match, text)[:BODY_EXCERPT_BYTES])


# Eras and sessions

INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
RESOURCE_NOT_FOUND: Final = -32002

_UNDEFINED_CODES: Final = frozenset(range(-32019, -31999)) - {RESOURCE_NOT_FOUND}
"""Codes without a defined meaning; session servers use them for transport errors."""

_METHOD_CODES: Final = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND})
"""Codes that prove that the request was read, so its session exists."""

_OTHER_ERA_STATUSES: Final = frozenset({400, 404, 405, 406, 422})

_SESSION_LOST: Final = re.compile(r"session|not initialized", re.IGNORECASE)
_OLDER_ERA: Final = re.compile(r"session|initializ|protocol[ -]?version", re.IGNORECASE)


def is_expired(error: MCPError, *, has_session: bool) -> bool:
    """Return whether an error means that our session has expired on the server.

    2025-11-25 basic/transports, "Session Management": 404 to a request with a session
    id. Common servers return 400 or 401 with a text about sessions instead; some return
    404 for everything that they do not find.
    """
    if not has_session:
        return False
    if isinstance(error, RPCError):
        names_session = _SESSION_LOST.search(error.message) is not None
        if error.status == 404:
            return names_session or error.code not in _METHOD_CODES
        return (
            error.status == 400
            and names_session
            and (error.code in _UNDEFINED_CODES or error.code == INVALID_REQUEST)
        )
    if not isinstance(error, HTTPError):
        return False
    # A challenge means missing credentials, not a missing session.
    return error.status == 404 or (
        error.status in {400, 401}
        and "www-authenticate" not in error.headers
        and _SESSION_LOST.search(error.body.decode("latin-1")) is not None
    )


def contradicts_era(error: MCPError, era: Era, method: str) -> bool:
    """Return whether an error shows that the server no longer supports the agreed era.

    2026-07-28 basic/transports/streamable-http, "Backward Compatibility": a client
    caches the era, and probes again if the assumption fails.
    """
    if isinstance(error, HTTPError):
        return era is Era.STATELESS and error.status in _OTHER_ERA_STATUSES
    if not isinstance(error, RPCError):
        return False
    if era is Era.SESSION:
        return error.status is not None and error.code in MODERN_ERRORS
    # `server/discover` is the only method that every modern server MUST have.
    if error.code == METHOD_NOT_FOUND:
        return method == "server/discover"
    return error.status in {400, 404} and (
        error.code in _UNDEFINED_CODES
        or (
            error.code == INVALID_REQUEST
            and _OLDER_ERA.search(error.message) is not None
        )
    )


def read_session_id(fields: Fields) -> str | None:
    """Return the session id in the header fields of an InitializeResult, if any."""
    # 2025-11-25 basic/transports, "Session Management": 0x21 to 0x7E only.
    session_id = fields.get(b"mcp-session-id", b"").decode("latin-1")
    if session_id and not is_visible_ascii(session_id):
        raise RemoteProtocolError(
            "an Mcp-Session-Id must be visible ASCII, "
            f"got {len(session_id)} characters with others among them"
        )
    return session_id or None


# Redirects

MAX_REDIRECTS: Final = 5
"""Maximum number of redirects per request; the sender counts them."""


def resolve_redirect(
    url: Url, status: int, location: str | None, *, allowed: bool
) -> Url | str:
    """Return the target of a redirect, or a clause with the reason not to follow it.

    Following a redirect sends credentials and the whole body to another URL. So it is
    followed only if the user enabled that (`allowed`) and it keeps method, body and
    origin. The clause contains the target without its secrets.
    """
    if location is None:
        return "the redirect is not followed: it has no Location"
    try:
        target = resolve_url(url, location)
    except ValueError:
        reason = "its target is not a usable http or https URL"
    else:
        if (url.scheme, target.scheme) == ("https", "http"):
            reason = "it leads from https to http"
        elif not same_origin(url, target):
            reason = "it leads to another origin"
        elif status not in {307, 308}:  # RFC 9110, 15.4.8 and 15.4.9
            reason = f"HTTP {status} does not keep method and body"
        elif not allowed:
            reason = "follow_redirects is off"
        else:
            return target
    return f"the redirect to '{mask_url(location)}' is not followed: {reason}"


# Replies


class Owner(Protocol):
    """The channel that made the request. Its methods do not await, block or raise."""

    target: str
    limits: Limits
    recovery: Recovery
    stats: PeerStats
    is_traced: bool
    """Whether `trace_head` and `trace_message` must be called."""

    @property
    def revision(self) -> Revision | None:
        """The agreed revision; ``None`` before the agreement."""

    def redirect(self, reply: Reply) -> Url | str:
        """Return the target of a redirect, or a clause with the reason against it."""

    def on_error_body(self, reply: Reply) -> None:
        """Handle a head without a usable body; the body may contain an error."""

    def end_error_body(self, reply: Reply) -> None:
        """End the exchange with the received part of the body."""

    def on_stream_open(self, reply: Reply) -> None:
        """Handle the start of a long-lived stream, or of a resumed one."""

    def trace_head(self, reply: Reply) -> None:
        """Trace a received head."""

    def trace_message(self, data: bytes) -> None:
        """Trace a received message."""

    def on_notification(
        self, reply: Reply, method: str, params: dict[str, Any] | None
    ) -> None:
        """Handle a notification on the reply's stream."""

    def on_request(
        self, reply: Reply, id: RequestId, method: str, params: dict[str, Any] | None
    ) -> None:
        """Handle a server request on the reply's stream."""


class Reply:
    """The state of one request and its HTTP responses.

    A ``"call"`` ends with the response to the request `id`, a ``"notification"`` with a
    success status. A ``"stream"`` is the stream of a GET, which belongs to no request.
    """

    # Most replies neither set nor read these.
    headers: Mapping[str, str] | None = None  # the user's
    url: Url | None = None  # the requested URL, if it is not the target's
    questions = 0
    is_resumed = False  # whether it continues an earlier stream
    backoff: StreamBackoff | None = None  # of a long-lived stream
    result: dict[str, Any] | None = None
    _malformed: InvalidMessage | None = None  # possibly a malformed response

    def __init__(  # noqa: PLR0917 - the hot path passes no keywords
        self,
        owner: Owner,
        kind: Literal["call", "notification", "stream"],
        what: str,
        deadline: Deadline | None = None,
        id: int = 0,
        handle: Any = None,
        on_notification: Any = None,
    ) -> None:
        self._owner = owner
        self.kind = kind
        self.what = what  # the method, or GET or DELETE
        self.deadline = deadline
        self.id = id
        self.handle = handle
        self.on_notification = on_notification
        self.openings = self.messages = self.pauses = 0
        self.aborted: MCPError | None = None  # set from outside
        self.resumption: Resumption | None = None
        self.timer: Any = None  # limits the time for the body of an error
        self.restart()

    def restart(self) -> None:
        """Reset the state for another HTTP request in place of the last one."""
        if self.timer is not None:  # otherwise it would end the next request
            self.timer.cancel()
            self.timer = None
        self.status = 0
        self.fields: Fields = {}
        self.redirect: Url | None = None
        self.is_over = False  # whether the outcome is known
        self.error: MCPError | None = None
        self._body: Line = b""
        self._body_kind: BodyKind = "other"
        self._decoder: SSEDecoder | None = None
        self._has_started = False  # whether messages were read without a decoder

    @property
    def method(self) -> str:
        """The method of a call."""
        return self.what

    @property
    def can_resume(self) -> bool:
        """Whether the stream had an event id from which it can be resumed."""
        return self.resumption is not None and self.resumption.cursor != ""

    def timeout_error(self, now: float) -> MCPError:
        """Return the error for a timed-out call or opening of a stream."""
        if self.deadline is None:
            return RemoteProtocolError(
                f"{self.what}: the stream was not opened in time"
            )
        is_hopeless = self.status and self._body_kind == "other"
        if is_hopeless and not (self.is_over or self.is_resumed):
            return self._unusable_error(self._body, ", but not the whole body")
        detail = None
        if self.kind != "call":
            detail = "it was not accepted"
        elif self._body_kind == "stream":
            detail = "the response stream has delivered no answer yet"
        elif self.status:
            detail = f"{self.status} was received, but not the whole body"
        return self.deadline.error(self.what, now, detail)

    # Input from the engine

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Process the final head of the response."""
        self.status = status
        self.fields = fields
        owner = self._owner
        if owner.is_traced:
            owner.trace_head(self)
        kind = body_kind(fields) if status in _ANSWER_STATUSES else "other"
        self._bytes_left = owner.limits.message
        if kind == "json" and self.kind == "call":
            self._body_kind = kind
        elif kind == "stream":
            self._body_kind = kind
            self.openings += 1
            if self.kind != "call" or self.openings > 1 or self.what == LISTEN:
                self._open_long_stream()
        else:
            self._process_head()

    def _open_long_stream(self) -> None:
        if self.kind == "notification":
            self.is_over = True
            return
        if self.kind == "stream":
            self.is_resumed = self.can_resume
        self._owner.on_stream_open(self)

    def _process_head(self) -> None:
        """Process a head without a stream and without a usable body."""
        self._bytes_left = min(MAX_ERROR_BODY, self._bytes_left)
        if 300 <= self.status < 400:
            target = self._owner.redirect(self)
            if isinstance(target, str):
                self._settle(self._unusable_error(b"", f": {target}"))
            else:
                self.redirect = target
        elif self.kind == "stream":
            # 2025-11-25 basic/transports, "Listening for Messages from the Server": a
            # stream or 405; any other response means that the server has no stream.
            self._settle(self._unusable_error(b"", ": no stream"))
        elif self.kind == "notification":
            self.is_over = is_success(self.status)
        elif self.status == 200:
            self._bytes_left = BODY_EXCERPT_BYTES
        elif is_success(self.status):
            # 2025-11-25 basic/transports, "Sending Messages": the response to a request
            # is a stream or JSON; 202 is for notifications.
            self._settle(self._unusable_error(b"", ": no answer can come"))
        if not self.is_over:
            self._owner.on_error_body(self)

    def data(self, chunk: bytes) -> None:
        """Process the next bytes of the body."""
        if self._body_kind == "stream":
            self._receive_events(chunk)
            return
        if self.is_over:
            return
        self._bytes_left -= len(chunk)
        if self.redirect is not None:
            if self._bytes_left < 0:
                self._owner.end_error_body(self)
            return
        if not self._body:
            self._body = chunk
        else:
            # A list of tiny chunks would use many times the memory of the body.
            if type(self._body) is bytes:
                self._body = bytearray(self._body)
            self._body += chunk
        if self._bytes_left < 0:
            if self._body_kind == "json":
                raise self._too_large_error("the body")
            self._settle(self._unusable_error(self._body))

    def _receive_events(self, chunk: bytes) -> None:
        decoder = self._decoder
        if decoder is None:
            if self.resumption is None and len(chunk) <= self._bytes_left:
                data = single_message(chunk)
                if data is not None:
                    self._has_started = True
                    self._receive_message(data)
                    return
            decoder = self._decoder = SSEDecoder(
                self._bytes_left, has_started=self._has_started
            )
        for event in decoder.feed(chunk):
            self._receive_event(event)
        if decoder.overflow and not self.is_over:
            raise self._too_large_error("an event")

    def _too_large_error(self, what: str) -> MessageTooLarge:
        self._body = b""  # the error's traceback keeps this reply alive
        limit = self._owner.limits.message
        return MessageTooLarge(
            f"{self.what}: {what} of the answer is longer than {limit} bytes "
            "(Limits.message)",
            limit=limit,
        )

    def end(self) -> None:
        """Process the end of the body."""
        if self.is_over:
            return
        if self._body_kind == "stream":
            self.save_position()
            self._end_stream()
            self.is_over = True
        else:
            body, self._body = self._body, b""
            if self._body_kind != "json":
                self._settle(self._unusable_error(body))
                return
            # RFC 8259, 8.1: a parser may ignore a byte order mark.
            if body[:3] == b"\xef\xbb\xbf":
                body = body[3:]
            self._receive_message(body)
            if not self.is_over:
                self._settle(self._malformed or self._no_answer_error("body", body))

    def _end_stream(self) -> None:
        may_resume = self.can_resume and self._owner.recovery.resume
        malformed = self._malformed
        if malformed is not None and self.what != LISTEN and not may_resume:
            # The malformed message, not the end of the stream, is the cause.
            error = self._no_answer_error("stream", malformed.raw)
            error.__cause__ = malformed
            self._settle(error)

    def end_early(self) -> None:
        """Settle with the received part of an error's body."""
        self._settle(self._unusable_error(self._body, ", but not the whole body"))

    def save_position(self) -> None:
        """Save the position of a stream that ended or broke off.

        The last block may have an id or a reconnection time without data.
        """
        decoder = self._decoder
        if decoder is not None and (decoder.last_event_id or decoder.retry is not None):
            self._is_replay(decoder.last_event_id, decoder.retry)

    def _no_answer_error(self, path: str, data: Line) -> InvalidMessage:
        return InvalidMessage(
            path,
            expected=f"the answer to {self.what}",
            got=body_excerpt(data) if data else "nothing",
            raw=data,
        )

    def _unusable_error(self, body: Line, detail: str = "") -> MCPError:
        return unusable_answer(
            self.what,
            self.status,
            self.fields,
            bytes(body),
            target=self._owner.target,
            detail=detail,
        )

    def _settle(self, error: MCPError) -> None:
        if not self.is_over:
            self.error = error
            self.is_over = True
            self._body = b""

    # Events

    def _receive_event(self, event: SSEEvent) -> None:
        if (
            event.id or event.retry is not None or self.resumption is not None
        ) and self._is_replay(event.id, event.retry):
            return
        if event.event == "message":
            if event.data:
                self._receive_message(event.data)
        elif self.kind == "call" and event.event in {"error", "endpoint"}:
            # Some servers report an error in an `error` event; servers of 2024-11-05
            # start with `endpoint`, the URL for messages.
            is_sse = event.event == "endpoint"
            error = InvalidMessage(
                "event",
                expected="'message'",
                got=ENDPOINT_EVENT if is_sse else "'error'",
                raw=event.data,
                hint="this is HTTP+SSE, the transport of 2024-11-05"
                if is_sse
                else None,
            )
            if is_sse:
                self._settle(error)
            else:
                self._malformed = error

    def _is_replay(self, event_id: str, retry_ms: int | None) -> bool:
        """Update the position in the stream; return whether the event is a duplicate.

        Only a resumed stream can repeat events: in other streams a repeated id means
        nothing.
        """
        if self.resumption is None:
            self.resumption = Resumption(self._owner.recovery)
        if retry_ms is not None:
            self.resumption.retry_ms = retry_ms
        # 2026-07-28 basic/transports/streamable-http, "Receiving Messages": streams
        # cannot be resumed, so ids are ignored.
        revision = self._owner.revision
        if revision is not None and revision.era is Era.STATELESS:
            return False
        return not self.resumption.add_event(event_id) and self.is_resumed

    # Messages

    def _receive_message(self, data: Line) -> None:
        owner = self._owner
        owner.stats.messages += 1
        self.messages += 1
        if owner.is_traced:
            owner.trace_message(bytes(data))
        try:
            if data[LARGE]:
                check_values(data, owner.limits.values)
            message = loads(data)
        except JSONDecodeError:
            self._receive_unreadable(data)
            return
        except MessageTooLarge as error:
            error.__traceback__ = None  # its frames keep the whole message alive
            owner.stats.invalid += 1
            is_body = self._body_kind == "json"
            if self.kind == "call" and (
                is_body or self._has_our_id(peek_members(data))
            ):
                self._settle(error)
            return
        # Fast path for a plain result, which saves 2 of 25 µs. The type of the id is
        # checked because True and 1.0 equal 1.
        if (
            type(message) is dict
            and len(message) == 3
            and (id := message.get("id")) == self.id
            and type(id) is int
            and self.kind == "call"
            and type(result := message.get("result")) is dict
            and message.get("jsonrpc") == "2.0"
            and not self.is_over
        ):
            self.result = result
            self.is_over = True
        elif type(message) is list:
            self._receive_batch(message, data)
        else:
            self._receive_value(message, data)

    def _receive_unreadable(self, data: Line) -> None:
        owner = self._owner
        if self.kind == "call":
            is_body = self._body_kind == "json"
            error = InvalidMessage(
                "body" if is_body else "message",
                expected=f"the answer to {self.what} as JSON in UTF-8",
                got=f"{len(data)} bytes that are not" if data.strip() else "nothing",
                raw=data,
            )
            if is_body or self._has_our_id(peek_members(data)):
                self._settle(error)
                return
            if data[:BODY_EXCERPT_BYTES].lstrip().startswith(b"{"):
                self._malformed = error
        if data.isspace():
            owner.stats.messages -= 1
        else:
            owner.stats.add_noise(data, owner.limits.noise_lines)

    def _receive_batch(self, messages: list[Json], data: Line) -> None:
        # 2025-03-26 basic, "Batching"; removed with 2025-06-18.
        revision = self._owner.revision
        if revision is None or not revision.receives_batches:
            error = InvalidMessage(
                "message", expected="object", got="array", hint=NO_BATCHES
            )
            self._receive_invalid(error, messages, data)
        elif not messages:
            self._owner.stats.invalid += 1
        else:
            for message in messages:
                self._receive_value(message, data)

    def _receive_value(self, value: Json, data: Line) -> None:
        owner = self._owner
        try:
            message = jsonrpc.parse_message(value)
        except InvalidMessage as error:
            error.__traceback__ = None  # its frames keep the whole message alive
            self._receive_invalid(error, value, data)
            return
        if isinstance(message, jsonrpc.Notification):
            owner.stats.line_bytes = len(data)
            owner.on_notification(self, message.method, message.params)
        elif isinstance(message, jsonrpc.Request):
            owner.stats.line_bytes = len(data)
            owner.on_request(self, message.id, message.method, message.params)
        else:
            self._receive_answer(message, data)

    def _receive_invalid(self, error: InvalidMessage, value: Json, data: Line) -> None:
        """Process a value that violates JSON-RPC or the revision."""
        self._owner.stats.invalid += 1
        if self.kind != "call":
            return
        error.raw = bytes(data[:BODY_EXCERPT_BYTES])
        is_list = type(value) is list
        if any(map(self._has_our_id, value if is_list else [value])):
            if not is_list and type(value["id"]) is float:
                error.hint = ID_TYPE_CHANGED
            self._settle(error)
        elif is_list or (
            type(value) is dict
            and "method" not in value
            and (ANSWER_KEYS | {"jsonrpc"}) & value.keys()
        ):
            self._malformed = error

    def _has_our_id(self, value: Json) -> bool:
        """Return whether a malformed value has the id of our request."""
        return (
            type(value) is dict and value.get("id") == self.id and "method" not in value
        )

    def _receive_answer(
        self, message: jsonrpc.Success | jsonrpc.Failure, data: Line
    ) -> None:
        id = message.id
        intended = jsonrpc.intended_id(id)
        is_ours = type(id) is int and id == self.id
        if isinstance(message, jsonrpc.Failure) and type(id) is not int:
            # An error without id refers to an unreadable request, which can only be
            # ours; so does an id that we never use, such as "server-error".
            is_ours = intended is None
        if self.kind == "call" and is_ours and not self.is_over:
            if isinstance(message, jsonrpc.Success):
                self.result = message.result
                self.is_over = True
            else:
                message.error.method = self.what
                self._settle(message.error)
            return
        self._owner.stats.unknown += 1
        # 2025-11-25 basic/transports, "Multiple Connections": each message is sent on
        # one stream; a replay may contain responses of other streams.
        is_retyped = intended is not None and intended == self.id
        if self.kind == "call" and (is_retyped or not self.is_resumed):
            self._settle(
                InvalidMessage(
                    "response.id",
                    expected=f"the integer {self.id}",
                    got=f"{id!r}"[:80],
                    raw=data,
                    hint=ID_TYPE_CHANGED if is_retyped else None,
                )
            )
