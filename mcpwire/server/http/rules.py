"""What a request says of its session, and what a POST of a session may hold.

2025-11-25 basic/transports, "Session Management" and "Protocol Version Header";
2025-03-26 basic, "Batching". A malformed item of a batch is answered by itself and does
not keep the others from being taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import InvalidMessage, InvalidRequest, RPCError
from mcpwire.versions import REVISIONS, Era, Revision, find_revision
from mcpwire.wire import jsonrpc

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AMBIGUOUS_STREAM",
    "ASSUMED",
    "NOT_KEPT",
    "NO_SESSION",
    "TOO_MANY_SESSIONS",
    "UNKNOWN_SESSION",
    "Malformed",
    "Posted",
    "check_batch",
    "check_version",
    "lets_streams_pause",
    "read_message",
]


# The status and the error of each refusal. The owner of a session must not show
# (2025-11-25 security best practices, "Session Hijacking"), so there is one answer to
# ids that are unknown, ended or another client's.
UNKNOWN_SESSION: Final = 404, InvalidRequest("the session is unknown or has ended")
NO_SESSION: Final = (
    400,
    InvalidRequest("the request needs an Mcp-Session-Id; initialize gives one"),
)
TOO_MANY_SESSIONS: Final = 503, InvalidRequest("too many sessions are in use")
AMBIGUOUS_STREAM: Final = 409, InvalidRequest("the session has its GET stream already")
NOT_KEPT: Final = (
    400,
    InvalidRequest("the events after this Last-Event-ID are not kept"),
)

ASSUMED: Final = REVISIONS[1]
"""The revision of a request that names none."""

_PAUSES_SINCE: Final = REVISIONS[3]


def lets_streams_pause(revision: Revision) -> bool:
    """Tell whether a stream may end before its answer, to be resumed.

    2025-11-25 basic/transports, "Sending Messages to the Server": then it begins with
    an event that has an id and no data, which older clients would take for a message.
    """
    return revision >= _PAUSES_SINCE


def check_version(header: str | None, spoken: Iterable[Revision]) -> Revision:
    """Return the revision that a request names in its head.

    In a session that is only checked: what was negotiated counts.

    Raises:
        InvalidRequest: It has no sessions, or is not spoken here.
    """
    if header is None:
        return ASSUMED
    revision = find_revision(header)
    sessions = [r for r in spoken if r.era is Era.SESSION]
    if revision is None or revision not in sessions:
        names = ", ".join(r.name for r in sessions)
        raise InvalidRequest(
            f"the MCP-Protocol-Version {header[:40]!r} is not among those that have "
            f"sessions here: {names}"
        )
    return revision


# --- batches


@attrs.frozen
class Malformed:
    """A value that is not a message."""

    error: InvalidMessage

    id: jsonrpc.RequestId | None = None
    """Its id, if it has one."""

    is_request: bool = False
    """Whether it expects an answer: it has a method and an id."""

    @property
    def refusal(self) -> RPCError:
        """The error to answer."""
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
    """Check that a batch is allowed.

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
