"""The duplex channel alone: two ends in memory, and each way a call can end."""

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
    """An `Inbound` that records requests, which the test answers."""

    def __init__(self):
        self.requests = []
        self.notifications = []
        self.cancellations = []
        self.losses = []
        self.requested = asyncio.Event()
        self.withdrawn = asyncio.Event()
        self.gone = asyncio.Event()

    async def wait_for_requests(self, count):
        while len(self.requests) < count:
            self.requested.clear()
            await self.requested.wait()

    def notification(self, method, params, call):
        self.notifications.append((method, params, call))

    def request(self, id, method, params, reply, call):
        self.requests.append((id, method, params, reply))
        self.requested.set()

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


async def test_a_call_is_answered_and_its_handle_has_the_id(pair):
    client, _, _, far = pair
    handle = CallHandle()
    call = asyncio.create_task(
        client.call("x/y", {"a": 1}, deadline=None, handle=handle)
    )
    await far.requested.wait()
    id, method, params, reply = far.requests[0]
    assert (id, method, params) == (1, "x/y", {"a": 1})
    assert handle.request_id == 1
    reply({"ok": True})
    reply({"ok": "again"})  # only the first reply is sent
    assert await call == {"ok": True}
    assert client.stats.unknown == 0
    assert client.requests_sent == 1
    assert repr(client) == "<MemoryChannel memory open, 0 calls>"


async def test_error_and_unencodable_replies_raise_in_the_call(pair, caplog):
    client, _, _, far = pair
    first = asyncio.create_task(client.call("x", None, deadline=None))
    second = asyncio.create_task(client.call("y", None, deadline=None))
    await far.wait_for_requests(2)
    far.requests[0][3](InvalidParams("wrong", data={"a": 1}))
    far.requests[1][3]({"bad": object()})
    with pytest.raises(InvalidParams) as caught:
        await first
    assert caught.value.data == {"a": 1}
    with pytest.raises(InternalError, match="could not be encoded"):
        await second
    assert "the answer to 2 cannot be sent" in caplog.text


async def test_cancelling_by_handle_ends_the_call_and_notifies(pair):
    client, _, _, far = pair
    handle = CallHandle()
    client.cancel(handle)  # no call has begun
    call = asyncio.create_task(client.call("x", {}, deadline=None, handle=handle))
    await far.requested.wait()
    client.cancel(handle, "no longer wanted")
    client.cancel(handle)
    with pytest.raises(CallCancelled, match="no longer wanted"):
        await call
    await far.withdrawn.wait()
    assert far.cancellations == [1]
    far.requests[0][3]({"late": True})
    await client.notify("x")
    assert client.stats.late == 0


async def test_the_reply_to_a_cancelled_request_is_not_sent(pair):
    client, _, server, far = pair
    call = asyncio.create_task(client.call("x", {}, deadline=None))
    await far.requested.wait()
    sent = server.bytes_sent
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await far.withdrawn.wait()
    far.requests[0][3]({"late": True})
    assert server.bytes_sent == sent


@on_a_virtual_clock
async def test_a_busy_handler_pauses_deadlines(pair):
    client, near, server, far = pair
    call = asyncio.create_task(client.call("x", {}, deadline=after(0.1)))
    await far.requested.wait()
    question = asyncio.create_task(server.call("ask", {}, deadline=None))
    await near.requested.wait()
    later_call = asyncio.create_task(client.call("y", {}, deadline=after(0.1)))
    assert await asyncio.wait([call], timeout=0.3) == (set(), {call})
    # A later call is independent of the server's request, and keeps its deadline.
    assert later_call.done()
    near.requests[0][3]({"answer": 42})
    assert await question == {"answer": 42}
    for late in (call, later_call):
        with pytest.raises(RequestTimeout) as caught:
            await late
        assert caught.value.timeout == 0.1


@pytest.mark.pain("P02", "P08")
async def test_a_call_made_by_a_handler_keeps_its_deadline(pair):
    client, near, server, _ = pair
    started = asyncio.get_running_loop().time()
    deadline = Deadline(started, 5.0)

    async def own_call():
        with pytest.raises(ConnectionClosed):
            await client.call("tools/list", None, deadline=deadline)

    own = own_call()

    def request(*_):
        own.send(None)  # like an eager task
        near.requested.set()

    near.request = request
    server_call = asyncio.create_task(server.call("roots/list", None, deadline=None))
    await near.requested.wait()
    await asyncio.sleep(0)  # the rest of that iteration
    assert deadline.at == started + 5.0  # it is not paused
    await client.aclose()
    with pytest.raises(StopIteration):
        own.send(None)
    with pytest.raises(ConnectionClosed):
        await server_call


