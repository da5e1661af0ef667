"""The duplex channel by itself: two ends in memory, and every way a call can end."""

import asyncio

import pytest
from clocks import on_a_virtual_clock

import mcpwire
from mcpwire.errors import (
    CallCancelled,
    ConnectionClosed,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    RequestTimeout,
    RPCError,
    TransportError,
)
from mcpwire.limits import Limits
from mcpwire.protocol.deadline import Deadline
from mcpwire.transports.base import CallHandle, Pending, Timeouts
from mcpwire.transports.memory import memory_pair
from mcpwire.versions import REVISIONS

BOUND_S = 30.0
SESSION = REVISIONS[3]


class Recorder:
    """An `Inbound` that keeps what it hears and answers when told."""

    def __init__(self):
        self.requests = []
        self.notifications = []
        self.cancellations = []
        self.losses = []
        self.asked = asyncio.Event()
        self.withdrawn = asyncio.Event()
        self.gone = asyncio.Event()

    async def hears(self, count):
        """Wait until so many requests have come."""
        while len(self.requests) < count:
            self.asked.clear()
            await self.asked.wait()

    def notification(self, method, params, call):
        self.notifications.append((method, params, call))

    def request(self, id, method, params, reply, call):
        self.requests.append((id, method, params, reply))
        self.asked.set()

    def cancelled(self, id):
        self.cancellations.append(id)
        self.withdrawn.set()

    def lost(self, error):
        self.losses.append(error)
        self.gone.set()


@pytest.fixture
async def pair():
    near, far = Recorder(), Recorder()
    client, server = memory_pair(near, far, limits=Limits(unwritten=10_000))
    client.revision = server.revision = SESSION
    async with asyncio.timeout(BOUND_S):
        yield client, near, server, far
        await client.aclose()
        await server.aclose()


def after(seconds):
    return Deadline(asyncio.get_running_loop().time(), seconds)


async def test_a_call_is_answered_and_its_handle_knows_the_id(pair):
    client, _, _, far = pair
    handle = CallHandle()
    call = asyncio.create_task(
        client.call("x/y", {"a": 1}, deadline=None, handle=handle)
    )
    await far.asked.wait()
    id, method, params, reply = far.requests[0]
    assert (id, method, params) == (1, "x/y", {"a": 1})
    assert handle.request_id == 1
    reply({"ok": True})
    reply({"ok": "again"})  # only the first one leaves
    assert await call == {"ok": True}
    assert client.stats.unknown == 0
    assert client.requests_sent == 1
    assert repr(client) == "<MemoryChannel memory open, 0 calls>"


async def test_a_handler_may_answer_with_an_error_and_no_json_becomes_one(pair):
    client, _, _, far = pair
    first = asyncio.create_task(client.call("x", None, deadline=None))
    second = asyncio.create_task(client.call("y", None, deadline=None))
    await far.hears(2)
    far.requests[0][3](InvalidParams("wrong", data={"a": 1}))
    far.requests[1][3]({"bad": object()})
    with pytest.raises(InvalidParams) as caught:
        await first
    assert caught.value.data == {"a": 1}
    with pytest.raises(InternalError, match="could not be encoded"):
        await second


async def test_cancelling_by_handle_ends_the_call_and_tells_the_peer(pair):
    client, _, _, far = pair
    handle = CallHandle()
    client.cancel(handle)  # nothing has begun
    call = asyncio.create_task(client.call("x", {}, deadline=None, handle=handle))
    await far.asked.wait()
    client.cancel(handle, "no longer wanted")
    client.cancel(handle)
    with pytest.raises(CallCancelled, match="no longer wanted"):
        await call
    await far.withdrawn.wait()
    assert far.cancellations == [1]
    far.requests[0][3]({"late": True})
    await client.notify("x")
    assert client.stats.late == 0


async def test_what_a_withdrawn_request_answers_never_leaves(pair):
    client, _, server, far = pair
    call = asyncio.create_task(client.call("x", {}, deadline=None))
    await far.asked.wait()
    sent = server.bytes_sent
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await far.withdrawn.wait()
    far.requests[0][3]({"late": True})
    assert server.bytes_sent == sent


