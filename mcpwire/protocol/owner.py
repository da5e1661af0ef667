"""What a `Peer` tells whoever owns it, and what it counts beside plain answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import attrs

from mcpwire.errors import InvalidRequest

if TYPE_CHECKING:
    from mcpwire.errors import MCPError, RPCError
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["TOO_MANY", "Call", "Owner", "PeerStats", "unasked"]

TOO_MANY: Final = "too many questions"
"""The reason that a server is told for a call that ends so."""


class Call(Protocol):
    """What the owner keeps for a request of ours; only its method is read here."""

    @property
    def method(self) -> str:
        """The request's method."""


C_contra = TypeVar("C_contra", bound=Call, contravariant=True)


class Owner(Protocol[C_contra]):
    """What a `Peer` tells its owner. Nothing here awaits, blocks or raises."""

    def answered(self, call: C_contra, result: dict[str, Any]) -> None:
        """A call of ours got its result."""

    def failed(self, call: C_contra, error: MCPError) -> None:
        """A call of ours got an error, or an answer that breaks the rules."""

    def notified(
        self, method: str, params: dict[str, Any] | None, call: C_contra | None
    ) -> None:
        """A notification came, belonging to that call of ours where it names one."""

    def requested(
        self, id: RequestId, method: str, params: dict[str, Any] | None
    ) -> None:
        """The peer asks something; answer with `Peer.answer` or `Peer.refuse`."""

    def withdrawn(self, id: RequestId) -> None:
        """The peer no longer wants that answer; none will leave."""

    def transmit(self, data: bytes) -> None:
        """Write these bytes."""


@attrs.define
class PeerStats:
    """What came in beside plain answers; only ever counts up."""

    messages: int = 0
    """Lines received."""

    noise: int = 0
    """Lines that were no JSON-RPC messages."""

    invalid: int = 0
    """Messages that broke the rules of JSON-RPC or of the revision."""

    late: int = 0
    """Answers to calls that were cancelled or had timed out."""

    unknown: int = 0
    """Answers to no call of ours, second answers among them."""

    unanswered: int = 0
    """Requests of ours that were given up, or were open when the stream ended."""

    before_open: int = 0
    """Requests of ours that were sent until the connection was open."""

    line_bytes: int = 0
    """How long the line is that is being told of; the one that does not count up."""

    noise_lines: list[str] = attrs.field(factory=list)
    """The first of the noise, for diagnosis."""


def unasked() -> RPCError:
    """Return the answer to a question after too many in the calls it belongs to."""
    return InvalidRequest(f"the call that this belongs to has ended: {TOO_MANY}")
