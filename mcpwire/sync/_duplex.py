"""Calls over a duplex byte stream in the calling thread: a `Peer`, and no loop.

What blocking stdio and memory share; a subclass brings the bytes. Errors, texts and
verdicts are those of `mcpwire.transports._duplex`, its twin on asyncio. How threads
share the one stream stands in `_lead`.

`Inbound` and everything else that is told inside the mutex must only store things: a
thread that took a lock of its own there would wait for one that holds it and calls.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from math import inf
from threading import Lock, get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    CallCancelled,
    ConnectionClosed,
    InternalError,
    LocalProtocolError,
    MCPError,
    RequestTimeout,
    RPCError,
    TransportError,
)
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol.deadline import Deadline
from mcpwire.protocol.peer import Peer
from mcpwire.sync._lead import NEVER, Lead, Waiter
from mcpwire.transports._fork import let_go_after_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.protocol.peer import PeerStats
    from mcpwire.transports.base import CallHandle, Inbound, NotifyFn
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

    EndFn = Callable[[dict[str, Any] | MCPError], None]
    """Takes a begun call's result or error, inside the mutex: it only stores."""

__all__ = ["BlockingDuplex", "Pending", "Waiter"]

TAKING_OVER_S: Final = 1.0
"""How long who closes waits for who leads: that one may be in a user's function."""


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


