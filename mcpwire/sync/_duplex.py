"""Calls over a duplex byte stream in the calling thread: a `Peer`, and no loop.

What blocking stdio and memory share; a subclass brings the bytes. Here is what threads
call; what happens inside the mutex stands in `_calls`, and how threads share the one
stream in `_lead`.
"""

from __future__ import annotations

from functools import partial
from threading import Lock, get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcpwire.errors import LocalProtocolError, MCPError, RPCError, TransportError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol.deadline import Deadline
from mcpwire.sync._calls import Calls
from mcpwire.sync._lead import NEVER, Waiter
from mcpwire.sync._pending import Pending
from mcpwire.transports._fork import let_go_after_fork

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.sync._pending import EndFn
    from mcpwire.transports.base import CallHandle, Inbound, NotifyFn
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["BlockingDuplex", "Pending", "Waiter"]

TAKING_OVER_S: Final = 1.0
"""How long who closes waits for who leads: that one may be in a user's function."""


class BlockingDuplex(Calls):
    """A connection over a byte stream, for any number of threads.

    Attributes:
        target: What the connection is to, for error messages.
        reset_on_progress: Whether a call's own notifications extend its deadline.
        dropped: Notifications forgotten because a call's own thread was too slow.
    """

    __slots__ = ()

    def __init__(
        self,
        inbound: Inbound,
        *,
        role: str = "client",
        limits: Limits = DEFAULT_LIMITS,
        target: str | None = None,
    ) -> None:
        super().__init__(inbound, role=role, limits=limits, target=target)
        let_go_after_fork(self)

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
        if call.result is not None:
            return call.result
        return self._raise(call)

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
        if pending.result is not None:
            return pending.result
        return self._raise(pending)

    def _raise(self, call: Pending) -> NoReturn:
        """Raise why a call has no result."""
        if call.error is None:
            # An interrupt of another thread came between finding the call and telling
            # it of its answer, and ended the connection.
            self._locked(partial(self._end_call, call, self._closed_error()))
        assert call.error is not None
        try:
            raise call.error
        finally:
            del call  # the error's traceback must not lead back to the error

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

    def cancel_id(self, id: RequestId | None, reason: str = "cancelled") -> None:
        """End the call with that id, as `cancel` does."""
        self._locked(partial(self._cancel_id, id, reason))

    def _refusal(self, headers: Mapping[str, str] | None) -> MCPError:
        """Say why a call cannot even begin."""
        self._refuse_fork()
        if headers:
            return LocalProtocolError(
                "headers can be sent over HTTP only; this connection is "
                f"{self.target or 'no HTTP connection'}"
            )
        return self._closed_error(sent=False)

    def _tell(self, waiter: Waiter) -> None:
        """Run what hears a call's notifications; in its thread, outside the mutex."""
        assert type(waiter) is Pending
        assert waiter.on_notification is not None
        while waiter.notices:
            waiter.on_notification(*waiter.notices.popleft())

    def reply(self, id: RequestId, answer: dict[str, Any] | RPCError) -> None:
        """Send an answer, from any thread, inside the mutex or outside."""
        if self._holder == get_ident() and self._mutex.locked():
            self._reply(id, answer)
        elif self._dead is None:
            self._locked(partial(self._reply, id, answer))
            self._see_off()

    def _see_off(self) -> None:
        """Have it written, for a while; outside the mutex.

        Also where another thread leads: it may leave before it has written all.
        """
        if self._written < self._queued and self._dead is None:
            written = Waiter()
            self._locked(partial(self._tell_when_written, written))
            self.wait(written, self._limits.close_grace)

    # The end...

    def give_up(self, error: TransportError) -> None:
        """Take the connection for lost, though it has not ended by itself."""
        self._locked(partial(self._lose, error))

    def close(self) -> None:
        """Close the connection; calls still open fail with `ConnectionClosed`.

        From any thread, twice, beside others; whoever comes second waits for the first.
        In a forked process there is nothing to close. Interrupted, it kills what it
        would have waited for.

        Raises:
            LocalProtocolError: A signal handler calls it in the moment in which its
                thread reads or writes.
        """
        if self._is_forked:
            return
        ident = get_ident()
        leads = self._leader == ident  # in a signal handler, while this thread polls
        if (
            (ident == self._holder and self._mutex.locked())
            or ident == self._writer
            or (leads and self._is_reading)
        ):
            self._refuse_reentry(ident)
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
