"""Shared parts of all transports: `Channel`, `Inbound`, pending calls and tracing.

A channel is one connection (stdio), or one session or origin (HTTP). A lost one is
replaced by its owner. An `Inbound` gets the requests and notifications of the peer.

`Timeouts` ends calls that are not answered in time. Its one timer is armed for the
earliest deadline and checks all calls when it fires, so a call that is answered in
time usually neither arms nor cancels it. While a handler answers a request of the
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
    CallCancelled,
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
    from mcpwire.transports.targets import ChannelOpener
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

    NotifyFn = Callable[[str, dict[str, Any] | None], None]
    """Receives a call's notifications (method, params). Must not block or raise."""

    ReplyFn = Callable[[dict[str, Any] | RPCError], None]
    """Sends the answer to a request of the peer; ignores all answers but the first."""

logger = logging.getLogger("mcpwire")

MIN_CHECK_INTERVAL_S: Final = 0.005
"""Minimum time between two checks of the deadlines: each check visits all calls."""


class CallHandle:
    """The handle of a call for code outside it, for example to cancel it.

    Attributes:
        request_id: The id on the wire, set before the first byte is sent. It changes
            if a call needs more than one request (input-required rounds, re-issue).
    """

    __slots__ = ("request_id",)
    is_background = is_unattended = False

    def __init__(self) -> None:
        self.request_id: RequestId | None = None


class UnattendedHandle(CallHandle):
    """For a call that no user waits for: it starts no login."""

    __slots__ = ()
    is_unattended = True


class BackgroundHandle(UnattendedHandle):
    """For a call without a waiting caller: HTTP repeats it, also after a login."""

    __slots__ = ()
    is_background = True


class Channel(Protocol):
    """A connection that performs calls."""

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

        With `on_notification` the request asks for progress. Cancelling the task
        notifies the peer and returns at once.

        Raises:
            RPCError: The peer answered with an error.
            RequestTimeout: The deadline passed; the peer was notified.
            TransportError: The connection was lost before or during the call.
            RemoteProtocolError: The response violates the protocol.
            LocalProtocolError: The request must not be sent; nothing was sent.
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
            TransportError: The connection is lost.
            LocalProtocolError: The notification must not be sent; nothing was sent.
        """

    async def aclose(self) -> None:
        """Close the connection and release its resources; bounded in time."""


class Inbound(Protocol):
    """The receiver of a peer's messages. Its methods must neither await nor raise."""

    def notification(
        self, method: str, params: dict[str, Any] | None, call: CallHandle | None
    ) -> None:
        """Handle a notification; `call` is the call that it belongs to, if any."""

    def request(
        self,
        id: RequestId,
        method: str,
        params: dict[str, Any] | None,
        reply: ReplyFn,
        call: CallHandle | None,
    ) -> None:
        """Handle a request; its answer is passed to `reply`, now or later."""

    def cancelled(self, id: RequestId) -> None:
        """Handle the cancellation of a request; its answer will not be sent."""

    def lost(self, error: TransportError) -> None:
        """Handle the loss of a connection that this side did not close."""

    def missed(self) -> None:
        """Handle an interruption of a stream: notifications may have been lost."""


# Pending calls


@attrs.define(eq=False, weakref_slot=False)
class Pending:
    """A call that waits for its response."""

    method: str
    future: asyncio.Future[dict[str, Any]]
    deadline: Deadline | None
    on_notification: NotifyFn | None
    handle: CallHandle | None

    id: int = 0
    """The id of its request on a byte stream, once it is sent."""

    end: int = 0
    """Number of bytes queued on the channel up to the end of its request."""

    pauses: int = 0
    """Number of the peer's requests that pause its deadline."""

    questions: int = 0
    """Number of the peer's requests that were admitted during the call."""


class _TimedCall(Protocol):
    """A call with a deadline: a `Pending`, or the reply to an HTTP request."""

    deadline: Deadline | None
    pauses: int


R = TypeVar("R")


