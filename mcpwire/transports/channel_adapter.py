"""Adapter that gives a user's channel the further members that clients need.

A `Channel` has four members. Whatever it does in a call, the adapter ends the call at
its deadline, when it is cancelled, and when the connection is lost.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpwire.errors import (
    CallCancelled,
    ConnectError,
    MCPError,
    RemoteProtocolError,
    RPCError,
    TransportError,
)
from mcpwire.protocol.peer import PeerStats
from mcpwire.transports.base import (
    CallHandle,
    Pending,
    TwoWayChannel,
    is_cancelled_here,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.transports.base import Channel, Inbound, NotifyFn, ReplyFn
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

logger = logging.getLogger("mcpwire")

END_TIMEOUT_S = 2.0
"""Time that a user's channel has to end its calls, and again to close."""


class ChannelAdapter(TwoWayChannel):
    """A user's `Channel` with the further members that clients need."""

    def __init__(self, inbound: Inbound, target: Any, limits: Limits) -> None:
        self.stats = PeerStats()
        super().__init__(inbound, {}, limits, target_name(target))
        self._running: set[asyncio.Task[None]] = set()
        self._channel: Channel | None = None
        self._opening: asyncio.Future[Channel] | None = None
        self._revision: Revision | None = None
        self.requests_sent = 0
        try:
            opened = target.open_channel(_Inbound(self, inbound), limits)
        except Exception as error:
            raise self._wrap_error("opening failed", error, ConnectError) from error
        if inspect.isawaitable(opened):
            self._opening = asyncio.ensure_future(self._open(opened))
            self._opening.add_done_callback(self._on_opened)
        else:
            self._channel = self._checked(opened)

    async def _open(self, opening: Awaitable[Channel]) -> Channel:
        return self._checked(await opening)

    def _checked(self, opened: Channel) -> Channel:
        if callable(getattr(opened, "call", None)):
            return opened
        reason = f"open_channel must return a Channel, got {opened!r}"
        raise ConnectError(reason, target=self.target)

    def _on_opened(self, opening: asyncio.Future[Channel]) -> None:
        if opening.cancelled():
            self._mark_lost(ConnectError("opening was cancelled", target=self.target))
        elif (error := opening.exception()) is not None:
            failure = self._wrap_error("opening failed", error, ConnectError)
            if not isinstance(failure, TransportError):
                failure = ConnectError(str(failure), target=self.target)
            self._mark_lost(failure, None if failure is error else error)
        else:
            self._channel = opening.result()
            self._channel.revision = self._revision
            if self._closing is not None and self._closing.done():
                self._start_close()

    def _wrap_error(
        self, action: str, error: BaseException, kind: type[TransportError]
    ) -> MCPError:
        """Return an exception of a user's code as an `MCPError`."""
        if isinstance(error, MCPError):
            return error
        failure = kind(f"{action}: {type(error).__name__}: {error}", target=self.target)
        failure.__cause__ = error
        return failure

    @property
    def revision(self) -> Revision | None:
        """The agreed revision; ``None`` until the handshake has decided."""
        return self._revision

    @revision.setter
    def revision(self, revision: Revision | None) -> None:
        self._revision = revision
        if self._channel is not None:
            self._channel.revision = revision

    @property
    def bytes_sent(self) -> int:
        """Number of sent bytes; zero if the channel does not count them."""
        return int(getattr(self._channel, "bytes_sent", 0))

    @property
    def bytes_received(self) -> int:
        """Number of received bytes; zero if the channel does not count them."""
        return int(getattr(self._channel, "bytes_received", 0))

    @property
    def session_id(self) -> str | None:
        """The server's id of the session, if the channel has a ``session_id``."""
        id: str | None = getattr(self._channel, "session_id", None)
        return id

    def set_trace(self, trace: object) -> None:
        """Do nothing: the adapter does not see the bytes of the channel."""

    # Calls

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
        """Perform a request; see `Channel.call`."""
        self._check_open()
        handle = CallHandle() if handle is None else handle
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self.requests_sent = id = self.requests_sent + 1
        call = Pending(method, future, deadline, on_notification, handle)
        self.stats.unanswered += 1
        self._calls[id] = call
        # In a separate task, because the channel may ignore a cancellation.
        performing = self._perform(call, params, headers)
        task = self._loop.create_task(performing, name=f"mcpwire-{method}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        if deadline is not None:
            self._timeouts.arm(deadline.at)
        try:
            return await future
        finally:
            self._calls.pop(id, None)
            self._timeouts.release(call)
            task.cancel()

    async def _perform(
        self,
        call: Pending,
        params: dict[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> None:
        """Run the call on the channel; pass the result or the error to the caller."""
        method = call.method
        on_notification = (
            None
            if call.on_notification is None
            else partial(self._on_notification, call)
        )
        try:
            channel = await self._wait_open()
            result: object = await channel.call(
                method,
                params,
                deadline=call.deadline,
                handle=call.handle,
                on_notification=on_notification,
                headers=headers,
            )
        except asyncio.CancelledError:
            reason = "the channel cancelled it"
            self.on_error(call, CallCancelled(method, reason=reason))
        except Exception as error:  # noqa: BLE001 - a user's channel
            self.stats.unanswered -= isinstance(error, RPCError)
            self.on_error(
                call, self._wrap_error(f"{method!r} failed", error, TransportError)
            )
        else:
            self.stats.messages += 1
            self.stats.unanswered -= 1
            if isinstance(result, dict):
                self.on_result(call, result)
                return
            self.stats.invalid += 1
            reason = f"a result must be an object, got a {type(result).__name__}"
            self.on_error(call, RemoteProtocolError(f"{method}: {reason}"))

    async def _wait_open(self) -> Channel:
        """Wait until the channel is open, and return it."""
        if self._channel is None:
            assert self._opening is not None
            await asyncio.wait([self._opening])
            if self._channel is None:
                raise self._closed_error(sent=False)
        return self._channel

    def _on_notification(
        self, call: Pending, method: str, params: dict[str, Any] | None
    ) -> None:
        self.stats.messages += 1
        if not call.future.done():
            self._notify_call(method, params, call)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification; see `Channel.notify`."""
        self._check_open()
        try:
            channel = await self._wait_open()
            given = None if params is None else dict(params)
            await channel.notify(method, given, headers=headers)
        except MCPError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled_here():
                raise
            raise self._wrap_error(
                f"{method!r} failed", error, TransportError
            ) from error

    def _check_open(self) -> None:
        if self._lost is not None or asyncio.get_running_loop() is not self._loop:
            raise self._refusal()

    def cancel(self, handle: CallHandle, reason: str = "cancelled") -> bool:
        """End the call with that handle; return whether there was one."""
        calls = [call for call in self._unfinished_calls() if call.handle is handle]
        return bool(calls) and self._cancel(calls[0], reason)

    def _open_call(self, id: RequestId | None) -> Pending | None:
        """Return the call that the user's channel has sent with that id."""
        for call in self._unfinished_calls():
            sent_id = call.handle.request_id if call.handle is not None else None
            if id is not None and type(sent_id) is type(id) and sent_id == id:
                return call
        return None

    # Requests of the server

    def on_request(
        self,
        id: RequestId,
        method: str,
        params: dict[str, Any] | None,
        reply: ReplyFn,
        call: CallHandle | None,
    ) -> None:
        """Pass a request of the server on, with a function that answers it once."""
        is_answered = False

        def answer(outcome: dict[str, Any] | RPCError) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                self._timeouts.resume(id)
                if self._lost is None:
                    reply(outcome)

        self.stats.messages += 1
        calls = self._unfinished_calls()
        self._pass_request(id, method, params, answer, call, calls)

    # End of the connection

    def _mark_lost(
        self, error: TransportError, cause: BaseException | None = None
    ) -> None:
        if self._lost is None:
            super()._mark_lost(error, cause)
            if self._loop.is_running():
                self._start_close()

    def _start_close(self) -> None:
        self._closing = self._loop.create_task(self._close(), name="mcpwire-close")

    async def _close(self) -> None:
        """Cancel the calls of the channel, then close it; each bounded in time."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening], timeout=END_TIMEOUT_S)
        if self._running:
            running = list(self._running)
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=END_TIMEOUT_S)
        if self._channel is not None:
            try:
                async with asyncio.timeout(END_TIMEOUT_S):
                    await self._channel.aclose()
            except (Exception, asyncio.CancelledError):  # a user's channel
                if is_cancelled_here():
                    raise
                logger.exception("closing %s failed", self.target)


class _Inbound:
    """The `Inbound` of the channel: counts messages and passes them on."""

    def __init__(self, adapter: ChannelAdapter, inbound: Inbound) -> None:
        self._adapter = adapter
        self._inbound = inbound
        self.missed = inbound.missed

    def notification(
        self, method: str, params: dict[str, Any] | None, call: CallHandle | None
    ) -> None:
        self._adapter.stats.messages += 1
        self._inbound.notification(method, params, call)

    def request(
        self,
        id: RequestId,
        method: str,
        params: dict[str, Any] | None,
        reply: ReplyFn,
        call: CallHandle | None,
    ) -> None:
        self._adapter.on_request(id, method, params, reply, call)

    def cancelled(self, id: RequestId) -> None:
        self._adapter.on_cancelled(id)

    def lost(self, error: TransportError) -> None:
        self._adapter.give_up(error)


def target_name(target: object) -> str:
    """Return the name of a user's target for error messages."""
    if type(target).__str__ is not object.__str__:
        return str(target)
    return type(target).__name__
