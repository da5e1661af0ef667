"""Sessions that take time to open, and what a dispatcher is told of each one's end."""

import asyncio

import pytest
from by_hand import (
    SERVER,
    Hand,
    failure,
    modern,
    notice,
    request,
    server,
    session,
)

from mcpwire.errors import InternalError
from mcpwire.limits import Limits
from mcpwire.server.dispatcher import Dispatcher
from mcpwire.server.request import IN_MEMORY
from mcpwire.types import Implementation

OPENING = request(1, "initialize", session())


class Later(Dispatcher):
    """Opens a session when the test says so."""

    opens_in_task = True

    def __init__(self, **options):
        super().__init__(
            Implementation(**SERVER),
            capabilities={"tools": {}},
            methods={"tools/list": lambda params, request: {"tools": []}},
            **options,
        )
        self.may_open = asyncio.Event()
        self.refusal = None
        self.left = []
        self.closed = []

    async def open_session(self, params, session, info=IN_MEMORY):
        await self.may_open.wait()
        if self.refusal is not None:
            raise self.refusal
        return await super().open_session(params, session, info)

    def discard_session(self, session):
        self.left.append(session)
        super().discard_session(session)

    async def wait_session_closed(self, session):
        self.closed.append(session)


@pytest.fixture
def dispatcher():
    return Later()


@pytest.fixture
async def hand(dispatcher):
    return Hand(dispatcher)


async def opened(dispatcher):
    hand = Hand(dispatcher)
    hand.send(OPENING)
    dispatcher.may_open.set()
    assert (await hand.next())["id"] == 1
    return hand


async def test_what_needs_a_session_waits_until_it_is_open_and_keeps_its_order(
    dispatcher, hand
):
    hand.send(OPENING, request(2, "tools/list"), request(3, "tools/list"))
    await asyncio.sleep(0)  # a turn of the loop
    assert hand.rest() == []
    dispatcher.may_open.set()
    assert [(await hand.next())["id"] for _ in range(3)] == [1, 2, 3]
    assert hand.connection.session is not None


@pytest.mark.unchecked_wire("a ping is answered before there is a revision")
@pytest.mark.parametrize(
    "meanwhile", [request(2, "ping"), modern(2, "tools/list")], ids=["ping", "alone"]
)
async def test_pings_and_what_stands_alone_are_answered_meanwhile(
    dispatcher, hand, meanwhile
):
    hand.send(OPENING, meanwhile)
    answer = await hand.next()
    assert answer["id"] == 2
    assert "result" in answer
    dispatcher.may_open.set()
    assert (await hand.next())["id"] == 1


async def test_a_refusal_to_open_is_the_answer_and_what_waited_has_no_session(
    dispatcher,
):
    dispatcher.refusal = InternalError("the server 'a' is not there")
    hand = Hand(dispatcher)
    hand.send(OPENING, request(2, "tools/list"))
    dispatcher.may_open.set()
    assert await hand.next() == failure(1, -32603, "the server 'a' is not there")
    assert (await hand.next())["error"]["code"] == -32602
    dispatcher.refusal = None  # and the client may try again
    hand.send(OPENING)
    assert "result" in await hand.next()


async def test_a_second_initialize_waits_for_the_first_and_opens_another_session(
    dispatcher, hand
):
    hand.send(OPENING, request(2, "initialize", session("2025-06-18")))
    hand.send(request(3, "tools/list"))
    dispatcher.may_open.set()
    first, second, listed = [await hand.next() for _ in range(3)]
    assert (first["id"], first["result"]["protocolVersion"]) == (1, "2025-11-25")
    assert (second["id"], second["result"]["protocolVersion"]) == (2, "2025-06-18")
    assert listed == {"jsonrpc": "2.0", "id": 3, "result": {"tools": []}}
    assert hand.connection.session.revision.name == "2025-06-18"
    await hand.connection.aclose()
    former, last = dispatcher.left
    assert former.revision.name == "2025-11-25"
    assert last is hand.connection.session
    assert dispatcher.closed == [former, last]


async def test_a_second_session_that_is_refused_leaves_the_first(dispatcher):
    hand = await opened(dispatcher)
    first = hand.connection.session
    dispatcher.refusal = InternalError("the server 'a' is not there")
    [refused] = await hand.ask(request(2, "initialize", session()))
    assert refused == failure(2, -32603, "the server 'a' is not there")
    [listed] = await hand.ask(request(3, "tools/list"))
    assert "result" in listed
    assert hand.connection.session is first
    assert dispatcher.left == []


async def test_what_waits_can_be_withdrawn(dispatcher, hand):
    hand.send(
        OPENING,
        request(2, "tools/list"),
        notice("notifications/cancelled", requestId=2),
    )
    dispatcher.may_open.set()
    assert (await hand.next())["id"] == 1
    assert await hand.settled() == []


@pytest.mark.unchecked_wire("a client must not withdraw initialize")
async def test_opening_that_is_withdrawn_is_as_if_it_had_not_begun(dispatcher, hand):
    hand.send(OPENING, request(2, "tools/list"))
    await asyncio.sleep(0)  # a turn of the loop
    hand.send(notice("notifications/cancelled", requestId=1))
    assert (await hand.next())["error"]["code"] == -32602
    dispatcher.may_open.set()
    hand.send(request(3, "initialize", session()))
    assert (await hand.next())["id"] == 3


async def test_no_more_waits_than_the_limits_allow():
    dispatcher = Later(limits=Limits(notifications=1))
    hand = Hand(dispatcher)
    hand.send(OPENING, request(2, "tools/list"), request(3, "tools/list"))
    assert (await hand.next())["error"]["code"] == -32603
    dispatcher.may_open.set()
    assert [(await hand.next())["id"] for _ in range(2)] == [1, 2]


async def test_a_connection_that_ends_while_opening_leaves_no_session_behind(
    dispatcher, hand
):
    hand.send(OPENING, request(2, "tools/list"))
    await asyncio.sleep(0)  # a turn of the loop
    await hand.connection.aclose()
    assert dispatcher.left == dispatcher.closed == []
    assert hand.rest() == []


async def test_a_session_that_opens_although_its_client_is_gone_leaves_at_once():
    class Stubborn(Later):
        async def open_session(self, params, session, info=IN_MEMORY):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return self.initialize(params, session, info)

    dispatcher = Stubborn()
    hand = Hand(dispatcher)
    hand.send(OPENING)
    await asyncio.sleep(0)  # a turn of the loop
    await hand.connection.aclose()
    assert len(dispatcher.left) == 1


async def test_by_default_a_session_opens_at_once_and_has_no_id_of_its_own():
    dispatcher = server({"tools/list": lambda params, request: {}}, {"tools": {}})
    opened, result = await dispatcher.open_session(session(), None)
    assert result["protocolVersion"] == opened.revision.name
    assert not dispatcher.opens_in_task
    assert not dispatcher.answers_cancelled
    assert dispatcher.new_session_id(opened) is None
    assert await dispatcher.resume_session("x", IN_MEMORY) is None
    assert await dispatcher.delete_session("x", IN_MEMORY) is False
    dispatcher.on_notification(opened, "notifications/other", None)
    assert not opened.is_initialized
    dispatcher.on_notification(opened, "notifications/initialized", {})
    assert opened.is_initialized
    dispatcher.discard_session(opened)
    await dispatcher.wait_session_closed(opened)
    assert opened.is_closed
