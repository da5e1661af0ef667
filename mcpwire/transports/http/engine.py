"""The seam between what HTTP means to MCP and who moves its bytes.

An engine sends one request and feeds the reply to it with what comes back. It talks
to one origin, follows no redirect, keeps no cookie, and knows nothing of MCP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mcpwire.errors import MCPError
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http.request import Request

__all__ = ["Engine", "Fed"]


class Fed(Protocol):
    """What an engine feeds; `mcpwire.protocol.http.reply` has the real ones.

    The three methods may raise an `MCPError`: the engine then closes the connection and
    lets it out of `exchange`.
    """

    @property
    def is_over(self) -> bool:
        """Whether whoever waits can be woken; what is left is fed all the same."""

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Take the final head; names in lower case, repeated fields in one."""

    def data(self, chunk: bytes) -> None:
        """Take the next bytes of the body."""

    def end(self) -> None:
        """Take note that the body is complete."""

    def out_of_time(self, now: float) -> MCPError:
        """Build the error for a deadline that has passed."""


class Engine(Protocol):
    """Performs HTTP requests to one origin.

    Attributes:
        target: The URL as text without secrets.
        connections: How many connections were opened so far.
        bytes_sent: How many bytes were handed to the operating system so far.
    """

    target: str

    @property
    def connections(self) -> int:
        """How many connections were opened so far."""

    @property
    def bytes_sent(self) -> int:
        """How many bytes were handed to the operating system so far."""

    async def exchange(
        self, request: Request, reply: Fed, deadline: Deadline | None
    ) -> None:
        """Send a request and feed its reply until that is over.

        A request is sent again only where it provably never reached the peer's program.
        Cancelling it closes the connection it runs on.

        Raises:
            ConnectError: No connection came about; nothing was sent.
            ConnectionClosed: The connection ended before the reply was over; `sent`
                tells whether the request may have been seen.
            RemoteProtocolError: What came back is no acceptable HTTP, or the reply
                refused it.
            MCPError: What `abort` was given.
        """

    def abort(self, reply: Fed, error: MCPError) -> bool:
        """End the exchange of that reply with an error; return whether one ran."""

    async def aclose(self) -> None:
        """Close every connection; bounded in time."""

    def abandon(self) -> None:
        """Let go of the sockets at once and wait for nothing, from anywhere."""
