"""One side of a duplex JSON-RPC connection, without I/O.

The owner (a channel or a server) passes received bytes to `receive`, writes the bytes
that the methods return, and gets events through the `Owner` protocol::

  start_request() ─► outstanding ──► on_result(), on_error()  the peer responded
                          │────────► cancel()         we cancelled: ignore responses
                          └────────► end()            the connection ended

      on_request() ─► in flight ───► answer(), refuse()   sends at most one response
                          └────────► on_cancelled()   the peer cancelled: no response

Our ids are consecutive integers and are never reused. Ids are compared by type and
value: a response with id ``"7"`` to request ``7`` fails the call with a diagnosis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeGuard, TypeVar

import attrs

from mcpwire.errors import (
    RAW_EXCERPT_BYTES,
    InvalidMessage,
    InvalidRequest,
    LocalProtocolError,
    MessageTooLarge,
    ParseError,
)
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol.methods import LISTEN, METHODS
from mcpwire.types._base import SUBSCRIPTION_ID
from mcpwire.versions import Era
from mcpwire.wire import jsonrpc
from mcpwire.wire.json import (
    LARGE,
    Json,
    JSONDecodeError,
    check_values,
    encode_line,
    loads,
    peek_members,
)
from mcpwire.wire.jsonrpc import LineDecoder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.errors import MCPError, RPCError
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import Line, RequestId

TOO_MANY_REASON: Final = "too many questions"
"""The reason in the cancellation of a call with too many server requests."""

ID_TYPE_CHANGED: Final = "the peer changed the type of the request's id"

NO_BATCHES: Final = "batches belong to revision 2025-03-26 only"


class Call(Protocol):
    """The owner's data for one of our requests."""

    @property
    def method(self) -> str:
        """The method of the request."""


C_contra = TypeVar("C_contra", bound=Call, contravariant=True)


class Owner(Protocol[C_contra]):
    """The callbacks of a `Peer`. They do not await, block or raise."""

    def on_result(self, call: C_contra, result: dict[str, Any]) -> None:
        """Handle the result of our call."""

    def on_error(self, call: C_contra, error: MCPError) -> None:
        """Handle an error of our call, or a malformed response to it."""

    def on_notification(
        self, method: str, params: dict[str, Any] | None, call: C_contra | None
    ) -> None:
        """Handle a notification, with the call of ours that it names, if any."""

    def on_request(
        self, id: RequestId, method: str, params: dict[str, Any] | None
    ) -> None:
        """Handle a request; respond with `Peer.answer` or `Peer.refuse`."""

    def on_cancelled(self, id: RequestId) -> None:
        """Handle the cancellation of a request by the peer; no response is sent."""

    def transmit(self, data: bytes) -> None:
        """Write bytes to the peer."""


@attrs.define
class PeerStats:
    """Counters of received messages and anomalies."""

    messages: int = 0
    noise: int = 0  # lines that are not JSON-RPC messages
    invalid: int = 0  # messages that violate JSON-RPC or the revision
    late: int = 0  # responses to cancelled or timed-out calls
    unknown: int = 0  # responses to no call of ours, duplicates included
    unanswered: int = 0  # our requests that were cancelled, or open at the end
    before_open: int = 0  # our answered requests before the connection was open
    line_bytes: int = 0  # size of the current message
    noise_lines: list[str] = attrs.field(factory=list)  # the first noise lines

    def add_noise(self, line: Line, max_lines: int) -> None:
        """Count a noise line; store the beginnings of the first `max_lines` lines."""
        self.noise += 1
        if len(self.noise_lines) < max_lines:
            excerpt = line.strip()[:NOISE_EXCERPT_BYTES]
            self.noise_lines.append(excerpt.decode("utf-8", "replace"))


def too_many_questions() -> RPCError:
    """Return the error for server requests beyond the limit of their call."""
    return InvalidRequest(f"the call that this belongs to has ended: {TOO_MANY_REASON}")


