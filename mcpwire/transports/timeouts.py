"""Calls that wait for their answer, and the one timer that ends them.

The timer is armed for the earliest deadline and looks at all of them when it fires: a
call that is answered in time neither arms nor cancels anything.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.transports.base import CallHandle, NotifyFn
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["CallClock", "Pending"]

GRAIN_S: Final = 0.005
"""How close two looks may follow: each is at all calls, and deadlines may be many."""


class Pending:
    """A call of ours that waits for its answer."""

    __slots__ = (
        "deadline",
        "end",
        "future",
        "handle",
        "is_paused",
        "method",
        "on_notification",
        "questions",
    )

    def __init__(
        self,
        method: str,
        future: asyncio.Future[dict[str, Any]],
        deadline: Deadline | None,
        on_notification: NotifyFn | None,
        handle: CallHandle | None,
    ) -> None:
        self.method = method
        self.future = future
        self.deadline = deadline
        self.on_notification = on_notification
        self.handle = handle
        self.is_paused = False
        self.questions = 0
        self.end = 0


class CallClock:
    """The deadlines of a channel's calls, and the time during which they stand still.

    Attributes:
        at: When the timer fires; infinite while it is not armed.
    """

    __slots__ = (
        "_asking",
        "_expire",
        "_limits",
        "_loop",
        "_outstanding",
        "_timer",
        "at",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        outstanding: Mapping[int, Pending],
        expire: Callable[[int, Pending, float], None],
        limits: Limits,
    ) -> None:
        self._limits = limits
        self._loop = loop
        self._outstanding = outstanding
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        # The peer's requests, each with the last call of ours when it came.
        self._asking: dict[RequestId, int] = {}
        self.at = inf

    def arm(self, at: float) -> None:
        """Let the timer fire then, and not when it would have."""
        if self._timer is not None:
            self._timer.cancel()
        self.at = at
        self._timer = self._loop.call_at(at, self._look)

    def stop(self) -> None:
        """Disarm the timer for good."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.at = inf
        self._asking.clear()

    def _look(self) -> None:
        self._timer = None
        self.at = earliest = inf
        now = self._loop.time()
        for id, pending in list(self._outstanding.items()):
            deadline = pending.deadline
            if deadline is None:
                continue
            if deadline.expired(now):
                self._expire(id, pending, now)
            else:
                earliest = min(earliest, deadline.at)
        if earliest < self.at:
            self.arm(max(earliest, now + GRAIN_S))

    def pause(self, id: RequestId) -> None:
        """Stop the clock of every call: a handler of ours is busy with that request.

        On a duplex stream nothing links the peer's request to the call it belongs to.
        It belongs to none begun later: such as the handler's own, which must end, for
        the peer may answer nothing before it has its answer.
        """
        now = self._loop.time()
        for pending in self._outstanding.values():
            if pending.deadline is not None and not pending.is_paused:
                pending.is_paused = True
                pending.deadline.pause(now, self._limits.question_time)
        self._asking[id] = max(self._outstanding, default=0)

    def resume(self, id: RequestId) -> None:
        """Let a call's clock run again once the last such handler is through."""
        if self._asking.pop(id, None) is None:
            return
        still = max(self._asking.values(), default=0)
        earliest = inf
        for call_id, pending in self._outstanding.items():
            if call_id > still and pending.is_paused:
                self.release(pending)
                assert pending.deadline is not None
                earliest = min(earliest, pending.deadline.at)
        if earliest < self.at:
            self.arm(earliest)

    def release(self, pending: Pending) -> None:
        """Let a call go that ends while its clock stands still.

        One deadline may span several requests of a call: it must not stay paused.
        """
        if pending.is_paused:
            pending.is_paused = False
            assert pending.deadline is not None
            pending.deadline.resume(self._loop.time())
