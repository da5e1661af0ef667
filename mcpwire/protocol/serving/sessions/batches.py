"""What a POST of a session holds: one message, or a batch where the revision has them.

2025-03-26 basic, "Batching". What in a batch is no message does not keep the others
from being taken: it is answered by itself, as far as it can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.errors import InvalidMessage, InvalidRequest, RPCError
from mcpwire.wire import jsonrpc

if TYPE_CHECKING:
    from mcpwire.versions import Revision

__all__ = ["Malformed", "Posted", "check_batch", "read_message"]


@attrs.frozen
class Malformed:
    """Something that is no message."""

    error: InvalidMessage

    id: jsonrpc.RequestId | None = None
    """The request or the answer that it would have been, where it names one."""

    is_request: bool = False
    """Whether an answer is owed: it has a method and an id."""

    @property
    def refusal(self) -> RPCError:
        """What is answered."""
        return InvalidRequest(str(self.error))


Posted = jsonrpc.Message | Malformed


def read_message(value: Any) -> Posted:
    """Return the message that a decoded JSON value is, or what is wrong with it."""
    try:
        return jsonrpc.parse_message(value)
    except InvalidMessage as error:
        id = value.get("id") if type(value) is dict else None
        if not jsonrpc.is_request_id(id):
            return Malformed(error)
        return Malformed(error, id, "method" in value)


def check_batch(values: list[Any], revision: Revision, limit: int) -> None:
    """Check that a batch may come at all.

    Raises:
        InvalidRequest: The revision has none, or it is empty or too long.
    """
    if not revision.receives_batches:
        # 2025-06-18 changelog: batches were removed again.
        raise InvalidRequest("batches belong to revision 2025-03-26 only")
    if not values:
        raise InvalidRequest("a batch must not be empty")
    if len(values) > limit:
        raise InvalidRequest(f"a batch must not be longer than {limit} messages")
