"""Channels that users write whole: whatever they do, each call ends."""

import asyncio

import pytest
from clocks import on_a_virtual_clock

import mcpwire
from mcpwire import types
from mcpwire.errors import TransportError
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.deadline import Deadline
from mcpwire.transports import CallHandle
from mcpwire.transports import channel_adapter as module
from mcpwire.transports.channel_adapter import ChannelAdapter

BOUND_S = 30.0


@pytest.fixture(autouse=True)
async def bounded():
    async with asyncio.timeout(BOUND_S):
        yield


class Own:
    """A transport whose calls are answered by a function."""

    revision = None

    def __init__(self, answer=None):
        self.answer = answer or (lambda method, params: {})
        self.closed = 0
        self.notified = []
        self.calls = []
        self.inbound = None
        self._has_call = asyncio.Event()

    async def called(self, count):
        """Wait until there have been so many calls."""
        while len(self.calls) < count:
            self._has_call.clear()
            await self._has_call.wait()

    def open_channel(self, inbound, limits):
        self.inbound = inbound
        return self

    async def call(self, method, params, *, handle, on_notification, **_):
        handle.request_id = len(self.calls) + 1
        self.calls.append((method, on_notification))
        self._has_call.set()
        outcome = self.answer(method, params)
        return await outcome if asyncio.iscoroutine(outcome) else outcome

    async def notify(self, method, params=None, *, headers=None):
        self.notified.append((method, params))

    async def aclose(self):
        self.closed += 1


class Heard:
    """An `Inbound` that keeps what it hears."""

    def __init__(self):
        self.all = []
        self.replies = {}

    def notification(self, *told):
        self.all.append(told[:2])

    def request(self, id, method, params, reply, call):
        self.replies[id] = reply

    def cancelled(self, id):
        self.all.append(("cancelled", id))

    def missed(self):
        self.all.append(("missed", None))

    def lost(self, error):
        self.all.append(("lost", str(error)))


async def forever(*_):
    await asyncio.Event().wait()


def opened(own, heard=None):
    return ChannelAdapter(heard or Heard(), own, DEFAULT_LIMITS)


def after(seconds):
    return Deadline(asyncio.get_running_loop().time(), seconds)


@on_a_virtual_clock
async def test_a_deadline_is_kept_though_the_channel_knows_none():
    own = Own(forever)
    channel = opened(own)
    with pytest.raises(mcpwire.RequestTimeout, match=r"0\.05"):
        await channel.call("x", None, deadline=after(0.05))
    channel.reset_on_progress = True
    seen = []
    call = asyncio.create_task(
        channel.call(
            "x", None, deadline=after(0.2), on_notification=lambda *n: seen.append(n)
        )
    )
    await own.called(2)
    tell = own.calls[1][1]
    tell("notifications/progress", {"progress": 1})
    with pytest.raises(mcpwire.RequestTimeout):
        await call
    tell("notifications/progress", {"progress": 2})  # too late: nobody is told
    assert seen == [("notifications/progress", {"progress": 1})]
    await channel.aclose()
    assert own.closed == 1


@on_a_virtual_clock
async def test_time_stands_still_while_the_server_asks():
    own, heard = Own(forever), Heard()
    channel = opened(own, heard)
    call = asyncio.create_task(channel.call("x", None, deadline=after(0.05)))
    await asyncio.sleep(0)  # a turn of the loop
    replies = []
    for id in (7, 8):
        own.inbound.request(id, "roots/list", None, replies.append, None)
    heard.replies[7]({"roots": []})
    heard.replies[7]({"roots": ["twice"]})
    done, _ = await asyncio.wait([call], timeout=0.15)
    assert not done
    own.inbound.cancelled(8)
    with pytest.raises(mcpwire.RequestTimeout):
        await call
    assert replies == [{"roots": []}]
    own.inbound.notification("notifications/x", None, None)
    own.inbound.missed()
    expected = [("cancelled", 8), ("notifications/x", None), ("missed", None)]
    assert heard.all == expected
    await channel.aclose()
    heard.replies[8]({})  # nobody is there any more
    assert len(replies) == 1


