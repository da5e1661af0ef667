"""What stands on a client: observers, handlers that change, calls cancelled by id."""

import asyncio
import gc
import weakref

import pytest
from asking import SAMPLE, STATELESS, Asking
from fakes import SILENCE, FakeServer, text
from turns import until

import mcpwire
import mcpwire.sync
from mcpwire import types

BOUND_S = 30.0


class Looking:
    def __init__(self, client):
        self.client = client
        self.heard_of = []
        self.seen = []

    def heard(self, method, params, size):
        self.heard_of.append((method, params, size))

    def changed(self):
        self.seen.append((self.client.is_connected, self.client.lost is None))


def looking_on(server, **options):
    client = mcpwire.Client(server, **options)
    observer = Looking(client)
    return client, observer, client.observe(observer)


async def test_an_observer_hears_what_comes_with_its_size_and_sees_each_turn():
    server = FakeServer()
    client, observer, _ = looking_on(server)
    assert client.lost is None
    async with client:
        assert observer.seen == [(True, True)]
        server.notify("notifications/message", level="info", data="x" * 50)
        await client.ping()
        server.channel._other_end._on_peer_closed()
        assert observer.seen[1:] == [(False, False)]
        assert isinstance(client.lost, mcpwire.ConnectionClosed)
        await client.ping()
        assert observer.seen[2:] == [(True, True)]
    assert observer.seen[3:] == [(False, True)]
    assert client.lost is None
    ((method, params, size),) = observer.heard_of
    assert (method, params["level"]) == ("notifications/message", "info")
    assert size > 50


async def test_a_lost_connection_is_not_opened_again_for_who_only_looks_on():
    server = FakeServer()
    client, observer, _ = looking_on(server)
    async with client:
        server.channel._other_end._on_peer_closed()
        await asyncio.sleep(0)  # a turn of the loop
        assert client.stats.connections == 1
        assert observer.seen[-1] == (False, False)


async def test_who_looks_on_hears_of_changed_lists_at_the_stateless_revision():
    server = FakeServer(
        {"subscriptions/listen": lambda *_: SILENCE},
        version=STATELESS,
        capabilities={"tools": {"listChanged": True}},
    )
    client, _, _ = looking_on(server)
    async with client:
        await until(lambda: server.requests("subscriptions/listen"))


async def test_an_observer_may_leave_and_comes_before_the_first_connection_only():
    server = FakeServer()
    client, observer, undo = looking_on(server)
    undo()
    undo()
    async with client:
        assert observer.seen == []
        with pytest.raises(mcpwire.LocalProtocolError, match="before it connects"):
            client.observe(observer)


async def test_what_is_subscribed_to_is_known():
    server = FakeServer(
        {"resources/subscribe": lambda *_: {}, "resources/unsubscribe": lambda *_: {}},
        capabilities={"resources": {"subscribe": True}},
    )
    async with mcpwire.Client(server) as client:
        await client.subscribe("file:///a")
        assert client.subscribed == {"file:///a"}
        await client.unsubscribe("file:///a")
        assert client.subscribed == frozenset()


# Handlers that change...


def model(said):
    def answer(_):
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(said), model="m"
        )

    return answer


@pytest.mark.system("A53")
@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
async def test_a_handler_that_is_replaced_answers_the_next_question(version):
    server = Asking("sampling/createMessage", SAMPLE, version=version)
    client = mcpwire.Client(server, sampling=model("old"))
    async with client:
        await client.call_tool("ask")
        assert server.answered["result"]["content"]["text"] == "old"
        client.set_handlers(sampling=model("new"))
        await client.call_tool("ask")
        assert server.answered["result"]["content"]["text"] == "new"


@pytest.mark.system("A50", "A54")
async def test_a_handler_that_is_taken_away_answers_nothing_more():
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


async def test_a_handler_given_late_is_declared_with_the_next_request_or_handshake():
    key = "io.modelcontextprotocol/clientCapabilities"
    server = FakeServer({"tools/call": lambda *_: text("x")}, version=STATELESS)
    async with mcpwire.Client(server) as client:
        await client.call_tool("x")
        client.set_handlers(sampling=model("x"))
        await client.call_tool("x")
    before, after = (each["_meta"][key] for each in server.requests("tools/call"))
    assert (before, after) == ({}, {"sampling": {}})


async def test_a_handler_that_is_none_changes_nothing():
    client = mcpwire.Client(FakeServer(), roots=["file:///a"])
    with pytest.raises(ValueError, match="sampling"):
        client.set_handlers(roots=None, sampling=3)
    features = client._connection.inbound.features
    assert "roots" in features.capabilities(mcpwire.REVISIONS[0])


# Calls cancelled by id...


@pytest.mark.system("A31")
@pytest.mark.rule("CAN-12")
async def test_a_call_is_cancelled_by_its_id_on_the_wire():
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        waiting = asyncio.ensure_future(client.call_tool("x"))
        await until(lambda: server.requests("tools/call"))
        id = server.current["id"]
        client.cancel(id, "enough")
        with pytest.raises(mcpwire.CallCancelled, match="enough"):
            await waiting
        client.cancel(id)
    told = [m for m in server.received if m["method"] == "notifications/cancelled"]
    assert [m["params"] for m in told] == [{"requestId": id, "reason": "enough"}]


@pytest.mark.system("A31")
@pytest.mark.parametrize("id", [None, 0, 999, -1, True, "1", 1.0])
async def test_an_id_that_is_none_of_ours_sends_nothing(id):
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    client = mcpwire.Client(server)
    client.cancel(id)
    async with client:
        call = await client.start_call("x")
        client.cancel(id)
        await client.ping()
        assert not call.done
    assert not [m for m in server.received if m["method"] == "notifications/cancelled"]


def test_a_forgotten_client_that_was_observed_leaves_nothing_behind():
    client, observer, undo = looking_on(FakeServer())
    gone = weakref.ref(client)
    del client, observer, undo
    gc.collect()
    assert gone() is None


# Closing as it is being opened...


async def test_a_client_that_was_closed_as_it_was_opened_stays_closed():
    server = FakeServer({"tools/call": lambda *_: text("x")})
    ends = set()
    for turns in range(1, 25):  # before, in the midst of, and after the handshake
        client = mcpwire.Client(server)
        connecting = asyncio.ensure_future(client.connect())
        for _ in range(turns):
            await asyncio.sleep(0)  # a turn of the loop
        await client.aclose()
        await asyncio.wait([connecting])
        ends.add(type(connecting.exception()))
        with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
            await client.call_tool("x")
    assert ends == {mcpwire.ConnectionClosed, type(None)}
