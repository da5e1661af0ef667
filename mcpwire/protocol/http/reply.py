"""What comes back to one HTTP request of ours, as an engine feeds it.

::

    head ─► 200 json ───► body ─► end ─► the answer
         ├► 200 stream ─► event … event ─► the answer, or the end without it
         └► anything else ─► as much of the body as tells why ─► error

A reply is over as soon as its request has its answer, its error, or none to come; what
is left of the body is taken all the same. Messages beside the answer go to the `Owner`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.errors import (
    InvalidMessage,
    MCPError,
    MessageTooLarge,
    RemoteProtocolError,
    RequestTimeout,
)
from mcpwire.protocol.http import exchange
from mcpwire.protocol.http.exchange import KINDS
from mcpwire.versions import Era
from mcpwire.wire import jsonrpc
from mcpwire.wire.json import LARGE, JSONDecodeError, check_values, loads
from mcpwire.wire.sse import SSEDecoder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.limits import Limits, Recovery
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http.backoff import StreamBackoff
    from mcpwire.protocol.http.resume import Resumption
    from mcpwire.protocol.owner import PeerStats
    from mcpwire.versions import Revision
    from mcpwire.wire.json import Json
    from mcpwire.wire.jsonrpc import RequestId
    from mcpwire.wire.sse import SSEEvent

__all__ = ["ERROR_BODY_BYTES", "NoticeReply", "Owner", "Reply", "StreamReply"]

ERROR_BODY_BYTES: Final = 1024 * 1024
"""How much of the body of an error is read: enough for any JSON-RPC error."""

BRINGS_ANSWERS: Final = frozenset({200, 201, 203})
"""What a body may be an answer with: frameworks say 201 to any POST, proxies 203."""

NO_FIELDS: Final[Mapping[bytes, bytes]] = MappingProxyType({})

NOISE_EXCERPT: Final = 200


class Timer(Protocol):
    """Something that happens later, unless it is cancelled."""

    def cancel(self) -> object:
        """Have it not happen."""


class Owner(Protocol):
    """Who made the request. Nothing here awaits, blocks or raises."""

    target: str
    limits: Limits
    recovery: Recovery
    stats: PeerStats
    is_watched: bool
    """Whether somebody looks at heads and messages."""

    @property
    def revision(self) -> Revision | None:
        """What is spoken; ``None`` before that is agreed."""

    def why_not_followed(self, reply: Reply) -> str:
        """Say why the redirect that came is not followed; empty: it is."""

    def doubted(self, reply: Reply) -> None:
        """A head came that brings nothing; the body may say why."""

    def opened(self, reply: Reply) -> None:
        """A stream has begun that is to last, or that goes on where one broke off."""

    def heard_head(self, reply: Reply) -> None:
        """A head came; told only where `is_watched`."""

    def heard_message(self, data: bytes) -> None:
        """A message came; told only where `is_watched`."""

    def notified(
        self, reply: Reply, method: str, params: dict[str, Any] | None
    ) -> None:
        """A notification came on that stream."""

    def requested(
        self, reply: Reply, id: RequestId, method: str, params: dict[str, Any] | None
    ) -> None:
        """The peer asks something on that stream."""


class Reply:
    """What comes back; subclasses know what they wait for.

    Attributes:
        status: The status; 0 before the head.
        fields: The head's fields, names in lower case.
        is_over: Whether nothing more is waited for.
        error: Why there is no answer, where something said so.
        aborted: What an abort from outside ends it with; engines look before they wait.
        openings: How many streams it was fed from.
        resumption: What is known for going on with a broken stream, if anything.
        is_resumed: Whether it is fed with the rest of a stream that began elsewhere.
    """

    __slots__ = (
        "_body",
        "_decoder",
        "_is_begun",
        "_is_json",
        "_is_stream",
        "_owner",
        "_room",
        "aborted",
        "backoff",
        "error",
        "fields",
        "headers",
        "is_over",
        "is_resumed",
        "openings",
        "resumption",
        "status",
        "timer",
        "what",
    )

    def __init__(self, owner: Owner, what: str) -> None:
        self._owner = owner
        self._body: bytes | bytearray = b""
        self._decoder: SSEDecoder | None = None
        self._is_json = self._is_stream = self._is_begun = False
        self.what = what
        self.status = 0
        self.fields: Mapping[bytes, bytes] = NO_FIELDS
        self.is_over = self.is_resumed = False
        self.openings = 0
        self.timer: Timer | None = None
        """When a body that only says why is cut short."""
        self.error: MCPError | None = None
        self.aborted: MCPError | None = None
        self.resumption: Resumption | None = None
        self.backoff: StreamBackoff | None = None
        """When a stream that is to last is opened again."""
        self.headers: Mapping[str, str] | None = None
        """The user's headers for this request, and for what belongs to it."""

    def restart(self) -> None:
        """Be fed another answer, to a request in place of the first."""
        self._body = b""
        self._decoder = None
        self._is_json = self._is_stream = self._is_begun = False
        self.status = 0
        self.fields = NO_FIELDS
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
        if status in BRINGS_ANSWERS:
            kind = KINDS.get(fields.get(b"content-type")) or exchange.body_kind(fields)
            if kind == "json" and self._takes_json:
                self._is_json = True
                return
            if kind == "stream":
                self._is_stream = True
                self._opened()
                return
        self._judge_head()
        if not self.is_over:
            owner.doubted(self)

    def cut_short(self) -> None:
        """Take the part of a body that came for all that will: it only says why."""
        self._settle_fault(self._body, ", and not all of the body")

    _takes_json = False

    def _opened(self) -> None:
        """Take note that a stream of events has begun."""
        self.openings += 1

    def _judge_head(self) -> None:
        """Say what it means that neither a stream nor a wanted body comes."""
        raise NotImplementedError

    def data(self, chunk: bytes) -> None:
        """Take the next bytes of the body."""
        if self._is_stream:
            # Most pieces are one event, and most streams are not more than that.
            if (
                self._decoder is None
                and self.resumption is None
                and len(chunk) <= self._room
            ):
                data = exchange.lone_message(chunk)
                if data is not None:
                    self._is_begun = True
                    self._take_message(data)
                    return
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
            self._overflow()

    def _take_piece(self, chunk: bytes) -> None:
        decoder = self._decoder
        if decoder is None:
            decoder = self._decoder = SSEDecoder(self._room)
            if self._is_begun:
                decoder.feed(b"\n")
        for event in decoder.feed(chunk):
            self._take_event(event)
        if decoder.overflow and not self.is_over:
            raise self._too_large("an event")

    def _overflow(self) -> None:
        if self._is_json:
            raise self._too_large("the body")
        self._settle_fault(self._body)

    def _too_large(self, what: str) -> MessageTooLarge:
        self._body = b""  # who keeps the error keeps this reply
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
            self._complete(body if type(body) is bytes else bytes(body))
        self.is_over = True

    def _ended(self) -> None:
        """Take note that a stream ended in good order, and nothing was over before."""

    def broke(self) -> None:
        """Take note that the stream broke off: keep the place it had got to.

        An id, or a reconnection time, may have come last in a block without data.
        """
        decoder = self._decoder
        if decoder is None:
            return
        if decoder.last_event_id:
            self._is_replay(decoder.last_event_id, decoder.retry)
        elif decoder.retry is not None:
            resumption = self.resumption or self._begin_place()
            resumption.retry_ms = decoder.retry

    def _complete(self, body: bytes) -> None:
        """Take a body that is no stream."""
        self._settle_fault(body)

    def _fault(self, body: bytes | bytearray, detail: str = "") -> MCPError:
        return exchange.fault(
            self.what,
            self.status,
            self.fields,
            bytes(body),
            target=self._owner.target,
            detail=detail,
        )

    def _settle_fault(self, body: bytes | bytearray, detail: str = "") -> None:
        self._settle(self._fault(body, detail))

    def _settle_redirect(self) -> None:
        why = self._owner.why_not_followed(self)
        if why:
            self._settle_fault(b"", f": {why}")
        else:  # once its body is through, for the next answer is fed to the same
            self._room = min(ERROR_BODY_BYTES, self._room)

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
        resumption = self.resumption
        if resumption is None:
            resumption = self._begin_place()
        if retry_ms is not None:
            resumption.retry_ms = retry_ms
        # 2026-07-28 basic/transports/streamable-http, "Receiving Messages": no stream
        # goes on in another message, so an id is no place.
        revision = self._owner.revision
        if revision is not None and revision.era is Era.STATELESS:
            return False
        return not resumption.take(event_id) and self.is_resumed

    def _begin_place(self) -> Resumption:
        # Most streams have no ids: what keeps them is loaded with the first.
        from mcpwire.protocol.http.resume import Resumption

        self.resumption = Resumption(self._owner.recovery)
        return self.resumption

    # Messages...

    def _take_message(self, data: bytes) -> None:
        owner = self._owner
        stats = owner.stats
        stats.messages += 1
        if owner.is_watched:
            owner.heard_message(data)
        try:
            if data[LARGE]:
                check_values(data, owner.limits.values)
            message = loads(data)
        except JSONDecodeError:
            self._take_unreadable(data)
            return
        except MessageTooLarge as error:
            self._take_too_large(data, error)
            return
        self._take_json(message, data)

    def _take_json(self, message: Json, data: bytes) -> None:
        if type(message) is list:
            self._take_batch(message, data)
        else:
            self._take_value(message, data)

    def _take_unreadable(self, data: bytes) -> None:
        self._count_noise(data)

    def _take_too_large(self, data: bytes, error: MessageTooLarge) -> None:
        """Take a message with too many values, which is not decoded."""
        del data
        error.__traceback__ = None  # its frames hold the whole message
        self._owner.stats.invalid += 1

    def _count_noise(self, data: bytes) -> None:
        stats = self._owner.stats
        if data.isspace():
            stats.messages -= 1
            return
        stats.noise += 1
        if len(stats.noise_lines) < self._owner.limits.noise_lines:
            excerpt = data.strip()[:NOISE_EXCERPT]
            stats.noise_lines.append(excerpt.decode("utf-8", "replace"))

    def _take_batch(self, messages: list[Json], data: bytes) -> None:
        # 2025-03-26 basic, "Batching"; removed with 2025-06-18.
        revision = self._owner.revision
        if revision is None or not revision.receives_batches:
            self._invalid(
                InvalidMessage(
                    "message",
                    expected="object",
                    got="array",
                    raw=data[: exchange.BODY_SHOWN],
                    hint="batches belong to revision 2025-03-26 only",
                ),
                messages,
            )
            return
        if not messages:
            self._owner.stats.invalid += 1
        for message in messages:
            self._take_value(message, data)

    def _take_value(self, value: Json, data: bytes) -> None:
        owner = self._owner
        try:
            message = jsonrpc.parse_message(value)
        except InvalidMessage as error:
            error.raw = data[: exchange.BODY_SHOWN]
            error.__traceback__ = None  # its frames hold the whole message
            self._invalid(error, value)
            return
        owner.stats.line_bytes = len(data)
        if type(message) is jsonrpc.Notification:
            owner.notified(self, message.method, message.params)
        elif type(message) is jsonrpc.Request:
            owner.requested(self, message.id, message.method, message.params)
        elif type(message) is jsonrpc.Success:
            self._answered(message.id, message.result, data)
        else:
            assert type(message) is jsonrpc.Failure
            self._failed(message, data)

    def _invalid(self, error: InvalidMessage, value: Json) -> None:
        """Take what is no message by the rules."""
        del error, value
        self._owner.stats.invalid += 1

    def _answered(self, id: RequestId, result: dict[str, Any], data: bytes) -> None:
        """Take an answer; on this stream nobody waits for one."""
        del id, result, data
        self._owner.stats.unknown += 1

    def _failed(self, message: jsonrpc.Failure, data: bytes) -> None:
        """Take an error; on this stream nobody waits for one."""
        del message, data
        self._owner.stats.unknown += 1


