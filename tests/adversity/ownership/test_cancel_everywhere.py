"""Cancelling connect, call, list and close at each step leaks nothing.

Each test runs its operation once for each possible step (see `schedule`), over a real
child and in memory.
"""

import asyncio

import pytest
from fakes import FakeServer, text
from schedule import Remains, cancel_everywhere
from shell_server import quick

import mcpwire

pytestmark = pytest.mark.fault("F42")

MODES = pytest.mark.parametrize("mode", ["auto", "session"])


def pages(params, _):
    number = int(params.get("cursor", "0")) + 1
    return {"tools": [], **({"nextCursor": str(number)} if number < 3 else {})}


METHODS = {"tools/call": lambda *_: text("ok"), "tools/list": pages}


def in_memory(version="2025-11-25"):
    return FakeServer(METHODS, version=version)


class SlowServer(FakeServer):
    """A server that answers some loop iterations later: requests are pending."""

    def answer(self, request):
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, super().answer, request)


TARGETS = pytest.mark.parametrize(
    "target",
    [quick, in_memory, lambda: in_memory("2026-07-28")],
    ids=["child", "memory", "memory, stateless"],
)


async def connect_and_undo(schedule, client, remains):
    """Connect under the schedule; with any outcome, nothing is left afterwards."""
    task = await schedule.run(client.connect)
    if task.cancelled():
        remains.assert_none()  # the cancelled connect waited for its cleanup
        assert not client.is_connected
    else:
        task.result()
        assert client.is_connected
    await client.aclose()
    remains.assert_none()


@pytest.mark.pain("P10")
@MODES
@TARGETS
async def test_cancelling_connect_at_each_step_leaks_nothing(target, mode, monkeypatch):
    async def once(schedule):
        mode_there = "auto" if mode == "auto" else client_mode(target)
        client = mcpwire.Client(target(), mode=mode_there)
        await connect_and_undo(schedule, client, remains)

    remains = Remains()
    assert await cancel_everywhere(once, monkeypatch) >= 10


def client_mode(target):
    server = target()
    return "stateless" if getattr(server, "version", "") == "2026-07-28" else "session"


@TARGETS
async def test_cancelling_a_whole_use_at_each_step_leaks_nothing(target, monkeypatch):
    async def once(schedule):
        client = mcpwire.Client(target())

        async def use():
            async with client:
                await client.call_tool("x")

        await schedule.run(use)
        await client.aclose()
        remains.assert_none()

    remains = Remains()
    assert await cancel_everywhere(once, monkeypatch) >= 12


OPERATIONS = pytest.mark.parametrize(
    "operate",
    [
        lambda client: client.call_tool("x"),
        lambda client: client.call_tool("x", on_progress=lambda *_: None),
        lambda client: client.list_tools(),
        lambda client: client.ping(),
    ],
    ids=["call", "call with progress", "list", "ping"],
)


@TARGETS
@OPERATIONS
async def test_cancelling_a_request_at_each_step_keeps_the_connection(
    operate, target, monkeypatch
):
    async def once(schedule):
        await schedule.run(lambda: operate(client))
        assert not client._connection.channel._peer.outstanding
        remains.assert_none()

    async with mcpwire.Client(target()) as client:
        remains = Remains()
        assert await cancel_everywhere(once, monkeypatch) >= 2
        assert (await client.call_tool("x")).text
        assert client.stats.connections == 1


@pytest.mark.pain("P09")
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@OPERATIONS
async def test_cancelling_a_sent_request_sends_one_cancellation(
    operate, version, monkeypatch
):
    server = SlowServer(METHODS, version=version)

    async def once(schedule):
        before = len(server.received)
        task = await schedule.run(lambda: operate(client))
        await client.call_tool("behind it")  # everything sent before it has arrived
        *seen, behind = server.received[before:]
        assert behind["method"] == "tools/call"
        request_ids = [m["id"] for m in seen if "id" in m]
        cancelled_ids = [
            m["params"]["requestId"]
            for m in seen
            if m["method"] == "notifications/cancelled"
        ]
        assert cancelled_ids in ([], request_ids[-1:])
        if task.cancelled():
            cancelled_in_flight[0] += cancelled_ids == request_ids[-1:] != []
        else:
            assert cancelled_ids == []

    cancelled_in_flight = [0]
    async with mcpwire.Client(server) as client:
        await cancel_everywhere(once, monkeypatch)
    assert cancelled_in_flight[0] >= 2