async def test_calls_are_cancelled_by_handle_and_by_id():
    own = Own(forever)
    channel = opened(own)
    handles = [CallHandle(), CallHandle()]
    calls = [
        asyncio.create_task(channel.call("x", None, deadline=None, handle=handle))
        for handle in handles
    ]
    await own.called(2)
    assert not channel.cancel(CallHandle())
    assert not channel.cancel_id("1")
    assert not channel.cancel_id(None)
    assert channel.cancel(handles[0], "why not")
    assert channel.cancel_id(2)
    assert not channel.cancel_id(2)
    for call, why in zip(calls, ("why not", "cancelled"), strict=True):
        with pytest.raises(mcpwire.CallCancelled, match=why):
            await call
    await channel.aclose()


async def cancels():
    raise asyncio.CancelledError


def raises(error):
    async def run(*_, **__):
        raise error

    return run


@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        (raises(OSError("no line")), TransportError, "'x' failed: OSError: no line"),
        (raises(mcpwire.InvalidParams("bad")), mcpwire.InvalidParams, "bad"),
        (lambda *_: [1], mcpwire.RemoteProtocolError, "must be an object, got a list"),
        (lambda *_: cancels(), mcpwire.CallCancelled, "the channel cancelled it"),
    ],
)
async def test_whatever_a_call_comes_to_is_an_error_of_ours(answer, kind, why):
    channel = opened(Own(answer))
    with pytest.raises(kind, match=why):
        await channel.call("x", None, deadline=None)
    await channel.aclose()


async def test_a_loss_ends_all_calls_and_closes_the_channel_once():
    own, heard = Own(forever), Heard()
    channel = opened(own, heard)
    assert "open, 0 calls" in repr(channel)
    calls = [
        asyncio.create_task(channel.call("x", None, deadline=None)) for _ in range(2)
    ]
    await asyncio.sleep(0)  # a turn of the loop
    own.inbound.lost(TransportError("the line is dead"))
    own.inbound.lost(TransportError("twice"))
    for call in calls:
        with pytest.raises(mcpwire.ConnectionClosed, match="the line is dead"):
            await call
    with pytest.raises(mcpwire.ConnectionClosed) as refused:
        await channel.notify("x")
    assert not refused.value.sent
    await channel.aclose()
    await channel.aclose()
    assert own.closed == 1
    assert heard.all == [("lost", "the line is dead")]
    assert "closed" in repr(channel)


async def test_notifications_fail_as_calls_do():
    own = Own()
    channel = opened(own)
    await channel.notify("notifications/x", {"a": 1})
    await channel.notify("notifications/y")
    assert own.notified == [("notifications/x", {"a": 1}), ("notifications/y", None)]
    for error, kind in (
        (OSError("no line"), TransportError),
        (mcpwire.LocalProtocolError("not that"), mcpwire.LocalProtocolError),
    ):
        own.notify = raises(error)
        with pytest.raises(kind):
            await channel.notify("x")
    await channel.aclose()


async def test_a_channel_that_does_not_close_holds_nobody_up(monkeypatch, caplog):
    monkeypatch.setattr(module, "END_TIMEOUT_S", 0.05)
    own = Own()
    own.aclose = forever
    channel = opened(own)
    await channel.aclose()
    assert "closing Own failed" in caplog.text


async def test_one_that_is_let_go_is_closed_where_its_loop_runs():
    own = Own(forever)
    channel = opened(own)
    channel.abandon()
    channel.abandon()
    await channel.aclose()
    assert own.closed == 1
    with pytest.raises(mcpwire.ConnectionClosed, match="closed by this side"):
        await channel.call("x", None, deadline=None)


async def test_one_whose_loop_has_ended_is_just_let_go():
    async def open_it():
        return opened(Own())

    channel = await asyncio.to_thread(asyncio.run, open_it())
    channel.abandon()
    assert str(channel.lost) == "abandoned"

    with pytest.raises(mcpwire.LocalProtocolError, match="another event loop"):
        await channel.call("x", None, deadline=None)


