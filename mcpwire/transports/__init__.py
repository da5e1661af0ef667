"""The asyncio shell: sockets, pipes, child processes and clocks live here.

A transport performs calls (`Channel`); it is not a pipe of messages. Rules of the
protocol stand in `mcpwire.protocol`, and nothing here repeats one.

Public is what a transport of one's own takes: `Stream` over bytes, `Messages` over
anything else, `Reverse` where the server connects to the client, and `Channel`,
`Inbound`, `CallHandle` for a channel that is written whole.
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
    {
        "base": "CallHandle Channel Inbound",
        "custom": "Messages Reverse Stream",
    },
)

if not TYPE_CHECKING:  # a type checker would take any name for a public one
    __getattr__ = _load
