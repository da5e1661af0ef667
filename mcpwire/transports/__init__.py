"""Transports on asyncio: sockets, pipes, child processes and timers.

A transport performs calls (`Channel`); it is not a pipe of messages. The rules of the
protocol are in `mcpwire.protocol` and are not repeated here.

The public names are for custom transports: `Stream` for byte streams, `Messages` for
connections that carry single messages, `Reverse` for servers that connect to the
client, and `Channel`, `Inbound`, `CallHandle` for a complete channel of the user's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire._package import lazy_names

if TYPE_CHECKING:
    from mcpwire.transports.base import CallHandle as CallHandle
    from mcpwire.transports.base import Channel as Channel
    from mcpwire.transports.base import Inbound as Inbound
    from mcpwire.transports.custom import Messages as Messages
    from mcpwire.transports.custom import Reverse as Reverse
    from mcpwire.transports.custom import Stream as Stream

_load, __dir__, __all__ = lazy_names(
    __name__,
    {"base": "CallHandle Channel Inbound", "custom": "Messages Reverse Stream"},
)

if not TYPE_CHECKING:  # with __getattr__, a type checker would accept any name
    __getattr__ = _load
