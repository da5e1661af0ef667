"""The adapter of channels that users write: each call ends, whatever they do."""

import asyncio
import contextlib

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

pytestmark = pytest.mark.usefixtures("bounded")


class Own:
    revision = None

    def __init__(self, answer=None):
        self.answer = answer or (lambda method, params: {})
        self.closed = 0
        self.notified = []
        self.calls = []
        self.inbound = None
        self._has_call = asyncio.Event()

    async def called(self, count):
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


class RecordingInbound:
    """An `Inbound` that records what it receives."""

    def __init__(self):
        self.all = []
        self.replies = {}

    def notification(self, *args):
        self.all.append(args[:2])

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


def opened(own, inbound=None):
    return ChannelAdapter(inbound or RecordingInbound(), own, DEFAULT_LIMITS)


def after(seconds):
    return Deadline(asyncio.get_running_loop().time(), seconds)


@on_a_virtual_clock
async def test_the_adapter_applies_deadlines():
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
    notify = own.calls[1][1]
    notify("notifications/progress", {"progress": 1})
    with pytest.raises(mcpwire.RequestTimeout):
        await call
    notify("notifications/progress", {"progress": 2})  # too late: not delivered
    assert seen == [("notifications/progress", {"progress": 1})]
    await channel.aclose()
    assert own.closed == 1


@on_a_virtual_clock
async def test_a_server_request_pauses_the_deadline():
    own, inbound = Own(forever), RecordingInbound()
    channel = opened(own, inbound)
    call = asyncio.create_task(channel.call("x", None, deadline=after(0.05)))
    await asyncio.sleep(0)  # one loop iteration
    replies = []
    for id in (7, 8):
        own.inbound.request(id, "roots/list", None, replies.append, None)
    inbound.replies[7]({"roots": []})
    inbound.replies[7]({"roots": ["twice"]})
    done, _ = await asyncio.wait([call], timeout=0.15)
    assert not done
    own.inbound.cancelled(8)
    with pytest.raises(mcpwire.RequestTimeout):
        await call
    assert replies == [{"roots": []}]
    own.inbound.notification("notifications/x", None, None)
    own.inbound.missed()
    expected = [("cancelled", 8), ("notifications/x", None), ("missed", None)]
    assert inbound.all == expected
    await channel.aclose()
    inbound.replies[8]({})  # the call has ended
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
async def test_failures_of_a_call_become_library_errors(answer, kind, why):
    channel = opened(Own(answer))
    with pytest.raises(kind, match=why):
        await channel.call("x", None, deadline=None)
    await channel.aclose()


async def test_a_loss_ends_all_calls_and_closes_the_channel_once():
    own, inbound = Own(forever), RecordingInbound()
    channel = opened(own, inbound)
    assert "open, 0 calls" in repr(channel)
    calls = [
        asyncio.create_task(channel.call("x", None, deadline=None)) for _ in range(2)
    ]
    await asyncio.sleep(0)  # one loop iteration
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
    assert inbound.all == [("lost", "the line is dead")]
    assert "closed" in repr(channel)


async def test_failures_of_notifications_become_library_errors():
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
    own.notify = lambda *_, **__: cancels()
    with pytest.raises(TransportError, match="CancelledError"):
        await channel.notify("x")
    own.notify = lambda *_, **__: forever()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await channel.notify("x")
    await channel.aclose()


async def test_closing_a_hanging_channel_times_out(monkeypatch, caplog):
    monkeypatch.setattr(module, "END_TIMEOUT_S", 0.05)
    own = Own()
    own.aclose = forever
    channel = opened(own)
    await channel.aclose()
    assert "closing Own failed" in caplog.text


async def test_a_channel_that_awaits_its_cancelled_reader_can_be_closed(caplog):
    class Reads(Own):
        async def aclose(self):
            reader = asyncio.create_task(forever())
            reader.cancel()
            await reader

    own = Reads(lambda *_: {"supportedVersions": ["2026-07-28"], "capabilities": {}})
    client = mcpwire.Client(own)
    for _ in range(2):
        await client.connect()
        await client.aclose()
    assert caplog.text.count("closing Reads failed") == 2


@pytest.mark.parametrize("seconds", [module.END_TIMEOUT_S, 0.0])
async def test_a_channel_that_opens_too_late_is_closed(seconds, monkeypatch):
    monkeypatch.setattr(module, "END_TIMEOUT_S", seconds)

    class Late(Own):
        async def open_channel(self, inbound, limits):
            opening.set()
            with contextlib.suppress(asyncio.CancelledError):
                await forever()
            for _ in range(20):
                await asyncio.sleep(0)  # one loop iteration
            return self

        async def aclose(self):
            closed.set()

    own, opening, closed = Late(), asyncio.Event(), asyncio.Event()
    connecting = asyncio.create_task(mcpwire.Client(own).connect())
    await opening.wait()
    connecting.cancel()
    await asyncio.wait([connecting])
    await closed.wait()