@on_a_virtual_clock
async def test_deadlines_stand_still_while_a_handler_of_ours_is_busy(pair):
    client, near, server, far = pair
    call = asyncio.create_task(client.call("x", {}, deadline=after(0.1)))
    await far.asked.wait()
    question = asyncio.create_task(server.call("ask", {}, deadline=None))
    await near.asked.wait()
    begun_meanwhile = asyncio.create_task(client.call("y", {}, deadline=after(0.1)))
    assert await asyncio.wait([call], timeout=0.3) == (set(), {call})
    # What was begun since has nothing to do with the question, and keeps its time.
    assert begun_meanwhile.done()
    near.requests[0][3]({"answer": 42})
    assert await question == {"answer": 42}
    for late in (call, begun_meanwhile):
        with pytest.raises(RequestTimeout) as caught:
            await late
        assert caught.value.timeout == 0.1


@pytest.mark.pain("P02", "P08")
async def test_a_call_that_a_handler_begins_at_once_keeps_its_time(pair):
    client, near, server, _ = pair
    started = asyncio.get_running_loop().time()
    deadline = Deadline(started, 5.0)

    async def own_call():
        with pytest.raises(ConnectionClosed):
            await client.call("tools/list", None, deadline=deadline)

    own = own_call()

    def request(*_):
        own.send(None)  # as an eager task does
        near.asked.set()

    near.request = request
    asking = asyncio.create_task(server.call("roots/list", None, deadline=None))
    await near.asked.wait()
    await asyncio.sleep(0)  # the rest of that turn
    assert deadline.at == started + 5.0  # it is not paused
    await client.aclose()
    with pytest.raises(StopIteration):
        own.send(None)
    with pytest.raises(ConnectionClosed):
        await asking


@on_a_virtual_clock
async def test_the_clock_runs_again_when_the_peer_withdraws_its_question(pair):
    client, near, server, far = pair
    call = asyncio.create_task(client.call("x", {}, deadline=after(0.05)))
    await far.asked.wait()
    question = asyncio.create_task(server.call("ask", {}, deadline=None))
    await near.asked.wait()
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
    await near.withdrawn.wait()
    with pytest.raises(RequestTimeout):
        await call


@on_a_virtual_clock
async def test_an_answer_while_the_clock_stands_leaves_the_deadline_running(pair):
    client, near, server, far = pair
    deadline = after(0.2)
    calls = [
        asyncio.create_task(client.call(name, {}, deadline=deadline)) for name in "ab"
    ]
    await far.asked.wait()
    question = asyncio.create_task(server.call("ask", {}, deadline=None))
    await near.asked.wait()
    await far.hears(2)
    far.requests[0][3]({})
    far.requests[1][3](RPCError("no", code=1))
    await asyncio.gather(*calls, return_exceptions=True)
    assert deadline.remaining(0.0) is not None
    near.requests[0][3]({})
    await question
    with pytest.raises(RequestTimeout):
        await client.call("c", {}, deadline=deadline)


@on_a_virtual_clock
async def test_the_earliest_of_many_deadlines_fires_first(pair):
    client, _, _, _ = pair
    ended = []

    async def call(seconds):
        with pytest.raises(RequestTimeout):
            await client.call("x", {}, deadline=after(seconds))
        ended.append(seconds)

    await asyncio.gather(*(call(seconds) for seconds in (0.09, 0.03, 0.06)))
    assert ended == [0.03, 0.06, 0.09]


@on_a_virtual_clock
async def test_a_call_without_a_deadline_outlives_those_with_one(pair):
    client, _, _, far = pair
    endless = asyncio.create_task(client.call("x", {}, deadline=None))
    await far.asked.wait()
    with pytest.raises(RequestTimeout):
        await client.call("y", {}, deadline=after(0.01))
    far.requests[0][3]({"fine": True})
    assert await endless == {"fine": True}