NEVER_CANCELLED: Final = frozenset(s.name for s in METHODS if not s.cancellable)
"""2025-11-25 basic/utilities/cancellation: `initialize` MUST NOT be cancelled."""

MAX_CANCELLED_IDS: Final = 1_024
"""Maximum stored ids of cancelled calls: responses to them are late, not unknown."""

NOISE_EXCERPT_BYTES: Final = 200

ANSWER_KEYS: Final = frozenset({"result", "error"})

MESSAGE_KEYS: Final = frozenset({"jsonrpc", "method"}) | ANSWER_KEYS
"""An object without any of these members is noise, such as a JSON log record."""

C = TypeVar("C", bound=Call)


@attrs.define
class _Batch:
    """A received batch; its responses are one batch (2025-03-26 basic, Batching)."""

    pending: int = 1  # open requests, plus one until the batch is parsed
    answers: list[bytes] = attrs.field(factory=list)


class Peer(Generic[C]):
    """The state of one duplex connection; see the module's text.

    `revision` is ``None`` before the agreement, and in a server of the stateless era,
    where each request has its own revision.
    """

    def __init__(
        self, owner: Owner[C], *, role: str, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._owner = owner
        self._limits = limits
        self._lines = LineDecoder(limits.message)
        self._last_id = 0
        self._has_ended = self._is_ending = False
        self._cancelled: dict[RequestId, None] = {}
        self.unanswered: dict[RequestId, _Batch | None] = {}  # the peer's requests
        self.outstanding: dict[int, C] = {}  # ours
        self.role = role
        self.revision: Revision | None = None
        self.stats = PeerStats()

    @property
    def requests_sent(self) -> int:
        """The number of our requests; their ids start at 1."""
        return self._last_id

    @property
    def bytes_received(self) -> int:
        """The number of received bytes."""
        return self._lines.received

    # Our requests

    def start_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        call: C,
        *,
        progress: bool = False,
    ) -> tuple[int, bytes]:
        """Register a request; return its id and its encoded line.

        With `progress` the id is also the progress token.
        """
        # 2026-07-28: a server MUST NOT initiate requests.
        if self.role == "server" and (
            self.revision is None or self.revision.era is Era.STATELESS
        ):
            raise LocalProtocolError(
                f"a server may send {method!r} only inside a session, "
                "after the client's initialize"
            )
        id = self._last_id + 1
        if progress:
            params = dict(params or {})
            params["_meta"] = {**(params.get("_meta") or {}), "progressToken": id}
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        line = encode_line(message)
        self._last_id = id
        self.outstanding[id] = call
        return id, line

    def drop_request(self, id: int) -> None:
        """Remove a request that was not sent; the peer gets no message."""
        if self.outstanding.pop(id, None) is not None:
            self.stats.unanswered += 1

    def cancel(self, id: int, reason: str) -> bytes | None:
        """Cancel a call; return the line of the cancellation, if one is to be sent.

        A completed call is ignored. No cancellation is sent for `initialize`, nor
        before a revision is agreed (a legacy server must not get unknown messages
        before `initialize`).
        """
        call = self.outstanding.get(id)
        if call is None:
            return None
        line = None
        if call.method not in NEVER_CANCELLED and self.revision is not None:
            line = self.notify(
                "notifications/cancelled", {"requestId": id, "reason": reason}
            )
        self.drop_request(id)
        self._store_cancelled(id)
        return line

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> bytes:
        """Return the encoded line of a notification."""
        return encode_line(jsonrpc.notification(method, params))

    # Our responses

    def answer(self, id: RequestId, result: Mapping[str, Any]) -> bytes | None:
        """Return the line of a result; ``None`` if no response may be sent now."""
        return self._reply(id, jsonrpc.success(id, result))

    def refuse(self, id: RequestId, error: RPCError) -> bytes | None:
        """Return the line of an error; ``None`` if no response may be sent now."""
        return self._reply(id, jsonrpc.failure(id, error))

    def _reply(self, id: RequestId, message: dict[str, Any]) -> bytes | None:
        if id not in self.unanswered:
            return None
        if self.role == "client" and self._is_server_silent():
            # Requested before the agreement; 2026-07-28 stdio, "Sending Messages": a
            # client MUST NOT write responses.
            del self.unanswered[id]
            return None
        line = encode_line(message)
        batch = self.unanswered.pop(id)
        if batch is None:
            return line
        batch.answers.append(line.rstrip(b"\n"))
        return self._settle(batch)

    def _settle(self, batch: _Batch) -> bytes | None:
        batch.pending -= 1
        if batch.pending or not batch.answers:
            return None
        return b"[" + b",".join(batch.answers) + b"]\n"

    def _is_server_silent(self) -> bool:
        return (
            self.role == "client"
            and self.revision is not None
            and self.revision.era is Era.STATELESS
        )

    def _transmit(self, data: bytes | None) -> None:
        # After the end of the stream no response can be sent.
        if data is not None and not self._is_ending:
            self._owner.transmit(data)

    def _refuse(self, id: RequestId, error: RPCError, batch: _Batch | None) -> None:
        """Send an error for a request that the owner does not get."""
        if id not in self.unanswered and not self._is_server_silent():
            self._accept(id, batch)
            self._transmit(self.refuse(id, error))

    def _refuse_without_id(self, error: RPCError) -> None:
        """Send an error without id for an invalid message if the revision allows it."""
        if self.role == "server" and (
            self.revision is None or self.revision.errors_without_id
        ):
            self._transmit(encode_line(jsonrpc.failure(None, error)))

    def _accept(self, id: RequestId, batch: _Batch | None) -> None:
        self.unanswered[id] = batch
        if batch is not None:
            batch.pending += 1

    # Received messages

    def receive(self, data: bytes, *, last: bool = False) -> None:
        """Process received bytes; with `last`, process an unterminated last line."""
        lines = self._lines.finish() if last else self._lines.feed(data)
        self.stats.messages += len(lines)
        for line in lines:
            if self._has_ended:  # by the owner, during an earlier line
                break
            try:
                if line[LARGE]:
                    check_values(line, self._limits.values)
                message = loads(line)
            except (JSONDecodeError, MessageTooLarge) as error:
                self._receive_undecoded(line, error)
                continue
            # Fast path for a plain result, which saves 1 of 8 µs. The type of the id is
            # checked because True and 1.0 equal 1.
            if type(message) is dict and len(message) == 3:
                result = message.get("result")
                id = message.get("id")
                if (
                    type(result) is dict
                    and type(id) is int
                    and message.get("jsonrpc") == "2.0"
                ):
                    call = self.outstanding.pop(id, None)
                    if call is not None:
                        self._owner.on_result(call, result)
                        continue
            self.stats.line_bytes = len(line)
            if self._is_plain_request(message):
                self.unanswered[message["id"]] = None
                self._owner.on_request(
                    message["id"], message["method"], message["params"]
                )
            else:
                self._receive_message(message, line)
        if self._lines.overflow:
            limit = self._limits.message
            raise MessageTooLarge(
                f"a message is longer than {limit} bytes (Limits.message)", limit=limit
            )

    def _is_plain_request(self, message: Json) -> TypeGuard[dict[str, Any]]:
        """Return whether a request can take the fast path, which saves 2 of 15 µs."""
        if self.role != "server" or type(message) is not dict or len(message) != 4:
            return False
        id = message.get("id")
        return (
            type(message.get("params")) is dict
            and type(message.get("method")) is str
            and (type(id) is int or type(id) is str)
            and message.get("jsonrpc") == "2.0"
            and id not in self.unanswered
        )

    def end(self) -> list[C]:
        """Process the end of the stream; return the calls without a response.

        There are no further callbacks, even if the owner calls this within a callback.
        """
        self._is_ending = True
        if not self._lines.overflow:
            self.receive(b"", last=True)
        self._has_ended = True
        calls = list(self.outstanding.values())
        self.stats.unanswered += len(calls)
        self.outstanding.clear()
        self.unanswered.clear()
        return calls

    def _receive_message(self, message: Json, line: Line) -> None:
        if type(message) is dict:
            self._receive_object(message, line, None)
        elif type(message) is list:
            self._receive_batch(message, line)
        else:
            self.stats.add_noise(line, self._limits.noise_lines)
            self._refuse_without_id(InvalidRequest("a message must be an object"))

    def _receive_batch(self, messages: list[Json], line: Line) -> None:
        if self.revision is None or not self.revision.receives_batches:
            self.stats.add_noise(line, self._limits.noise_lines)
            self._refuse_without_id(InvalidRequest(NO_BATCHES))
            return
        if not messages:
            self.stats.invalid += 1  # 2025-03-26 has no response to an empty batch
            return
        batch = _Batch()
        limit = self._limits.batch
        if self.role == "server" and len(messages) > limit:
            # None of its requests runs; the first ones get errors.
            self.stats.invalid += 1
            error = InvalidRequest(f"a batch must not be longer than {limit} messages")
            for message in messages[:limit]:
                if type(message) is dict and "method" in message:
                    self._reject(message, error, error, batch)
        else:
            for message in messages:
                if type(message) is dict:
                    self._receive_object(message, line, batch)
                else:
                    self.stats.invalid += 1
        self._transmit(self._settle(batch))

    def _receive_object(
        self, value: dict[str, Any], line: Line, batch: _Batch | None
    ) -> None:
        try:
            message = jsonrpc.parse_message(value)
        except InvalidMessage as error:
            self._receive_invalid(value, line, error, batch)
            return
        if isinstance(message, jsonrpc.Notification):
            self._receive_notification(message.method, message.params)
        elif isinstance(message, jsonrpc.Request):
            self._receive_request(message, batch)
        else:
            self._receive_answer(message, line)

    # Invalid messages

    def _reject(
        self,
        value: dict[str, Any],
        error: MCPError,
        refusal: RPCError,
        batch: _Batch | None = None,
    ) -> bool:
        """Fail the call, ours or the peer's, that an invalid message names, if any."""
        id = value.get("id")
        if "method" not in value:
            if self._is_outstanding(id):
                self._fail(id, error)
                return True
        elif jsonrpc.is_request_id(id):
            self._refuse(id, refusal, batch)
            return True
        return False

    def _receive_undecoded(
        self, line: Line, error: JSONDecodeError | MessageTooLarge
    ) -> None:
        """Process a line that is not JSON, or has too many values."""
        failure: MCPError
        refusal: RPCError
        is_large = False
        if isinstance(error, MessageTooLarge):
            is_large = True
            error.__traceback__ = None  # its frames keep the whole message alive
            failure, refusal = error, InvalidRequest(str(error))
        elif line.strip():
            failure = InvalidMessage(
                "message", expected="JSON in UTF-8", got="bytes that are not", raw=line
            )
            refusal = ParseError("the line is not JSON in UTF-8")
        else:
            self.stats.messages -= 1
            return
        message = peek_members(line)
        has_id = self._reject(message, failure, refusal)
        if is_large or (has_id and "method" in message):
            self.stats.invalid += 1
        elif not has_id:
            self.stats.add_noise(line, self._limits.noise_lines)
        if not (has_id or (is_large and "method" in message)):
            self._refuse_without_id(refusal)

    def _receive_invalid(
        self,
        value: dict[str, Any],
        line: Line,
        error: InvalidMessage,
        batch: _Batch | None,
    ) -> None:
        refusal = InvalidRequest(str(error))
        if not MESSAGE_KEYS & value.keys():
            self.stats.add_noise(line, self._limits.noise_lines)
            self._refuse_without_id(refusal)
            return
        self.stats.invalid += 1
        error.raw = bytes(line[:RAW_EXCERPT_BYTES])
        if self._reject(value, error, refusal, batch):
            return
        if "method" in value:
            if "id" in value:
                self._refuse_without_id(refusal)
        elif not (
            self._diagnose_id(value.get("id"), line) or ANSWER_KEYS & value.keys()
        ):
            self.stats.invalid -= 1
            self.stats.add_noise(line, self._limits.noise_lines)
            self._refuse_without_id(refusal)

    # Responses to our calls

    def _receive_answer(
        self, message: jsonrpc.Success | jsonrpc.Failure, line: Line
    ) -> None:
        id = message.id
        if id is None and len(self.outstanding) == 1:
            # 2025-11-25 JSONRPCErrorResponse: the id is missing if the peer could not
            # read it. With a single outstanding call it can only be that call.
            (id,) = self.outstanding
        if self._is_outstanding(id):
            if isinstance(message, jsonrpc.Success):
                self._owner.on_result(self.outstanding.pop(id), message.result)
            else:
                message.error.method = self.outstanding[id].method
                self._fail(id, message.error)
        elif type(id) is int and id in self._cancelled:
            del self._cancelled[id]
            self.stats.late += 1
        elif not self._diagnose_id(id, line):
            self.stats.unknown += 1

    def _is_outstanding(self, id: Any) -> TypeGuard[int]:
        # The type is checked because True and 1.0 equal 1.
        return type(id) is int and id in self.outstanding

    def _fail(self, id: int, error: MCPError) -> None:
        self._owner.on_error(self.outstanding.pop(id), error)

    def _diagnose_id(self, id: Any, line: Line) -> bool:
        """Fail our call with the same id of another type; return whether it exists."""
        intended = jsonrpc.intended_id(id)
        if not self._is_outstanding(intended):
            return False
        error = InvalidMessage(
            "response.id",
            expected=f"the integer {intended}",
            got=f"{id!r}",
            raw=line,
            hint=ID_TYPE_CHANGED,
        )
        self._fail(intended, error)
        return True

    def _store_cancelled(self, id: int) -> None:
        self._cancelled[id] = None
        if len(self._cancelled) > MAX_CANCELLED_IDS:
            del self._cancelled[next(iter(self._cancelled))]

    # Requests and notifications of the peer

    def _receive_request(self, message: jsonrpc.Request, batch: _Batch | None) -> None:
        id = message.id
        # A duplicate of an id in flight would get a second response to the first
        # request (2025-11-25 basic, Requests: ids MUST NOT be reused). Since 2026-07-28
        # a client sends no responses, so a server request is only counted.
        if id in self.unanswered or self._is_server_silent():
            self.stats.invalid += 1
        elif batch is not None and message.method == "initialize":
            error = InvalidRequest("initialize must not be part of a batch")
            self._refuse(id, error, batch)
        else:
            self._accept(id, batch)
            self._owner.on_request(id, message.method, message.params)

    def _receive_notification(self, method: str, params: dict[str, Any] | None) -> None:
        if method == "notifications/cancelled":
            self._receive_cancelled((params or {}).get("requestId"))
            return
        id = None
        if params is not None:
            if method == "notifications/progress":
                id = params.get("progressToken")
            elif type(meta := params.get("_meta")) is dict:
                id = meta.get(SUBSCRIPTION_ID)
        call = self.outstanding[id] if self._is_outstanding(id) else None
        self._owner.on_notification(method, params, call)

    def _receive_cancelled(self, id: Any) -> None:
        """Cancel the peer's request with the given id; ignore unknown ids."""
        if not jsonrpc.is_request_id(id):
            return
        if id in self.unanswered:
            batch = self.unanswered.pop(id)
            self._owner.on_cancelled(id)
            if batch is not None:
                self._transmit(self._settle(batch))
        # 2026-07-28 basic/patterns/cancellation: on stdio a server ends a subscription
        # by a cancellation, possibly with a result before or after it.
        elif self._is_outstanding(id) and self.outstanding[id].method == LISTEN:
            self._store_cancelled(id)
            self._owner.on_result(self.outstanding.pop(id), {"resultType": "complete"})
