"""A blocking connection to a server object in this process.

A server object runs on asyncio, so it gets a loop of its own, in a thread of its own,
for as long as the connection lives; see `_relay`.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.sync._relay import Relay, RelayedPipes

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mcpwire.errors import TransportError
    from mcpwire.transports._duplex import Duplex
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.targets import InMemory

__all__ = ["BlockingMemory", "Host"]

NAME: Final = "mcpwire-memory"


class BlockingMemory(RelayedPipes):
    """A connection to a server object, which runs beside it in a thread."""

    __slots__ = ()

    @classmethod
    def open(
        cls, server: InMemory, inbound: Inbound, *, limits: Limits = DEFAULT_LIMITS
    ) -> BlockingMemory:
        """Serve one connection in a thread, and connect to it.

        Raises whatever the server object raises.
        """
        ours, theirs = socket.socketpair()
        host = Host(server, theirs, limits)
        try:
            host.start()
            return cls(inbound, ours, host, limits=limits, target="memory")
        except BaseException:
            ours.close()
            host.join(limits)
            raise

    def _stream_ended(self, why: str, cause: BaseException | None = None) -> None:
        super()._stream_ended(why if cause is not None else "the peer closed it", cause)


class Host(Relay):
    """The thread and the loop of one server, and its end of the sockets."""

    _near: Duplex

    def __init__(self, server: Any, theirs: socket.socket, limits: Limits) -> None:
        super().__init__(theirs, limits, NAME)
        self._server = server

    def _begin(self) -> None:
        self._near = self._open()
        self._near.receive = self._send  # type: ignore[method-assign]  # a conduit of bytes

    def _open(self) -> Duplex:
        """Open the connection that the sockets lead to."""
        channel: Duplex = self._server.open_in_memory(self, self._limits)
        return channel

    def _pass_on(self, lines: bytes) -> None:
        # What is delivered in memory are whole lines, whoever made them.
        self._near._write(lines)  # noqa: SLF001 - our own end

    def _closing(self) -> Awaitable[None]:
        return self._near.aclose()

    # What the near end hears (`Inbound`): bytes pass it by, so only of its end.

    def notification(self, *_: Any) -> None: ...

    def request(self, *_: Any) -> None: ...

    def cancelled(self, *_: Any) -> None: ...

    def missed(self) -> None: ...

    def lost(self, error: TransportError) -> None:
        """End with the server; what it wrote before goes out first."""
        del error
        self._end()
