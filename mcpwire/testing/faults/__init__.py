"""What can go wrong between a client and a server, as a list of values.

Each fault is a stage that bytes pass on their way in one direction, `toward` the client
unless told otherwise; stages stand in the order of the list. Faults that name messages
count the lines that reach them from 1, and hold back a line until it is complete, so
whatever cuts bytes comes last. `FaultyStdio` puts them between a client and a real
server.
"""

from __future__ import annotations

from mcpwire.testing.faults.base import Fault
from mcpwire.testing.faults.of_bytes import Corrupt, HangUp, Lose, Split, Stall
from mcpwire.testing.faults.of_messages import (
    ByteOrderMark,
    Delay,
    Drop,
    Duplicate,
    Noise,
    Swap,
)
from mcpwire.testing.faults.relay import FaultyStdio

__all__ = [
    "ByteOrderMark",
    "Corrupt",
    "Delay",
    "Drop",
    "Duplicate",
    "Fault",
    "FaultyStdio",
    "HangUp",
    "Lose",
    "Noise",
    "Split",
    "Stall",
    "Swap",
]
