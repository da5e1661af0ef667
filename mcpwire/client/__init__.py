"""The asyncio client and its call options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcpwire.client.client import CallOptions, Client

__all__ = ["CallOptions", "Client"]

if not TYPE_CHECKING:  # a type checker would take any name for a public one

    def __getattr__(name: str) -> Any:
        """Import a public name on first use: sibling modules do not need `Client`."""
        if name not in __all__:
            raise AttributeError(f"module 'mcpwire.client' has no attribute {name!r}")
        from mcpwire.client import client

        return getattr(client, name)


def __dir__() -> list[str]:
    return sorted(__all__)
