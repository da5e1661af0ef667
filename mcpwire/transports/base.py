"""What all transports share: `Channel` and `Inbound`, the calls that wait, and tracing.

A channel is one connection (stdio), or one session or origin (HTTP). Once lost it is
never revived; its owner opens another. It reports what the peer starts to an `Inbound`.

`Timeouts` ends calls that are not answered in time. Its one timer is armed for the
earliest deadline and looks at all calls when it fires, so a call that is answered in
time neither arms nor cancels anything. While a handler of ours answers a request of the
peer, the deadlines of the calls that the request may belong to are paused.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from weakref import WeakSet

import attrs

from mcpwire.errors import (
    ConnectionClosed,
    LocalProtocolError,
    TooManyQuestions,
    TransportError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from mcpwire.errors import MCPError, RPCError
    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.peer import PeerStats
    from mcpwire.transports.targets import Opener
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

    NotifyFn = Callable[[str, dict[str, Any] | None], None]
    """Takes a call's own notifications: method and params. Must not block or raise."""

    ReplyFn = Callable[[dict[str, Any] | RPCError], None]
    """Takes the answer to a request of the peer's; after the first it does nothing."""

__all__ = [
    "BaseChannel",
    "CallHandle",
    "Channel",
    "Inbound",
    "Pending",
    "Timeouts",
    "Trace",
    "TwoWayChannel",
    "admit_request",
    "is_cancelled_here",
    "let_go_after_fork",
    "runs_here",
    "wait_at_most",
    "wait_shared",
]

logger = logging.getLogger("mcpwire")

GRAIN_S: Final = 0.005
"""How close two looks may follow: each is at all calls, and deadlines may be many."""


class CallHandle:
    """Follows one call from outside it.

    Attributes:
        request_id: The id on the wire, set before the first byte leaves. It changes
            when a call takes more than one request (input-required rounds, re-issue).
        on_cancel: What is to be done where the call is cancelled between two requests,
            beside waiting no longer.
    """

    __slots__ = ("on_cancel", "request_id")

    def __init__(self) -> None:
        self.request_id: RequestId | None = None
        self.on_cancel: Callable[[], None] | None = None


