"""What a client has sent and received, over all its connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from mcpwire.protocol.peer import PeerStats

__all__ = ["ClientStats"]


class _Counted(Protocol):
    """What a channel counts."""

    @property
    def stats(self) -> PeerStats: ...

    @property
    def bytes_sent(self) -> int: ...

    @property
    def requests_sent(self) -> int: ...


@attrs.define
class ClientStats:
    """Counters that only go up, and the first noise of the connection in use."""

    connections: int = 0
    """Connections opened, the current one included."""

    requests: int = 0
    """Requests sent, the handshake's included."""

    bytes_sent: int = 0
    """Bytes that the operating system has taken."""

    messages: int = 0
    """Messages received."""

    noise_lines: int = 0
    """Lines received that were no JSON-RPC messages."""

    invalid_messages: int = 0
    """Messages received that broke the rules."""

    late_answers: int = 0
    """Answers to calls that had been cancelled or had timed out."""

    unknown_answers: int = 0
    """Answers to no call of ours, second answers among them."""

    dropped_notifications: int = 0
    """Notifications dropped because a callback was too slow."""

    malformed_members: int = 0
    """Malformed hints of tools (`ToolAnnotations`) that were left out of lists."""

    noise: tuple[str, ...] = ()
    """The first lines of noise."""

    def add(self, channel: _Counted) -> None:
        """Add what one connection has counted."""
        peer = channel.stats
        self.connections += 1
        self.requests += channel.requests_sent
        self.bytes_sent += channel.bytes_sent
        self.messages += peer.messages
        self.noise_lines += peer.noise
        self.invalid_messages += peer.invalid
        self.late_answers += peer.late
        self.unknown_answers += peer.unknown
        self.noise = tuple(peer.noise_lines)
