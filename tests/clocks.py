"""Clocks that do not advance while code runs: tests that no loaded machine fails."""

import functools

import pytest

from mcpwire.testing import VirtualClockLoop


def _on(loop_factory):
    backend = ("asyncio", {"loop_factory": loop_factory})
    return pytest.mark.parametrize("anyio_backend", [backend], ids=["virtual"])


on_a_virtual_clock = _on(VirtualClockLoop)
"""For in-memory code; waiting for a timer must not poll."""

on_a_clock_by_hand = _on(
    functools.partial(VirtualClockLoop, auto_advance=False, patience=50.0)
)
"""For children and sockets, which need real time; the test advances the clock."""


class Clock:
    def __init__(self, now=1_000.0):
        self.now = now

    def __call__(self):
        return self.now
