"""What a handler knows of the request it answers, and what it may send meanwhile.

In the stateless era all of it came with the request; in a session, `initialize` fixed
it before. A handler need not know which: it gets one `RequestContext`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import InvalidParams, LocalProtocolError
from mcpwire.types.meta import CLIENT_INFO, LOG_LEVEL
from mcpwire.versions import REVISIONS, Era
from mcpwire.wire.jsonrpc import is_request_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

    NotifyFn = Callable[[str, dict[str, Any]], None]
    """Sends a notification that belongs to one request. Must not block or raise."""

    AskFn = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
    """Sends a request to the client and returns its result."""

__all__ = ["LEVELS", "RequestContext", "Session", "check_level"]

LEVELS: Final = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
"""The severities of `notifications/message`, lowest first (RFC 5424)."""

# 2024-11-05 has progress without a message.
_MESSAGES_SINCE: Final = REVISIONS[1]


@attrs.define
class Session:
    """What `initialize` fixed for one connection (revisions up to 2025-11-25)."""

    revision: Revision

    client_info: Mapping[str, Any]

    client_capabilities: Mapping[str, Any]

    # 2025-11-25 server/utilities/logging: until the client sets a level, the server
    # chooses.
    log_level: str = "info"
    """The lowest severity the client wants; `logging/setLevel` changes it."""

    is_initialized: bool = False
    """Whether the client has said so (`notifications/initialized`)."""


def check_level(level: object) -> str:
    """Return a log level.

    Raises:
        InvalidParams: It is none of `LEVELS`.
    """
    if type(level) is not str or level not in LEVELS:
        raise InvalidParams(f"the log level must be one of {', '.join(LEVELS)}")
    return level


class RequestContext:
    """One request while it is answered.

    Attributes:
        id: Its id on the wire.
        method: Its method.
        meta: Its `_meta`, empty where it had none.
        revision: The revision that governs it.
        session: The session it belongs to; ``None`` where it stands alone.
        client_info: Who the client says it is, where it said so; for display only.
        client_capabilities: What the client declared, for this request or the session.
        is_cancelled: Whether the client withdrew it, or is gone.
    """

    __slots__ = (
        "_ask",
        "_can_log",
        "_is_answered",
        "_level",
        "_notify",
        "_progress",
        "client_capabilities",
        "client_info",
        "id",
        "is_cancelled",
        "meta",
        "method",
        "revision",
        "session",
    )

    def __init__(
        self,
        id: RequestId,
        method: str,
        meta: Mapping[str, Any],
        revision: Revision,
        *,
        session: Session | None,
        client_capabilities: Mapping[str, Any],
        notify: NotifyFn,
        can_log: bool,
        ask: AskFn | None = None,
    ) -> None:
        self.id = id
        self.method = method
        self.meta = meta
        self.revision = revision
        self.session = session
        self.client_capabilities = client_capabilities
        self.is_cancelled = False
        self._is_answered = False
        self._notify = notify
        self._ask = ask
        self._can_log = can_log
        self._progress: float | None = None
        self._level: str | None
        if session is not None:
            self.client_info: Mapping[str, Any] | None = session.client_info
            self._level = None
        else:
            info = meta.get(CLIENT_INFO)
            self.client_info = info if type(info) is dict else None
            # 2026-07-28 server/utilities/logging: an unknown level is invalid params.
            self._level = check_level(meta[LOG_LEVEL]) if LOG_LEVEL in meta else None

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<RequestContext {self.method} {self.id!r}, {self.revision}>"

    @property
    def era(self) -> Era:
        """Whether the request belongs to a session or stands alone."""
        return self.revision.era

    @property
    def is_open(self) -> bool:
        """Whether an answer is still owed; nothing is sent for it once it is not."""
        return not (self._is_answered or self.is_cancelled)

    def close(self) -> None:
        """The answer is leaving: nothing is sent for this request any more."""
        self._is_answered = True

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send the client a request of ours; return its result.

        Raises:
            LocalProtocolError: The revision has no requests of servers: answer with
                an input-required result instead.
            RPCError: The client refused.
            RequestTimeout: It did not answer in time, and was told so.
        """
        if self._ask is None or self.session is None:
            raise LocalProtocolError(
                f"{self.method}: a server may not ask {method!r} of its own at "
                f"{self.revision}"
            )
        return await self._ask(method, params)

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the work is, if it asked to hear.

        A value that is not above the one before is passed over, and so is everything
        after the answer.

        Raises:
            LocalProtocolError: A value is not finite.
        """
        token = self.meta.get("progressToken")
        if not is_request_id(token) or not self.is_open:
            return
        if self._progress is not None and not progress > self._progress:
            # 2026-07-28 basic/patterns/progress: the value MUST increase each time.
            return
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None and self.revision >= _MESSAGES_SINCE:
            params["message"] = message
        self._notify("notifications/progress", params)
        self._progress = progress

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log message, if the client wants to hear of that severity.

        2026-07-28 server/utilities/logging: a server that does not declare `logging`
        sends none, and a request that names no level gets none. In a session the level
        is the session's.

        Raises:
            LocalProtocolError: The level is none of `LEVELS`, or `data` is not JSON.
        """
        if level not in LEVELS:
            raise LocalProtocolError(
                f"the log level must be one of {', '.join(LEVELS)}, got {level!r}"
            )
        wanted = self._level if self.session is None else self.session.log_level
        if wanted is None or not self._can_log or not self.is_open:
            return
        if LEVELS.index(level) < LEVELS.index(wanted):
            return
        params: dict[str, Any] = {"level": level}
        if logger is not None:
            params["logger"] = logger
        self._notify("notifications/message", {**params, "data": data})
