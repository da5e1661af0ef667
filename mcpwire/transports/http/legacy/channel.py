"""MCP over HTTP+SSE, the transport of 2024-11-05, on asyncio.

2026-07-28 basic/transports/streamable-http, "HTTP+SSE Transport (2024-11-05)": nothing
new should be built on it, and servers that speak nothing else are still met. It is one
duplex connection like a pipe, whose two directions are HTTP; see `link`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from mcpwire.errors import ConnectionClosed, TransportError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.transports._duplex import Duplex
from mcpwire.transports.http.legacy.link import LegacyLink
from mcpwire.transports.http.legacy.owner import OwnFields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcpwire.protocol.deadline import Deadline
    from mcpwire.transports.base import CallHandle, Inbound, NotifyFn
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.legacy.owner import Fields
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.deadline_pauser import DeadlinePauser
    from mcpwire.transports.tracing import Trace

__all__ = ["LegacyChannel"]


class LegacyChannel(Duplex):
    """A connection to a server that speaks HTTP+SSE.

    A message is handed to the engine as soon as the server has named its endpoint. An
    HTTP error to a request ends that call alone; the end of the stream ends all.
    """

    def __init__(
        self,
        target: Http,
        engine: Engine,
        inbound: Inbound,
        limits: Limits,
        *,
        owns_engine: bool,
    ) -> None:
        super().__init__(inbound, limits=limits, target=str(target))
        self._http = target
        self._own = OwnFields()
        self._pauser: DeadlinePauser | None = getattr(engine, "pauser", None)
        self._taken = 0
        self._is_settled = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._link = LegacyLink(target, engine, self, limits, owns_engine=owns_engine)

    @classmethod
    def open(
        cls,
        target: Http,
        engine: Engine,
        inbound: Inbound,
        limits: Limits = DEFAULT_LIMITS,
        *,
        owns_engine: bool = False,
    ) -> LegacyChannel:
        """Begin to connect; `ready` waits for it, and calls may be made before.

        With `owns_engine` the engine is closed with the channel.
        """
        return cls(target, engine, inbound, limits, owns_engine=owns_engine)

    async def ready(self) -> None:
        """Wait until the server has named its endpoint; safe to cancel.

        Raises:
            ConnectError: It could not be reached, or does not speak HTTP+SSE.
            RemoteProtocolError: The endpoint it named is refused.
            ConnectionClosed: The connection was closed meanwhile, or since.
        """
        await self._is_settled.wait()
        if self._link.refused is not None:
            raise self._link.refused
        if self._dead is not None:
            raise self._closed_error(sent=False)

    # What is sent...

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        deadline: Deadline | None,
        handle: CallHandle | None = None,
        on_notification: NotifyFn | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Perform a request; see `Channel.call`."""
        id = 0
        if headers:
            fields = self._http.check(headers)
            # Nothing runs between here and where the peer takes its next id.
            id = self._peer.requests_sent + 1
            self._own.keep(id, fields)
        try:
            with self._patient(deadline):
                return await super().call(
                    method,
                    params,
                    deadline=deadline,
                    handle=handle,
                    on_notification=on_notification,
                )
        finally:
            if self._peer.requests_sent < id:
                self._own.drop(id)

    @contextlib.contextmanager
    def _patient(self, deadline: Deadline | None) -> Iterator[None]:
        """Let no time pass for a call in there while a user logs in."""
        if self._pauser is None or deadline is None:
            yield
            return
        from mcpwire.transports.oauth.deadline_pauser import PausableDeadline

        clock = PausableDeadline(deadline, self._loop.time, self._rearm)
        with self._pauser.applied(clock):
            yield

    def _rearm(self, at: float) -> None:
        if at < self._clock.at:
            self._clock.arm(at)

    def notify_nowait(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification without suspending; see `Duplex.notify_nowait`."""
        if not headers:
            super().notify_nowait(method, params)
            return
        fields = self._http.check(headers)
        line = self._peer.notify(method, params).rstrip(b"\n")
        self._own.keep(line, fields)
        try:
            super().notify_nowait(method, params)
        except BaseException:
            self._own.drop(line)
            raise

    def _write(self, data: bytes) -> None:
        self._taken += len(data)
        self._link.write(data)

    # What the link tells (`LinkOwner`)...

    def endpoint_known(self) -> None:
        """Let who waits for the connection go on."""
        self._is_settled.set()

    def lines_came(self, lines: bytes) -> None:
        """Take messages in."""
        if self._dead is None:
            self.receive(lines)

    def has_left(self, size: int) -> None:
        """Count what does not wait any more."""
        self._written += size
        if self._written == self._queued:
            self._writing_done()

    def _writing_done(self) -> None:
        """Nothing waits to be posted."""

    def is_waiting(self, id: int) -> bool:
        """Tell whether that call is open."""
        return id in self._peer.outstanding

    def fields_of(self, line: bytes, id: int | None) -> Fields:
        """Return the fields that the caller gave for one message."""
        return self._own.find(line, id)

    def post_failed(self, id: int, error: Exception) -> None:
        """End the call whose request was not accepted, and no other."""
        call = self._peer.outstanding.get(id)
        if call is not None:
            self._peer.forget(id)
            self._clock.release(call)
            if not call.future.done():
                call.future.set_exception(error)

    def link_lost(self, error: TransportError, cause: BaseException | None) -> None:
        """Take note that the stream is over."""
        self._lose(error, cause)

    def watch_heads(self, trace: Trace) -> None:
        """Tell a hook of the heads of requests and answers, too."""
        self._link.watch_heads(trace)

    # The end...

    def _lose(self, error: TransportError, cause: BaseException | None = None) -> None:
        if self._dead is not None:
            return
        # In what order POSTs leave says nothing about a count of bytes.
        unsent = self._link.unsent
        for id, call in list(self._peer.outstanding.items()):
            if id in unsent or call.end > self._taken:
                self.post_failed(id, self._unsent_error(error))
        self._written = self._queued
        super()._lose(error, cause)
        self._is_settled.set()
        self._link.stop()
        self._ending = self._loop.create_task(
            self._link.aclose(), name="mcpwire-sse-close"
        )

    def _unsent_error(self, error: TransportError) -> ConnectionClosed:
        if self._closed_by_us:
            return self._closed_error(sent=False)
        return ConnectionClosed(str(error.args[0]), target=self.target, sent=False)

    async def aclose(self) -> None:
        """End the stream and every POST; bounded in time.

        Cancelling it leaves that running; call it again to wait for its end.
        """
        await super().aclose()
        if self._ending is not None:
            await asyncio.shield(self._ending)

    def forked(self) -> None:
        """Leave the connections to the parent."""
        super().forked()
        self._link.forked()

    def abandon(self) -> None:
        """Let go of the connections now, from anywhere, without a loop to wait on."""
        super().abandon()
        if not self._loop.is_closed():
            self._link.stop()
        self._link.abandon()
