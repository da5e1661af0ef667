"""A second initialize: a bridge keeps one child process for all its clients."""

import asyncio

import pytest
from raw_client import (
    TIMEOUT_S,
    Hand,
    failure,
    notice,
    request,
    server,
    session,
    success,
)

from mcpwire.server.dispatcher import Dispatcher


class Recording(Dispatcher):
    """Records the end of each session."""

    ends = ()

    def discard_session(self, session):
        super().discard_session(session)
        self.ends = (*self.ends, ("left", session))
        self.has_left.set()

    async def wait_session_closed(self, session):
        self.ends = (*self.ends, ("closed", session))


@pytest.fixture
def slow():
    """A server with a call that runs until the test ends it."""
    may_end = asyncio.Event()

    async def call(params, request):
        request.session.state["calls"] = 1
        await may_end.wait()
        request.log("info", "done")
        return {"content": [], "structuredContent": request.session.state}

    made = server(
        {"tools/call": call, "tools/list": lambda *_: {"tools": []}},
        {"tools": {"listChanged": True}, "logging": {}},
    )
    made.__class__ = Recording
    made.may_end = may_end
    made.has_left = asyncio.Event()
    return made


async def left(dispatcher):
    """Wait until a session was discarded."""
    async with asyncio.timeout(TIMEOUT_S):
        await dispatcher.has_left.wait()


CALL = request(7, "tools/call", {"name": "x"})


@pytest.mark.parametrize("version", ["2025-11-25", "2024-11-05"])
async def test_call_in_flight_finishes_after_a_second_handshake(slow, version):
    hand = Hand(slow, "2025-11-25")
    first = hand.connection.session
    hand.send(CALL)
    [answer] = await hand.ask(request(8, "initialize", session(version)))
    assert answer["result"]["protocolVersion"] == version
    second = hand.connection.session
    assert second is not first
    assert slow.ends == ()
    slow.may_end.set()
    logged, answered = await hand.next(), await hand.next()
    assert logged["params"] == {"level": "info", "data": "done"}
    result = {"content": [], "structuredContent": {"calls": 1}}
    assert answered == success(7, result)
    assert second.state == {}
    await left(slow)
    await hand.connection.aclose()
    assert slow.ends == (
        ("left", first),
        ("closed", first),
        ("left", second),
        ("closed", second),
    )


async def test_first_session_leaves_the_hub_after_its_calls(slow):
    hand = Hand(slow, "2025-11-25")
    first = hand.connection.session
    await hand.ask(request(8, "initialize", session()))
    hand.send(notice("notifications/initialized"))
    await left(slow)
    assert slow.ends[0] == ("left", first)
    assert slow.hub.sessions() == [hand.connection.session]
    await hand.connection.aclose()


@pytest.mark.parametrize("calls", [[], [CALL]], ids=["idle", "amid a call"])
async def test_closing_discards_each_session_once(slow, calls):
    hand = Hand(slow, "2025-11-25")
    first = hand.connection.session
    hand.send(*calls)
    hand.send(request(8, "initialize", session()))
    await hand.connection.aclose()
    left = [each for event, each in slow.ends if event == "left"]
    assert sorted(map(id, left)) == sorted(map(id, [first, hand.connection.session]))
    assert {each for event, each in slow.ends if event == "closed"} == set(left)


async def test_malformed_second_initialize_keeps_the_session():
    hand = Hand(server(), "2025-11-25")
    first = hand.connection.session
    assert await hand.ask(
        request(8, "initialize", {**session(), "clientInfo": []})
    ) == [failure(8, -32602, "params.clientInfo must be an object")]
    assert hand.connection.session is first
