"""Adapts a channel written by a user to what clients need of a channel.

A `Channel` has four members. Whatever it does with them, each call ends here: when its
deadline passes, when it is cancelled, and when the connection is lost.
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
    ConnectionClosed,
    MCPError,
    RemoteProtocolError,
    TooManyQuestions,
    TransportError,
)
from mcpwire.protocol.peer import PeerStats, too_many_questions
from mcpwire.transports.base import CallHandle, misuse
from mcpwire.transports.timeouts import Pending, Timeouts, admit_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.errors import RPCError
    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.transports.base import Channel, Inbound, NotifyFn, ReplyFn
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["ChannelAdapter", "name_of"]

logger = logging.getLogger("mcpwire")

END_S = 2.0
"""How long a user's channel may take to end a call, and to close."""


class ChannelAdapter:
    """A user's `Channel`, with the members that clients need beside those.

    Attributes:
        target: What the connection is to, for error messages.
        stats: What came in.
        requests_sent: Requests that were begun.
        reset_on_progress: Whether progress of a call gives it its time anew.
        lost: Why the connection is gone; ``None`` while it is not.
        is_busy: Whether calls go on though it is lost: none does.
        timeouts: The deadlines of its calls.
    """

    is_busy = False

    def __init__(self, inbound: Inbound, target: Any, limits: Limits) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._inbound = inbound
        self._calls: dict[int, Pending] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self.timeouts = Timeouts(self._loop, self._calls, self._time_out, limits)
        self._closed_by_us = False
        self._closing: asyncio.Task[None] | None = None
        self._channel: Channel | None = None
        self._opening: asyncio.Future[Channel] | None = None
        self._revision: Revision | None = None
        self.target = name_of(target)
        self.stats = PeerStats()
        self.requests_sent = 0
        self.reset_on_progress = False
        self.lost: TransportError | None = None
        try:
            opened = target.open_channel(_Inbound(self, inbound), limits)
        except Exception as error:
            raise self._failure("opening failed", error, ConnectError) from error
        if inspect.isawaitable(opened):
            self._opening = asyncio.ensure_future(opened)
            self._opening.add_done_callback(self._opened)
        else:
            self._channel = opened

    def __repr__(self) -> str:
        state = "open" if self.lost is None else "closed"
        calls = len(self._calls)
        return f"<{type(self).__name__} {self.target} {state}, {calls} calls>"

    def _opened(self, opening: asyncio.Future[Channel]) -> None:
        if opening.cancelled():
            self.lose(ConnectError("opening was cancelled", target=self.target))
        elif (error := opening.exception()) is not None:
            failure = self._failure("opening failed", error, ConnectError)
            if not isinstance(failure, TransportError):
                failure = ConnectError(str(failure), target=self.target)
            failure.__cause__ = error
            self.lose(failure)
        else:
            self._channel = opening.result()
            self._channel.revision = self._revision

    def _failure(
        self, what: str, error: BaseException, kind: type[TransportError]
    ) -> MCPError:
        """Return what a user's code raised as an error of ours."""
        if isinstance(error, MCPError):
            return error
        return kind(f"{what}: {type(error).__name__}: {error}", target=self.target)

    # What clients ask of a channel...

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
        """Bytes sent, where the channel counts them."""
        return int(getattr(self._channel, "bytes_sent", 0))

    @property
    def session_id(self) -> str | None:
        """What the server calls the session, where the channel knows."""
        id: str | None = getattr(self._channel, "session_id", None)
        return id

    def open_server_stream(self, *, wanted: bool) -> None:
        """Do nothing: a channel tells what the server says as it comes."""

    def when_server_stream_known(self, tell: Callable[[], object]) -> float:
        """Return no seconds: the server can say it already."""
        del tell
        return 0.0

    def watch(self, trace: object) -> None:
        """Do nothing: which bytes there are is the channel's own affair."""

    # Calls...

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
        self._check()
        handle = CallHandle() if handle is None else handle
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        pending = Pending(method, future, deadline, on_notification, handle)
        self.requests_sent = id = self.requests_sent + 1
        self._calls[id] = pending
        performing = self._perform(pending, params, headers)
        task = self._loop.create_task(performing, name=f"mcpwire-{method}")
        self._running.add(task)
        task.add_done_callback(partial(self._performed, pending))
        if deadline is not None:
            self.timeouts.arm(deadline.at)
        try:
            return await future
        finally:
            self._calls.pop(id, None)
            self.timeouts.release(pending)
            task.cancel()

    async def _perform(
        self,
        pending: Pending,
        params: dict[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> dict[str, Any]:
        channel = await self._ready()
        hears = None if pending.on_notification is None else self._progressed
        return await channel.call(
            pending.method,
            params,
            deadline=pending.deadline,
            handle=pending.handle,
            on_notification=None if hears is None else partial(hears, pending),
            headers=headers,
        )

    async def _ready(self) -> Channel:
        """Return the channel, once it is open."""
        if self._channel is None:
            assert self._opening is not None
            await asyncio.wait([self._opening])
            if self._channel is None:
                raise self._closed_error(sent=False)
        return self._channel

    def _performed(self, pending: Pending, task: asyncio.Task[dict[str, Any]]) -> None:
        """Wake the caller with what the channel made of the call."""
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        future = pending.future
        if future.done():
            return
        if task.cancelled():
            why = "the channel cancelled it"
            future.set_exception(CallCancelled(pending.method, reason=why))
        elif error is not None:
            what = f"{pending.method!r} failed"
            failure = self._failure(what, error, TransportError)
            if failure is not error:
                failure.__cause__ = error
            future.set_exception(failure)
        else:
            self.stats.messages += 1
            result: object = task.result()
            if isinstance(result, dict):
                future.set_result(result)
                return
            self.stats.invalid += 1
            why = f"a result must be an object, got a {type(result).__name__}"
            future.set_exception(RemoteProtocolError(f"{pending.method}: {why}"))

    def _progressed(
        self, pending: Pending, method: str, params: dict[str, Any] | None
    ) -> None:
        """Hand a call's own notification on."""
        self.stats.messages += 1
        if self.reset_on_progress and pending.deadline is not None:
            pending.deadline.extend(self._loop.time())
        assert pending.on_notification is not None
        if not pending.future.done():
            pending.on_notification(method, params)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification; see `Channel.notify`."""
        self._check()
        try:
            channel = await self._ready()
            given = None if params is None else dict(params)
            await channel.notify(method, given, headers=headers)
        except Exception as error:
            failure = self._failure(f"{method!r} failed", error, TransportError)
            if failure is error:
                raise
            raise failure from error

    def cancel(self, handle: CallHandle, reason: str = "cancelled") -> bool:
        """End the call with that handle; return whether there was one."""
        return self._cancel(lambda its: its is handle, reason)

    def cancel_id(self, id: RequestId | None, reason: str = "cancelled") -> bool:
        """End the call with that id on the wire, as `cancel` does."""
        if id is None:
            return False
        kind = type(id)
        return self._cancel(
            lambda its: type(its.request_id) is kind and its.request_id == id, reason
        )

    def _cancel(self, is_meant: Callable[[CallHandle], bool], reason: str) -> bool:
        for pending in self._calls.values():
            handle = pending.handle
            if handle is not None and is_meant(handle) and not pending.future.done():
                pending.future.set_exception(
                    CallCancelled(pending.method, reason=reason)
                )
                return True
        return False

    def _time_out(self, _: int, pending: Pending, now: float) -> None:
        deadline = pending.deadline
        assert deadline is not None
        if not pending.future.done():
            pending.future.set_exception(deadline.error(pending.method, now))

    def admit(self) -> bool:
        """Tell whether a request of the server is answered, and end spent calls."""
        limit = self._limits.questions
        calls = [call for call in self._calls.values() if not call.future.done()]
        spent, is_admitted = admit_request(calls, limit)
        for call in spent:
            call.future.set_exception(TooManyQuestions(call.method, limit=limit))
        return is_admitted

    def hold(self, id: RequestId) -> None:
        """Stop the deadlines of all calls until that request is answered."""
        self.timeouts.hold(id, self._calls.values())

    # The end...

    def _check(self) -> None:
        if (error := misuse(self._loop, is_forked=False)) is not None:
            raise error
        if self.lost is not None:
            raise self._closed_error(sent=False)

    def _closed_error(self, *, sent: bool) -> ConnectionClosed:
        assert self.lost is not None
        why = "closed by this side" if self._closed_by_us else str(self.lost.args[0])
        return ConnectionClosed(why, target=self.target, sent=sent)

    def lose(self, error: TransportError) -> None:
        """End every call: the connection is gone."""
        if self.lost is not None:
            return
        self.lost = error
        self.timeouts.stop()
        for pending in self._calls.values():
            if not pending.future.done():
                own = self._closed_error(sent=True)
                own.__cause__ = error
                pending.future.set_exception(own)
        self._closing = self._loop.create_task(self._close(), name="mcpwire-close")
        if not self._closed_by_us:
            self._inbound.lost(error)

    def give_up(self, error: TransportError) -> None:
        """Take the connection for lost, though it has not ended by itself."""
        self.lose(error)

    async def _close(self) -> None:
        """Let the channel end its calls, then close it; each bounded in time."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=END_S)
        channel = self._channel
        if channel is None:
            return
        try:
            async with asyncio.timeout(END_S):
                await channel.aclose()
        except Exception:  # a user's channel
            logger.exception("closing %s failed", self.target)

    async def aclose(self) -> None:
        """Close the channel; bounded in time, whatever it does.

        Cancelling it leaves the closing under way; call it again to wait for its end.
        """
        if self.lost is None:
            self._closed_by_us = True
            self.lose(TransportError("closed by this side", target=self.target))
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def abandon(self) -> None:
        """Let go now, from anywhere; the channel is closed if its loop still runs."""
        self._closed_by_us = True
        if self.lost is None and self._loop.is_running():
            self.lose(TransportError("abandoned", target=self.target))
        elif self.lost is None:
            self.lost = TransportError("abandoned", target=self.target)


class _Inbound:
    """Takes what the channel tells, and counts it."""

    def __init__(self, adapter: ChannelAdapter, inbound: Inbound) -> None:
        self._adapter = adapter
        self._inbound = inbound

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
        is_answered = False

        def answer(outcome: dict[str, Any] | RPCError) -> None:
            nonlocal is_answered
            if is_answered:
                return
            is_answered = True
            self._adapter.timeouts.resume(id)
            if self._adapter.lost is None:
                reply(outcome)

        self._adapter.stats.messages += 1
        if method != "ping" and not self._adapter.admit():
            answer(too_many_questions())
            return
        self._inbound.request(id, method, params, answer, call)
        if not is_answered:
            self._adapter.hold(id)

    def cancelled(self, id: RequestId) -> None:
        self._adapter.timeouts.resume(id)
        self._inbound.cancelled(id)

    def lost(self, error: TransportError) -> None:
        self._adapter.lose(error)

    def missed(self) -> None:
        self._inbound.missed()


def name_of(target: object) -> str:
    """Return the name of a user's target for error messages."""
    if type(target).__str__ is not object.__str__:
        return str(target)
    return type(target).__name__
