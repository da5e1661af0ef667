"""What comes back to a request of MCP: its own answer, and nobody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidMessage, MessageTooLarge
from mcpwire.protocol.http import exchange
from mcpwire.protocol.http.exchange import BODY_SHOWN
from mcpwire.protocol.http.reply import ERROR_BODY_BYTES, NO_FIELDS, Owner, Reply
from mcpwire.protocol.negotiation import ENDPOINT_EVENT
from mcpwire.wire import jsonrpc
from mcpwire.wire.json import (
    LARGE,
    JSONDecodeError,
    check_values,
    loads,
    outline,
    salvage,
)

if TYPE_CHECKING:
    from mcpwire.errors import MCPError
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.wire.json import Json
    from mcpwire.wire.jsonrpc import RequestId
    from mcpwire.wire.sse import SSEEvent

__all__ = ["LISTEN", "CallReply"]

LISTEN: Final = "subscriptions/listen"
"""The one request whose stream is to last."""

ANSWER_KEYS: Final = frozenset({"jsonrpc", "result", "error"})
"""An object with none of them is no message gone wrong, but something else."""

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

RETYPED: Final = "the peer changed the type of the request's id"


class CallReply(Reply):
    """What comes back to a request of MCP: its own answer, and nobody else's.

    Attributes:
        id: The request's id.
        result: Its result, once there is one.
        handle: Follows it from outside.
        deadline: When it must have ended.
        on_notification: Hears its own notifications.
        holds: How many handlers of ours its clock stands still for.
        questions: How many requests of the server it has answered.
    """

    __slots__ = (
        "_doubt",
        "deadline",
        "handle",
        "holds",
        "id",
        "on_notification",
        "questions",
        "result",
    )

    _takes_json = True

    def __init__(  # noqa: PLR0917 - the hot path passes no keywords
        self,
        owner: Owner,
        what: str,
        id: int,
        deadline: Deadline | None,
        handle: Any,
        on_notification: Any,
    ) -> None:
        # What `Reply.__init__` does, without its call: this is made for each call.
        self._owner = owner
        self._body = b""
        self._decoder = None
        self._is_json = self._is_stream = self._is_begun = False
        self.what = what
        self.status = 0
        self.fields = NO_FIELDS
        self.is_over = self.is_resumed = False
        self.openings = 0
        self.timer = self.error = self.aborted = None
        self.resumption = self.backoff = self.headers = None
        self.id = id
        self.deadline = deadline
        self.handle = handle
        self.on_notification = on_notification
        self.result: dict[str, Any] | None = None
        self.holds = self.questions = 0
        self._doubt: InvalidMessage | None = None
        """What came in place of the answer, perhaps."""

    @property
    def method(self) -> str:
        """The request's method."""
        return self.what

    def _too_late(self, now: float) -> MCPError:
        deadline = self.deadline
        assert deadline is not None
        if not self.status:
            detail = None
        elif self._is_stream:
            detail = "the stream of the answer has brought none so far"
        else:
            detail = f"{self.status} came, and not all of the body"
        return deadline.error(self.what, now, detail)

    def _opened(self) -> None:
        self.openings += 1
        if self.openings > 1 or self.what == LISTEN:
            self._owner.opened(self)

    def _judge_head(self) -> None:
        status = self.status
        if status != 200 and exchange.is_success(status):
            # 2025-11-25 basic/transports, "Sending Messages": a request is answered by
            # a stream or by JSON; accepted is for notifications.
            self._settle_fault(b"", ": no answer can come")
        elif 300 <= status < 400:
            self._settle_redirect()
        elif status == 200:
            self._room = BODY_SHOWN  # as much as the error shows
        else:
            self._room = min(ERROR_BODY_BYTES, self._room)

    def end(self) -> None:
        """Take note that the body is complete."""
        if self.is_over:
            return
        if not self._is_json:
            super().end()
            return
        body, self._body = self._body, b""
        if isinstance(body, bytearray):
            if self._take_plain(body):
                return
            body = bytes(body)
        self._take_message(body)
        if not self.is_over:
            self._settle(self._doubt or self._unlike("body", body))

    def _take_plain(self, body: bytearray) -> bool:
        """Take what came in many pieces, if it is a plain result: it is not copied."""
        owner = self._owner
        if owner.is_watched:
            return False
        try:
            if body[LARGE]:
                check_values(body, owner.limits.values)
            message = loads(body)
        except (JSONDecodeError, MessageTooLarge):
            return False
        is_plain = self._is_settled_by(message)
        owner.stats.messages += is_plain
        return is_plain

    def _ended(self) -> None:
        doubt = self._doubt
        if doubt is None or self.what == LISTEN or self._may_go_on():
            return
        # The end of the stream is not the cause: what stood there was no answer.
        error = self._unlike("stream", doubt.raw)
        error.__cause__ = doubt
        self._settle(error)

    def _may_go_on(self) -> bool:
        return (
            self.resumption is not None
            and self.resumption.cursor != ""
            and self._owner.recovery.resume
        )

    def _unlike(self, path: str, data: bytes) -> InvalidMessage:
        return InvalidMessage(
            path,
            expected=f"the answer to {self.what}",
            got=exchange.shown(data) if data else "nothing",
            raw=data,
        )

    # Messages...

    def _take_message(self, data: bytes) -> None:
        owner = self._owner
        if owner.is_watched:
            super()._take_message(data)
            return
        owner.stats.messages += 1
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
        if not self._is_settled_by(message):
            self._take_json(message, data)

    def _is_settled_by(self, message: Json) -> bool:
        """Take a plain result: no further step is needed; as in `protocol.peer`."""
        if type(message) is dict and len(message) == 3:
            result = message.get("result")
            id = message.get("id")
            if (
                type(result) is dict
                and type(id) is int
                and id == self.id
                and message.get("jsonrpc") == "2.0"
                and not self.is_over
            ):
                self.result = result
                self.is_over = True
                return True
        return False

    def _take_unreadable(self, data: bytes) -> None:
        is_body = not self._is_stream
        if is_body and data.startswith(BYTE_ORDER_MARK):
            # RFC 8259, 8.1: nobody writes one, and a reader may pass it over.
            self._owner.stats.messages -= 1
            self._take_message(data.removeprefix(BYTE_ORDER_MARK))
            return
        error = InvalidMessage(
            "body" if is_body else "message",
            expected=f"the answer to {self.what} as JSON in UTF-8",
            got=f"{len(data)} bytes that are not" if data.strip() else "nothing",
            raw=data[:BODY_SHOWN],
        )
        if is_body or self._is_ours(salvage(data)):
            self._settle(error)
            return
        if data[:BODY_SHOWN].lstrip().startswith(b"{"):
            self._doubt = error
        self._count_noise(data)

    def _take_too_large(self, data: bytes, error: MessageTooLarge) -> None:
        super()._take_too_large(data, error)
        if not self._is_stream or self._is_ours(outline(data)):
            self._settle(error)

    def _invalid(self, error: InvalidMessage, value: Json) -> None:
        self._owner.stats.invalid += 1
        values = value if type(value) is list else [value]
        if any(map(self._is_ours, values)):
            if type(value) is dict and type(value["id"]) is float:
                error.hint = RETYPED
            self._settle(error)
        elif type(value) is list or (
            type(value) is dict and "method" not in value and ANSWER_KEYS & value.keys()
        ):
            self._doubt = error

    def _is_ours(self, value: Json) -> bool:
        """Tell whether what is no message would be the answer, by its id."""
        return (
            type(value) is dict and value.get("id") == self.id and "method" not in value
        )

    def _take_other(self, event: SSEEvent) -> None:
        # Nothing here has such a name. Some servers write as an error what went wrong;
        # those of 2024-11-05 begin so, and then wait for messages elsewhere.
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

    # Answers...

    def _answered(self, id: RequestId, result: dict[str, Any], data: bytes) -> None:
        if self.is_over or type(id) is not int or id != self.id:
            self._take_foreign(id, data)
        else:
            self.result = result
            self.is_over = True

    def _failed(self, message: jsonrpc.Failure, data: bytes) -> None:
        id, error = message.id, message.error
        # An error without id answers what its sender could not read, which is this; so
        # does one whose id none of our requests can have, such as "server-error".
        is_ours = id == self.id if type(id) is int else not _has_twin(id)
        if self.is_over or not is_ours:
            self._take_foreign(id, data)
            return
        error.method = self.what
        self._settle(error)

    def _take_foreign(self, id: RequestId | None, data: bytes) -> None:
        """Take an answer to something else, or a second one.

        2025-11-25 basic/transports, "Multiple Connections": each message belongs on one
        stream; what is replayed of another stream is passed over.
        """
        self._owner.stats.unknown += 1
        is_retyped = type(id) is str and jsonrpc.id_twin(id) == self.id
        if self.is_over or (self.is_resumed and not is_retyped):
            return
        self._settle(
            InvalidMessage(
                "response.id",
                expected=f"the integer {self.id}",
                got=f"{id!r}"[:80],
                raw=data[:BODY_SHOWN],
                hint=RETYPED if is_retyped else None,
            )
        )


def _has_twin(id: RequestId | None) -> bool:
    return id is not None and jsonrpc.id_twin(id) is not None
