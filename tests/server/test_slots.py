"""Slots for concurrent calls: their order, and fairness among clients."""

import asyncio
import contextlib
import threading

import pytest
from single_request import client_at

from mcpwire import Server
from mcpwire.server.calling import SlotPool

pytestmark = pytest.mark.attack("X07")

TIMEOUT_S = 30.0


async def take(pool, owner, owners, times=1):
    """Wait for slots, one task each; record the owners that got one."""

    async def wait():
        await pool.acquire(owner)
        owners.append(owner)

    tasks = [asyncio.create_task(wait()) for _ in range(times)]
    await settle()
    return tasks


async def settle():
    for _ in range(3):
        await asyncio.sleep(0)


async def cancel(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("number", "counts"),
    [(1, [1, 0]), (2, [1, 1]), (3, [2, 1]), (8, [4, 2, 1, 1]), (64, [32, 16, 8, 4])],
)
async def test_client_gets_a_slot_while_more_are_free_than_held(number, counts):
    pool, owners = SlotPool(number, reserves_slots=True), []
    waiting = []
    for client in range(len(counts)):
        waiting += await take(pool, f"c{client}", owners, number + 1)
    assert [owners.count(f"c{client}") for client in range(len(counts))] == counts
    await cancel(*waiting)


@pytest.mark.parametrize(("owner", "reserves_slots"), [("", True), ("a", False)])
async def test_pipe_or_tool_client_can_take_all_slots(owner, reserves_slots):
    pool, owners = SlotPool(4, reserves_slots=reserves_slots), []
    waiting = await take(pool, owner, owners, 5)
    assert len(owners) == 4
    pool.release(owner)
    await settle()
    assert len(owners) == 5
    await cancel(*waiting)


async def test_free_slot_goes_to_the_client_with_fewest_slots():
    pool, owners = SlotPool(2, reserves_slots=False), []
    await take(pool, "a", owners, 2)
    await take(pool, "a", owners, 3)
    await take(pool, "b", owners, 2)
    await take(pool, "c", owners, 1)
    order = []
    for owner in ("a", "a", "b", "c", "a", "b"):
        del owners[:]
        pool.release(owner)
        await settle()
        order += owners
    assert order == ["b", "a", "c", "b", "a", "a"]


async def test_released_slot_serves_every_eligible_client():
    pool, owners = SlotPool(6, reserves_slots=True), []
    waiting = [*await take(pool, "a", owners, 5), *await take(pool, "b", owners, 5)]
    assert (owners.count("a"), owners.count("b")) == (3, 2)
    pool.release("a")
    await settle()
    # Two are free and "a" holds two: "b" holds two as well and has to wait.
    assert (owners.count("a"), owners.count("b")) == (3, 2)
    pool.release("b")
    await settle()
    assert (owners.count("a"), owners.count("b")) == (3, 3)
    pool.release("a")
    pool.release("b")
    await settle()
    assert (owners.count("a"), owners.count("b")) == (4, 4)
    await cancel(*waiting)


async def test_waiting_client_does_not_block_a_pipe():
    pool, owners = SlotPool(3, reserves_slots=True), []
    waiting = [*await take(pool, "", owners, 2), *await take(pool, "a", owners, 2)]
    waiting += await take(pool, "", owners)
    assert owners == ["", "", "a"]
    pool.release("")
    await settle()
    # "a" holds one, and one is free.
    assert owners == ["", "", "a", ""]
    await cancel(*waiting)


async def test_cancelled_waiters_lose_no_slot():
    pool, owners = SlotPool(1, reserves_slots=False), []
    await take(pool, "a", owners)
    first, second = await take(pool, "b", owners, 2)
    await cancel(first)
    third = (await take(pool, "c", owners))[0]
    await cancel(third)
    # Closed without being cancelled, as when its loop ends.
    closed = pool.acquire("d")
    closed.send(None)
    closed.close()
    pool.release("a")
    # Cancelled in the iteration in which it got the slot.
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert owners == ["a"]
    await asyncio.wait_for(pool.acquire("d"), TIMEOUT_S)


async def test_abandoned_calls_leave_threads_for_other_addresses():
    server, opened = Server("x", thread_limit=4), threading.Event()
    started, is_full = [], threading.Event()

    @server.tool
    def block() -> str:
        started.append(1)
        if len(started) == 2:
            is_full.set()
        opened.wait(TIMEOUT_S)
        return "late"

    @server.tool
    def quick() -> str:
        return "done"

    app = server.asgi(allowed_hosts=["x.example"])
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(opened.set)
        greedy, honest = [
            await client_at(stack, app, address)
            for address in ("192.0.2.1", "198.51.100.1")
        ]
        calls = [asyncio.create_task(greedy.call_tool("block")) for _ in range(8)]
        await asyncio.to_thread(is_full.wait, TIMEOUT_S)
        await cancel(*calls)
        assert len(started) == 2
        assert (await honest.call_tool("quick")).text == "done"
        assert len(started) == 2
    await app.aclose()
