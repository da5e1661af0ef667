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

    _other: MemoryChannel | None = None
    after_close: Callable[[], Awaitable[None]] | None = None  # awaited by `aclose`
    raises_exceptions = False  # whether calls raise unexpected errors of handlers

    def __init__(self, inbound: Inbound, **options: Any) -> None:
        super().__init__(inbound, **options)
        self._leaving: list[bytes] = []  # not delivered yet
        self._is_delivering = False

    def _write(self, data: bytes) -> None:
        self._written += len(data)
        if self._other is not None:
            self._leaving.append(data)
            if len(self._leaving) == 1 and not self._is_delivering:
                self._loop.call_soon(self._pass_on, self._other.deliver)

    def _turn_ended(self) -> None:
        self._is_delivering = True
        self._flush()
        self._is_delivering = False
        if self._leaving and self._other is not None:
            self._pass_on(self._other.deliver)

    def _pass_on(self, deliver: Callable[[bytes], None]) -> None:
        if self._leaving:
            data = b"".join(self._leaving)
            self._leaving.clear()
            deliver(data)

    def deliver(self, data: bytes) -> None:
        """Process lines of the other end, and deliver the lines written in reply.

        The other end's reply to these is delivered in the next iteration.
        """
        self._is_delivering = True
        try:
            self.take(data)
        finally:
            self._is_delivering = False
            if self._leaving and self._other is not None:
                self._pass_on(self._other.take)

    def take(self, data: bytes) -> None:
        """Process lines of the other end."""
        if self._dead is None:
            self.receive(data)

    def contained(self, id: RequestId, error: BaseException) -> bool:
        """Make the call raise its handler's exception; return whether it does."""
        call = self._peer.outstanding.get(id) if type(id) is int else None
        if not self.raises_exceptions or call is None or call.future.done():
            return False
        if not isinstance(error, Exception):  # it would end the loop
            return False
        call.future.set_exception(error)
        return True

    def _peer_closed(self) -> None:
        if self._dead is None:
            self._mark_lost(TransportError("the peer closed it", target=self.target))
            self._other = None

    def _mark_lost(
        self, error: TransportError, cause: BaseException | None = None
    ) -> None:
        """End this end for any reason; the other one gets the end of the stream."""
        is_news = self._dead is None
        super()._mark_lost(error, cause)
        if is_news and self._other is not None:
            self._loop.call_soon(self._other._peer_closed)  # noqa: SLF001 - of this class

    async def aclose(self) -> None:
        """Close this end; the other one gets the end of the stream."""
        await super().aclose()
        other, self._other = self._other, None
        if other is not None and self.after_close is not None:
            await self.after_close()

    def abandon(self) -> None:
        """Drop this end without waiting; the other one gets the end of the stream."""
        super().abandon()
        self._other = None


def memory_pair(
    client: Inbound,
    server: Inbound,
    *,
    limits: Limits = DEFAULT_LIMITS,
    target: str = "memory",
) -> tuple[MemoryChannel, MemoryChannel]:
    """Return two connected ends: the client's and the server's."""
    near = MemoryChannel(client, role="client", limits=limits, target=target)
    far = MemoryChannel(server, role="server", limits=limits, target=target)
    near._other, far._other = far, near  # noqa: SLF001 - of this module
    return near, far


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
        near: MemoryChannel = self._server.open_in_memory(client, limits)
        near.raises_exceptions = True
        return near