class NoticeReply(Reply):
    """What comes back to a notification or to an answer of ours: accepted, or not."""

    __slots__ = ("deadline",)

    def __init__(self, owner: Owner, what: str, deadline: Deadline) -> None:
        super().__init__(owner, what)
        self.deadline = deadline

    def _too_late(self, now: float) -> MCPError:
        return RequestTimeout(
            method=self.what,
            timeout=self.deadline.timeout or 0.0,
            elapsed=self.deadline.elapsed(now),
            detail="it was not accepted",
        )

    def _opened(self) -> None:
        self.is_over = True

    def _judge_head(self) -> None:
        if exchange.is_success(self.status):
            self.is_over = True
        elif 300 <= self.status < 400:
            self._settle_redirect()
        else:
            self._room = min(ERROR_BODY_BYTES, self._room)


class StreamReply(Reply):
    """The stream that a GET opens, for what belongs to no request of ours.

    Attributes:
        messages: How many messages it has brought.
    """

    __slots__ = ("deadline", "messages")

    def __init__(self, owner: Owner, what: str) -> None:
        super().__init__(owner, what)
        self.deadline = None
        self.messages = 0

    def _opened(self) -> None:
        super()._opened()
        # It was asked for from a place, if it has one by now.
        self.is_resumed = self.resumption is not None and self.resumption.cursor != ""
        self._owner.opened(self)

    def _too_late(self, now: float) -> MCPError:
        del now
        return RemoteProtocolError(f"{self.what}: the stream was not opened in time")

    def _judge_head(self) -> None:
        # 2025-11-25 basic/transports, "Listening for Messages from the Server": a
        # stream or 405; whatever else comes is no stream either.
        if 300 <= self.status < 400:
            self._settle_redirect()
        else:
            self._settle_fault(b"", ": no stream")

    def _take_message(self, data: bytes) -> None:
        self.messages += 1
        super()._take_message(data)
