"""A client that initializes again: a bridge keeps one child process for all clients."""

import asyncio

import pytest
from by_hand import PATIENCE, Hand, failure, notice, request, server, session, success

from mcpwire.server.dispatcher import Dispatcher


class Recording(Dispatcher):
    """Says what it is told of each session's end."""

    ends = ()

    def discard_session(self, session):
        super().discard_session(session)
        self.ends = (*self.ends, ("left", session))
        self.has_left.set()

    async def wait_session_closed(self, session):
        self.ends = (*self.ends, ("closed", session))


@pytest.fixture
def slow():
    """A server with a call that goes on until the test says so."""
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
    """Wait until a session has left."""
    async with asyncio.timeout(PATIENCE):
        await dispatcher.has_left.wait()


CALL = request(7, "tools/call", {"name": "x"})


@pytest.mark.parametrize("version", ["2025-11-25", "2024-11-05"])
async def test_a_second_handshake_is_answered_and_a_call_under_way_ends_as_it_would(
    slow, version
):
    hand = Hand(slow, "2025-11-25")
    former = hand.connection.session
    hand.send(CALL)
    [answer] = await hand.ask(request(8, "initialize", session(version)))
    assert answer["result"]["protocolVersion"] == version
    latter = hand.connection.session
    assert latter is not former
    assert slow.ends == ()
    slow.may_end.set()
    told, answered = await hand.next(), await hand.next()
    assert told["params"] == {"level": "info", "data": "done"}
    result = {"content": [], "structuredContent": {"calls": 1}}
    assert answered == success(7, result)
    assert latter.state == {}
    await left(slow)
    await hand.connection.aclose()
    assert slow.ends == (
        ("left", former),
        ("closed", former),
        ("left", latter),
        ("closed", latter),
    )


async def test_the_session_before_hears_nothing_more_once_its_calls_have_ended(slow):
    hand = Hand(slow, "2025-11-25")
    former = hand.connection.session
    await hand.ask(request(8, "initialize", session()))
    hand.send(notice("notifications/initialized"))
    await left(slow)
    assert slow.ends[0] == ("left", former)
    assert slow.hub.sessions() == [hand.connection.session]
    await hand.connection.aclose()


@pytest.mark.parametrize("calls", [[], [CALL]], ids=["idle", "amid a call"])
async def test_each_session_leaves_once_if_the_connection_ends_at_once(slow, calls):
    hand = Hand(slow, "2025-11-25")
    former = hand.connection.session
    hand.send(*calls)
    hand.send(request(8, "initialize", session()))
    await hand.connection.aclose()
    left = [each for what, each in slow.ends if what == "left"]
    assert sorted(map(id, left)) == sorted(map(id, [former, hand.connection.session]))
    assert {each for what, each in slow.ends if what == "closed"} == set(left)


async def test_a_second_initialize_that_is_malformed_is_refused_and_changes_nothing():
    hand = Hand(server(), "2025-11-25")
    first = hand.connection.session
    assert await hand.ask(
        request(8, "initialize", {**session(), "clientInfo": []})
    ) == [failure(8, -32602, "params.clientInfo must be an object")]
    assert hand.connection.session is first
