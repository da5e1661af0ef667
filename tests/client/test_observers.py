"""Observers and the trace hook of a client; replaced handlers; cancelling by id."""

import asyncio
import contextlib
import gc
import json
import weakref

import pytest
from fakes import SILENCE, FakeServer, text
from loop_polling import until
from requesting_server import SAMPLE, STATELESS, Asking, model
from scripted import scripted

import mcpwire

BOUND_S = 30.0


class Observer:
    def __init__(self, client):
        self.client = client
        self.received = []
        self.seen = []

    def notification_received(self, method, params, size):
        self.received.append((method, params, size))

    def connection_changed(self):
        self.seen.append((self.client.is_connected, self.client.lost is None))


def with_observer(server, **options):
    client = mcpwire.Client(server, **options)
    observer = Observer(client)
    return client, observer, client.observe(observer)


async def test_an_observer_gets_notifications_and_state_changes():
    server = FakeServer()
    client, observer, _ = with_observer(server)
    assert client.lost is None
    async with client:
        assert observer.seen == [(True, True)]
        server.notify("notifications/message", level="info", data="x" * 50)
        await client.ping()
        server.die()
        assert observer.seen[1:] == [(False, False)]
        assert isinstance(client.lost, mcpwire.ConnectionClosed)
        await client.ping()
        assert observer.seen[2:] == [(True, True)]
    assert observer.seen[3:] == [(False, True)]
    assert client.lost is None
    ((method, params, size),) = observer.received
    assert (method, params["level"]) == ("notifications/message", "info")
    assert size > 50


async def test_an_observer_does_not_reopen_a_lost_connection():
    server = FakeServer()
    client, observer, _ = with_observer(server)
    async with client:
        server.die()
        await asyncio.sleep(0)  # one loop iteration
        assert client.stats.connections == 1
        assert observer.seen[-1] == (False, False)


async def test_an_observer_subscribes_to_list_changes_if_stateless():
    server = FakeServer(
        {"subscriptions/listen": lambda *_: SILENCE},
        version=STATELESS,
        capabilities={"tools": {"listChanged": True}},
    )
    client, _, _ = with_observer(server)
    async with client:
        await until(lambda: server.requests("subscriptions/listen"))


async def test_an_observer_must_be_added_before_connecting():
    server = FakeServer()
    client, observer, undo = with_observer(server)
    undo()
    undo()
    async with client:
        assert observer.seen == []
        with pytest.raises(mcpwire.LocalProtocolError, match="before it connects"):
            client.observe(observer)


@pytest.mark.system("A50", "A54")
async def test_a_removed_handler_answers_no_further_requests():
    server = Asking("sampling/createMessage", SAMPLE)
    client = mcpwire.Client(server, sampling=model("x"), roots=[])
    async with client:
        client.set_handlers(sampling=None)
        await client.call_tool("ask")
        assert server.answered["error"]["code"] == -32601
        await client.notify_roots_changed()
        client.set_handlers(roots=None)
        with pytest.raises(mcpwire.LocalProtocolError, match="without roots"):
            await client.notify_roots_changed()
        await client.aclose()
        await client.connect()
    first, second = server.requests("initialize")
    assert first["capabilities"] == {"sampling": {}, "roots": {"listChanged": True}}
    assert second["capabilities"] == {}


async def test_a_later_handler_is_declared_in_the_next_request():
    key = "io.modelcontextprotocol/clientCapabilities"
    server = FakeServer({"tools/call": lambda *_: text("x")}, version=STATELESS)
    async with mcpwire.Client(server) as client:
        await client.call_tool("x")
        client.set_handlers(sampling=model("x"))
        await client.call_tool("x")
    before, after = (each["_meta"][key] for each in server.requests("tools/call"))
    assert (before, after) == ({}, {"sampling": {}})


async def test_an_invalid_handler_changes_no_handlers():
    server = FakeServer()
    client = mcpwire.Client(server, roots=["file:///a"])
    with pytest.raises(ValueError, match="sampling"):
        client.set_handlers(roots=None, sampling=3)
    async with client:
        (initialize,) = server.requests("initialize")
    assert set(initialize["capabilities"]) == {"roots"}


@pytest.mark.system("A31")
@pytest.mark.parametrize("id", [None, 0, 999, -1, True, "1", 1.0])
async def test_cancel_with_an_unknown_id_sends_no_message(id):
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    client = mcpwire.Client(server)
    client.cancel(id)
    async with client:
        call = await client.start_call("x")
        client.cancel(id)
        await client.ping()
        assert not call.done
    assert server.requests("notifications/cancelled") == []


def test_an_observed_client_can_be_garbage_collected():
    client, observer, undo = with_observer(FakeServer())
    gone = weakref.ref(client)
    del client, observer, undo
    gc.collect()
    assert gone() is None


