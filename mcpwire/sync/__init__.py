"""The blocking client: the same names, types and errors, without an event loop.

::

    with mcpwire.sync.Client("uvx mcp-server-time") as client:
        result = client.call_tool("get_current_time", {"timezone": "UTC"})

Any number of threads may share one client. Reading and writing happen in the threads
that call: there is no loop, and no thread of ours unless something asks for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcpwire.sync.client import CallOptions, Client

__all__ = ["CallOptions", "Client"]


def __getattr__(name: str) -> Any:
    """Import a public name with its first use."""
    if name not in __all__:
        raise AttributeError(f"module 'mcpwire.sync' has no attribute {name!r}")
    from mcpwire.sync import client

    value = getattr(client, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is public."""
    return sorted(__all__)