class Timeouts:
    """The deadlines of a channel's calls, and the timer that ends them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        outstanding: Mapping[int, Any],
        expire: Callable[[Any, float], None],
        limits: Limits,
    ) -> None:
        self._max_pause = limits.question_time
        self._loop = loop
        self._outstanding = outstanding
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        self._paused_calls: dict[RequestId, list[_TimedCall]] = {}
        self.at = inf

    def arm(self, at: float) -> None:
        """Make the timer fire at that time at the latest."""
        if at < self.at:
            if self._timer is not None:
                self._timer.cancel()
            self.at = at
            self._timer = self._loop.call_at(at, self._check_deadlines)

    def stop(self) -> None:
        """Disarm the timer and forget the paused deadlines."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.at = inf
        self._paused_calls.clear()

    def _check_deadlines(self) -> None:
        self._timer = None
        self.at = earliest = inf
        now = self._loop.time()
        for call in list(self._outstanding.values()):
            deadline = call.deadline
            if deadline is None:
                continue
            if deadline.expired(now):
                self._expire(call, now)
            else:
                earliest = min(earliest, deadline.at)
        if earliest < inf:
            self.arm(max(earliest, now + MIN_CHECK_INTERVAL_S))

    def pause(self, id: RequestId, calls: Iterable[_TimedCall]) -> None:
        """Pause the deadlines of these calls until the peer's request is answered.

        Calls started later are not paused: the handler of the request may make one,
        and the peer may withhold its response until the request is answered.
        """
        now = self._loop.time()
        paused = self._paused_calls[id] = [
            call for call in calls if call.deadline is not None
        ]
        for call in paused:
            assert call.deadline is not None
            call.pauses += 1
            call.deadline.pause(now, self._max_pause)

    def resume(self, id: RequestId) -> None:
        """Resume the deadlines that were paused for that request."""
        for call in self._paused_calls.pop(id, ()):
            if call.pauses:
                self._resume(call)
                assert call.deadline is not None
                self.arm(call.deadline.at)

    def release(self, call: _TimedCall) -> None:
        """Resume the deadline of a finished call: it may cover further requests."""
        while call.pauses:
            self._resume(call)

    def _resume(self, call: _TimedCall) -> None:
        call.pauses -= 1
        assert call.deadline is not None
        call.deadline.resume(self._loop.time())


# Tracing


class Trace:
    """A user's hook that observes a connection: ``trace(event, data)``.

    ===========  =========================================================
    ``open``     the target, as one line without secrets
    ``send``     one message, as bytes without its newline
    ``written``  number of bytes that the operating system has taken since ``open``
    ``read``     received bytes, as they were read
    ``receive``  one received line, as bytes without its newline
    ``request``  over HTTP: the head of a request, as text without secrets
    ``response`` over HTTP: the head of a response, as text without secrets
    ``agree``    the `Negotiation` that succeeded
    ``lost``     the `TransportError` that ended the connection
    ``close``    the target
    ===========  =========================================================

    A message is completely written at the first ``written`` that counts all bytes of
    the messages up to it, newlines included. ``read`` precedes the ``receive`` of the
    lines that it completes. If the peer reads slowly, ``written`` is reported for the
    bytes that were taken at once, and again when no bytes are queued any more.
    """

    def __init__(self, hook: Callable[[str, Any], Any]) -> None:
        if inspect.iscoroutinefunction(hook):
            raise ValueError(f"trace must be a plain function, got {hook!r}")
        self._hook = hook

    def __call__(self, event: str, data: Any) -> None:
        """Call the hook; log its exceptions."""
        try:
            self._hook(event, data)
        except BaseException as error:
            # CancelledError: the hook may read the result of a cancelled future.
            if not isinstance(error, (Exception, asyncio.CancelledError)):
                raise
            logger.exception("trace hook %r raised", self._hook)

    def wrap(self, opener: ChannelOpener) -> ChannelOpener:
        """Return an opener of channels that report their events to the hook."""
        open_channel, open_legacy = opener.open, opener.open_legacy
        return attrs.evolve(
            opener,
            open=lambda inbound: self._attach(open_channel(inbound)),
            open_legacy=None
            if open_legacy is None
            else lambda inbound: self._attach(open_legacy(inbound)),
        )

    def _attach(self, channel: Any) -> Any:
        channel.set_trace(self)
        self("open", channel.target)
        return channel


# Connections after a fork

# A forked process shares pipes and the epoll instance with its parent. Writing to a
# pipe would corrupt the parent's session, changing the epoll instance would stop the
# parent's reading, and exit functions would kill the parent's servers. Therefore all
# connections of the forked process close their descriptors at once and refuse calls.


class Forkable(Protocol):
    """An object that a forked process must not use or end."""

    def after_fork(self) -> None:
        """Release its resources in the forked process; leave shared state unchanged."""


_forkables: WeakSet[Forkable] = WeakSet()


def register_after_fork(resource: Forkable) -> None:
    """Have `after_fork` called in every process that is forked from this one."""
    _forkables.add(resource)


