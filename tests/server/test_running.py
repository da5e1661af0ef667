"""Running handlers: concurrency, cancellation, one response each; sessions."""

import asyncio
import sys

import pytest
from raw_client import (
    SERVER,
    TIMEOUT_S,
    Hand,
    failure,
    modern,
    notice,
    request,
    server,
    session,
    success,
)

from mcpwire import Client, TransportError
from mcpwire.errors import InternalError
from mcpwire.limits import Limits
from mcpwire.server.dispatcher import Dispatcher
from mcpwire.server.request import IN_MEMORY
from mcpwire.types import Implementation

TOOLS = {"tools": {}}


class Gate:
    """A tool that waits until the test opens it, and records how each call ended."""

    def __init__(self):
        self.open = asyncio.Event()
        self.running = []
        self.max_running = 0
        self.ended = []
        self.requests = {}
        self._changed = asyncio.Event()

    async def __call__(self, params, request):
        name = params["name"]
        self.running.append(name)
        self.max_running = max(self.max_running, len(self.running))
        self.requests[name] = request
        self._changed.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.ended.append((name, "cancelled", request.is_cancelled))
            raise
        else:
            self.ended.append((name, "finished", request.is_cancelled))
        finally:
            self.running.remove(name)
            self._changed.set()
        return {"content": [{"type": "text", "text": name}]}

    async def wait_running(self, count):
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.running) != count:
                self._changed.clear()
                await self._changed.wait()


def call(id, name=None, **meta):
    return request(id, "tools/call", {"name": name or str(id)}, meta or None)


def call_alone(id):
    return modern(id, "tools/call", {"name": str(id)})


def text(id, text, **more):
    return success(id, {"content": [{"type": "text", "text": text}], **more})


def gated(version="2025-11-25", **options):
    gate = Gate()
    return gate, Hand(server({"tools/call": gate}, TOOLS, **options), version)


@pytest.mark.rule("CAN-05", "TR-STDIO-11")
@pytest.mark.parametrize("ask", [call, call_alone])
async def test_cancelled_request_stops_and_gets_no_response(ask):
    gate, wire = gated()
    wire.send(ask(1))
    await gate.wait_running(1)
    wire.send(notice("notifications/cancelled", requestId=1, reason="enough"))
    assert await wire.settled() == []
    assert gate.ended == [("1", "cancelled", True)]


async def test_cancelled_waiting_request_never_runs():
    gate, wire = gated(limits=Limits(inbound=1))
    wire.send(call(1), call(2), call(3))
    await gate.wait_running(1)
    wire.send(notice("notifications/cancelled", requestId=2))
    gate.open.set()
    assert await wire.settled() == [text(1, "1"), text(3, "3")]
    assert [name for name, *_ in gate.ended] == ["1", "3"]


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="a handler starts eagerly there"
)
async def test_request_cancelled_in_the_same_read_never_runs():
    gate, wire = gated()
    wire.send(call(1), notice("notifications/cancelled", requestId=1))
    assert await wire.settled() == []
    assert gate.ended == []


@pytest.mark.pain("P18")
async def test_handler_surviving_cancellation_sends_no_response():
    released = asyncio.Event()
    cancelled = []

    async def stubborn(params, request):
        if params["name"] == "stubborn":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append("cancelled")
                await released.wait()
            request.progress(1)
        await released.wait()
        return {"content": [{"type": "text", "text": params["name"]}]}

    wire = Hand(server({"tools/call": stubborn}, TOOLS), "2025-11-25")
    wire.send(call(1, "stubborn", progressToken="t"))
    await asyncio.sleep(0)
    wire.send(notice("notifications/cancelled", requestId=1))
    wire.send(call(1, "second"))  # the id can be used again
    released.set()
    assert await wire.settled() == [text(1, "second")]
    assert cancelled == ["cancelled"]


