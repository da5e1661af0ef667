"""The write queue for a peer that does not read, and its memory."""

import os
import tracemalloc
from unittest.mock import Mock

import pytest

from mcpwire.transports.duplex import PipeDuplex


@pytest.fixture
async def unread():
    """Yield a channel and the descriptor from which its output can be read."""
    never, hold = os.pipe()
    read, write = os.pipe()
    channel = PipeDuplex(Mock(), never, write)
    yield channel, read
    await channel.aclose()
    os.close(hold)
    os.close(read)


@pytest.mark.fault("F07")
async def test_queue_of_small_lines_uses_about_their_size(unread):
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