def _run_after_fork() -> None:
    for resource in list(_forkables):
        resource.after_fork()
    _forkables.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_run_after_fork)


def is_on_loop(loop: asyncio.AbstractEventLoop | None = None) -> bool:
    """Return whether this thread runs that loop; ``None``: any loop."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return loop is None or running is loop


def is_cancelled_here() -> bool:
    """Return whether the running task itself is cancelled, not only its awaitable."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def wait_shared(future: asyncio.Future[R]) -> R:
    """Wait for a shared future; cancelling the wait does not cancel the future.

    `asyncio.shield` is not used: since Python 3.14 it logs the future's error after a
    cancellation, but here the other waiters get it.
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
        del future  # its error refers to this frame: avoid a reference cycle


async def wait_at_most(seconds: float | None, work: Awaitable[object]) -> None:
    """Await `work` for at most that time, then cancel it; ``None``: no limit."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await work


# Channels


class BaseChannel:
    """Base class of channels: keeps the open calls, their timeouts, the final error."""

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
        self._lost: TransportError | None = None
        self._closed_by_us = self.is_forked = False
        self.limits = limits
        self.target = target
        self.reset_on_progress = False
        register_after_fork(self)

    def __repr__(self) -> str:
        state = "closed" if self._lost is not None else "open"
        calls = sum(id > 0 for id in list(self._calls))
        return f"<{type(self).__name__} {self.target or ''} {state}, {calls} calls>"

    @property
    def lost(self) -> TransportError | None:
        """The error that ended the channel; ``None`` while it is open."""
        return self._lost

    def cancel(self, handle: CallHandle, reason: str = "cancelled") -> bool:
        """End the call with that handle; return whether there was one."""
        call = self._open_call(handle.request_id)
        # The id is not enough: a handle may keep the id of a call on an earlier
        # connection, and another call may have the same id here.
        return call is not None and call.handle is handle and self._cancel(call, reason)

    def cancel_id(self, id: RequestId | None, reason: str = "cancelled") -> bool:
        """End the call with that id, as `cancel` does."""
        call = self._open_call(id)
        return call is not None and self._cancel(call, reason)

    def _open_call(self, id: RequestId | None) -> Any:
        return self._calls.get(id) if type(id) is int and id > 0 else None

    def _cancel(self, call: Any, reason: str) -> bool:
        return self._end_call(call, CallCancelled(call.method, reason=reason), reason)

    def _end_call(self, call: Any, error: MCPError, reason: str) -> bool:
        """End a call without a response; return whether it was open."""
        raise NotImplementedError

    def _time_out(self, call: Any, now: float) -> None:
        """End a call at its deadline."""
        raise NotImplementedError

    def _pass_request(  # noqa: PLR0917 - those of `Inbound.request`
        self,
        id: RequestId,
        method: str,
        params: dict[str, Any] | None,
        answer: ReplyFn,
        handle: CallHandle | None,
        calls: Collection[Any],
    ) -> None:
        """Pass a request of the peer on; pause the calls that it may belong to.

        The calls at `Limits.questions` end; if all end, the request is refused.
        """
        limit = self.limits.questions
        exhausted = [call for call in calls if call.questions >= limit]
        if exhausted and method != "ping":
            from mcpwire.protocol.peer import TOO_MANY_REASON, too_many_questions

            for call in exhausted:
                error = TooManyQuestions(call.method, limit=limit)
                self._end_call(call, error, TOO_MANY_REASON)
            calls = [call for call in calls if call.questions < limit]
            if not calls:
                answer(too_many_questions())
                return
        for call in calls:
            call.questions += method != "ping"
        # First, as the handler may start at once and make calls of its own.
        self._timeouts.pause(id, calls)
        self._inbound.request(id, method, params, answer, handle)

    def _notify_call(
        self, method: str, params: dict[str, Any] | None, call: Any
    ) -> bool:
        """Pass a notification to its call; return whether the call has a callback."""
        if self.reset_on_progress and call.deadline is not None:
            call.deadline.extend(self._loop.time())
        if call.on_notification is None:
            return False
        call.on_notification(method, params)
        return True

    def _refusal(self) -> MCPError:
        """Return the error that says why no message can be sent."""
        if self.is_forked:
            return LocalProtocolError(
                "this connection belongs to the parent process; connect a new client "
                "after a fork"
            )
        if asyncio.get_running_loop() is not self._loop:
            return LocalProtocolError(
                "this connection belongs to another event loop; use it where it was "
                "opened"
            )
        return self._closed_error(sent=False)

    def _closed_error(self, *, sent: bool) -> TransportError:
        """Return the error for a call that cannot get a response any more."""
        raise NotImplementedError

    def after_fork(self) -> None:
        """Refuse every use: the connection belongs to the parent process."""
        self._closed_by_us = self.is_forked = True
        if self._lost is None:
            self._lost = TransportError("left to the parent", target=self.target)


