"""What waits for a peer that does not read: in order, whole, and for what it weighs."""

import os
import tracemalloc

import pytest

from mcpwire.transports.duplex import PipeDuplex


class Deaf:
    """An `Inbound` that hears of nothing."""

    def lost(self, error):
        """The connection is gone."""


@pytest.fixture
async def unread():
    """Give a channel and the descriptor where what it writes can be read."""
    never, hold = os.pipe()
    read, write = os.pipe()
    channel = PipeDuplex(Deaf(), never, write)
    yield channel, read
    await channel.aclose()
    os.close(hold)
    os.close(read)


@pytest.mark.fault("F07")
async def test_many_small_lines_cost_about_their_bytes(unread):
    channel, _ = unread
    channel.notify_nowait("x/y", {"text": "a" * 100_000})  # fills the pipe
    tracemalloc.start()
    try:
        for _ in range(8_000):
            channel.notify_nowait("x/y")
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    waiting = channel._queued - channel.bytes_sent
    assert used < 2 * waiting, (used, waiting)
