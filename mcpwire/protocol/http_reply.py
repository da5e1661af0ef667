"""One HTTP request of ours, and what comes back to it.

::

    head ─► 200 json ───► body ─► end ─► the answer
         ├► 200 stream ─► event … event ─► the answer, or the end without it
         └► anything else ─► as much of the body as tells why ─► error

A reply is over as soon as its request has its answer, its error, or none to come; the
rest of the body is read all the same. Other messages go to the `Owner`. The verdicts:

=========================  ==================================================
200, application/json      the answer itself, one JSON-RPC message
200, text/event-stream     a stream that holds the answer and what precedes it
201, 203                   as 200: frameworks and proxies write them unasked
2xx to a notification      accepted
307, 308                   followed within the origin where the user allows that
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
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import attrs

from mcpwire.errors import (
    HTTPError,
    InvalidMessage,
    MCPError,
    MessageTooLarge,
    RemoteProtocolError,
    RequestTimeout,
    RPCError,
)
from mcpwire.protocol.negotiation import (
    ENDPOINT_EVENT,
    METHOD_NOT_FOUND,
    MODERN_ERRORS,
)
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
    salvage,
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
    "LAST_WORDS",
    "LISTEN",
    "MAX_REDIRECTS",
    "CallReply",
    "NoticeReply",
    "Owner",
    "Reply",
    "Request",
    "StreamReply",
    "as_text",
    "body_kind",
    "contradicts",
    "error_in",
    "fault",
    "is_expired",
    "is_success",
    "lone_message",
    "resolve_redirect",
    "session_id_in",
    "shown",
]

LAST_WORDS: Final = frozenset({"tasks/cancel"})
"""Requests that only tell that something is given up: closing lets them go out."""

LISTEN: Final = "subscriptions/listen"
"""The one request with a stream that is to last."""


@attrs.define(repr=False)
class Request:
    """The parts of a request; the engine adds the length of its body and sends it."""

    start: bytes
    """Request line and field lines, each with CRLF; without length and empty line."""

    body: bytes | None = None
    """``None``: the request has none, and tells no length."""

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
"""How much of an unexpected body an error keeps and shows, in bytes."""

ERROR_BODY_BYTES: Final = 1024 * 1024
"""How much of the body of an error is read: enough for any JSON-RPC error."""

BRINGS_ANSWERS: Final = frozenset({200, 201, 203})
"""What a body may be an answer with: frameworks say 201 to any POST, proxies 203."""

_KINDS: Final[dict[bytes, BodyKind]] = {
    b"application/json": "json",
    b"text/event-stream": "stream",
}


def body_kind(fields: Fields) -> BodyKind:
    """Return what a body is by its content type."""
    given = fields.get(b"content-type", b"")
    return _KINDS.get(given) or _KINDS.get(
        media_type(given.decode("latin-1")).encode("latin-1", "replace"), "other"
    )


_LF, _CR = b"\n\r"  # bytes look for a number far faster than for bytes


def lone_message(piece: bytes) -> bytes | None:
    """Return the data of a piece of a stream that is one message and nothing else.

    ``None``: it may hold anything, and takes a decoder of event streams. The piece
    stands where an event may begin, and no id came before it. Saves 3 of 25 µs of a
    call over SSE.
    """
    if piece.startswith(b"event: message\ndata: {"):
        start = 21
    elif piece.startswith(b"data: {"):
        start = 6
    elif piece.startswith(b"event: message\r\ndata: {"):
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


# Errors...


def error_in(body: bytes) -> RPCError | None:
    """Return the JSON-RPC error that a body is, whatever the rest of its envelope."""
    try:
        message = loads(body)
    except JSONDecodeError:
        return None
    if type(message) is list and len(message) == 1:
        message = message[0]
    if type(message) is not dict or "method" in message:
        return None
    error = message.get("error")
    if type(error) is not dict:
        return None
    try:
        parsed = jsonrpc.parse_message({"jsonrpc": "2.0", "error": error})
    except InvalidMessage:
        return None
    assert type(parsed) is jsonrpc.Failure
    # Many a gateway has errors of the same form, with the HTTP status as the code.
    is_status = "jsonrpc" not in message and 100 <= parsed.error.code < 600
    return None if is_status else parsed.error


def as_text(fields: Fields) -> dict[str, str]:
    """Return header fields as text."""
    return {k.decode("latin-1"): v.decode("latin-1") for k, v in fields.items()}


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
    described = _describe(status, fields, body)
    text = f"{what}: {target or 'the server'} answered {described}{detail}"
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
    kind = media_type(fields.get(b"content-type", b"").decode("latin-1"))[:80]
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


def shown(body: Line) -> str:
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

OF_METHODS: Final = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND})
"""Codes of a request that was read, and so had its session."""

ANOTHER_ERA: Final = frozenset({400, 404, 405, 406, 422})

_SESSION_LOST: Final = re.compile(r"session|not initialized", re.IGNORECASE)
_OLDER_ERA: Final = re.compile(r"session|initializ|protocol[ -]?version", re.IGNORECASE)


def is_expired(error: MCPError, *, has_session: bool) -> bool:
    """Tell whether an error means that the server has forgotten our session.

    2025-11-25 basic/transports, "Session Management": 404 to a request with a session
    id. Widespread servers answer 400 or 401 with a sentence about sessions instead;
    some answer 404 to whatever is not found.
    """
    if not has_session:
        return False
    if isinstance(error, RPCError):
        names_it = _SESSION_LOST.search(error.message) is not None
        if error.status == 404:
            return names_it or error.code not in OF_METHODS
        return (
            error.status == 400
            and names_it
            and (error.code in UNDEFINED or error.code == INVALID_REQUEST)
        )
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


# Redirects...

MAX_REDIRECTS: Final = 5
"""How many redirects one request follows at most; the sender counts them."""

_KEEP_THE_REQUEST: Final = frozenset({307, 308})  # RFC 9110, 15.4.8 and 15.4.9


def resolve_redirect(
    url: Url, status: int, location: str | None, *, allowed: bool
) -> Url | str:
    """Return where a redirect leads from a URL, or a clause that says why not there.

    A redirect has credentials and the whole body sent to somebody else. So none is
    followed unless the user asked for it (`allowed`), and then only one that keeps
    method, body and origin. The clause names the place without its secrets.
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
        elif status not in _KEEP_THE_REQUEST:
            why = f"HTTP {status} does not keep method and body"
        elif not allowed:
            why = "follow_redirects is off"
        else:
            return there
    return f"the redirect to '{mask_url(location)}' is not followed: {why}"