async def test_an_abandoned_channel_is_closed_on_its_loop():
    own = Own(forever)
    channel = opened(own)
    channel.abandon()
    channel.abandon()
    await channel.aclose()
    assert own.closed == 1
    with pytest.raises(mcpwire.ConnectionClosed, match="closed by this side"):
        await channel.call("x", None, deadline=None)


async def test_a_channel_of_an_ended_loop_can_be_abandoned():
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
async def test_a_failed_opening_raises_connect_error_with_reason(is_late):
    class Fails(Named):
        error = OSError("no dial tone")

        def open_channel(self, inbound, limits):
            return self.fail_late() if is_late else self.fail()

        def fail(self):
            if self.error is not None:
                raise self.error

        async def fail_late(self):
            self.fail()

    with pytest.raises(mcpwire.ConnectError, match="no dial tone"):
        await mcpwire.Client(Fails()).connect()
    Fails.error = mcpwire.ConnectError("it says so by itself")
    with pytest.raises(mcpwire.ConnectError, match=r"^it says so by itself$"):
        await mcpwire.Client(Fails()).connect()
    Fails.error = None
    with pytest.raises(mcpwire.ConnectError, match="return a Channel, got None"):
        await mcpwire.Client(Fails()).connect()
    if is_late:
        Fails.error = mcpwire.InvalidParams("not even that")
        with pytest.raises(mcpwire.ConnectError, match="not even that"):
            await mcpwire.Client(Fails()).connect()


async def test_a_hanging_opening_times_out():
    class Slow(Named):
        def open_channel(self, inbound, limits):
            return forever()

    client = mcpwire.Client(Slow(), connect_timeout=0.05)
    with pytest.raises(mcpwire.RequestTimeout):
        await client.connect()
    channel = opened(Slow())
    call = asyncio.create_task(channel.call("x", None, deadline=None))
    await asyncio.sleep(0)  # one loop iteration
    channel.give_up(TransportError("enough"))
    with pytest.raises(mcpwire.ConnectionClosed, match="enough"):
        await call
    await channel.aclose()


async def test_a_client_works_with_a_user_channel(caplog):
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


async def test_a_channel_that_answers_no_call_is_not_reopened_forever():
    discovered = {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": True}},
    }

    def answer(method, params):
        if method == "server/discover":
            return discovered
        if len(own.calls) == 2:
            raise mcpwire.MethodNotFound("no")
        own.inbound.lost(TransportError("gone"))
        return forever()

    own = Own(answer)
    recovery = mcpwire.Recovery(attempts=3, backoff_initial=0.001)
    async with mcpwire.Client(own, recovery=recovery) as client:
        waiting = asyncio.create_task(anext(client.events()))
        await own.called(2)
        own.inbound.lost(TransportError("gone"))
        with pytest.raises(TransportError, match="gone"):
            await waiting
    assert own.closed == 1 + recovery.attempts


@pytest.mark.attack("X08")
async def test_a_call_with_too_many_questions_ends_alone():
    own, inbound = Own(forever), RecordingInbound()
    channel = ChannelAdapter(inbound, own, mcpwire.Limits(questions=2))
    replies = []

    def send_request(id):
        own.inbound.request(id, "roots/list", None, replies.append, None)

    first = asyncio.create_task(channel.call("x", None, deadline=None))
    await own.called(1)
    send_request(1)
    second = asyncio.create_task(channel.call("y", None, deadline=None))
    await own.called(2)
    send_request(2)
    own.inbound.request(0, "ping", None, replies.append, None)
    send_request(3)
    with pytest.raises(mcpwire.TooManyQuestions, match=r"^x: "):
        await first
    assert set(inbound.replies) == {0, 1, 2, 3}
    send_request(4)
    with pytest.raises(mcpwire.TooManyQuestions, match=r"^y: "):
        await second
    assert 4 not in inbound.replies
    [refused] = replies
    assert "too many questions" in refused.message
    await channel.aclose()


async def test_after_a_fork_the_channel_refuses_use():
    own = Own()
    channel = opened(own)
    channel.after_fork()  # as the fork's hook does in the child
    with pytest.raises(mcpwire.LocalProtocolError, match="after a fork"):
        await channel.call("x", None, deadline=None)
    with pytest.raises(mcpwire.LocalProtocolError, match="after a fork"):
        await channel.notify("x")
    await channel.aclose()
    assert own.closed == 0
