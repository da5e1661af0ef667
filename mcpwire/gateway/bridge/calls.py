"""One request on its way through the gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.transports.base import CallHandle
from mcpwire.versions import REVISIONS
from mcpwire.wire.jsonrpc import is_request_id

if TYPE_CHECKING:
    from mcpwire.gateway.bridge.parking import ParkedCall
    from mcpwire.server.request import RequestContext

__all__ = ["RelayedCall"]

PROGRESS: Final = "notifications/progress"

_MESSAGES_SINCE: Final = REVISIONS[1]


class RelayedCall(CallHandle):
    """Follows a request on both sides; what a server sends for it finds it by this.

    Attributes:
        request: The client's request. A call that waited for an answer at 2026-07-28
            goes on with another one.
        parked: How it waits for answers, where the client's revision has no requests
            of servers and the server's has.
    """

    __slots__ = ("_progress", "parked", "request")

    def __init__(self, request: RequestContext) -> None:
        self.request_id = None
        self.on_cancel = None
        self.request = request
        self.parked: ParkedCall | None = None
        self._progress: float | None = None

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<RelayedCall {self.request!r} as {self.request_id!r}>"

    @property
    def wants_progress(self) -> bool:
        """Whether the client gave a token that it wants to hear of progress by."""
        return is_request_id(self.request.meta.get("progressToken"))

    def goes_on(self, request: RequestContext) -> None:
        """Let another request of the same client be the one that is answered."""
        self.request = request
        self._progress = None

    def heard(self, method: str, params: dict[str, Any] | None) -> None:
        """Pass progress on, under the very token that the client gave."""
        if method != PROGRESS or params is None:
            return
        request = self.request
        token = request.meta.get("progressToken")
        value = params.get("progress")
        if not is_request_id(token) or type(value) not in {int, float}:
            return
        if self._progress is not None and not value > self._progress:  # type: ignore[operator] # a number
            # 2026-07-28 basic/patterns/progress: the value MUST increase each time.
            return
        self._progress = value
        told = {**params, "progressToken": token}
        if request.revision < _MESSAGES_SINCE:
            told.pop("message", None)
        request.notify(method, told)
