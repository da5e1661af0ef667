"""What MCP clients and servers are tested with; mcpwire's own tests use it too.

==================  ============================================================
`ScriptedServer`    a server that says what a test tells it to, right or wrong
`ScriptedClient`    the same for the other side, to any server
`MemoryPeer`        a server's end of a connection in memory, driven by hand
`scripted_command`  a few lines of Python as a real child process
`AsgiTransport`     a web server that is none: HTTP without a socket
`Issuer`            an authorization server that lets everybody in
`FaultyStdio`       a real server behind pipes that lose, spoil and delay
`leak_check`        what was left open: descriptors, children, threads, tasks
`VirtualClockLoop`  an event loop with timers that take no time
==================  ============================================================

``mcpwire.testing.pytest_plugin`` has fixtures for pytest. Names are imported when they
are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.testing.asgi import AsgiTransport
    from mcpwire.testing.clock import VirtualClockLoop, run
    from mcpwire.testing.faults import (
        ByteOrderMark,
        Corrupt,
        Delay,
        Drop,
        Duplicate,
        FaultyStdio,
        HangUp,
        Lose,
        Noise,
        Split,
        Stall,
        Swap,
    )
    from mcpwire.testing.issuer import Issuer
    from mcpwire.testing.leaks import leak_check
    from mcpwire.testing.messages import SILENCE, Message, in_turn, later, repeated
    from mcpwire.testing.scripted import (
        MemoryPeer,
        ScriptedClient,
        ScriptedServer,
        scripted_command,
        text,
    )
    from mcpwire.testing.wire import at_random

_EXPORTS: Final = {
    "mcpwire.testing.asgi": ("AsgiTransport",),
    "mcpwire.testing.clock": ("VirtualClockLoop", "run"),
    "mcpwire.testing.faults": (
        "ByteOrderMark",
        "Corrupt",
        "Delay",
        "Drop",
        "Duplicate",
        "FaultyStdio",
        "HangUp",
        "Lose",
        "Noise",
        "Split",
        "Stall",
        "Swap",
    ),
    "mcpwire.testing.issuer": ("Issuer",),
    "mcpwire.testing.leaks": ("leak_check",),
    "mcpwire.testing.messages": ("SILENCE", "Message", "in_turn", "later", "repeated"),
    "mcpwire.testing.scripted": (
        "MemoryPeer",
        "ScriptedClient",
        "ScriptedServer",
        "scripted_command",
        "text",
    ),
    "mcpwire.testing.wire": ("at_random",),
}

_MODULE_OF: Final = {
    name: module for module, names in _EXPORTS.items() for name in names
}

__all__ = [
    "SILENCE",
    "AsgiTransport",
    "ByteOrderMark",
    "Corrupt",
    "Delay",
    "Drop",
    "Duplicate",
    "FaultyStdio",
    "HangUp",
    "Issuer",
    "Lose",
    "MemoryPeer",
    "Message",
    "Noise",
    "ScriptedClient",
    "ScriptedServer",
    "Split",
    "Stall",
    "Swap",
    "VirtualClockLoop",
    "at_random",
    "in_turn",
    "later",
    "leak_check",
    "repeated",
    "run",
    "scripted_command",
    "text",
]


def __getattr__(name: str) -> Any:
    """Import a public name with its first use."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'mcpwire.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is public."""
    return sorted(__all__)
