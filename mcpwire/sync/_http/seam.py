"""The seam of the blocking engines: that of `mcpwire.transports.http.engine`, waiting.

There the methods are described; here they block the thread that calls them, and `abort`
may come from any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mcpwire.errors import MCPError
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http.request import Request
    from mcpwire.transports.http.engine import Fed

__all__ = ["Engine"]


class Engine(Protocol):
    """Performs HTTP requests to one origin, each in the thread that asks for it."""

    target: str

    @property
    def connections(self) -> int:
        """How many connections were opened so far."""

    @property
    def bytes_sent(self) -> int:
        """How many bytes were handed to the operating system so far."""

    def exchange(self, request: Request, reply: Fed, deadline: Deadline | None) -> None:
        """Send a request and feed its reply until that is over, or the time is."""

    def abort(self, reply: Fed, error: MCPError) -> bool:
        """End the exchange of that reply with an error; return whether one ran."""

    def close(self) -> None:
        """Close every connection; bounded in time."""

    def abandon(self) -> None:
        """Let go of the sockets at once and wait for nothing, from anywhere."""
