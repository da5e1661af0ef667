"""Slots for calls at once: who gets the next one, and what one client leaves others."""

import asyncio
import contextlib
import threading

import pytest
from single import client_at

from mcpwire import Server
from mcpwire.server.calling import SlotPool

pytestmark = pytest.mark.attack("X07")

PATIENCE = 30.0


async def take(pool, owner, got, times=1):
    """Wait for slots, one task each; write down who got one."""

    async def wait():
        await pool.acquire(owner)
        got.append(owner)

    tasks = [asyncio.create_task(wait()) for _ in range(times)]
    await settle()
    return tasks


async def settle():
    for _ in range(3):
        await asyncio.sleep(0)


async def left(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("number", "counts"),
    [(1, [1, 0]), (2, [1, 1]), (3, [2, 1]), (8, [4, 2, 1, 1]), (64, [32, 16, 8, 4])],
)
async def test_a_client_takes_a_slot_while_more_are_free_than_it_holds(number, counts):
    pool, got = SlotPool(number, reserves_slots=True), []
    waiting = []
    for client in range(len(counts)):
        waiting += await take(pool, f"c{client}", got, number + 1)
    assert [got.count(f"c{client}") for client in range(len(counts))] == counts
    await left(*waiting)


@pytest.mark.parametrize(("owner", "reserves_slots"), [("", True), ("a", False)])
async def test_a_sole_client_takes_all_slots_of_a_pipe_or_of_a_tool(
    owner, reserves_slots
):
    pool, got = SlotPool(4, reserves_slots=reserves_slots), []
    waiting = await take(pool, owner, got, 5)
    assert len(got) == 4
    pool.release(owner)
    await settle()
    assert len(got) == 5
    await left(*waiting)


async def test_a_free_slot_goes_to_the_client_with_the_fewest_then_in_turn():
    pool, got = SlotPool(2, reserves_slots=False), []
    await take(pool, "a", got, 2)
    await take(pool, "a", got, 3)
    await take(pool, "b", got, 2)
    await take(pool, "c", got, 1)
    order = []
    for owner in ("a", "a", "b", "c", "a", "b"):
        del got[:]
        pool.release(owner)
        await settle()
        order += got
    assert order == ["b", "a", "c", "b", "a", "a"]


async def test_a_returned_slot_serves_all_that_it_makes_room_for():
    pool, got = SlotPool(6, reserves_slots=True), []
    waiting = [*await take(pool, "a", got, 5), *await take(pool, "b", got, 5)]
    assert (got.count("a"), got.count("b")) == (3, 2)
    pool.release("a")
    await settle()
    # Two are free and "a" holds two: "b", which holds as many, is not served either.
    assert (got.count("a"), got.count("b")) == (3, 2)
    pool.release("b")
    await settle()
    assert (got.count("a"), got.count("b")) == (3, 3)
    pool.release("a")
    pool.release("b")
    await settle()
    assert (got.count("a"), got.count("b")) == (4, 4)
    await left(*waiting)


async def test_a_client_that_may_take_none_holds_up_no_pipe():
    pool, got = SlotPool(3, reserves_slots=True), []
    waiting = [*await take(pool, "", got, 2), *await take(pool, "a", got, 2)]
    waiting += await take(pool, "", got)
    assert got == ["", "", "a"]
    pool.release("")
    await settle()
    # "a" holds one, and one is free.
    assert got == ["", "", "a", ""]
    await left(*waiting)


async def test_a_client_that_stops_waiting_loses_no_slot():
    pool, got = SlotPool(1, reserves_slots=False), []
    await take(pool, "a", got)
    first, second = await take(pool, "b", got, 2)
    await left(first)
    third = (await take(pool, "c", got))[0]
    await left(third)
    # Closed without being cancelled, as when its loop ends.
    closed = pool.acquire("d")
    closed.send(None)
    closed.close()
    pool.release("a")
    # Cancelled in the same step in which it was served.
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert got == ["a"]
    await asyncio.wait_for(pool.acquire("d"), PATIENCE)


async def test_abandoned_calls_of_one_address_leave_others_threads():
    server, opened = Server("x", thread_limit=4), threading.Event()
    begun, is_full = [], threading.Event()

    @server.tool
    def block() -> str:
        begun.append(1)
        if len(begun) == 2:
            is_full.set()
        opened.wait(PATIENCE)
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
        await asyncio.to_thread(is_full.wait, PATIENCE)
        await left(*calls)
        assert len(begun) == 2
        assert (await honest.call_tool("quick")).text == "done"
        assert len(begun) == 2
    await app.aclose()
