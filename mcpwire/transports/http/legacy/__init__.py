"""HTTP+SSE, the transport of 2024-11-05, in a room of its own."""

from mcpwire.transports.http.legacy.channel import LegacyChannel

__all__ = ["LegacyChannel"]
