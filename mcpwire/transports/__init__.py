"""The asyncio shell: sockets, pipes, child processes and clocks live here.

A transport performs calls (`Channel`); it is not a pipe of messages. Rules of the
protocol stand in `mcpwire.protocol`, and nothing here repeats one.

Public is what a transport of one's own takes: `Stream` over bytes, `Messages` over
anything else, `Reverse` where the server connects to the client, and `Channel`,
`Inbound`, `CallHandle` for a channel that is written whole.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.transports.base import CallHandle, Channel, Inbound
    from mcpwire.transports.custom import Messages, Reverse, Stream

_MODULE_OF: Final = {
    "CallHandle": "mcpwire.transports.base",
    "Channel": "mcpwire.transports.base",
    "Inbound": "mcpwire.transports.base",
    "Messages": "mcpwire.transports.custom",
    "Reverse": "mcpwire.transports.custom",
    "Stream": "mcpwire.transports.custom",
}

__all__ = ["CallHandle", "Channel", "Inbound", "Messages", "Reverse", "Stream"]


def __getattr__(name: str) -> Any:
    """Import a public name with its first use."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'mcpwire.transports' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is public."""
    return sorted(__all__)
