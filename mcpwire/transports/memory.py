"""Client and server in one process, through the same bytes as any other transport.

Each side is a `Duplex` whose lines are handed to the other in the loop's next turn, so
neither is ever called from inside its own call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire.errors import TransportError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.transports._duplex import Duplex

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire.transports.base import Inbound

__all__ = ["MemoryChannel", "memory_pair"]


class MemoryChannel(Duplex):
    """One end of a pair in memory.

    Attributes:
        after_close: What closing this end waits for: the other end, which lives in the
            same process, has its own end to come to.
    """

    _other: MemoryChannel | None = None
    after_close: Callable[[], Awaitable[None]] | None = None

    def _write(self, data: bytes) -> None:
        self._written += len(data)
        if self._other is not None:
            self._loop.call_soon(self._other.deliver, data)

    def deliver(self, data: bytes) -> None:
        """Take in what the other end wrote."""
        if self._dead is None:
            self.receive(data)

    def _hang_up(self) -> None:
        if self._dead is None:
            self._lose(TransportError("the peer closed it", target=self.target))
            self._other = None

    async def aclose(self) -> None:
        """Close this end; the other sees the end of the stream."""
        await super().aclose()
        other, self._other = self._other, None
        if other is not None:
            self._loop.call_soon(other._hang_up)  # noqa: SLF001 - the other half of us
            if self.after_close is not None:
                await self.after_close()

    def abandon(self) -> None:
        """Let go without waiting; the other end is not told."""
        super().abandon()
        self._other = None


def memory_pair(
    client: Inbound,
    server: Inbound,
    *,
    limits: Limits = DEFAULT_LIMITS,
    target: str = "memory",
) -> tuple[MemoryChannel, MemoryChannel]:
    """Return two connected ends, the client's first."""
    near = MemoryChannel(client, role="client", limits=limits, target=target)
    far = MemoryChannel(server, role="server", limits=limits, target=target)
    near._other, far._other = far, near  # noqa: SLF001 - made for each other
    return near, far
