"""Tools for tests of MCP clients and servers; mcpwire's own tests use them too.

==================  ============================================================
`ScriptedServer`    a server that sends what a test scripts, valid or not
`ScriptedClient`    a client that sends what a test scripts, to any server
`MemoryPeer`        the server's end of an in-memory connection, without logic
`scripted_command`  a server of a few lines of Python in a child process
`AsgiTransport`     an httpx transport to an ASGI application, without a socket
`Issuer`            an authorization server that grants every request
`FaultyStdio`       a real server behind pipes that lose, corrupt and delay bytes
`Recorder`, `Tape`  writes a session to a file; plays its server for a client
`replay`            sends a recorded client's messages to a server, and compares
`leak_check`        a check for leaked descriptors, children, threads and tasks
`VirtualClockLoop`  an event loop with timers that take no real time
==================  ============================================================

``mcpwire.testing.pytest_plugin`` has fixtures for pytest. Names are imported on first
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire._package import lazy_names

if TYPE_CHECKING:
    from mcpwire.testing.asgi import AsgiTransport as AsgiTransport
    from mcpwire.testing.clock import VirtualClockLoop as VirtualClockLoop
    from mcpwire.testing.clock import run as run
    from mcpwire.testing.faults import ByteOrderMark as ByteOrderMark
    from mcpwire.testing.faults import Corrupt as Corrupt
    from mcpwire.testing.faults import Delay as Delay
    from mcpwire.testing.faults import Drop as Drop
    from mcpwire.testing.faults import Duplicate as Duplicate
    from mcpwire.testing.faults import FaultyStdio as FaultyStdio
    from mcpwire.testing.faults import HangUp as HangUp
    from mcpwire.testing.faults import Lose as Lose
    from mcpwire.testing.faults import Noise as Noise
    from mcpwire.testing.faults import Split as Split
    from mcpwire.testing.faults import Stall as Stall
    from mcpwire.testing.faults import Swap as Swap
    from mcpwire.testing.issuer import Issuer as Issuer
    from mcpwire.testing.leaks import leak_check as leak_check
    from mcpwire.testing.scripted import SILENCE as SILENCE
    from mcpwire.testing.scripted import MemoryPeer as MemoryPeer
    from mcpwire.testing.scripted import Message as Message
    from mcpwire.testing.scripted import ScriptedClient as ScriptedClient
    from mcpwire.testing.scripted import ScriptedServer as ScriptedServer
    from mcpwire.testing.scripted import in_turn as in_turn
    from mcpwire.testing.scripted import later as later
    from mcpwire.testing.scripted import repeated as repeated
    from mcpwire.testing.scripted import scripted_command as scripted_command
    from mcpwire.testing.scripted import text as text
    from mcpwire.testing.tape import Recorder as Recorder
    from mcpwire.testing.tape import Tape as Tape
    from mcpwire.testing.tape import replay as replay
    from mcpwire.testing.wire import at_random as at_random

_load, __dir__, __all__ = lazy_names(
    __name__,
    {
        "asgi": "AsgiTransport",
        "clock": "VirtualClockLoop run",
        "faults": """
            ByteOrderMark Corrupt Delay Drop Duplicate FaultyStdio HangUp Lose Noise
            Split Stall Swap
        """,
        "issuer": "Issuer",
        "leaks": "leak_check",
        "scripted": """
            SILENCE MemoryPeer Message ScriptedClient ScriptedServer in_turn later
            repeated scripted_command text
        """,
        "tape": "Recorder Tape replay",
        "wire": "at_random",
    },
)

if not TYPE_CHECKING:  # a type checker would take any name for a public one
    __getattr__ = _load
