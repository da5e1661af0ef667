"""One call that waits for its answer, on the blocking side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.sync._lead import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.errors import MCPError
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.transports.base import CallHandle, NotifyFn

    EndFn = Callable[[dict[str, Any] | Exception], None]
    """Takes a begun call's result or error, inside the mutex: it only stores."""

__all__ = ["Pending"]


class Pending(Waiter):
    """A call of ours that waits for its answer."""

    __slots__ = (
        "deadline",
        "end",
        "error",
        "handle",
        "id",
        "is_paused",
        "method",
        "on_end",
        "on_notification",
        "params",
        "questions",
        "result",
        "tells_at_once",
    )

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        deadline: Deadline | None,
        handle: CallHandle | None,
        on_notification: NotifyFn | None,
    ) -> None:
        # `Waiter.__init__`, without the price of a call.
        self.is_set = False
        self.threads = []
        self.notices = None
        self._lead = None
        self.is_paused = False
        self.questions = 0
        self.method = method
        self.params = params
        self.deadline = deadline
        self.handle = handle
        self.on_notification = on_notification
        self.on_end: EndFn | None = None
        self.tells_at_once = False
        self.id = 0
        self.end = 0
        self.result: dict[str, Any] | None = None
        self.error: MCPError | None = None