@pytest.mark.rule("CAN-05")
async def test_cancelled_client_call_stops_the_handler():
    gate = Gate()
    async with Client(server({"tools/call": gate}, TOOLS)) as client:
        task = asyncio.create_task(client.call_tool("one"))
        await gate.wait_running(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.open.set()
        assert (await client.call_tool("two")).text == "two"
    assert gate.ended == [("one", "cancelled", True), ("two", "finished", False)]


async def test_closing_the_client_cancels_running_handlers():
    gate = Gate()
    client = Client(server({"tools/call": gate}, TOOLS))
    await client.connect()
    calls = [asyncio.create_task(client.call_tool(str(n))) for n in range(3)]
    await gate.wait_running(3)
    await client.aclose()
    for task in calls:
        with pytest.raises(TransportError):
            await task
    await gate.wait_running(0)
    assert sorted(gate.ended) == [(str(n), "cancelled", True) for n in range(3)]


async def test_handler_running_after_the_close_sends_nothing():
    gate, wire = gated()
    wire.send(call(1, progressToken="t"))
    await gate.wait_running(1)
    await wire.connection.aclose()
    request = gate.requests["1"]
    assert (request.is_cancelled, request.is_open) == (True, False)
    request.progress(1)
    assert wire.rest() == []
    await wire.connection.aclose()


@pytest.mark.attack("S13")
async def test_running_and_waiting_requests_are_limited():
    gate, wire = gated(limits=Limits(inbound=3, notifications=2))
    wire.send(*(call(n) for n in range(7)))
    await gate.wait_running(3)
    full = "too many requests are waiting already"
    assert wire.rest() == [failure(5, -32603, full), failure(6, -32603, full)]
    gate.open.set()
    answers = await wire.settled()
    assert {answer["id"] for answer in answers} == set(range(5))
    assert gate.max_running == 3


@pytest.mark.rule("PING-01")
@pytest.mark.case("F04")
async def test_ping_is_answered_before_slow_handlers():
    gate, wire = gated(limits=Limits(inbound=1))
    wire.send(call(1), call(2), request(3, "ping"))
    assert await wire.next() == success(3, {})
    gate.open.set()
    assert await wire.settled() == [text(1, "1"), text(2, "2")]


@pytest.mark.attack("S10")
async def test_equal_ids_on_two_connections_are_independent():
    gate = Gate()
    both = server({"tools/call": gate}, TOOLS)
    one, two = Hand(both, "2025-11-25"), Hand(both)
    one.send(call(1, "one"))
    two.send(modern(1, "tools/call", {"name": "two"}))
    await gate.wait_running(2)
    two.send(notice("notifications/cancelled", requestId=1))
    gate.open.set()
    assert await one.settled() == [text(1, "one")]
    assert await two.settled() == []


@pytest.mark.rule("RPC-13")
async def test_batch_at_2025_03_26_gets_one_batch_response():
    gate, wire = gated("2025-03-26")
    wire.send(
        [call(1), request(2, "ping"), notice("notifications/x"), request(3, "no/such")]
    )
    wire.send(request(4, "ping"))
    await gate.wait_running(1)
    assert wire.rest() == [success(4, {})]
    gate.open.set()
    [batch] = await wire.settled()
    assert batch == [
        success(2, {}),
        failure(3, -32601, "'no/such' is not a method of this server at 2025-03-26"),
        text(1, "1"),
    ]


OPENING = request(1, "initialize", session())


class Recording(Dispatcher):
    """Records the end of each session."""

    def __init__(self, call=None, **options):
        methods = {"tools/list": lambda params, request: {"tools": []}}
        if call is not None:
            methods["tools/call"] = call
        super().__init__(
            Implementation(**SERVER),
            capabilities={"tools": {"listChanged": True}, "logging": {}},
            methods=methods,
            **options,
        )
        self.ends = []
        self.has_left = asyncio.Event()

    def discard_session(self, session):
        super().discard_session(session)
        self.ends.append(("left", session))
        self.has_left.set()

    async def wait_session_closed(self, session):
        self.ends.append(("closed", session))


class DelayedOpening(Recording):
    """Opens a session when the test allows it."""

    opens_in_task = True
    refusal = None

    def __init__(self, **options):
        super().__init__(**options)
        self.may_open = asyncio.Event()

    async def open_session(self, params, session, info=IN_MEMORY):
        await self.may_open.wait()
        if self.refusal is not None:
            raise self.refusal
        return await super().open_session(params, session, info)


@pytest.fixture
def dispatcher():
    return DelayedOpening()


@pytest.fixture
async def hand(dispatcher):
    return Hand(dispatcher)


async def open_connection(dispatcher):
    hand = Hand(dispatcher)
    hand.send(OPENING)
    dispatcher.may_open.set()
    assert (await hand.next())["id"] == 1
    return hand


async def test_requests_wait_in_order_until_the_session_is_open(dispatcher, hand):
    hand.send(OPENING, request(2, "tools/list"), request(3, "tools/list"))
    await asyncio.sleep(0)  # one loop iteration
    assert hand.rest() == []
    dispatcher.may_open.set()
    assert [(await hand.next())["id"] for _ in range(3)] == [1, 2, 3]
    assert hand.connection.session is not None


@pytest.mark.unchecked_wire("a ping is answered before there is a revision")
@pytest.mark.parametrize(
    "meanwhile", [request(2, "ping"), modern(2, "tools/list")], ids=["ping", "alone"]
)
async def test_ping_and_stateless_request_are_answered_while_opening(
    dispatcher, hand, meanwhile
):
    hand.send(OPENING, meanwhile)
    answer = await hand.next()
    assert answer["id"] == 2
    assert "result" in answer
    dispatcher.may_open.set()
    assert (await hand.next())["id"] == 1


async def test_failed_opening_is_the_response_to_initialize(dispatcher):
    dispatcher.refusal = InternalError("the server 'a' is not there")
    hand = Hand(dispatcher)
    hand.send(OPENING, request(2, "tools/list"))
    dispatcher.may_open.set()
    assert await hand.next() == failure(1, -32603, "the server 'a' is not there")
    assert (await hand.next())["error"]["code"] == -32602
    dispatcher.refusal = None  # and the client may try again
    hand.send(OPENING)
    assert "result" in await hand.next()


async def test_second_initialize_waits_and_opens_another_session(dispatcher, hand):
    hand.send(OPENING, request(2, "initialize", session("2025-06-18")))
    hand.send(request(3, "tools/list"))
    dispatcher.may_open.set()
    first, second, listed = [await hand.next() for _ in range(3)]
    assert (first["id"], first["result"]["protocolVersion"]) == (1, "2025-11-25")
    assert (second["id"], second["result"]["protocolVersion"]) == (2, "2025-06-18")
    assert listed == {"jsonrpc": "2.0", "id": 3, "result": {"tools": []}}
    assert hand.connection.session.revision.name == "2025-06-18"
    await hand.connection.aclose()
    first_session = dispatcher.ends[0][1]
    assert first_session.revision.name == "2025-11-25"
    assert dispatcher.ends == ends_of(first_session, hand.connection.session)


async def test_refused_second_session_keeps_the_first(dispatcher):
    hand = await open_connection(dispatcher)
    first = hand.connection.session
    dispatcher.refusal = InternalError("the server 'a' is not there")
    [refused] = await hand.ask(request(2, "initialize", session()))
    assert refused == failure(2, -32603, "the server 'a' is not there")
    [listed] = await hand.ask(request(3, "tools/list"))
    assert "result" in listed
    assert hand.connection.session is first
    assert dispatcher.ends == []


async def test_waiting_request_can_be_cancelled(dispatcher, hand):
    hand.send(
        OPENING,
        request(2, "tools/list"),
        notice("notifications/cancelled", requestId=2),
    )
    dispatcher.may_open.set()
    assert (await hand.next())["id"] == 1
    assert await hand.settled() == []


@pytest.mark.unchecked_wire("a client must not withdraw initialize")
async def test_cancelled_initialize_allows_a_new_one(dispatcher, hand):
    hand.send(OPENING, request(2, "tools/list"))
    await asyncio.sleep(0)  # one loop iteration
    hand.send(notice("notifications/cancelled", requestId=1))
    assert (await hand.next())["error"]["code"] == -32602
    dispatcher.may_open.set()
    hand.send(request(3, "initialize", session()))
    assert (await hand.next())["id"] == 3


async def test_requests_waiting_beyond_the_limit_are_refused():
    dispatcher = DelayedOpening(limits=Limits(notifications=1))
    hand = Hand(dispatcher)
    hand.send(OPENING, request(2, "tools/list"), request(3, "tools/list"))
    assert (await hand.next())["error"]["code"] == -32603
    dispatcher.may_open.set()
    assert [(await hand.next())["id"] for _ in range(2)] == [1, 2]


async def test_connection_closed_while_opening_leaves_no_session(dispatcher, hand):
    hand.send(OPENING, request(2, "tools/list"))
    await asyncio.sleep(0)  # one loop iteration
    await hand.connection.aclose()
    assert dispatcher.ends == []
    assert hand.rest() == []


async def test_session_opened_after_the_close_is_discarded():
    class IgnoresCancellation(DelayedOpening):
        async def open_session(self, params, session, info=IN_MEMORY):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return self.initialize(params, session, info)

    dispatcher = IgnoresCancellation()
    hand = Hand(dispatcher)
    hand.send(OPENING)
    await asyncio.sleep(0)  # one loop iteration
    await hand.connection.aclose()
    assert [end for end, _ in dispatcher.ends] == ["left"]


async def test_default_session_opens_synchronously_without_an_id():
    dispatcher = server({"tools/list": lambda params, request: {}}, {"tools": {}})
    open_connection, result = await dispatcher.open_session(session(), None)
    assert result["protocolVersion"] == open_connection.revision.name
    assert not dispatcher.opens_in_task
    assert not dispatcher.answers_cancelled
    assert dispatcher.new_session_id(open_connection) is None
    assert await dispatcher.resume_session("x", IN_MEMORY) is None
    assert await dispatcher.delete_session("x", IN_MEMORY) is False
    dispatcher.on_notification(open_connection, "notifications/other", None)
    assert not open_connection.is_initialized
    dispatcher.on_notification(open_connection, "notifications/initialized", {})
    assert open_connection.is_initialized
    dispatcher.discard_session(open_connection)
    await dispatcher.wait_session_closed(open_connection)
    assert open_connection.is_closed


# A second initialize: a bridge keeps one child process for all its clients...


@pytest.fixture
def slow():
    """A server with a call that runs until the test ends it."""
    may_end = asyncio.Event()

    async def call(params, request):
        request.session.state["calls"] = 1
        await may_end.wait()
        request.log("info", "done")
        return {"content": [], "structuredContent": request.session.state}

    made = Recording(call)
    made.may_end = may_end
    return made


def ends_of(*sessions):
    return [(end, each) for each in sessions for end in ("left", "closed")]


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
    assert slow.ends == []
    slow.may_end.set()
    logged, answered = await hand.next(), await hand.next()
    assert logged["params"] == {"level": "info", "data": "done"}
    result = {"content": [], "structuredContent": {"calls": 1}}
    assert answered == success(7, result)
    assert second.state == {}
    await left(slow)
    await hand.connection.aclose()
    assert slow.ends == ends_of(first, second)


async def test_first_session_leaves_the_hub_after_its_calls(slow):
    hand = Hand(slow, "2025-11-25")
    first = hand.connection.session
    await hand.ask(request(8, "initialize", session()))
    hand.send(notice("notifications/initialized"))
    await left(slow)
    assert slow.ends[0] == ("left", first)
    assert (len(slow.hub), hand.connection.session.is_closed) == (1, False)
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
