"""Calls that wait for their answer, and the one timer that ends them.

The timer is armed for the earliest deadline and looks at all of them when it fires: a
call that is answered in time neither arms nor cancels anything. While a handler of ours
answers a request of the peer, the deadlines of the calls that the request may belong to
are paused.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Iterable, Mapping

    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.transports.base import CallHandle, NotifyFn
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["Pending", "Timeouts", "admit_request"]

GRAIN_S: Final = 0.005
"""How close two looks may follow: each is at all calls, and deadlines may be many."""


class Pending:
    """A call of ours that waits for its answer."""

    holds = 0
    """How many requests of the peer hold its deadline."""
    questions = 0
    """How many requests of the peer were admitted while it waited."""
    end = 0
    """How many bytes had been queued on its channel with its last one."""

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


class _Timed(Protocol):
    """A call as far as its time goes: `Pending`, or a reply over HTTP."""

    deadline: Deadline | None
    holds: int


class _Asked(Protocol):
    questions: int


A = TypeVar("A", bound=_Asked)


class Timeouts:
    """The deadlines of a channel's calls.

    Attributes:
        at: When the timer fires; infinite while it is not armed.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        outstanding: Mapping[int, Any],
        expire: Callable[[int, Any, float], None],
        limits: Limits,
    ) -> None:
        self._most = limits.question_time
        self._loop = loop
        self._outstanding = outstanding
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        self._held: dict[RequestId, list[_Timed]] = {}
        self.at = inf

    def arm(self, at: float) -> None:
        """Let the timer fire no later than that."""
        if at < self.at:
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
        self._held.clear()

    def _look(self) -> None:
        self._timer = None
        self.at = earliest = inf
        now = self._loop.time()
        for id, call in list(self._outstanding.items()):
            deadline = call.deadline
            if deadline is None:
                continue
            if deadline.expired(now):
                self._expire(id, call, now)
            else:
                earliest = min(earliest, deadline.at)
        if earliest < inf:
            self.arm(max(earliest, now + GRAIN_S))

    def hold(self, id: RequestId, calls: Iterable[_Timed]) -> None:
        """Stop the deadlines of these calls until that request of the peer is answered.

        None begun later is held: such as a call of the request's own handler, which
        must end, for the peer may answer nothing before it has its answer.
        """
        now = self._loop.time()
        held = self._held[id] = [call for call in calls if call.deadline is not None]
        for call in held:
            assert call.deadline is not None
            call.holds += 1
            call.deadline.pause(now, self._most)

    def resume(self, id: RequestId) -> None:
        """Let the deadlines run again that were held for that request."""
        for call in self._held.pop(id, ()):
            if call.holds:
                self._resume(call)
                assert call.deadline is not None
                self.arm(call.deadline.at)

    def release(self, call: _Timed) -> None:
        """Let the deadline of a call that is over run again: it may span more."""
        while call.holds:
            self._resume(call)

    def _resume(self, call: _Timed) -> None:
        call.holds -= 1
        assert call.deadline is not None
        call.deadline.resume(self._loop.time())


def admit_request(calls: Collection[A], limit: int) -> tuple[list[A], bool]:
    """Count one more request of the peer for each call that it may belong to.

    Returns the calls that have had as many as they may, and so must end, and whether
    the request is answered for any other.
    """
    spent = [call for call in calls if call.questions >= limit]
    if spent and len(spent) == len(calls):
        return spent, False
    for call in calls:
        call.questions += 1
    return spent, True