class Channel(Protocol):
    """One connection that performs calls."""

    revision: Revision | None
    """The agreed revision; ``None`` until the handshake has decided."""

    async def call(
        self,
        method: str,
        params: dict[str, Any] | None,
        *,
        deadline: Deadline | None,
        handle: CallHandle | None = None,
        on_notification: NotifyFn | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Perform a request and return the raw result object.

        With `on_notification` the request asks for progress. Cancelling the task tells
        the peer and returns at once.

        Raises:
            RPCError: The peer answered with an error.
            RequestTimeout: The deadline passed; the peer was told.
            TransportError: The connection is gone, or went while the call ran.
            RemoteProtocolError: The answer breaks the rules.
            LocalProtocolError: The request may not be sent; nothing was.
        """

    async def notify(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification.

        Raises:
            TransportError: The connection is gone.
            LocalProtocolError: The notification may not be sent; nothing was.
        """

    async def aclose(self) -> None:
        """Close the connection and everything it holds; bounded in time."""


class Inbound(Protocol):
    """Takes what the peer starts. Nothing here awaits or raises."""

    def notification(
        self, method: str, params: dict[str, Any] | None, call: CallHandle | None
    ) -> None:
        """A notification came; `call` where it belongs to one."""

    def request(
        self,
        id: RequestId,
        method: str,
        params: dict[str, Any] | None,
        reply: ReplyFn,
        call: CallHandle | None,
    ) -> None:
        """A request came; `reply` takes its answer, now or later."""

    def cancelled(self, id: RequestId) -> None:
        """The peer gave up that request; its answer will not be sent."""

    def lost(self, error: TransportError) -> None:
        """The connection is gone without our closing it."""

    def missed(self) -> None:
        """Notifications may have been lost while a stream was interrupted."""


# The calls that wait...


@attrs.define(eq=False, weakref_slot=False)
class Pending:
    """A call of ours that waits for its answer."""

    method: str
    future: asyncio.Future[dict[str, Any]]
    deadline: Deadline | None
    on_notification: NotifyFn | None
    handle: CallHandle | None

    end: int = 0
    """How many bytes had been queued on its channel with its last one."""

    holds: int = 0
    """How many requests of the peer hold its deadline."""

    questions: int = 0
    """How many requests of the peer were admitted while it waited."""


class _Timed(Protocol):
    """What is asked of a call here: of a `Pending`, or of a reply over HTTP."""

    deadline: Deadline | None
    holds: int
    questions: int


T = TypeVar("T", bound=_Timed)
R = TypeVar("R")


class Timeouts:
    """The deadlines of a channel's calls, and the timer that ends them."""

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

        Calls begun later are not held: the request's own handler may make one, and the
        peer may answer it only after it has got its own answer.
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


def admit_request(calls: Collection[T], limit: int) -> tuple[list[T], bool]:
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


# Tracing...


class Trace:
    """A user's hook for watching a connection: ``trace(event, data)``.

    ===========  =========================================================
    ``open``     the target, as one line without secrets
    ``send``     one message, as bytes without its newline
    ``written``  how many bytes the operating system has taken since ``open``
    ``read``     bytes that came, as they were read
    ``receive``  one line that came, as bytes without its newline
    ``request``  over HTTP: the head of a request, as text without secrets
    ``response`` over HTTP: the head of an answer, as text without secrets
    ``agree``    the `Negotiation` that succeeded
    ``lost``     the `TransportError` that ended the connection
    ``close``    the target
    ===========  =========================================================

    A message has left with the first ``written`` that counts all the bytes of the
    messages up to it, newlines included. ``read`` comes before the ``receive`` of the
    lines that it completes. If the peer is slow to read, ``written`` comes for what it
    took at once, and again when nothing waits any more.
    """

    def __init__(self, hook: Callable[[str, Any], Any]) -> None:
        if inspect.iscoroutinefunction(hook):
            raise ValueError(f"trace must be a plain function, got {hook!r}")
        self._hook = hook

    def __call__(self, event: str, data: Any) -> None:
        """Call the hook; what it raises is logged."""
        try:
            self._hook(event, data)
        except BaseException as error:
            # A hook may have asked for the result of something cancelled.
            if not isinstance(error, (Exception, asyncio.CancelledError)):
                raise
            logger.exception("trace hook %r raised", self._hook)

    def watching(self, opener: Opener) -> Opener:
        """Return an opener that watches its channels."""
        open_it, legacy = opener.open, opener.open_legacy
        return attrs.evolve(
            opener,
            open=lambda inbound: self._watched(open_it(inbound)),
            open_legacy=None
            if legacy is None
            else lambda inbound: self._watched(legacy(inbound)),
        )

    def _watched(self, channel: Any) -> Any:
        channel.watch(self)
        self("open", channel.target)
        return channel


# Connections after a fork...

# A forked process holds the same pipe ends and the same epoll instance. Writing to the
# one would corrupt the parent's session, changing the other would make the parent deaf,
# and what runs at its exit would kill the parent's servers. So in the forked process
# every connection lets go of its descriptors at once, and refuses calls.


class Forkable(Protocol):
    """Something that must not be used, or ended, by a forked process."""

    def forked(self) -> None:
        """Let go, in the forked process, without touching what is still shared."""


_held: WeakSet[Forkable] = WeakSet()


def let_go_after_fork(held: Forkable) -> None:
    """Have `held.forked()` called in every process forked off this one."""
    _held.add(held)


def _let_go() -> None:
    for held in list(_held):
        held.forked()
    _held.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_let_go)


def runs_here(loop: asyncio.AbstractEventLoop | None = None) -> bool:
    """Tell whether this thread runs that loop; ``None``: any loop."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return loop is None or running is loop


def is_cancelled_here() -> bool:
    """Tell whether the running task is cancelled itself, not only what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def wait_shared(future: asyncio.Future[R]) -> R:
    """Wait for a future that others may wait for too; cancelling this leaves it alone.

    What fails after that concerns the others: `asyncio.shield` has it logged, from
    Python 3.14 on.
    """
    try:
        if not future.done():
            ended = future.get_loop().create_future()

            def wake(_: object) -> None:
                if not ended.done():
                    ended.set_result(None)

            future.add_done_callback(wake)
            try:
                await ended
            finally:
                future.remove_done_callback(wake)
        return future.result()
    finally:
        del future  # its error holds this frame, and must not be held by it


