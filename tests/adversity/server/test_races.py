"""Cancelling, polling and flooding at every moment: at most one response."""

import asyncio
import contextlib

import pytest
from attacked_server import build
from client_paths import OverHttp, works
from raw_client import Hand, modern, notice, request

ITERATIONS = range(14)
"""More loop iterations than a short call takes."""


class Steps:
    """A server with tools that take some loop iterations, which counts their calls."""

    def __init__(self):
        self.server = build()
        self.running = 0
        self.server.add_tool(self.steps, name="steps")
        self.server.add_tool(self.hangs, name="hangs")

    @contextlib.contextmanager
    def counted(self):
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    async def steps(self, count: int = 4) -> str:
        with self.counted():
            await turns(count)
        return "done"

    async def hangs(self) -> str:
        with self.counted():
            await asyncio.Event().wait()


def call(make, id, name, **arguments):
    return make(id, "tools/call", {"name": name, "arguments": arguments})


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.case("F01")
@pytest.mark.parametrize("make", [request, modern])
@pytest.mark.parametrize("tool", ["steps", "hangs", "threaded"])
async def test_cancelled_stream_call_is_answered_before_or_never(make, tool):
    steps = Steps()
    hand = Hand(steps.server.dispatcher, "2025-11-25" if make is request else None)
    arguments = {"text": "x"} if tool == "threaded" else {}
    for count in ITERATIONS:
        hand.send(call(make, 1, tool, **arguments))
        await turns(count)
        before = hand.rest()
        assert len(before) <= 1
        hand.send(notice("notifications/cancelled", requestId=1))
        # The id is free again at once, and its response is that of the new call.
        hand.send(call(make, 1, "echo", text=str(count)))
        [answer] = await hand.settled()
        assert answer["result"]["content"][0]["text"] == str(count)
    assert steps.running == 0
    assert await hand.settled() == []


@pytest.mark.case("F01")
@pytest.mark.parametrize("tool", ["steps", "hangs"])
async def test_cancelled_http_call_ends_its_stream(tool):
    steps = Steps()
    way = await OverHttp(steps.server, "2025-11-25", stream_after=0.001).open()
    for count in ITERATIONS:
        visit = way.begin("POST", call(request, 1, tool))
        await turns(count)
        gone = notice("notifications/cancelled", requestId=1)
        assert await way.say(gone) == []
        await visit.task
        # The stream ends, with or without a response.
        await works(way, 1)
    await turns(5)
    assert steps.running == 0
    await way.aclose()


@pytest.mark.case("F01", "D11")
@pytest.mark.parametrize("tool", ["steps", "hangs"])
async def test_http_disconnect_at_any_moment_cancels_the_call(tool):
    steps = Steps()
    way = await OverHttp(steps.server, None, stream_after=0.001).open()
    for count in ITERATIONS:
        visit = way.begin("POST", call(modern, 1, tool))
        await turns(count)
        visit.leave()
        await visit.task
        assert visit.status in {None, 200}
        assert steps.running == 0
        await works(way, 1)
    await way.aclose()


@pytest.mark.case("F01")
async def test_only_the_exact_request_id_cancels_a_call():
    steps = Steps()
    hand = Hand(steps.server.dispatcher, "2025-11-25")
    hand.send(call(request, 1, "hangs"), call(request, "1", "hangs"))
    await turns(5)
    assert steps.running == 2
    for id in (2, "2", None, True, 1.0, 1.5, [1], {"id": 1}, "01", "init", 0):
        hand.send(notice("notifications/cancelled", requestId=id))
    hand.send(notice("notifications/cancelled"))
    hand.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": None})
    await turns(5)
    assert steps.running == 2
    hand.send(notice("notifications/cancelled", requestId="1"))
    await turns(5)
    assert steps.running == 1
    hand.send(notice("notifications/cancelled", requestId=1))
    assert await hand.settled() == []
    assert steps.running == 0


@pytest.mark.case("F18", "F04")
async def test_flooding_client_does_not_block_another():
    steps = Steps()
    one = await OverHttp(steps.server, "2025-11-25").open()
    other = await OverHttp(steps.server, "2025-11-25", app=one.app).open()
    alone = await OverHttp(steps.server, None, app=one.app).open()
    flood = [one.begin("POST", call(request, id, "hangs")) for id in range(500)]
    flood += [alone.begin("POST", call(modern, id, "hangs")) for id in range(500)]
    await turns(20)
    for _ in range(3):
        await works(other)
        await works(alone)
        [pong] = await one.say(request("ping", "ping"))
        assert pong["result"] == {}
    await one.aclose()
    await asyncio.gather(*(visit.task for visit in flood))
    assert steps.running == 0
