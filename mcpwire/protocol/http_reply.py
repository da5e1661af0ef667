"""One HTTP request of ours, and what comes back to it.

::

    head ─► 200 json ───► body ─► end ─► the answer
         ├► 200 stream ─► event … event ─► the answer, or the end without it
         └► anything else ─► as much of the body as says why ─► error

An engine feeds a `Reply` with `head`, `data` and `end`. It is over as soon as its
request has its answer or its error, or can have none; the rest of the body is read all
the same. Other messages go to the `Owner`. The rules:

=========================  ==================================================
200, application/json      the answer itself, one JSON-RPC message
200, text/event-stream     a stream that holds the answer and what precedes it
201, 203                   as 200: some frameworks and proxies write them
2xx to a notification      accepted
307, 308                   followed within the origin if the user allows that
404, or 400 that says so   to a request with a session id: the session is over
4xx, 5xx with an error     that JSON-RPC error with its ``status``; the HTTP
                           error is its cause
anything else              `HTTPError`, or `RemoteProtocolError` for a success
                           that can never bring an answer
=========================  ==================================================

2026-07-28 and 2025-11-25 basic/transports, "Sending Messages"; where they are silent,
an answer that can complete no call is an error at once that quotes it.
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
from mcpwire.protocol.negotiation import (
    ENDPOINT_EVENT,
    METHOD_NOT_FOUND,
    MODERN_ERRORS,
)
from mcpwire.protocol.peer import ANSWER_KEYS, ID_TYPE_CHANGED, NO_BATCHES
from mcpwire.protocol.retry import Resumption
from mcpwire.versions import Era
from mcpwire.wire import jsonrpc
from mcpwire.wire.headers import is_session_id, media_type
from mcpwire.wire.json import (
    LARGE,
    JSONDecodeError,
    check_values,
    loads,
    outline,
)
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

__all__ = [
    "MAX_ERROR_BODY",
    "MAX_REDIRECTS",
    "SENT_WHEN_CLOSING",
    "Owner",
    "Reply",
    "Request",
    "as_text",
    "body_excerpt",
    "body_kind",
    "contradicts_era",
    "error_in",
    "is_expired",
    "is_success",
    "lone_message",
    "resolve_redirect",
    "session_id_in",
    "unusable_answer",
]

SENT_WHEN_CLOSING: Final = frozenset({"tasks/cancel"})
"""Requests that closing does not end before they are sent."""


@attrs.define(repr=False)
class Request:
    """The parts of a request; the engine adds the length of its body and sends it."""

    start: bytes
    """Request line and field lines, each with CRLF; without length and empty line."""

    body: bytes | None = None
    """``None``: the request has none, and states no length."""

    def __repr__(self) -> str:
        # No header, body or query: a token may be in any of them.
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
        """The header fields in their order."""
        lines = self.start.split(b"\r\n")[1:-1]
        parts = (line.partition(b":") for line in lines)
        return [(name, value.strip(b" ")) for name, _, value in parts]


# Bodies...

BodyKind: TypeAlias = Literal["json", "stream", "other"]

BODY_SHOWN: Final = 200
"""How much of an unexpected body an error shows, in bytes."""

MAX_ERROR_BODY: Final = 1024 * 1024
"""How much of the body of an error is read: enough for any JSON-RPC error."""

_ANSWER_STATUSES: Final = frozenset({200, 201, 203})

_KINDS: Final[dict[bytes, BodyKind]] = {
    b"application/json": "json",
    b"text/event-stream": "stream",
}

_EVENT_START: Final = re.compile(rb"(?:event: message\r?\n)?data: (?=\{)")


def body_kind(fields: Fields) -> BodyKind:
    """Return what a body is by its content type."""
    given = fields.get(b"content-type", b"")
    return _KINDS.get(given) or _KINDS.get(
        media_type(given.decode("latin-1")).encode("latin-1", "replace"), "other"
    )


def lone_message(chunk: bytes) -> bytes | None:
    """Return the data of a chunk of a stream that is one message and nothing else.

    ``None``: it needs a decoder. An event may begin where the chunk begins, and no id
    came before it. Saves 3 of 25 µs of a call over SSE.
    """
    start = _EVENT_START.match(chunk)
    end = 2 if chunk.endswith(b"}\n\n") else 4 if chunk.endswith(b"}\r\n\r\n") else 0
    if start is None or not end:
        return None
    data = chunk[start.end() : -end]
    # Bytes look for a number far faster than for bytes.
    return None if 0x0A in data or 0x0D in data else data


def is_success(status: int) -> bool:
    """Tell whether a status is one of success."""
    return 200 <= status < 300


# Errors...


def error_in(body: bytes) -> RPCError | None:
    """Return the JSON-RPC error that a body is, with any envelope."""
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
    # Many gateways have errors of the same form, with the HTTP status as the code.
    is_status = "jsonrpc" not in message and 100 <= parsed.error.code < 600
    return None if is_status else parsed.error


def as_text(fields: Fields) -> dict[str, str]:
    """Return header fields as text."""
    return {k.decode("latin-1"): v.decode("latin-1") for k, v in fields.items()}


def unusable_answer(
    what: str,
    status: int,
    fields: Fields,
    body: bytes,
    *,
    target: str | None,
    detail: str = "",
) -> MCPError:
    """Build the error for an answer that can complete nothing."""
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


# Secrets of a request that a server or a gateway may quote in a body.
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


def body_excerpt(body: Line) -> str:
    """Return the beginning of a body as an error shows it: quoted, without secrets."""
    # Masked before it is cut: half a token is half a secret.
    text = body[: BODY_SHOWN * 10].decode("utf-8", "replace")
    return repr(_SECRETS.sub(_hide, text)[:BODY_SHOWN])


# Eras and sessions...

INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
RESOURCE_NOT_FOUND: Final = -32002

_UNDEFINED_CODES: Final = frozenset(range(-32019, -31999)) - {RESOURCE_NOT_FOUND}
"""Codes without a meaning of their own, which session servers use for transport."""

_METHOD_CODES: Final = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND})
"""Codes of a request that was read, and so had its session."""

_OTHER_ERA_STATUSES: Final = frozenset({400, 404, 405, 406, 422})

_SESSION_LOST: Final = re.compile(r"session|not initialized", re.IGNORECASE)
_OLDER_ERA: Final = re.compile(r"session|initializ|protocol[ -]?version", re.IGNORECASE)


def is_expired(error: MCPError, *, has_session: bool) -> bool:
    """Tell whether an error means that the server has forgotten our session.

    2025-11-25 basic/transports, "Session Management": 404 to a request with a session
    id. Widespread servers answer 400 or 401 with a sentence about sessions instead;
    some answer 404 to anything that they do not find.
    """
    if not has_session:
        return False
    if isinstance(error, RPCError):
        names_it = _SESSION_LOST.search(error.message) is not None
        if error.status == 404:
            return names_it or error.code not in _METHOD_CODES
        return (
            error.status == 400
            and names_it
            and (error.code in _UNDEFINED_CODES or error.code == INVALID_REQUEST)
        )
    if not isinstance(error, HTTPError):
        return False
    # A challenge says what is missing, and that is no session.
    return error.status == 404 or (
        error.status in {400, 401}
        and "www-authenticate" not in error.headers
        and _SESSION_LOST.search(error.body.decode("latin-1")) is not None
    )


def contradicts_era(error: MCPError, era: Era, method: str) -> bool:
    """Tell whether an error shows that the server no longer speaks the agreed era.

    2026-07-28 basic/transports/streamable-http, "Backward Compatibility": the era is
    remembered, and probed again when the assumption fails.
    """
    if isinstance(error, HTTPError):
        return era is Era.STATELESS and error.status in _OTHER_ERA_STATUSES
    if not isinstance(error, RPCError):
        return False
    if era is Era.SESSION:
        return error.status is not None and error.code in MODERN_ERRORS
    # A modern server may lack any method but this one (`server/discover` is a MUST).
    if error.code == METHOD_NOT_FOUND:
        return method == "server/discover"
    return error.status in {400, 404} and (
        error.code in _UNDEFINED_CODES
        or (
            error.code == INVALID_REQUEST
            and _OLDER_ERA.search(error.message) is not None
        )
    )


def session_id_in(fields: Fields) -> str | None:
    """Return the session id that an InitializeResult came with, if any."""
    # 2025-11-25 basic/transports, "Session Management": visible ASCII.
    session_id = fields.get(b"mcp-session-id", b"").decode("latin-1")
    if session_id and not is_session_id(session_id):
        raise RemoteProtocolError(
            "an Mcp-Session-Id must be visible ASCII, "
            f"got {len(session_id)} characters with others among them"
        )
    return session_id or None


# Redirects...

MAX_REDIRECTS: Final = 5
"""How many redirects one request follows at most; the sender counts them."""


def resolve_redirect(
    url: Url, status: int, location: str | None, *, allowed: bool
) -> Url | str:
    """Return where a redirect leads from a URL, or a clause that says why not there.

    Following a redirect sends credentials and the whole body to another place. So it is
    followed only if the user asked for it (`allowed`) and it keeps method, body and
    origin. The clause names the place without its secrets.
    """
    if location is None:
        return "the redirect is not followed: it has no Location"
    try:
        there = resolve_url(url, location)
    except ValueError:
        why = "that is no URL to go to"
    else:
        if (url.scheme, there.scheme) == ("https", "http"):
            why = "it leads from https to http"
        elif not same_origin(url, there):
            why = "it leads to another origin"
        elif status not in {307, 308}:  # RFC 9110, 15.4.8 and 15.4.9
            why = f"HTTP {status} does not keep method and body"
        elif not allowed:
            why = "follow_redirects is off"
        else:
            return there
    return f"the redirect to '{mask_url(location)}' is not followed: {why}"


# Replies...


class Owner(Protocol):
    """The channel that made the request. Nothing here awaits, blocks or raises."""

    target: str
    limits: Limits
    recovery: Recovery
    stats: PeerStats
    is_traced: bool
    """Whether `trace_head` and `trace_message` are to be called."""

    @property
    def revision(self) -> Revision | None:
        """The agreed revision; ``None`` before there is one."""

    def redirect(self, reply: Reply) -> Url | str:
        """Return where a redirect leads, or a clause that says why not there."""

    def error_body_began(self, reply: Reply) -> None:
        """A head came that brings nothing; the body may say why."""

    def stream_opened(self, reply: Reply) -> None:
        """A stream has begun that is to last, or that goes on where one broke off."""

    def trace_head(self, reply: Reply) -> None:
        """A head came."""

    def trace_message(self, data: bytes) -> None:
        """A message came."""

    def notified(
        self, reply: Reply, method: str, params: dict[str, Any] | None
    ) -> None:
        """A notification came on that stream."""

    def requested(
        self, reply: Reply, id: RequestId, method: str, params: dict[str, Any] | None
    ) -> None:
        """A request of the peer's came on that stream."""


