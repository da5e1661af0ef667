"""Observers of a client, replaced handlers, and calls cancelled by id."""

import asyncio
import gc
import weakref

import pytest
from fakes import SILENCE, FakeServer, text
from loop_polling import until
from requesting_server import SAMPLE, STATELESS, Asking, model

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