@on_a_virtual_clock
async def test_cancelling_a_peer_request_resumes_the_deadline(pair):
    client, near, server, far = pair
    call = asyncio.create_task(client.call("x", {}, deadline=after(0.05)))
    await far.requested.wait()
    question = asyncio.create_task(server.call("ask", {}, deadline=None))
    await near.requested.wait()
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
    await near.withdrawn.wait()
    with pytest.raises(RequestTimeout):
        await call


@on_a_virtual_clock
async def test_a_response_during_a_pause_resumes_the_deadline(pair):
    client, near, server, far = pair
    deadline = after(0.2)
    calls = [
        asyncio.create_task(client.call(name, {}, deadline=deadline)) for name in "ab"
    ]
    await far.requested.wait()
    question = asyncio.create_task(server.call("ask", {}, deadline=None))
    await near.requested.wait()
    await far.wait_for_requests(2)
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
    await far.requested.wait()
    with pytest.raises(RequestTimeout):
        await client.call("y", {}, deadline=after(0.01))
    far.requests[0][3]({"fine": True})
    assert await endless == {"fine": True}


async def test_a_close_of_the_peer_fails_each_call_separately(pair):
    client, near, server, far = pair
    calls = [asyncio.create_task(client.call("x", {}, deadline=None)) for _ in "abc"]
    await far.requested.wait()
    await server.aclose()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ConnectionClosed}
    assert len({id(outcome) for outcome in outcomes}) == 3
    assert all(outcome.sent for outcome in outcomes)
    assert len(near.losses) == 1
    assert far.losses == []  # it closed the connection itself
    assert "closed" in repr(client)
    with pytest.raises(ConnectionClosed) as caught:
        await client.call("x", {}, deadline=None)
    assert caught.value.sent is False
    with pytest.raises(ConnectionClosed):
        await client.notify("x")


async def test_a_buffered_call_is_reported_as_not_sent(pair):
    client, _, _, _ = pair
    first = asyncio.create_task(client.call("x", {}, deadline=None))
    second = asyncio.create_task(client.call("y", {}, deadline=None))
    third = asyncio.create_task(client.call("z", {}, deadline=None))
    await asyncio.sleep(0)  # each has begun, in the same loop iteration
    assert client._gathered
    client._mark_lost(TransportError("cut", target="memory"))
    outcomes = await asyncio.gather(first, second, third, return_exceptions=True)
    assert outcomes[0].sent is True
    assert outcomes[1].sent is False


async def test_a_call_over_the_unwritten_limit_is_refused(pair):
    client, _, _, _ = pair
    client._write = lambda data: None  # no data is ever written
    first = asyncio.create_task(client.call("x", {"a": "b" * 20_000}, deadline=None))
    await asyncio.sleep(0)  # one loop iteration
    with pytest.raises(TransportError, match="does not read"):
        await client.call("y", {}, deadline=None)
    # The cancellation cannot be sent either, which must not raise.
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert client._peer.outstanding == {}


async def test_a_mandatory_message_over_the_limit_ends_the_connection(pair):
    client, near, _, _ = pair
    client._queued = 20_000
    client.transmit(b"{}\n")
    await near.gone.wait()
    assert "does not read" in str(near.losses[0])
    client.transmit(b"{}\n")  # ignored after the end


async def test_a_server_request_outside_a_session_is_refused(pair):
    _, _, server, _ = pair
    server.revision = None
    with pytest.raises(LocalProtocolError, match="session"):
        await server.call("roots/list", {}, deadline=None)


async def test_calls_on_an_abandoned_channel_are_refused(pair):
    client, _, _, _ = pair
    call = asyncio.create_task(client.call("x", {}, deadline=after(60)))
    await asyncio.sleep(0)  # one loop iteration
    client.abandon()
    with pytest.raises(ConnectionClosed):
        await client.call("y", {}, deadline=None)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_releasing_a_call_resumes_its_paused_deadline():
    """The deadline may span further requests of the same call."""
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


async def test_a_message_over_the_server_limit_ends_the_call(server):
    async with mcpwire.Client(server, limits=Limits(message=4_096)) as client:
        with pytest.raises(mcpwire.ConnectionClosed, match="the peer closed it"):
            await client.call_tool("echo", {"message": "x" * 8_192})
        assert (await client.call_tool("echo", {"message": "on"})).text == "on"