async def test_the_other_end_closing_fails_each_call_with_its_own_error(pair):
    client, near, server, far = pair
    calls = [asyncio.create_task(client.call("x", {}, deadline=None)) for _ in "abc"]
    await far.asked.wait()
    await server.aclose()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ConnectionClosed}
    assert len({id(outcome) for outcome in outcomes}) == 3
    assert all(outcome.sent for outcome in outcomes)
    assert len(near.losses) == 1
    assert far.losses == []  # it closed by itself
    assert "closed" in repr(client)
    with pytest.raises(ConnectionClosed) as caught:
        await client.call("x", {}, deadline=None)
    assert caught.value.sent is False
    with pytest.raises(ConnectionClosed):
        await client.notify("x")


async def test_a_call_still_gathered_when_the_end_comes_was_provably_not_sent(pair):
    client, _, _, _ = pair
    first = asyncio.create_task(client.call("x", {}, deadline=None))
    second = asyncio.create_task(client.call("y", {}, deadline=None))
    third = asyncio.create_task(client.call("z", {}, deadline=None))
    await asyncio.sleep(0)  # each has begun, and the turn of the loop is not over
    assert client._gathered
    client._mark_lost(TransportError("cut", target="memory"))
    outcomes = await asyncio.gather(first, second, third, return_exceptions=True)
    assert outcomes[0].sent is True
    assert outcomes[1].sent is False


async def test_too_much_for_a_peer_that_does_not_read_is_refused(pair):
    client, _, _, _ = pair
    client._write = lambda data: None  # nothing is ever taken
    first = asyncio.create_task(client.call("x", {"a": "b" * 20_000}, deadline=None))
    await asyncio.sleep(0)  # a turn of the loop
    with pytest.raises(TransportError, match="does not read"):
        await client.call("y", {}, deadline=None)
    # Giving up cannot be told either, and is no reason to fail.
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert client._peer.outstanding == {}


async def test_what_the_peer_must_be_told_and_cannot_ends_the_connection(pair):
    client, near, _, _ = pair
    client._queued = 20_000
    client.transmit(b"{}\n")
    await near.gone.wait()
    assert "does not read" in str(near.losses[0])
    client.transmit(b"{}\n")  # and after the end nothing is


async def test_a_server_asks_nothing_outside_a_session(pair):
    _, _, server, _ = pair
    server.revision = None
    with pytest.raises(LocalProtocolError, match="session"):
        await server.call("roots/list", {}, deadline=None)


async def test_an_abandoned_end_makes_no_calls(pair):
    client, _, _, _ = pair
    call = asyncio.create_task(client.call("x", {}, deadline=after(60)))
    await asyncio.sleep(0)  # a turn of the loop
    client.abandon()
    with pytest.raises(ConnectionClosed):
        await client.call("y", {}, deadline=None)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_deadline_that_several_requests_hold_runs_again_with_the_calls_end():
    """It may span further requests of the same call."""
    now = asyncio.get_running_loop().time()
    call = Pending("tools/call", None, Deadline(now, 10.0), None, None)
    loop, limits = asyncio.get_running_loop(), Limits(question_time=600.0)
    timeouts = Timeouts(loop, {1: call}, pytest.fail, limits)
    timeouts.pause("first", [call])
    timeouts.pause("second", [call])
    assert call.deadline.at > now + 600.0
    timeouts.release(call)
    assert call.deadline.at < now + 600.0
    timeouts.resume("first")
    timeouts.resume("second")
    assert call.pauses == 0
    timeouts.stop()


async def test_what_the_server_will_not_read_ends_the_clients_call_at_once():
    server = mcpwire.Server("small", "1.0")

    @server.tool
    async def echo(message: str) -> str:
        return message

    async with mcpwire.Client(server, limits=Limits(message=4_096)) as client:
        with pytest.raises(mcpwire.ConnectionClosed, match="the peer closed it"):
            await client.call_tool("echo", {"message": "x" * 8_192})
        assert (await client.call_tool("echo", {"message": "on"})).text == "on"
