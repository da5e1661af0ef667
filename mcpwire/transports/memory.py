"""Client and server in one process, with the same bytes as on any other transport.

Each side is a `Duplex`. Its lines are delivered to the other side in the next iteration
of the loop, so no side is called from within its own call. Lines that a side writes
during a delivery are delivered at its end, so such a call takes two iterations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.errors import TransportError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.transports.duplex import Duplex

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire.transports.base import Inbound
    from mcpwire.wire.jsonrpc import RequestId


class MemoryChannel(Duplex):
    """One end of an in-memory connection."""

    _other_end: MemoryChannel | None = None
    after_close: Callable[[], Awaitable[None]] | None = None  # awaited by `aclose`
    raises_exceptions = False  # whether calls raise unexpected errors of handlers

    def __init__(self, inbound: Inbound, **options: Any) -> None:
        super().__init__(inbound, **options)
        self._outgoing: list[bytes] = []  # not delivered yet
        self._is_delivering = False

    def _write(self, data: bytes) -> None:
        self._written += len(data)
        if self._other_end is not None:
            self._outgoing.append(data)
            if len(self._outgoing) == 1 and not self._is_delivering:
                self._loop.call_soon(self._deliver_outgoing, self._other_end.deliver)

    def _on_iteration_end(self) -> None:
        self._is_delivering = True
        self._flush()
        self._is_delivering = False
        if self._outgoing and self._other_end is not None:
            self._deliver_outgoing(self._other_end.deliver)

    def _deliver_outgoing(self, deliver: Callable[[bytes], None]) -> None:
        if self._outgoing:
            data = b"".join(self._outgoing)
            self._outgoing.clear()
            deliver(data)

    def deliver(self, data: bytes) -> None:
        """Process lines of the other end, and deliver the lines written in reply.

        The other end's reply to these is delivered in the next iteration.
        """
        self._is_delivering = True
        try:
            self.receive_if_open(data)
        finally:
            self._is_delivering = False
            if self._outgoing and self._other_end is not None:
                self._deliver_outgoing(self._other_end.receive_if_open)

    def receive_if_open(self, data: bytes) -> None:
        """Process lines of the other end."""
        if self._lost is None:
            self.receive(data)

    def raise_in_call(self, id: RequestId, error: BaseException) -> bool:
        """Make the call raise its handler's exception; return whether it does."""
        call = self._peer.outstanding.get(id) if type(id) is int else None
        if not self.raises_exceptions or call is None or call.future.done():
            return False
        if not isinstance(error, Exception):  # it would end the loop
            return False
        call.future.set_exception(error)
        return True

    def _on_peer_closed(self) -> None:
        if self._lost is None:
            self._mark_lost(TransportError("the peer closed it", target=self.target))
            self._other_end = None

    def _mark_lost(
        self, error: TransportError, cause: BaseException | None = None
    ) -> None:
        """End this end for any reason; the other one gets the end of the stream."""
        was_open = self._lost is None
        super()._mark_lost(error, cause)
        if was_open and self._other_end is not None:
            self._loop.call_soon(self._other_end._on_peer_closed)  # noqa: SLF001 - of this class

    async def aclose(self) -> None:
        """Close this end; the other one gets the end of the stream."""
        await super().aclose()
        other, self._other_end = self._other_end, None
        if other is not None and self.after_close is not None:
            await self.after_close()

    def abandon(self) -> None:
        """Drop this end without waiting; the other one gets the end of the stream."""
        super().abandon()
        self._other_end = None


def memory_pair(
    client: Inbound,
    server: Inbound,
    *,
    limits: Limits = DEFAULT_LIMITS,
    target: str = "memory",
) -> tuple[MemoryChannel, MemoryChannel]:
    """Return two connected ends: the client's and the server's."""
    client_end = MemoryChannel(client, role="client", limits=limits, target=target)
    server_end = MemoryChannel(server, role="server", limits=limits, target=target)
    client_end._other_end, server_end._other_end = server_end, client_end  # noqa: SLF001 - of this module
    return client_end, server_end


class RaisingServer:
    """A server in this process; calls raise unexpected exceptions of its handlers."""

    def __init__(self, server: Any) -> None:
        if not callable(getattr(server, "open_in_memory", None)):
            raise ValueError(
                "raise_exceptions is for a server object in this process, got "
                f"{server!r}"
            )
        self._server = server

    def open_in_memory(self, client: Inbound, limits: Limits) -> MemoryChannel:
        """Open a connection in memory."""
        client_end: MemoryChannel = self._server.open_in_memory(client, limits)
        client_end.raises_exceptions = True
        return client_end