# Closing while it is being opened...


async def test_a_client_closed_while_connecting_stays_closed():
    server = FakeServer({"tools/call": lambda *_: text("x")})
    ends = set()
    for turns in range(1, 25):  # before, during and after the handshake
        client = mcpwire.Client(server)
        connecting = asyncio.ensure_future(client.connect())
        for _ in range(turns):
            await asyncio.sleep(0)  # one loop iteration
        await client.aclose()
        await asyncio.wait([connecting])
        ends.add(type(connecting.exception()))
        with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
            await client.call_tool("x")
    assert ends == {mcpwire.ConnectionClosed, type(None)}


BYTES = {"read", "written"}


@contextlib.asynccontextmanager
async def traced(target):
    """Yield a connected client and the growing list of its trace events."""
    seen = []
    async with mcpwire.Client(target, trace=lambda *args: seen.append(args)) as client:
        yield client, seen


@pytest.mark.system("A62")
async def test_the_hook_gets_open_messages_agree_and_close():
    server = FakeServer({"tools/call": lambda *_: text("ok")})
    async with traced(server) as (client, seen):
        await client.call_tool("x")
    messages = [(event, data) for event, data in seen if event not in BYTES]
    assert [event for event, _ in messages] == [
        "open",
        *("send", "receive"),  # the probe
        *("send", "receive"),  # initialize
        *("send", "agree"),  # initialized
        *("send", "receive"),  # the call
        "close",
    ]
    assert json.loads(messages[1][1])["method"] == "server/discover"
    assert messages[6] == ("agree", client.negotiation)
    assert json.loads(messages[8][1])["result"] == text("ok")


async def test_the_hook_gets_written_and_read_bytes():
    server = FakeServer({"tools/call": lambda *_: text("ok")})
    async with traced(server) as (client, seen):
        seen.clear()
        sent = client.stats.bytes_sent
        await client.call_tool("x")
    events, data = zip(*seen[:4], strict=True)
    assert events == ("send", "written", "read", "receive")
    assert data[1] == sent + len(data[0]) + 1
    assert data[2] == data[3] + b"\n"


async def test_written_is_reported_after_the_whole_message():
    program = "handshake()\nm = recv()\ntext(m, 'ok')\nrecv()"
    big = {"x": "y" * 1_000_000}
    async with traced(scripted(program)) as (client, seen):
        await client.call_tool("x", big)
    total = 0
    for event, data in seen:
        if event == "send":
            total += len(data) + 1
        elif event == "written":
            written = data
    assert written == total > 1_000_000
    events = [event for event, _ in seen]
    assert events[-4:-1] == ["written", "read", "receive"]


async def test_the_hook_gets_an_unterminated_last_message():
    program = (
        "handshake()\n"
        "reply = {'jsonrpc': '2.0', 'id': recv()['id'], 'result': {'content': []}}\n"
        "raw(json.dumps(reply).encode())"
    )
    async with traced(scripted(program)) as (client, seen):
        result = await client.call_tool("x")
    received = [data for event, data in seen if event == "receive"]
    assert json.loads(received[-1])["result"] == result.raw


async def test_the_trace_has_messages_as_bytes_without_newline():
    target = scripted(
        "handshake()\nm = recv()\n"
        'raw(b\'{"jsonrpc":"2.0","id":%d,"result":{}}\\r\\n\' % m["id"]); recv()'
    )
    async with traced(target) as (client, events):
        await client.request("x/y")
    lines = [data for event, data in events if event in {"send", "receive"}]
    assert all(type(line) is bytes for line in lines)
    assert [line for line in lines if line[-1:] != b"}"] == []
    assert ("receive", b'{"jsonrpc":"2.0","id":3,"result":{}}') in events


async def test_the_hook_gets_a_lost_connection():
    server = FakeServer()
    async with traced(server) as (client, seen):
        call = asyncio.create_task(client.call_tool("x"))
        await asyncio.sleep(0)  # one loop iteration
        await server.channel.aclose()
        with pytest.raises(mcpwire.MCPError):
            await call
    event, error = seen[-2]
    assert event == "lost"
    assert isinstance(error, mcpwire.TransportError)


async def test_an_exception_of_the_hook_is_only_logged(caplog):
    def hook(event, data):
        raise RuntimeError("mine")

    server = FakeServer({"tools/call": lambda *_: text("ok")})
    async with mcpwire.Client(server, trace=hook) as client:
        assert (await client.call_tool("x")).text == "ok"
    assert "trace hook" in caplog.text


async def test_an_async_trace_hook_is_refused_at_construction():
    async def hook(event, data): ...

    with pytest.raises(ValueError, match="plain function"):
        mcpwire.Client(FakeServer(), trace=hook)
