"""What the head of a request says of its session, and which of it is refused.

2025-11-25 basic/transports, "Session Management" and "Protocol Version Header".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.errors import InvalidRequest, RPCError
from mcpwire.versions import REVISIONS, Era, Revision, find_revision

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AMBIGUOUS_STREAM",
    "ASSUMED",
    "NOT_KEPT",
    "NO_SESSION",
    "TOO_MANY_SESSIONS",
    "UNKNOWN_SESSION",
    "check_version",
    "lets_streams_pause",
]

Refusal = tuple[int, RPCError]
"""A status of HTTP and what the body says."""

# Whose session it is must not show (2025-11-25 security best practices, "Session
# Hijacking"), so there is one answer to ids that are unknown, dead or somebody else's.
UNKNOWN_SESSION: Final[Refusal] = (
    404,
    InvalidRequest("the session is unknown or has ended"),
)
NO_SESSION: Final[Refusal] = (
    400,
    InvalidRequest("the request needs an Mcp-Session-Id; initialize gives one"),
)
TOO_MANY_SESSIONS: Final[Refusal] = (
    503,
    InvalidRequest("too many sessions are in use"),
)
AMBIGUOUS_STREAM: Final[Refusal] = (
    409,
    InvalidRequest("the session has its GET stream already"),
)
NOT_KEPT: Final[Refusal] = (
    400,
    InvalidRequest("the events after this Last-Event-ID are not kept"),
)

ASSUMED: Final = REVISIONS[1]
"""The revision of a request that names none and of which nothing else is known."""

_PAUSES_SINCE: Final = REVISIONS[3]


def lets_streams_pause(revision: Revision) -> bool:
    """Tell whether a stream may end before its answer, to be gone on with.

    2025-11-25 basic/transports, "Sending Messages to the Server": then it begins with
    an event that has an id and no data, which older clients would take for a message.
    """
    return revision >= _PAUSES_SINCE


def check_version(header: str | None, spoken: Iterable[Revision]) -> Revision:
    """Return the revision that a request names in its head.

    In a session that is only checked: what was negotiated counts.

    Raises:
        InvalidRequest: It is none that has sessions and is spoken here.
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