class Reply:
    """What comes back to one request.

    A ``"call"`` ends with the answer to the request `id`, a ``"notification"`` with any
    success. A ``"stream"`` is one that a GET opens, for what belongs to no request.
    """

    # Most replies never set these.
    headers: Mapping[str, str] | None = None  # the user's
    url: Url | None = None  # what was asked, if it is not the target's own
    aborted: MCPError | None = None  # from outside; engines look before they wait
    openings = messages = holds = questions = 0
    resumption: Resumption | None = None
    is_resumed = False  # fed with the rest of a stream that began elsewhere
    timer: Any = None  # cuts the body of an error short
    backoff: StreamBackoff | None = None  # of a stream that is to last
    result: dict[str, Any] | None = None
    _malformed: InvalidMessage | None = None  # perhaps in place of the answer

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
        self.restart()

    def restart(self) -> None:
        """Wait for the answer to another HTTP request in place of the last one."""
        if self.timer is not None:  # else it would end the next one
            self.timer.cancel()
            self.timer = None
        self.status = 0
        self.fields: Fields = {}
        self.redirect: Url | None = None
        self.is_over = False  # whether nothing more is waited for
        self.error: MCPError | None = None
        self._body: Line = b""
        self._body_kind: BodyKind = "other"
        self._decoder: SSEDecoder | None = None
        self._is_begun = False  # the stream, by messages that needed no decoder

    @property
    def method(self) -> str:
        """The request's method."""
        return self.what

    @property
    def can_resume(self) -> bool:
        """Whether an event id came from which its stream can be resumed."""
        return self.resumption is not None and self.resumption.cursor != ""

    def out_of_time(self, now: float) -> MCPError:
        """Build the error for a call or the head of a stream that took too long."""
        if self.deadline is None:
            return RemoteProtocolError(
                f"{self.what}: the stream was not opened in time"
            )
        is_hopeless = self.status and self._body_kind == "other"
        if is_hopeless and not (self.is_over or self.is_resumed):
            return self._fault(self._body, ", and not all of the body")
        detail = None
        if self.kind != "call":
            detail = "it was not accepted"
        elif self._body_kind == "stream":
            detail = "the stream of the answer has brought none so far"
        elif self.status:
            detail = f"{self.status} came, and not all of the body"
        return self.deadline.error(self.what, now, detail)

    # What an engine feeds...

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Take the final head of the answer."""
        self.status = status
        self.fields = fields
        owner = self._owner
        if owner.is_traced:
            owner.trace_head(self)
        kind = body_kind(fields) if status in _ANSWER_STATUSES else "other"
        self._room = owner.limits.message
        if kind == "json" and self.kind == "call":
            self._body_kind = kind
        elif kind == "stream":
            self._body_kind = kind
            self._open_stream()
        else:
            self._judge_head()

    def _open_stream(self) -> None:
        self.openings += 1
        if self.kind == "notification":
            self.is_over = True
            return
        if self.kind == "stream":
            self.is_resumed = self.can_resume
        if self.kind == "stream" or self.openings > 1 or self.what == LISTEN:
            self._owner.stream_opened(self)

    def _judge_head(self) -> None:
        """Decide what a head means that brings neither a stream nor a wanted body."""
        self._room = min(MAX_ERROR_BODY, self._room)
        if 300 <= self.status < 400:
            there = self._owner.redirect(self)
            if isinstance(there, str):
                self._settle(self._fault(b"", f": {there}"))
            else:
                self.redirect = there
        elif self.kind == "stream":
            # 2025-11-25 basic/transports, "Listening for Messages from the Server": a
            # stream or 405; any other answer means that there is none.
            self._settle(self._fault(b"", ": no stream"))
        elif self.kind == "notification":
            self.is_over = is_success(self.status)
        elif self.status == 200:
            self._room = BODY_SHOWN
        elif is_success(self.status):
            # 2025-11-25 basic/transports, "Sending Messages": a request is answered by
            # a stream or by JSON; accepted is for notifications.
            self._settle(self._fault(b"", ": no answer can come"))
        if not self.is_over:
            self._owner.error_body_began(self)

    def data(self, chunk: bytes) -> None:
        """Take the next bytes of the body."""
        if self._body_kind == "stream":
            self._take_events(chunk)
            return
        if self.is_over:
            return
        self._room -= len(chunk)
        if not self._body:
            self._body = chunk
        else:
            # A list of chunks would cost many times the body where they are tiny.
            if type(self._body) is bytes:
                self._body = bytearray(self._body)
            self._body += chunk
        if self._room < 0:
            if self._body_kind == "json":
                raise self._too_large("the body")
            self._settle(self._fault(self._body))

    def _take_events(self, chunk: bytes) -> None:
        decoder = self._decoder
        if decoder is None:
            if self.resumption is None and len(chunk) <= self._room:
                data = lone_message(chunk)
                if data is not None:
                    self._is_begun = True
                    self._take_message(data)
                    return
            decoder = self._decoder = SSEDecoder(self._room, is_begun=self._is_begun)
        for event in decoder.feed(chunk):
            self._take_event(event)
        if decoder.overflow and not self.is_over:
            raise self._too_large("an event")

    def _too_large(self, what: str) -> MessageTooLarge:
        self._body = b""  # the error keeps this reply
        limit = self._owner.limits.message
        return MessageTooLarge(
            f"{self.what}: {what} of the answer is longer than {limit} bytes "
            "(Limits.message)",
            limit=limit,
        )

    def end(self) -> None:
        """Take the end of the body."""
        if self.is_over:
            return
        if self._body_kind == "stream":
            self.save_position()
            self._end_stream()
            self.is_over = True
        else:
            body, self._body = self._body, b""
            if self._body_kind != "json":
                self._settle(self._fault(body))
                return
            # RFC 8259, 8.1: a reader may ignore a byte order mark.
            if body.startswith(b"\xef\xbb\xbf"):
                body = body[3:]
            self._take_message(body)
            if not self.is_over:
                self._settle(self._malformed or self._no_answer("body", body))

    def _end_stream(self) -> None:
        may_resume = self.can_resume and self._owner.recovery.resume
        malformed = self._malformed
        if malformed is not None and self.what != LISTEN and not may_resume:
            # The end of the stream is not the cause: what stood there was no answer.
            error = self._no_answer("stream", malformed.raw)
            error.__cause__ = malformed
            self._settle(error)

    def cut_short(self) -> None:
        """Settle with the part of an error's body that came so far."""
        self._settle(self._fault(self._body, ", and not all of the body"))

    def save_position(self) -> None:
        """Keep the position of a stream that ended or broke off.

        An id, or a reconnection time, may have come last in a block without data.
        """
        decoder = self._decoder
        if decoder is not None and (decoder.last_event_id or decoder.retry is not None):
            self._is_replay(decoder.last_event_id, decoder.retry)

    def _no_answer(self, path: str, data: Line) -> InvalidMessage:
        return InvalidMessage(
            path,
            expected=f"the answer to {self.what}",
            got=body_excerpt(data) if data else "nothing",
            raw=data,
        )

    def _fault(self, body: Line, detail: str = "") -> MCPError:
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

    # Events...

    def _take_event(self, event: SSEEvent) -> None:
        if (
            event.id or event.retry is not None or self.resumption is not None
        ) and self._is_replay(event.id, event.retry):
            return
        if event.event == "message":
            if event.data:
                self._take_message(event.data)
        elif self.kind == "call" and event.event in {"error", "endpoint"}:
            # Some servers report what went wrong in an `error` event; those of
            # 2024-11-05 begin with `endpoint`, and expect messages elsewhere.
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
        """Update the position in the stream; tell whether the event came before.

        Only a resumed stream can repeat events: elsewhere an id that comes twice says
        nothing.
        """
        if self.resumption is None:
            self.resumption = Resumption(self._owner.recovery)
        if retry_ms is not None:
            self.resumption.retry_ms = retry_ms
        # 2026-07-28 basic/transports/streamable-http, "Receiving Messages": no stream
        # is resumed, so an id is no position.
        revision = self._owner.revision
        if revision is not None and revision.era is Era.STATELESS:
            return False
        return not self.resumption.add_event(event_id) and self.is_resumed

    # Messages...

    def _take_message(self, data: Line) -> None:
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
            self._take_unreadable(data)
            return
        except MessageTooLarge as error:
            error.__traceback__ = None  # its frames hold the whole message
            owner.stats.invalid += 1
            is_body = self._body_kind == "json"
            if self.kind == "call" and (is_body or self._is_ours(outline(data))):
                self._settle(error)
            return
        # Nearly every answer is a plain result, and needs no further step: this saves
        # 2 of 25 µs. `type` is asked because True and 1.0 equal the id 1.
        if (
            type(message) is dict
            and len(message) == 3
            and message.get("id") == self.id
            and type(message["id"]) is int
            and self.kind == "call"
            and type(message.get("result")) is dict
            and message.get("jsonrpc") == "2.0"
            and not self.is_over
        ):
            self.result = message["result"]
            self.is_over = True
        elif type(message) is list:
            self._take_batch(message, data)
        else:
            self._take_value(message, data)

    def _take_unreadable(self, data: Line) -> None:
        owner = self._owner
        if self.kind == "call":
            is_body = self._body_kind == "json"
            error = InvalidMessage(
                "body" if is_body else "message",
                expected=f"the answer to {self.what} as JSON in UTF-8",
                got=f"{len(data)} bytes that are not" if data.strip() else "nothing",
                raw=data,
            )
            if is_body or self._is_ours(outline(data)):
                self._settle(error)
                return
            if data[:BODY_SHOWN].lstrip().startswith(b"{"):
                self._malformed = error
        if data.isspace():
            owner.stats.messages -= 1
        else:
            owner.stats.add_noise(data, owner.limits.noise_lines)

    def _take_batch(self, messages: list[Json], data: Line) -> None:
        # 2025-03-26 basic, "Batching"; removed with 2025-06-18.
        revision = self._owner.revision
        if revision is None or not revision.receives_batches:
            error = InvalidMessage(
                "message", expected="object", got="array", hint=NO_BATCHES
            )
            self._take_invalid(error, messages, data)
        elif not messages:
            self._owner.stats.invalid += 1
        else:
            for message in messages:
                self._take_value(message, data)

    def _take_value(self, value: Json, data: Line) -> None:
        owner = self._owner
        try:
            message = jsonrpc.parse_message(value)
        except InvalidMessage as error:
            error.__traceback__ = None  # its frames hold the whole message
            self._take_invalid(error, value, data)
            return
        if type(message) is jsonrpc.Notification:
            owner.stats.line_bytes = len(data)
            owner.notified(self, message.method, message.params)
        elif type(message) is jsonrpc.Request:
            owner.stats.line_bytes = len(data)
            owner.requested(self, message.id, message.method, message.params)
        else:
            assert isinstance(message, (jsonrpc.Success, jsonrpc.Failure))
            self._take_answer(message, data)

    def _take_invalid(self, error: InvalidMessage, value: Json, data: Line) -> None:
        """Take a value that breaks the rules of JSON-RPC, or of the revision."""
        self._owner.stats.invalid += 1
        if self.kind != "call":
            return
        error.raw = bytes(data[:BODY_SHOWN])
        is_list = type(value) is list
        if any(map(self._is_ours, value if is_list else [value])):
            if not is_list and type(value["id"]) is float:
                error.hint = ID_TYPE_CHANGED
            self._settle(error)
        elif is_list or (
            type(value) is dict
            and "method" not in value
            and (ANSWER_KEYS | {"jsonrpc"}) & value.keys()
        ):
            self._malformed = error

    def _is_ours(self, value: Json) -> bool:
        """Tell whether a malformed value was meant to be the answer, by its id."""
        return (
            type(value) is dict and value.get("id") == self.id and "method" not in value
        )

    def _take_answer(
        self, message: jsonrpc.Success | jsonrpc.Failure, data: Line
    ) -> None:
        id = message.id
        intended = jsonrpc.intended_id(id)
        is_ours = type(id) is int and id == self.id
        if type(message) is jsonrpc.Failure and type(id) is not int:
            # An error without id answers what its sender could not read, which is this;
            # so does one with an id that no request of ours can have ("server-error").
            is_ours = intended is None
        if self.kind == "call" and is_ours and not self.is_over:
            if type(message) is jsonrpc.Success:
                self.result = message.result
                self.is_over = True
            else:
                assert type(message) is jsonrpc.Failure
                message.error.method = self.what
                self._settle(message.error)
            return
        self._owner.stats.unknown += 1
        # 2025-11-25 basic/transports, "Multiple Connections": each message belongs on
        # one stream; a replay may hold answers of other streams.
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
