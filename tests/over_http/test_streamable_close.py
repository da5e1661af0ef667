"""Closing a channel over Streamable HTTP."""

import asyncio
import contextlib

import pytest

from mcpwire import Http
from mcpwire.limits import DEFAULT_LIMITS, Recovery
from mcpwire.transports.http.streamable import HttpChannel


class Engine:
    """An engine that sends nothing, and records that it was closed."""

    target, bytes_sent, is_closed = "http://127.0.0.1:9/", 0, False

    async def aclose(self):
        self.is_closed = True


async def test_engine_is_closed_although_closing_is_cancelled_twice():
    may_end = asyncio.Event()

    async def stay():
        while not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_end.wait()

    engine = Engine()
    channel = HttpChannel(
        Http(engine.target), engine, None, limits=DEFAULT_LIMITS, recovery=Recovery()
    )
    left = channel.spawn(stay)
    closing = asyncio.create_task(channel.aclose())
    for _ in range(2):
        await asyncio.sleep(0)  # a turn of the loop
        await asyncio.sleep(0)  # a turn of the loop
        assert not engine.is_closed
        closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert engine.is_closed
    may_end.set()
    await left