async def wait_at_most(seconds: float, work: Awaitable[object]) -> None:
    """Await that for so many seconds at most; then it is cancelled."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await work


# Channels...


class BaseChannel:
    """What every channel keeps: its calls by their ids, their time, how it ended."""

    stats: PeerStats

    def __init__(
        self,
        inbound: Inbound,
        calls: dict[int, Any],
        limits: Limits,
        target: str | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._inbound = inbound
        self._calls = calls
        self._timeouts = Timeouts(self._loop, calls, self._time_out, limits)
        self._dead: TransportError | None = None
        self._closed_by_us = self._is_forked = False
        self.limits = limits
        self.target = target
        self.reset_on_progress = False
        let_go_after_fork(self)

    def __repr__(self) -> str:
        state = "closed" if self._dead is not None else "open"
        calls = sum(id > 0 for id in list(self._calls))
        return f"<{type(self).__name__} {self.target or ''} {state}, {calls} calls>"

    @property
    def lost(self) -> TransportError | None:
        """Why it takes no more calls; ``None`` while it does."""
        return self._dead

    def cancel(self, handle: CallHandle, reason: str = "cancelled") -> bool:
        """End the call with that handle; return whether there was one to end."""
        id = handle.request_id
        call = self._calls.get(id) if type(id) is int else None
        # By handle and not by id alone: a handle keeps that of a call on a connection
        # before this one, which may be somebody else's here.
        return call is not None and call.handle is handle and self.cancel_id(id, reason)

    def cancel_id(self, id: RequestId | None, reason: str = "cancelled") -> bool:
        """End the call with that id, as `cancel` does."""
        raise NotImplementedError

    def _time_out(self, id: int, call: Any, now: float) -> None:
        """End a call at its deadline."""
        raise NotImplementedError

    def _refusal(self) -> MCPError:
        """Say why nothing can be sent."""
        if self._is_forked:
            return LocalProtocolError(
                "this connection belongs to the process that this one was forked from; "
                "connect a client of your own"
            )
        if asyncio.get_running_loop() is not self._loop:
            return LocalProtocolError(
                "this connection belongs to another event loop; use it where it was "
                "opened"
            )
        return self._closed_error(sent=False)

    def _closed_error(self, *, sent: bool) -> TransportError:
        """Build the error for a call that can get no answer."""
        raise NotImplementedError

    def forked(self) -> None:
        """Refuse every use: this process was forked off the one that connected."""
        self._closed_by_us = self._is_forked = True
        if self._dead is None:
            self._dead = TransportError("left to the parent", target=self.target)


class TwoWayChannel(BaseChannel):
    """How calls end on one connection that goes both ways, and how it ends itself."""

    is_busy = False
    _calls: dict[int, Pending]

    def __init__(
        self,
        inbound: Inbound,
        calls: dict[int, Pending],
        limits: Limits,
        target: str | None,
    ) -> None:
        super().__init__(inbound, calls, limits, target)
        self._closing: asyncio.Task[None] | None = None
        self._is_abandoned = False

    def open_server_stream(self, *, wanted: bool) -> None:
        """Do nothing: what the server says unasked comes on the same stream."""

    def when_server_stream_known(self, tell: Callable[[], object]) -> float:
        """Return no seconds: it can say it already."""
        del tell
        return 0.0

    # How a call ends...

    def _give_up(self, id: int, reason: str) -> None:
        """Tell the peer that nobody waits for an answer any more."""

    def _end_call(self, id: int, call: Pending, error: MCPError, reason: str) -> None:
        """End a call of ours without an answer."""
        self._give_up(id, reason)
        self.failed(call, error)

    def answered(self, call: Pending, result: dict[str, Any]) -> None:
        """Wake the caller with the result."""
        if call.holds:
            self._timeouts.release(call)
        if not call.future.done():
            call.future.set_result(result)

    def failed(self, call: Pending, error: MCPError) -> None:
        """Wake the caller with the error."""
        self._timeouts.release(call)
        if not call.future.done():
            call.future.set_exception(error)

    def _time_out(self, id: int, call: Pending, now: float) -> None:
        """End a call at its deadline."""
        assert call.deadline is not None
        noise = self.stats.noise
        detail = (
            f"{noise} line(s) it wrote were no protocol messages, "
            f"first: {self.stats.noise_lines[0]!r}"
            if self.stats.noise_lines
            else None
        )
        error = call.deadline.error(call.method, now, detail)
        self._end_call(id, call, error, "timeout")

    def _admit(self) -> bool:
        """Tell whether a request of the server is answered, and end spent calls."""
        from mcpwire.protocol.peer import TOO_MANY

        limit = self.limits.questions
        ids = {call: id for id, call in self._calls.items() if not call.future.done()}
        spent, is_admitted = admit_request(ids, limit)
        for call in spent:
            error = TooManyQuestions(call.method, limit=limit)
            self._end_call(ids[call], call, error, TOO_MANY)
        return is_admitted

    def withdrawn(self, id: RequestId) -> None:
        """Tell that the peer gave up a request."""
        self._timeouts.resume(id)
        self._inbound.cancelled(id)

    def _progressed(
        self, method: str, params: dict[str, Any] | None, call: Pending
    ) -> bool:
        """Hand a call's own notification to it; tell whether the call takes any."""
        if self.reset_on_progress and call.deadline is not None:
            call.deadline.extend(self._loop.time())
        if call.on_notification is None:
            return False
        call.on_notification(method, params)
        return True

    # How all end...

    def _lose(self, error: TransportError, cause: BaseException | None = None) -> None:
        """End every call; each gets an error of its own, none waits on."""
        if self._dead is not None:
            return
        error.__cause__ = cause = cause or error.__cause__
        calls = self._end_calls()
        self._dead = error
        self._timeouts.stop()
        for call in calls:
            own = self._closed_error(sent=self._was_sent(call))
            own.__cause__ = cause
            self.failed(call, own)
        if not self._closed_by_us:
            self._inbound.lost(error)

    def _end_calls(self) -> list[Pending]:
        """Take no more answers; return the calls that got none."""
        return list(self._calls.values())

    def _was_sent(self, call: Pending) -> bool:
        """Tell whether the peer may have got a call."""
        del call
        return True

    def _closed_error(
        self, *, sent: bool = True, cause: BaseException | None = None
    ) -> ConnectionClosed:
        """Build the error for one call; subclasses add what they know."""
        why = "closed by this side" if self._closed_by_us else "the peer closed it"
        if cause is not None:
            why = str(cause)
        elif self._dead is not None and not self._closed_by_us:
            why = str(self._dead.args[0])
            return ConnectionClosed(why, target=self.target, sent=sent)
        where = f" to {self.target}" if self.target else ""
        return ConnectionClosed(
            f"the connection{where} is closed: {why}", target=self.target, sent=sent
        )

    def give_up(self, error: TransportError) -> None:
        """Take the connection for lost, though it has not ended by itself."""
        self._lose(error)

    async def aclose(self) -> None:
        """Close the connection, bounded in time; open calls get `ConnectionClosed`.

        Cancelling it leaves the closing under way; call it again to wait for its end.
        """
        self._closed_by_us = True
        self._lose(self._closed_error())
        if self._closing is not None:
            await wait_shared(self._closing)

    def abandon(self) -> None:
        """Let go of the connection now, from anywhere: a finaliser cannot wait."""
        self._closed_by_us = self._is_abandoned = True
        abandoned = TransportError("abandoned", target=self.target)
        if not self._loop.is_closed():
            self._lose(abandoned)  # for waiting callers, maybe in other threads
        elif self._dead is None:
            self._dead = abandoned
        self._timeouts.stop()
