"""What plain functions leave behind whose calls were cancelled or took too long."""

import asyncio
import contextlib
import threading

import pytest
from turns import until

from mcpwire import Client, Server

PATIENCE = 30


class Blocker:
    """Holds up plain functions, and counts how many it holds."""

    def __init__(self) -> None:
        self.held = self.most = 0
        self._lock = threading.Lock()
        self._gate = threading.Event()

    def block(self) -> None:
        with self._lock:
            self.held += 1
            self.most = max(self.most, self.held)
        self._gate.wait(PATIENCE)
        with self._lock:
            self.held -= 1

    def open(self) -> None:
        self._gate.set()


async def cancelled(client: Client, name: str, blocker: Blocker, held: int) -> None:
    """Begin a call and cancel it once so many are held, and soon after that."""
    call = asyncio.ensure_future(client.call_tool(name, {}))
    async with asyncio.timeout(PATIENCE):
        await until(lambda: blocker.held >= held, 0.001)
    for _ in range(20):
        await asyncio.sleep(0)
    await asyncio.sleep(0.005)  # time for a thread that must not begin
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call


@pytest.mark.parametrize(
    ("of_server", "of_tool", "most"),
    [({"thread_limit": 3}, {}, 3), ({}, {"concurrency": 1}, 1)],
)
async def test_cancelled_calls_take_no_more_threads_than_there_may_be(
    of_server, of_tool, most
):
    server = Server("threads", "1", **of_server)
    blocker = Blocker()

    @server.tool(**of_tool)
    def slow() -> str:
        blocker.block()
        return "done"

    async with Client(server) as client:
        try:
            for number in range(4 * most):
                await cancelled(client, "slow", blocker, min(number + 1, most))
            assert blocker.most == most
            waiting = asyncio.ensure_future(client.call_tool("slow", {}))
        finally:
            blocker.open()
        assert (await waiting).text == "done"
    # What was cancelled before it had a thread has not run later.
    assert blocker.most == most


async def test_a_tool_that_took_too_long_keeps_its_place_until_it_ends():
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