class BlockingDuplex(Lead):
    """A connection over a byte stream, for any number of threads.

    Attributes:
        target: What the connection is to, for error messages.
        reset_on_progress: Whether a call's own notifications extend its deadline.
        dropped: Notifications forgotten because a call's own thread was too slow.
    """

    __slots__ = (
        "_asking",
        "_closed_by_us",
        "_doomed",
        "_drains",
        "_ends_at",
        "_inbound",
        "_limits",
        "_peer",
        "_queued",
        "_unattended",
        "_written",
        "dropped",
        "reset_on_progress",
        "target",
    )

    def __init__(
        self,
        inbound: Inbound,
        *,
        role: str = "client",
        limits: Limits = DEFAULT_LIMITS,
        target: str | None = None,
    ) -> None:
        super().__init__()
        self._ends_at = inf
        """When a connection that is ending is given up."""
        self._inbound = inbound
        self._limits = limits
        self._peer: Peer[Pending] = Peer(self, role=role, limits=limits)
        self._queued = 0
        self._written = 0
        self._closed_by_us = False
        self._doomed: list[Pending] = []
        self._asking: set[RequestId] = set()
        self._unattended: dict[int, Pending] = {}
        self._drains: list[Waiter] = []
        self.target = target
        self.reset_on_progress = False
        self.dropped = 0
        let_go_after_fork(self)

    def __repr__(self) -> str:
        """Return one readable line."""
        state = "closed" if self._dead is not None else "open"
        calls = len(self._peer.outstanding)
        return f"<{type(self).__name__} {self.target or ''} {state}, {calls} calls>"

    @property
    def role(self) -> str:
        """``"client"`` or ``"server"``."""
        return self._peer.role

    @property
    def revision(self) -> Revision | None:
        """The agreed revision; ``None`` until the handshake has decided."""
        return self._peer.revision

    @revision.setter
    def revision(self, revision: Revision | None) -> None:
        self._peer.revision = revision

    @property
    def stats(self) -> PeerStats:
        """What came in beside plain answers."""
        return self._peer.stats

    @property
    def lost(self) -> TransportError | None:
        """Why the connection is gone; ``None`` while it is not known to be.

        Nobody reads while nobody waits: ``wait(Waiter(), 0)`` looks.
        """
        return self._dead

    @property
    def bytes_sent(self) -> int:
        """Bytes that the operating system has taken."""
        return self._written

    @property
    def requests_sent(self) -> int:
        """Requests that were begun."""
        return self._peer.requests_sent

    # Our calls...

    def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        deadline: Deadline | None,
        handle: CallHandle | None = None,
        on_notification: NotifyFn | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Perform a request; see `mcpwire.transports.base.Channel.call`.

        `on_notification` runs in the calling thread.
        """
        if self._dead is not None or headers:
            raise self._refusal(headers)
        call = Pending(method, params, deadline, handle, on_notification)
        self._join(call, deadline or NEVER, is_new=True)
        if call.error is None and call.result is not None:
            return call.result
        return outcome_of(call)

    def begin(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        deadline: Deadline | None,
        handle: CallHandle | None = None,
        on_notification: NotifyFn | None = None,
        on_end: EndFn | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Pending:
        """Send a request and wait for nothing; `finish` waits.

        `on_notification` and `on_end` are told inside the mutex by whoever reads: they
        store what they get. The deadline ends the call while anybody reads.
        """
        if self._dead is not None or headers:
            raise self._refusal(headers)
        call = Pending(method, params, deadline, handle, on_notification)
        call.on_end = on_end
        call.tells_at_once = True
        self._locked(partial(self._open, call), call)
        return call

    def finish(self, pending: Pending) -> dict[str, Any]:
        """Wait for the answer to a request that was begun; like `call`."""
        self._refuse_fork()
        if not pending.is_set:
            self._join(pending, pending.deadline or NEVER)
        return outcome_of(pending)

    def wait(self, waiter: Waiter, timeout: float | None) -> bool:
        """Take part in reading until something is set; return whether it is.

        That takes `timeout` seconds at most, ``None`` for ever, and ends with the
        connection.
        """
        self._refuse_fork()
        waiter.belongs_to(self)
        if not waiter.is_set and self._dead is None:
            until = NEVER if timeout is None else Deadline(monotonic(), timeout)
            try:
                self._join(waiter, until)
            finally:
                ident = get_ident()
                if ident in waiter.threads:
                    waiter.threads.remove(ident)
        return waiter.is_set

    def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification; one that fills the pipe is waited for, not for long.

        Raises:
            TransportError: The connection is gone, or the peer does not read.
            LocalProtocolError: The notification may not be sent; nothing was.
        """
        if self._dead is not None or headers:
            raise self._refusal(headers)
        self._locked(lambda: self._post(self._peer.notify(method, params)))
        self._see_off()

    def cancel(self, handle: CallHandle, reason: str = "cancelled") -> None:
        """End the call with that handle: it raises `CallCancelled`, the peer is told.

        A call that has ended, or has not begun, is left alone.
        """
        self._locked(partial(self._cancel, handle, reason))

    def _cancel(self, handle: CallHandle, reason: str) -> None:
        id = handle.request_id
        call = self._peer.outstanding.get(id) if type(id) is int else None
        if call is not None and type(id) is int:
            self._give_up(id, reason)
            self._end_call(call, CallCancelled(call.method, reason=reason))

    def _refusal(self, headers: Mapping[str, str] | None) -> MCPError:
        """Say why a call cannot even begin."""
        self._refuse_fork()
        if headers:
            return LocalProtocolError(
                "headers can be sent over HTTP only; this connection is "
                f"{self.target or 'no HTTP connection'}"
            )
        return self._closed_error(sent=False)

    # All that follows happens inside the mutex, unless it says otherwise.

    def _open(self, waiter: Waiter) -> None:
        """Send a request; it has its id before the first byte leaves."""
        call = waiter
        assert type(call) is Pending
        if self._dead is not None or self._has_dates:
            self._check_alive()
        params, call.params = call.params, None
        call.id, line = self._peer.open(
            call.method, params, call, progress=call.on_notification is not None
        )
        if call.handle is not None:
            call.handle.request_id = call.id
        call.end = self._queued + len(line)
        self._torn = True
        try:
            self._send(line)
        except TransportError:
            self._torn = False
            self._peer.forget(call.id)
            raise
        self._torn = False
        if self._asking:
            self._pause_call(call, monotonic())
        if call.tells_at_once and call.deadline is not None:
            self._unattended[call.id] = call
            self._has_dates = True
            self._wake_leader()

    def _check_alive(self) -> None:
        """Raise where the connection is gone, or about to be."""
        if self._dead is not None:
            raise self._closed_error(sent=False)

    def _give_up(self, id: int, reason: str) -> None:
        """Stop waiting for an answer and tell the peer, as far as it can be told."""
        line = self._peer.cancel(id, reason)
        if line is not None and self._dead is None:
            try:
                self._post(line)
            except TransportError:
                return  # the peer does not read: it cannot be told

    def _withdraw(self, waiter: Waiter) -> None:
        if type(waiter) is Pending and not waiter.is_set:
            outstanding = self._peer.outstanding
            for id in [id for id, call in outstanding.items() if call is waiter]:
                if waiter.end:
                    self._give_up(id, "the caller was interrupted")
                else:
                    self._peer.forget(id)
            self._end_call(waiter, CallCancelled(waiter.method, reason="interrupted"))

    # Deadlines...

    def _time_is_up(self, waiter: Waiter) -> None:
        if type(waiter) is Pending and not waiter.is_set:
            self.time_out(waiter, monotonic())

    def time_out(self, call: Pending, now: float) -> None:
        """End a call whose deadline has passed, and tell the peer."""
        deadline = call.deadline
        assert deadline is not None
        timeout = deadline.timeout
        assert timeout is not None
        self._give_up(call.id, "timeout")
        self._end_call(
            call,
            RequestTimeout(
                method=call.method,
                timeout=timeout,
                elapsed=deadline.elapsed(now),
                detail=self._silence_detail(),
            ),
        )

    def _silence_detail(self) -> str | None:
        """Say what else is known of a peer that does not answer."""
        stats = self._peer.stats
        if stats.noise_lines:
            return (
                f"{stats.noise} line(s) it wrote were no protocol messages, "
                f"first: {stats.noise_lines[0]!r}"
            )
        return None

    def _next_date(self, at: float) -> float:
        for call in list(self._unattended.values()):
            if call.deadline is not None:
                at = min(at, call.deadline.at)
        return min(at, self._ends_at)

    def _end_unattended(self) -> None:
        """End the calls out of time of which no thread takes care."""
        now = monotonic()
        for call in list(self._unattended.values()):
            if call.deadline is not None and call.deadline.expired(now):
                self.time_out(call, now)

    def _pause(self, id: RequestId) -> None:
        """Stop the clock of every call: a handler of ours is busy with that request.

        On a duplex stream nothing links the peer's request to the call it belongs to.
        """
        if not self._asking:
            now = monotonic()
            for call in self._peer.outstanding.values():
                self._pause_call(call, now)
        self._asking.add(id)

    def _pause_call(self, call: Pending, now: float) -> None:
        if call.deadline is not None and not call.is_paused:
            call.is_paused = True
            call.deadline.pause(now)

    def _resume_call(self, call: Pending, now: float) -> None:
        # One deadline may span several requests of a call: it must not stay paused.
        if call.deadline is not None and call.is_paused:
            call.is_paused = False
            call.deadline.resume(now)

    def _resume(self, id: RequestId) -> None:
        """Let the clock run again once the last such handler is through."""
        if id not in self._asking:
            return
        self._asking.discard(id)
        if self._asking:
            return
        now = monotonic()
        for call in self._peer.outstanding.values():
            self._resume_call(call, now)
        self._wake_everybody()  # each to look at its new time

    # What the peer tells (`protocol.peer.Owner`)...

    def answered(self, call: Pending, result: dict[str, Any]) -> None:
        """Wake the caller with the result."""
        call.result = result
        if call.tells_at_once or call.is_paused or call.threads[0] != self._leader:
            self._end_call(call, None)
        else:
            call.is_set = True

    def failed(self, call: Pending, error: MCPError) -> None:
        """Wake the caller with the error."""
        self._end_call(call, error)

    def _end_call(self, call: Pending, error: MCPError | None) -> None:
        if call.is_set:
            return
        if call.is_paused:
            self._resume_call(call, monotonic())
        call.error = error
        call.is_set = True
        if self._unattended:
            self._unattended.pop(call.id, None)
        for thread in call.threads:
            self._wake(thread)
        if call.on_end is not None:
            call.on_end(error if error is not None else call.result or {})

    def notified(
        self, method: str, params: dict[str, Any] | None, call: Pending | None
    ) -> None:
        """Hand a notification to its call, or to whoever hears the rest."""
        if call is not None:
            if self.reset_on_progress and call.deadline is not None:
                call.deadline.extend(monotonic())
            if call.on_notification is not None:
                if call.tells_at_once:
                    call.on_notification(method, params)
                else:
                    self._keep(call, method, params)
                return
        handle = call.handle if call is not None else None
        self._inbound.notification(method, params, handle)

    def _keep(self, call: Pending, method: str, params: dict[str, Any] | None) -> None:
        """Keep a notification for the thread of its call, which runs what hears it."""
        if call.notices is None:
            call.notices = deque()
        elif len(call.notices) >= self._limits.notifications:
            call.notices.popleft()
            self.dropped += 1
        call.notices.append((method, params))
        for thread in call.threads:
            self._wake(thread)

    def _tell(self, waiter: Waiter) -> None:
        """Run what hears a call's notifications; in its thread, outside the mutex."""
        assert type(waiter) is Pending
        assert waiter.on_notification is not None
        while waiter.notices:
            waiter.on_notification(*waiter.notices.popleft())

    def requested(
        self, id: RequestId, method: str, params: dict[str, Any] | None
    ) -> None:
        """Hand a request of the peer's on, with the function that answers it."""
        self._inbound.request(id, method, params, partial(self.reply, id), None)
        if self._peer.is_in_flight(id) and self._peer.role == "client":
            self._pause(id)

    def withdrawn(self, id: RequestId) -> None:
        """Tell that the peer gave up a request."""
        self._resume(id)
        self._inbound.cancelled(id)

    def transmit(self, data: bytes) -> None:
        """Write what the peer has to say by itself."""
        if self._dead is None:
            try:
                self._send(data)
            except TransportError as error:
                self._lose(error)

    def reply(self, id: RequestId, answer: dict[str, Any] | RPCError) -> None:
        """Send an answer, from any thread, inside the mutex or outside."""
        if self._holder == get_ident() and self._mutex.locked():
            self._reply(id, answer)
        elif self._dead is None:
            self._locked(partial(self._reply, id, answer))
            self._see_off()

    def _reply(self, id: RequestId, answer: dict[str, Any] | RPCError) -> None:
        """Send an answer; one that is no JSON becomes an internal error."""
        try:
            if isinstance(answer, RPCError):
                line = self._peer.refuse(id, answer)
            else:
                line = self._peer.answer(id, answer)
        except LocalProtocolError as error:
            line = self._peer.refuse(
                id, InternalError(f"the answer could not be encoded: {error}")
            )
        self._resume(id)
        if line is not None:
            was_torn, self._torn = self._torn, True
            self.transmit(line)
            self._torn = was_torn

    # Bytes...

    def _post(self, line: bytes) -> None:
        """Send a line of which no byte may be lost, nor written twice."""
        self._check_alive()
        self._torn = True
        try:
            self._send(line)
        except TransportError:
            self._torn = False
            raise
        self._torn = False

    def _send(self, data: bytes) -> None:
        """Queue complete lines; the one place all our messages pass.

        Raises:
            TransportError: Too much is waiting for the peer to read.
        """
        unwritten = self._queued - self._written
        if unwritten and unwritten + len(data) > self._limits.unwritten:
            raise TransportError(
                f"the peer does not read: {unwritten} bytes are unwritten "
                f"(Limits.unwritten is {self._limits.unwritten})",
                target=self.target,
            )
        self._queued += len(data)
        self._write(data)

    def _write(self, data: bytes) -> None:
        """Pass bytes on, adding to `_written` what was taken; must not raise."""
        raise NotImplementedError

    def _see_off(self) -> None:
        """Write what nobody else does, for a while; outside the mutex."""
        if self._written < self._queued and self._leader == 0 and self._dead is None:
            written = Waiter()
            self._locked(partial(self._tell_when_written, written))
            self.wait(written, self._limits.close_grace)

    def _tell_when_written(self, waiter: Waiter) -> None:
        if self._written < self._queued:
            self._drains.append(waiter)
        else:
            waiter.set()

    def _all_written(self) -> None:
        drains, self._drains = self._drains, []
        for waiter in drains:
            waiter.set()

    def receive(self, data: bytes) -> None:
        """Take in bytes that came; a subclass calls this."""
        try:
            self._peer.receive(data)
        except MCPError as error:
            self._lose(self._closed_error(cause=error), error)

    # The end...

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

    def _poison(self) -> None:
        self._lose(
            TransportError(
                "an interrupt came while a message was being read or written, so that "
                "bytes may be lost",
                target=self.target,
            )
        )
        self._torn = False

    def _lose(self, error: TransportError, cause: BaseException | None = None) -> None:
        """End every call; each gets an error of its own, none waits on.

        Where it was interrupted, it is called again and goes on.
        """
        if self._dead is None:
            self._doomed = list(self._peer.outstanding.values())
            self._peer.end()
            error.__cause__ = cause
            self._dead = error
            self._ends_at = inf
            if not self._closed_by_us:
                self._inbound.lost(error)
        written = self._written
        while self._doomed:
            call = self._doomed[-1]
            # A line needs all its bytes but the newline to be understood.
            own = self._closed_error(sent=written >= call.end - 1)
            own.__cause__ = cause
            self._end_call(call, own)
            self._doomed.pop()
        self._wake_everybody()

    def give_up(self, error: TransportError) -> None:
        """Take the connection for lost, though it has not ended by itself."""
        self._locked(partial(self._lose, error))

    def close(self) -> None:
        """Close the connection; calls still open fail with `ConnectionClosed`.

        From any thread, twice, beside others; whoever comes second waits for the first.
        In a forked process there is nothing to close.
        """
        if self._is_forked:
            return
        ident = get_ident()
        leads = self._leader == ident  # in a signal handler, while this thread polls
        try:
            with self._mutex:
                self._holder = ident
                self._closed_by_us = self._torn = True
                self._lose(self._closed_error())
                self._torn = False
                self._holder = 0
            self._take_lead(TAKING_OVER_S)
            self._shut()
        except BaseException:
            try:
                self._shut_at_once(ident)
            except BaseException:
                self._shut_at_once(ident)
                raise
            raise
        finally:
            if not leads:
                self._drop_lead()

    def _shut(self) -> None:
        """Let go of everything, in peace; bounded in time."""
        raise NotImplementedError

    def _shut_at_once(self, ident: int) -> None:
        """Let go of everything without waiting for anybody: closing was interrupted.

        Where another thread leads, it lets go of the descriptors.
        """
        with self._mutex:
            self._holder = ident
            if self._torn:
                self._poison()
            self._parked.pop(ident, None)
            if self._leader == 0:
                self._leader = ident
            self._holder = 0
        if self._leader == ident:
            self._shut()

    def forked(self) -> None:
        """Refuse every use: this process was forked off the one that connected."""
        self._is_forked = True
        self._closed_by_us = True
        self._mutex = Lock()
        if self._dead is None:
            self._dead = TransportError("left to the parent", target=self.target)

    def abandon(self) -> None:
        """Let go of the connection now, from anywhere: a finaliser cannot wait."""
        self._closed_by_us = True
        if self._dead is None:
            self._dead = TransportError("abandoned", target=self.target)


def outcome_of(call: Pending) -> dict[str, Any]:
    """Return the result of a call that has ended, or raise its error."""
    if call.error is None:
        assert call.result is not None
        return call.result
    try:
        raise call.error
    finally:
        del call  # the error's traceback must not lead back to the error