class TwoWayChannel(BaseChannel):
    """Base class of channels over one bidirectional connection."""

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

    def open_server_stream(self, *, needed: bool) -> None:
        """Do nothing: the server's own messages arrive on the same stream."""

    def watch_server_stream(self, callback: Callable[[], object]) -> float:
        """Return zero seconds to wait: the server can always send messages."""
        del callback
        return 0.0

    # End of a call

    def _send_cancellation(self, call: Pending, reason: str) -> None:
        """Notify the peer of the end of a call; do nothing by default."""

    def _end_call(self, call: Pending, error: MCPError, reason: str) -> bool:
        self._send_cancellation(call, reason)
        self.on_error(call, error)
        return True

    def _unfinished_calls(self) -> list[Pending]:
        """Return the open calls; a request of the peer may belong to each of them."""
        return [call for call in self._calls.values() if not call.future.done()]

    def on_result(self, call: Pending, result: dict[str, Any]) -> None:
        """Wake the caller with the result."""
        if call.pauses:
            self._timeouts.release(call)
        if not call.future.done():
            call.future.set_result(result)

    def on_error(self, call: Pending, error: Exception) -> None:
        """Wake the caller with the error."""
        self._timeouts.release(call)
        if not call.future.done():
            call.future.set_exception(error)

    def _time_out(self, call: Pending, now: float) -> None:
        assert call.deadline is not None
        noise = self.stats.noise
        detail = (
            f"{noise} line(s) of its output were not protocol messages, "
            f"first: {self.stats.noise_lines[0]!r}"
            if self.stats.noise_lines
            else None
        )
        error = call.deadline.error(call.method, now, detail)
        self._end_call(call, error, "timeout")

    def on_cancelled(self, id: RequestId) -> None:
        """Handle the cancellation of a request by the peer."""
        self._timeouts.resume(id)
        self._inbound.cancelled(id)

    # End of the connection

    def _mark_lost(
        self, error: TransportError, cause: BaseException | None = None
    ) -> None:
        """End the channel and all its calls, each with its own error object."""
        if self._lost is not None:
            return
        cause = cause or error.__cause__
        if cause is not error:
            error.__cause__ = cause
        calls = self._end_calls()
        self._lost = error
        self._timeouts.stop()
        for call in calls:
            call_error = self._closed_error(sent=self._was_sent(call))
            call_error.__cause__ = cause
            self.on_error(call, call_error)
        if not self._closed_by_us:
            self._inbound.lost(error)

    def _end_calls(self) -> list[Pending]:
        """Stop accepting responses; return the open calls."""
        return list(self._calls.values())

    def _was_sent(self, call: Pending) -> bool:
        """Return whether the peer may have received a call."""
        del call
        return True

    def _closed_error(
        self, *, sent: bool = True, cause: BaseException | None = None
    ) -> ConnectionClosed:
        """Return the error for one call; subclasses add details."""
        reason = "closed by this side" if self._closed_by_us else "the peer closed it"
        if cause is not None:
            reason = str(cause)
        elif self._lost is not None and not self._closed_by_us:
            reason = str(self._lost.args[0])
            return ConnectionClosed(reason, target=self.target, sent=sent)
        place = f" to {self.target}" if self.target else ""
        return ConnectionClosed(
            f"the connection{place} is closed: {reason}", target=self.target, sent=sent
        )

    def give_up(self, error: TransportError) -> None:
        """Treat the connection as lost although it has not ended."""
        self._mark_lost(error)

    async def aclose(self) -> None:
        """Close the connection, bounded in time; open calls get `ConnectionClosed`.

        Cancellation does not stop the closing; call it again to wait for the end.
        """
        self._closed_by_us = True
        self._mark_lost(self._closed_error())
        if self._closing is not None:
            await wait_shared(self._closing)

    def abandon(self) -> None:
        """End the connection at once, from any thread: a finaliser cannot wait."""
        self._closed_by_us = self._is_abandoned = True
        abandoned = TransportError("abandoned", target=self.target)
        if not self._loop.is_closed():
            self._mark_lost(abandoned)  # wakes callers, which may wait in other threads
        elif self._lost is None:
            self._lost = abandoned
        self._timeouts.stop()
