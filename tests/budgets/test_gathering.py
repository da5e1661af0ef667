"""Calls of one loop iteration are written together, in few system calls."""

import asyncio
import os

from paths import echoing_target

import mcpwire

BOUND_S = 30.0


async def test_thirty_calls_of_one_loop_iteration_are_two_writes(monkeypatch):
    target = echoing_target("session")
    async with asyncio.timeout(BOUND_S), mcpwire.Client(target) as client:
        await client.call_tool("x", {"text": "a"})
        writes = []
        write = os.write

        def counting_write(fd, data):
            writes.append(len(data))
            return write(fd, data)

        monkeypatch.setattr(os, "write", counting_write)
        await asyncio.gather(*(client.call_tool("x", {"text": "a"}) for _ in range(30)))
        monkeypatch.undo()
    # The first is written at once, since no call is in flight; the rest together.
    assert len(writes) == 2