# Replies...

_NO_FIELDS: Final[Mapping[bytes, bytes]] = MappingProxyType({})
_NOISE_EXCERPT: Final = 200


class Timer(Protocol):
    """Something that happens later, unless it is cancelled."""

    def cancel(self) -> object:
        """Cancel it."""


class Owner(Protocol):
    """The channel that made the request. Nothing here awaits, blocks or raises."""

    target: str
    limits: Limits
    recovery: Recovery
    stats: PeerStats
    is_watched: bool
    """Whether `heard_head` and `heard_message` are to be called."""

    @property
    def revision(self) -> Revision | None:
        """The agreed revision; ``None`` before there is one."""

    def why_not_followed(self, reply: Reply) -> str:
        """Say why the redirect that came is not followed; empty: it is."""

    def doubted(self, reply: Reply) -> None:
        """A head came that brings nothing; the body may say why."""

    def opened(self, reply: Reply) -> None:
        """A stream has begun that is to last, or that goes on where one broke off."""

    def heard_head(self, reply: Reply) -> None:
        """A head came."""

    def heard_message(self, data: bytes) -> None:
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
    """What comes back; subclasses know what they wait for.

    Attributes:
        status: The status; 0 before the head.
        fields: The head's fields, names in lower case.
        is_over: Whether nothing more is waited for.
        error: Why there is no answer, where something said so.
        aborted: What an abort from outside ends it with; engines look before they wait.
        openings: How many streams it was fed from.
        resumption: The place in a stream that can go on, if there is one.
        is_resumed: Whether it is fed with the rest of a stream that began elsewhere.
        timer: When a body that only says why is cut short.
        backoff: When a stream that is to last is opened again.
        headers: The user's headers for this request, and for what belongs to it.
        url: What was asked, if it is not the target's own URL.
        deadline: When it must be over.
    """

    _takes_json = False

    # Until something sets them.
    is_resumed = False
    openings = 0
    timer: Timer | None = None
    aborted: MCPError | None = None
    resumption: Resumption | None = None
    backoff: StreamBackoff | None = None
    headers: Mapping[str, str] | None = None
    url: Url | None = None
    deadline: Deadline | None = None
    _body: Line = b""
    _decoder: SSEDecoder | None = None
    _is_json = _is_stream = _is_begun = False
    _room: int
    status = 0
    fields: Fields = _NO_FIELDS
    is_over = False
    error: MCPError | None = None

    def __init__(self, owner: Owner, what: str) -> None:
        self._owner = owner
        self.what = what

    def restart(self) -> None:
        """Be fed another answer, to a request in place of the first."""
        self._body = b""
        self._decoder = None
        self._is_json = self._is_stream = self._is_begun = False
        self.status = 0
        self.fields = _NO_FIELDS
        self.is_over = False
        self.error = None

    def out_of_time(self, now: float) -> MCPError:
        """Build the error for a deadline that has passed.

        A head that leaves no hope says more than that the rest of its body is late.
        """
        is_hopeless = self.status and not (self._is_json or self._is_stream)
        if is_hopeless and not (self.is_over or self.is_resumed):
            return self._fault(self._body, ", and not all of the body")
        return self._too_late(now)

    def _too_late(self, now: float) -> MCPError:
        raise NotImplementedError

    # What an engine feeds...

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Take the final head of the answer."""
        self.status = status
        self.fields = fields
        owner = self._owner
        if owner.is_watched:
            owner.heard_head(self)
        self._room = owner.limits.message
        kind = body_kind(fields) if status in BRINGS_ANSWERS else "other"
        if kind == "json" and self._takes_json:
            self._is_json = True
            return
        if kind == "stream":
            self._is_stream = True
            self._opened()
            return
        self._room = min(ERROR_BODY_BYTES, self._room)
        if 300 <= status < 400:
            if why := owner.why_not_followed(self):
                self._settle_fault(b"", f": {why}")
        else:
            self._judge_head()
        if not self.is_over:
            owner.doubted(self)

    def cut_short(self) -> None:
        """Take the part of a body that came for all that will: it only says why."""
        self._settle_fault(self._body, ", and not all of the body")

    def _opened(self) -> None:
        """A stream of events has begun."""
        self.openings += 1

    def _judge_head(self) -> None:
        """Neither a stream nor a wanted body comes."""
        raise NotImplementedError

    def data(self, chunk: bytes) -> None:
        """Take the next bytes of the body."""
        if self._is_stream:
            self._take_piece(chunk)
            return
        if self.is_over:
            return  # whatever else it holds says nothing more
        self._room -= len(chunk)
        if not self._body:
            self._body = chunk
        else:
            # A list of chunks would cost many times the body where they are tiny.
            if type(self._body) is bytes:
                self._body = bytearray(self._body)
            self._body += chunk
        if self._room < 0:
            if self._is_json:
                raise self._too_large("the body")
            self._settle_fault(self._body)

    def _take_piece(self, chunk: bytes) -> None:
        decoder = self._decoder
        if decoder is None:
            if self.resumption is None and len(chunk) <= self._room:
                data = lone_message(chunk)
                if data is not None:
                    self._is_begun = True
                    self._take_message(data)
                    return
            decoder = self._decoder = SSEDecoder(self._room)
            if self._is_begun:
                decoder.feed(b"\n")
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
        """Take note that the body is complete."""
        if self.is_over:
            return
        if self._is_stream:
            self.broke()
            self._ended()
        else:
            body, self._body = self._body, b""
            self._complete(body)
        self.is_over = True

    def _ended(self) -> None:
        """A stream ended in good order, and the reply was not over before."""

    def broke(self) -> None:
        """Take note that the stream broke off: keep the place it had got to.

        An id, or a reconnection time, may have come last in a block without data.
        """
        decoder = self._decoder
        if decoder is not None and (decoder.last_event_id or decoder.retry is not None):
            self._is_replay(decoder.last_event_id, decoder.retry)

    def _complete(self, body: Line) -> None:
        """Take a body that is no stream."""
        self._settle_fault(body)

    def _fault(self, body: Line, detail: str = "") -> MCPError:
        return fault(
            self.what,
            self.status,
            self.fields,
            bytes(body),
            target=self._owner.target,
            detail=detail,
        )

    def _settle_fault(self, body: Line, detail: str = "") -> None:
        self._settle(self._fault(body, detail))

    def _settle(self, error: MCPError) -> None:
        if not self.is_over:
            self.error = error
            self.is_over = True
            self._body = b""
            if self.timer is not None:
                self.timer.cancel()

    # Events...

    def _take_event(self, event: SSEEvent) -> None:
        if (
            event.id or event.retry is not None or self.resumption is not None
        ) and self._is_replay(event.id, event.retry):
            return
        if event.event != "message":
            self._take_other(event)
        elif event.data:
            self._take_message(event.data)

    def _take_other(self, event: SSEEvent) -> None:
        """Take an event of another type, which is nothing of MCP's."""

    def _is_replay(self, event_id: str, retry_ms: int | None) -> bool:
        """Keep the place in the stream; tell whether it has been here before.

        Only what was asked for from a place can hold what came before it: an id that
        comes twice on a stream of its own says nothing.
        """
        if self.resumption is None:
            self.resumption = Resumption(self._owner.recovery)
        if retry_ms is not None:
            self.resumption.retry_ms = retry_ms
        # 2026-07-28 basic/transports/streamable-http, "Receiving Messages": no stream
        # goes on in another message, so an id is no place.
        revision = self._owner.revision
        if revision is not None and revision.era is Era.STATELESS:
            return False
        return not self.resumption.take(event_id) and self.is_resumed

    # Messages...

    def _take_message(self, data: Line) -> None:
        owner = self._owner
        owner.stats.messages += 1
        if owner.is_watched:
            owner.heard_message(bytes(data))
        try:
            if data[LARGE]:
                check_values(data, owner.limits.values)
            message = loads(data)
        except JSONDecodeError:
            self._take_unreadable(data)
        except MessageTooLarge as error:
            error.__traceback__ = None  # its frames hold the whole message
            owner.stats.invalid += 1
            self._take_too_large(data, error)
        else:
            if type(message) is list:
                self._take_batch(message, data)
            else:
                self._take_value(message, data)

    def _take_unreadable(self, data: Line) -> None:
        stats = self._owner.stats
        if data.isspace():
            stats.messages -= 1
            return
        stats.noise += 1
        if len(stats.noise_lines) < self._owner.limits.noise_lines:
            excerpt = data.strip()[:_NOISE_EXCERPT]
            stats.noise_lines.append(excerpt.decode("utf-8", "replace"))

    def _take_too_large(self, data: Line, error: MessageTooLarge) -> None:
        """Take a message with too many values, which is not decoded."""

    def _take_batch(self, messages: list[Json], data: Line) -> None:
        # 2025-03-26 basic, "Batching"; removed with 2025-06-18.
        revision = self._owner.revision
        if revision is None or not revision.receives_batches:
            error = InvalidMessage(
                "message",
                expected="object",
                got="array",
                hint="batches belong to revision 2025-03-26 only",
            )
            self._take_invalid(error, messages, data)
            return
        if not messages:
            self._owner.stats.invalid += 1
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
        if type(message) is jsonrpc.Success:
            self._answered(message.id, message.result, data)
        elif type(message) is jsonrpc.Failure:
            self._failed(message, data)
        else:
            owner.stats.line_bytes = len(data)
            if type(message) is jsonrpc.Notification:
                owner.notified(self, message.method, message.params)
            else:
                assert type(message) is jsonrpc.Request
                owner.requested(self, message.id, message.method, message.params)

    def _take_invalid(self, error: InvalidMessage, value: Json, data: Line) -> None:
        """Take what is no message by the rules."""
        self._owner.stats.invalid += 1
        error.raw = bytes(data[:BODY_SHOWN])

    def _answered(self, id: RequestId, result: dict[str, Any], data: Line) -> None:
        """Take an answer; on this stream nothing waits for one."""
        self._owner.stats.unknown += 1

    def _failed(self, message: jsonrpc.Failure, data: Line) -> None:
        """Take an error; on this stream nothing waits for one."""
        self._owner.stats.unknown += 1


