"""Calls of one turn of the loop leave together: few system calls, however many."""

import asyncio
import os

from paths import echoing_target

import mcpwire

BOUND_S = 30.0


async def test_thirty_calls_of_one_turn_are_two_writes(monkeypatch):
    target = echoing_target("session")
    async with asyncio.timeout(BOUND_S), mcpwire.Client(target) as client:
        await client.call_tool("x", {"text": "a"})
        writes = []
        write = os.write

        def counted(fd, data):
            writes.append(len(data))
            return write(fd, data)

        monkeypatch.setattr(os, "write", counted)
        await asyncio.gather(*(client.call_tool("x", {"text": "a"}) for _ in range(30)))
        monkeypatch.undo()
    # The first leaves at once, for nothing else was under way; the rest together.
    assert len(writes) == 2
