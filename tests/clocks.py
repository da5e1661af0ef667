"""Tests whose clock stands still while code runs: no machine is too busy for them."""

import pytest

from mcpwire.testing import VirtualClockLoop

VIRTUAL = ("asyncio", {"loop_factory": VirtualClockLoop})

on_a_virtual_clock = pytest.mark.parametrize(
    "anyio_backend", [VIRTUAL], ids=["virtual"]
)
    "anyio_backend", [VIRTUAL], ids=["virtual"]
)
"""For what happens in memory alone; who waits there for a timer must not turn idly."""