class Named(Own):
    def __str__(self):
        return "a line of mine"


@pytest.mark.parametrize("is_late", [False, True])
async def test_what_does_not_open_says_why(is_late):
    class Fails(Named):
        error = OSError("no dial tone")

        def open_channel(self, inbound, limits):
            return raises(self.error)() if is_late else self.fail()

        def fail(self):
            raise self.error

    with pytest.raises(mcpwire.ConnectError, match="no dial tone"):
        await mcpwire.Client(Fails()).connect()
    Fails.error = mcpwire.ConnectError("it says so by itself")
    with pytest.raises(mcpwire.ConnectError, match=r"^it says so by itself$"):
        await mcpwire.Client(Fails()).connect()
    if is_late:
        Fails.error = mcpwire.InvalidParams("not even that")
        with pytest.raises(mcpwire.ConnectError, match="not even that"):
            await mcpwire.Client(Fails()).connect()


async def test_one_that_opens_for_ever_is_given_up_in_time():
    class Slow(Named):
        def open_channel(self, inbound, limits):
            return forever()

    client = mcpwire.Client(Slow(), connect_timeout=0.05)
    with pytest.raises(mcpwire.RequestTimeout):
        await client.connect()
    channel = opened(Slow())
    call = asyncio.create_task(channel.call("x", None, deadline=None))
    await asyncio.sleep(0)  # a turn of the loop
    channel.give_up(TransportError("enough"))
    with pytest.raises(mcpwire.ConnectionClosed, match="enough"):
        await call
    await channel.aclose()


async def test_a_client_works_over_one_and_counts(caplog):
    def answer(method, params):
        if method == "server/discover":
            raise mcpwire.MethodNotFound("no such method")
        if method == "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "own", "version": "1"},
            }
        return {"content": [{"type": "text", "text": "own"}]}

    own = Named(answer)
    own.session_id, own.bytes_sent = "abc", 42
    events = []
    async with mcpwire.Client(
        own, trace=lambda event, _: events.append(event)
    ) as client:
        assert (await client.call_tool("x")).content == [types.TextContent("own")]
        assert "a line of mine" in str(client)
        assert own.revision is not None
        assert str(own.revision) == "2025-11-25"
        assert client.session_id == "abc"
        assert client.stats.bytes_sent == 42
        assert client.stats.requests == 3
    assert events[0] == "open"
    assert own.notified == [("notifications/initialized", None)]
    assert own.closed == 1


@pytest.mark.attack("X08")
async def test_a_call_that_is_asked_too_much_ends_alone():
    own, heard = Own(forever), Heard()
    channel = ChannelAdapter(heard, own, mcpwire.Limits(questions=2))
    replies = []

    def asked(id):
        own.inbound.request(id, "roots/list", None, replies.append, None)

    first = asyncio.create_task(channel.call("x", None, deadline=None))
    await own.called(1)
    asked(1)
    second = asyncio.create_task(channel.call("y", None, deadline=None))
    await own.called(2)
    asked(2)
    own.inbound.request(0, "ping", None, replies.append, None)
    asked(3)
    with pytest.raises(mcpwire.TooManyQuestions, match=r"^x: "):
        await first
    assert set(heard.replies) == {0, 1, 2, 3}
    asked(4)
    with pytest.raises(mcpwire.TooManyQuestions, match=r"^y: "):
        await second
    assert 4 not in heard.replies
    [refused] = replies
    assert "too many questions" in refused.message
    await channel.aclose()


async def test_after_a_fork_it_refuses_use_and_is_not_closed():
    own = Own()
    channel = opened(own)
    channel.after_fork()  # as the fork's hook does in the child
    with pytest.raises(mcpwire.LocalProtocolError, match="forked from"):
        await channel.call("x", None, deadline=None)
    with pytest.raises(mcpwire.LocalProtocolError, match="forked from"):
        await channel.notify("x")
    await channel.aclose()
    assert own.closed == 0
