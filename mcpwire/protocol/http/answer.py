"""What comes back to a request of MCP: its own answer, and nobody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidMessage, RequestTimeout
from mcpwire.protocol.http import exchange
from mcpwire.protocol.http.exchange import BODY_SHOWN
from mcpwire.protocol.http.reply import ERROR_BODY_BYTES, Owner, Reply
from mcpwire.wire import jsonrpc
from mcpwire.wire.json import JSONDecodeError, loads, salvage

if TYPE_CHECKING:
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.wire.json import Json
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["LISTEN", "CallReply"]

LISTEN: Final = "subscriptions/listen"
"""The one request whose stream is to last."""


class CallReply(Reply):
    """What comes back to a request of MCP: its own answer, and nobody else's.

    Attributes:
        id: The request's id.
        result: Its result, once there is one.
        handle: Follows it from outside.
        deadline: When it must have ended.
        on_notification: Hears its own notifications.
        holds: How many handlers of ours its clock stands still for.
        is_resumed: Whether it is fed from another stream than its request's own.
    """

    __slots__ = (
        "deadline",
        "handle",
        "holds",
        "id",
        "is_resumed",
        "on_notification",
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
        super().__init__(owner, what)
        self.id = id
        self.deadline = deadline
        self.handle = handle
        self.on_notification = on_notification
        self.result: dict[str, Any] | None = None
        self.holds = 0
        self.is_resumed = False

    @property
    def method(self) -> str:
        """The request's method."""
        return self.what

    def out_of_time(self, now: float) -> RequestTimeout:
        """Build the error for a deadline that has passed."""
        deadline = self.deadline
        assert deadline is not None
        assert deadline.timeout is not None
        if not self.status:
            detail = None
        elif self._decoder is not None:
            detail = "the stream of the answer is open and holds no answer"
        else:
            detail = f"{self.status} came, and not all of the body"
        return RequestTimeout(
            method=self.what,
            timeout=deadline.timeout,
            elapsed=deadline.elapsed(now),
            detail=detail,
        )

    def _opened(self) -> None:
        self.openings += 1
        if self.openings > 1 or self.what == LISTEN:
            self._owner.opened(self)

    def _judge_head(self) -> None:
        status = self.status
        if exchange.is_success(status) and status != 200:
            # 2025-11-25 basic/transports, "Sending Messages": a request is answered by
            # a stream or by JSON; accepted is for notifications.
            self._settle_fault(b"", ": no answer can come")
        elif 300 <= status < 400:
            self._settle_redirect()
        elif status == 200:
            self._room = BODY_SHOWN  # as much as the error shows
        else:
            self._room = min(ERROR_BODY_BYTES, self._room)

    def _complete(self, body: bytes) -> None:
        if not self._is_json:
            self._settle_fault(body)
            return
        # A plain result takes no further step; as in `protocol.peer`.
        self._take_message(body)
        if not self.is_over:
            self._settle(
                InvalidMessage(
                    "body", expected=f"the answer to {self.what}", got="none", raw=body
                )
            )

    def _take_message(self, data: bytes) -> None:
        owner = self._owner
        if owner.is_watched:
            super()._take_message(data)
            return
        try:
            message = loads(data)
        except JSONDecodeError:
            owner.stats.messages += 1
            self._take_unreadable(data)
            return
        owner.stats.messages += 1
        if type(message) is dict:
            if len(message) == 3:
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
                    return
            self._take_value(message, data)
        elif type(message) is list:
            self._take_batch(message, data)
        else:
            self._take_value(message, data)

    def _take_unreadable(self, data: bytes) -> None:
        if self._decoder is None:
            self._settle(
                InvalidMessage(
                    "body",
                    expected="JSON in UTF-8",
                    got=f"{len(data)} bytes that are not",
                    raw=data[:BODY_SHOWN],
                )
            )
            return
        message = salvage(data)
        if (
            type(message) is dict
            and message.get("id") == self.id
            and "method" not in message
        ):
            self._settle(
                InvalidMessage(
                    "message",
                    expected="JSON in UTF-8",
                    got="bytes that are not",
                    raw=data[:BODY_SHOWN],
                )
            )
        else:
            self._count_noise(data)

    def _invalid(self, error: InvalidMessage, value: Json) -> None:
        self._owner.stats.invalid += 1
        is_ours = type(value) is dict and (
            value.get("id") == self.id and "method" not in value
        )
        if self._decoder is None or is_ours:
            self._settle(error)

    def _answered(self, id: RequestId, result: dict[str, Any], data: bytes) -> None:
        if self.is_over or type(id) is not int or id != self.id:
            self._take_foreign(id, data)
        else:
            self.result = result
            self.is_over = True

    def _failed(self, message: jsonrpc.Failure, data: bytes) -> None:
        # An error without id answers what its sender could not read, which is this.
        id, error = message.id, message.error
        if self.is_over or (id is not None and (type(id) is not int or id != self.id)):
            self._take_foreign(id, data)
            return
        error.method = self.what
        self._settle(error)

    def _take_foreign(self, id: Json, data: bytes) -> None:
        """Take an answer to something else, or a second one.

        2025-11-25 basic/transports, "Multiple Connections": each message belongs on one
        stream; what is replayed of another stream is passed over.
        """
        self._owner.stats.unknown += 1
        if self.is_over or self.is_resumed:
            return
        hint = None
        if jsonrpc.is_request_id(id) and jsonrpc.id_twin(id) == self.id:
            hint = "the peer changed the type of the request's id"
        self._settle(
            InvalidMessage(
                "response.id",
                expected=f"the integer {self.id}",
                got=f"{id!r}"[:80],
                raw=data[:BODY_SHOWN],
                hint=hint,
            )
        )