class NoticeReply(Reply):
    """What comes back to a notification or to an answer of ours: accepted, or not."""

    def __init__(self, owner: Owner, what: str, deadline: Deadline) -> None:
        super().__init__(owner, what)
        self.deadline = deadline

    def _too_late(self, now: float) -> MCPError:
        assert self.deadline is not None
        return RequestTimeout(
            method=self.what,
            timeout=self.deadline.timeout or 0.0,
            elapsed=self.deadline.elapsed(now),
            detail="it was not accepted",
        )

    def _opened(self) -> None:
        self.is_over = True

    def _judge_head(self) -> None:
        self.is_over = is_success(self.status)


class StreamReply(Reply):
    """The stream that a GET opens, for what belongs to no request of ours.

    Attributes:
        messages: How many messages it has brought.
    """

    def __init__(self, owner: Owner, what: str) -> None:
        super().__init__(owner, what)
        self.messages = 0

    def _opened(self) -> None:
        super()._opened()
        # It was asked for from a place, if it has one by now.
        self.is_resumed = self.resumption is not None and self.resumption.cursor != ""
        self._owner.opened(self)

    def _too_late(self, now: float) -> MCPError:
        return RemoteProtocolError(f"{self.what}: the stream was not opened in time")

    def _judge_head(self) -> None:
        # 2025-11-25 basic/transports, "Listening for Messages from the Server": a
        # stream or 405; whatever else comes is no stream either.
        self._settle_fault(b"", ": no stream")

    def _take_message(self, data: Line) -> None:
        self.messages += 1
        super()._take_message(data)


