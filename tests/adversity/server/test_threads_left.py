"""Threads of plain functions whose calls were cancelled or timed out."""

import asyncio
import contextlib
import threading

import pytest
from loop_polling import until

from mcpwire import Client, Server

TIMEOUT_S = 30


class Blocker:
    """Blocks plain functions, and counts how many it blocks."""

    def __init__(self) -> None:
        self.held = self.most = 0
        self._lock = threading.Lock()
        self._gate = threading.Event()

    def block(self) -> None:
        with self._lock:
            self.held += 1
            self.most = max(self.most, self.held)
        self._gate.wait(TIMEOUT_S)
        with self._lock:
            self.held -= 1

    def open(self) -> None:
        self._gate.set()


async def cancelled(client: Client, name: str, blocker: Blocker, held: int) -> None:
    """Begin a call and cancel it once so many are blocked, or soon after."""
    call = asyncio.ensure_future(client.call_tool(name, {}))
    async with asyncio.timeout(TIMEOUT_S):
        await until(lambda: blocker.held >= held, 0.001)
    for _ in range(20):
        await asyncio.sleep(0)
    await asyncio.sleep(0.005)  # time for a thread that must not begin
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call


@pytest.mark.parametrize(
    ("server_options", "tool_options", "maximum"),
    [({"thread_limit": 3}, {}, 3), ({}, {"concurrency": 1}, 1)],
)
async def test_cancelled_calls_respect_the_thread_limit(
    server_options, tool_options, maximum
):
    server = Server("threads", "1", **server_options)
    blocker = Blocker()

    @server.tool(**tool_options)
    def slow() -> str:
        blocker.block()
        return "done"

    async with Client(server) as client:
        try:
            for number in range(4 * maximum):
                await cancelled(client, "slow", blocker, min(number + 1, maximum))
            assert blocker.most == maximum
            waiting = asyncio.ensure_future(client.call_tool("slow", {}))
        finally:
            blocker.open()
        assert (await waiting).text == "done"
    # A call cancelled before it had a thread has not run later.
    assert blocker.most == maximum


async def test_timed_out_tool_keeps_its_thread_slot_until_it_ends():
    server = Server("threads", "1", thread_limit=1)
    blocker = Blocker()

    @server.tool(timeout=0.02)
    def slow() -> None:
        blocker.block()

    async with Client(server) as client:
        try:
            while not blocker.most:  # on a loaded machine it may not even begin
                assert (await client.call_tool("slow", {})).is_error
            for _ in range(2):
                assert (await client.call_tool("slow", {})).is_error
            assert blocker.most == 1
        finally:
            blocker.open()
