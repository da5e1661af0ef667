"""The calls of one blocking connection: everything that happens inside the mutex.

A `Peer`, what waits for its answers, and when each of them is out of time. Errors,
texts and verdicts are those of `mcpwire.transports._duplex`, its twin on asyncio.

`Inbound` and everything else that is told from here must only store things: a thread
that took a lock of its own there would wait for one that holds it and calls.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from mcpwire.errors import (
    CallCancelled,
    InternalError,
    LocalProtocolError,
    MCPError,
    RPCError,
    TransportError,
)
from mcpwire.protocol.peer import Peer
from mcpwire.sync._lead import Lead, Waiter
from mcpwire.sync._pending import Pending
from mcpwire.transports._facts import DuplexFacts

if TYPE_CHECKING:
    from mcpwire.limits import Limits
    from mcpwire.transports.base import CallHandle, Inbound
    from mcpwire.wire.jsonrpc import RequestId

    Bytes = bytes | bytearray | memoryview

__all__ = ["Calls"]


class Calls(DuplexFacts, Lead):
    """The state that calls share; see the module's text."""

    __slots__ = (
        "_asking",
        "_begun",
        "_closed_by_us",
        "_doomed",
        "_drains",
        "_ends_at",
        "_given",
        "_inbound",
        "_limits",
        "_peer",
        "_queued",
        "_shared",
        "_unwritten",
        "_written",
        "dropped",
        "reset_on_progress",
        "target",
    )

    def __init__(
        self,
        inbound: Inbound,
        *,
        role: str,
        limits: Limits,
        target: str | None,
    ) -> None:
        super().__init__()
        self._ends_at = inf
        """When a connection that is ending is given up."""
        self._inbound = inbound
        self._limits = limits
        self._peer: Peer[Pending] = Peer(self, role=role, limits=limits)
        self._queued = 0
        self._written = 0
        self._unwritten: deque[memoryview] = deque()
        """What waits until the peer reads, or until another thread has written."""
        self._shared = bytearray()
        """What waits behind that, and leaves together."""
        self._given: Bytes = b""
        """What the writer is writing."""
        self._closed_by_us = False
        self._doomed: list[Pending] = []
        self._asking: dict[RequestId, int] = {}
        """What handlers of ours are busy with, and the last call begun before it."""
        self._begun: dict[int, Pending] = {}
        self._drains: list[Waiter] = []
        self.target = target
        self.reset_on_progress = False
        self.dropped = 0

    def reply(self, id: RequestId, answer: dict[str, Any] | RPCError) -> None:
        """Answer a request of the peer's, from wherever."""
        raise NotImplementedError

    # Our calls...

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
        if call.tells_at_once:
            self._begun[call.id] = call
            if call.deadline is not None:
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

    def _cancel(self, handle: CallHandle, reason: str) -> None:
        id = handle.request_id
        call = self._peer.outstanding.get(id) if type(id) is int else None
        # A handle on a call of another connection may hold an id that is in use here.
        if call is not None and call.handle is handle:
            self._cancel_id(id, reason)

    def _cancel_id(self, id: RequestId | None, reason: str) -> None:
        call = self._peer.outstanding.get(id) if type(id) is int else None
        if call is not None and type(id) is int:
            self._give_up(id, reason)
            self._end_call(call, CallCancelled(call.method, reason=reason))

    # Deadlines...

    def _time_is_up(self, waiter: Waiter) -> None:
        if type(waiter) is Pending and not waiter.is_set:
            self.time_out(waiter, monotonic())

    def time_out(self, call: Pending, now: float) -> None:
        """End a call whose deadline has passed, and tell the peer."""
        deadline = call.deadline
        assert deadline is not None
        self._give_up(call.id, "timeout")
        self._end_call(call, deadline.error(call.method, now, self._silence_detail()))

    def _next_date(self, at: float) -> float:
        for call in list(self._begun.values()):
            if call.deadline is not None:
                at = min(at, call.deadline.at)
        return min(at, self._ends_at)

    def _end_begun(self) -> None:
        """End the calls out of time of which no thread takes care."""
        now = monotonic()
        for call in list(self._begun.values()):
            if call.deadline is not None and call.deadline.expired(now):
                self.time_out(call, now)

    def _pause(self, id: RequestId) -> None:
        """Stop the clock of every call: a handler of ours is busy with that request.

        On a duplex stream nothing links the peer's request to the call it belongs to.
        It belongs to none begun later: such as the handler's own, which must end, for
        the peer may answer nothing before it has its answer.
        """
        now = monotonic()
        for call in self._peer.outstanding.values():
            self._pause_call(call, now)
        self._asking[id] = max(self._peer.outstanding, default=0)

    def _pause_call(self, call: Pending, now: float) -> None:
        if call.deadline is not None and not call.is_paused:
            call.is_paused = True
            call.deadline.pause(now, self._limits.question_time)

    def _resume_call(self, call: Pending, now: float) -> None:
        # One deadline may span several requests of a call: it must not stay paused.
        if call.deadline is not None and call.is_paused:
            call.is_paused = False
            call.deadline.resume(now)

    def _resume(self, id: RequestId) -> None:
        """Let a call's clock run again once the last such handler is through."""
        if self._asking.pop(id, None) is None:
            return
        now = monotonic()
        still = max(self._asking.values(), default=0)
        for call in self._peer.outstanding.values():
            if call.id > still:
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
        if call.on_end is not None:
            call.on_end(error if error is not None else call.result or {})
            call.on_end = None
        call.error = error
        call.is_set = True
        self._begun.pop(call.id, None)
        for thread in call.threads:
            self._wake(thread)

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

    def requested(
        self, id: RequestId, method: str, params: dict[str, Any] | None
    ) -> None:
        """Hand a request of the peer's on, with the function that answers it."""
        is_client = self._peer.role == "client"
        if is_client:
            was_torn = self._torn
            is_admitted = self._admits(id, method)
            self._torn = was_torn
            if not is_admitted:
                return
        self._inbound.request(id, method, params, partial(self.reply, id), None)
        if is_client and self._peer.is_in_flight(id):
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
        opener = self._opener
        waits = self._unwritten or self._shared or self._writer
        if opener and opener == self._holder and not waits:
            # Who calls writes its request itself, outside the mutex.
            self._given = data
            self._writer = opener
        else:
            self._write(data)

    def _write(self, data: bytes) -> None:
        """Pass bytes on, adding to `_written` what was taken; must not raise."""
        raise NotImplementedError

    def _tell_when_written(self, waiter: Waiter) -> None:
        self._drains.append(waiter)
        # Looked at last: who writes outside the mutex looks here when it is through.
        self._all_written()

    def _all_written(self) -> None:
        """Tell those who wait for it, if it is so."""
        if self._written >= self._queued:
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
            # Begun calls are named twice: an interrupt may have come between taking one
            # from the peer's and telling it of its answer.
            self._doomed = [
                *self._doomed,
                *self._peer.outstanding.values(),
                *self._begun.values(),
            ]
            self._peer.end()
            error.__cause__ = cause
            self._dead = error
            self._ends_at = inf
            if not self._closed_by_us:
                self._inbound.lost(error)
        # What is being written may have been written; in this order, for who writes
        # counts it before it says that it is through.
        given = len(self._given) if self._writer else 0
        written = self._written + given
        while self._doomed:
            call = self._doomed[-1]
            # A line needs all its bytes but the newline to be understood.
            own = self._closed_error(sent=written >= call.end - 1)
            own.__cause__ = cause
            self._end_call(call, own)
            self._doomed.pop()
        self._wake_everybody()