# Calls...

_ANSWER_KEYS: Final = frozenset({"jsonrpc", "result", "error"})
"""An object with none of them is no message gone wrong, but something else."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_RETYPED: Final = "the peer changed the type of the request's id"


class CallReply(Reply):
    """What comes back to a request of MCP: its own answer, and no other one.

    Attributes:
        id: The request's id.
        result: Its result, once there is one.
        handle: Follows it from outside.
        deadline: When it must have ended.
        on_notification: Hears its own notifications.
        holds: How many handlers of ours its clock stands still for.
        questions: How many requests of the server it has answered.
    """

    _takes_json = True

    # Until something sets them.
    result: dict[str, Any] | None = None
    holds = questions = 0
    _doubt: InvalidMessage | None = None
    """What came in place of the answer, perhaps."""

    def __init__(  # noqa: PLR0917 - the hot path passes no keywords
        self,
        owner: Owner,
        what: str,
        id: int,
        deadline: Deadline | None,
        handle: Any,
        on_notification: Any,
    ) -> None:
        super().__init__(owner, what)
        self.id = id
        self.deadline = deadline
        self.handle = handle
        self.on_notification = on_notification

    @property
    def method(self) -> str:
        """The request's method."""
        return self.what

    def _too_late(self, now: float) -> MCPError:
        assert self.deadline is not None
        if not self.status:
            detail = None
        elif self._is_stream:
            detail = "the stream of the answer has brought none so far"
        else:
            detail = f"{self.status} came, and not all of the body"
        return self.deadline.error(self.what, now, detail)

    def _opened(self) -> None:
        super()._opened()
        if self.openings > 1 or self.what == LISTEN:
            self._owner.opened(self)

    def _judge_head(self) -> None:
        if self.status == 200:
            self._room = BODY_SHOWN  # as much as the error shows
        elif is_success(self.status):
            # 2025-11-25 basic/transports, "Sending Messages": a request is answered by
            # a stream or by JSON; accepted is for notifications.
            self._settle_fault(b"", ": no answer can come")

    def _complete(self, body: Line) -> None:
        if not self._is_json:
            super()._complete(body)
            return
        # RFC 8259, 8.1: a reader may ignore a mark. Without one nothing is copied.
        if body[0:3] == _BYTE_ORDER_MARK:
            body = body[3:]
        self._take_message(body)
        if not self.is_over:
            self._settle(self._doubt or self._unlike("body", body))

    def _ended(self) -> None:
        doubt = self._doubt
        if doubt is None or self.what == LISTEN or self._may_go_on():
            return
        # The end of the stream is not the cause: what stood there was no answer.
        error = self._unlike("stream", doubt.raw)
        error.__cause__ = doubt
        self._settle(error)

    def _may_go_on(self) -> bool:
        place = self.resumption
        return place is not None and place.cursor != "" and self._owner.recovery.resume

    def _unlike(self, path: str, data: Line) -> InvalidMessage:
        return InvalidMessage(
            path,
            expected=f"the answer to {self.what}",
            got=shown(data) if data else "nothing",
            raw=bytes(data[:BODY_SHOWN]),
        )

    # Messages...

    def _take_unreadable(self, data: Line) -> None:
        is_body = not self._is_stream
        error = InvalidMessage(
            "body" if is_body else "message",
            expected=f"the answer to {self.what} as JSON in UTF-8",
            got=f"{len(data)} bytes that are not" if data.strip() else "nothing",
            raw=bytes(data[:BODY_SHOWN]),
        )
        if is_body or self._is_ours(salvage(data)):
            self._settle(error)
            return
        if data[:BODY_SHOWN].lstrip().startswith(b"{"):
            self._doubt = error
        super()._take_unreadable(data)

    def _take_too_large(self, data: Line, error: MessageTooLarge) -> None:
        if not self._is_stream or self._is_ours(outline(data)):
            self._settle(error)

    def _take_invalid(self, error: InvalidMessage, value: Json, data: Line) -> None:
        super()._take_invalid(error, value, data)
        values = value if type(value) is list else [value]
        if any(map(self._is_ours, values)):
            if type(value) is dict and type(value["id"]) is float:
                error.hint = _RETYPED
            self._settle(error)
        elif type(value) is list or (
            type(value) is dict
            and "method" not in value
            and _ANSWER_KEYS & value.keys()
        ):
            self._doubt = error

    def _take_value(self, value: Json, data: Line) -> None:
        # The plain result of nearly every call takes no further step: this saves 2 of
        # 25 µs. `type` is asked because True and 1.0 equal the id 1.
        if (
            type(value) is dict
            and len(value) == 3
            and value.get("id") == self.id
            and type(value["id"]) is int
            and type(value.get("result")) is dict
            and value.get("jsonrpc") == "2.0"
            and not self.is_over
        ):
            self.result = value["result"]
            self.is_over = True
        else:
            super()._take_value(value, data)

    def _is_ours(self, value: Json) -> bool:
        """Tell whether what is no message would be the answer, by its id."""
        return (
            type(value) is dict and value.get("id") == self.id and "method" not in value
        )

    def _take_other(self, event: SSEEvent) -> None:
        # Some servers write as an `error` event what went wrong; those of 2024-11-05
        # begin with `endpoint`, and then wait for messages elsewhere.
        if event.event == "error":
            self._doubt = InvalidMessage(
                "event", expected="'message'", got="'error'", raw=event.data
            )
        elif event.event == "endpoint":
            self._settle(
                InvalidMessage(
                    "event",
                    expected="'message'",
                    got=ENDPOINT_EVENT,
                    raw=event.data,
                    hint="this is HTTP+SSE, the transport of 2024-11-05",
                )
            )

    def _answered(self, id: RequestId, result: dict[str, Any], data: Line) -> None:
        if self.is_over or id != self.id:
            self._take_foreign(id, data)
        else:
            self.result = result
            self.is_over = True

    def _failed(self, message: jsonrpc.Failure, data: Line) -> None:
        id, error = message.id, message.error
        # An error without id answers what its sender could not read, which is this; so
        # does one with an id that no request of ours can have, such as "server-error".
        is_ours = id == self.id if type(id) is int else _twin(id) is None
        if self.is_over or not is_ours:
            self._take_foreign(id, data)
            return
        error.method = self.what
        self._settle(error)

    def _take_foreign(self, id: RequestId | None, data: Line) -> None:
        """Take an answer to something else, or a second one.

        2025-11-25 basic/transports, "Multiple Connections": each message belongs on one
        stream; what is replayed of another stream is passed over.
        """
        self._owner.stats.unknown += 1
        is_retyped = type(id) is str and _twin(id) == self.id
        if self.is_over or (self.is_resumed and not is_retyped):
            return
        self._settle(
            InvalidMessage(
                "response.id",
                expected=f"the integer {self.id}",
                got=f"{id!r}"[:80],
                raw=bytes(data[:BODY_SHOWN]),
                hint=_RETYPED if is_retyped else None,
            )
        )


def _twin(id: RequestId | None) -> RequestId | None:
    return None if id is None else jsonrpc.id_twin(id)
