"""Notifications of the server: events, subscriptions, watches, log level, both eras."""

import asyncio
import gc

import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer, text
from loop_polling import until

import mcpwire
from mcpwire.wire.jsonrpc import success

STATELESS = "2026-07-28"
ERA = pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
URI = "file:///a"
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
ID = "io.modelcontextprotocol/subscriptionId"
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
}


class SubscriptionServer(FakeServer):
    def __init__(self, version, *, refused=(), capabilities=CAPABILITIES, **methods):
        super().__init__(
            {
                "resources/subscribe": lambda *_: {},
                "resources/unsubscribe": lambda *_: {},
                "logging/setLevel": lambda *_: {},
                "subscriptions/listen": self.listen,
                **methods,
            },
            version=version,
            capabilities=capabilities,
        )
        self.refused = refused
        self.open = {}

    def listen(self, params, _):
        id = self.current["id"]
        acknowledged = {
            k: v for k, v in params["notifications"].items() if k not in self.refused
        }
        self.open[id] = acknowledged
        self.notify(ACKNOWLEDGED, notifications=acknowledged, _meta={ID: id})
        return SILENCE

    def receive(self, data):
        super().receive(data)
        for message in self.received:
            if message.get("method") == "notifications/cancelled":
                self.open.pop(message["params"]["requestId"], None)

    def emit(self, method, **params):
        """Send a notification in the way of the era."""
        if self.version != STATELESS:
            self.notify(method, **params)
        for id in self.open:
            self.notify(method, **params, _meta={ID: id})

    def filters(self):
        return list(self.open.values())

    def methods_received(self):
        return [m.get("method") for m in self.received]


@pytest.mark.system("A26", "A42")
@ERA
@pytest.mark.rule("SUB-01", "RES-13")
async def test_updates_of_a_resource_arrive_until_unsubscribe(version):
    server = SubscriptionServer(version)
    queue = asyncio.Queue()
    async with mcpwire.Client(server, on_notification=queue.put_nowait) as client:
        await client.subscribe(URI)
        assert client.subscribed == {URI}
        server.emit(UPDATED, uri=URI)
        notification = await queue.get()
        assert notification.params.uri == URI
        if version == STATELESS:
            lists = {"toolsListChanged": True, "resourcesListChanged": True}
            assert server.filters() == [{**lists, "resourceSubscriptions": [URI]}]
        await client.unsubscribe(URI)
        assert client.subscribed == frozenset()
        await client.discover() if version == STATELESS else await client.ping()
        if version == STATELESS:
            assert server.filters() == [lists]
        else:
            assert server.requests("resources/unsubscribe") == [{"uri": URI}]
        with pytest.raises(mcpwire.LocalProtocolError, match="not subscribed"):
            await client.unsubscribe(URI)


@ERA
async def test_two_subscribers_share_one_server_subscription(version):
    server = SubscriptionServer(version)
    async with mcpwire.Client(server) as client:
        await asyncio.gather(client.subscribe(URI), client.subscribe(URI))
        await client.unsubscribe(URI)
        if version == STATELESS:
            assert server.filters() == [{"resourceSubscriptions": [URI]}]
        else:
            assert server.requests("resources/subscribe") == [{"uri": URI}]
            assert server.requests("resources/unsubscribe") == []


@pytest.mark.system("A26")
@ERA
async def test_subscribe_is_refused_without_the_capability(version):
    server = SubscriptionServer(version, capabilities={"resources": {}})
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.LocalProtocolError, match="did not declare"):
            await client.subscribe(URI)
    assert "subscriptions/listen" not in server.methods_received()
    assert "resources/subscribe" not in server.methods_received()


@pytest.mark.rule("SUB-08")
async def test_an_unacknowledged_filter_is_an_error_of_subscribe():
    server = SubscriptionServer(STATELESS, refused={"resourceSubscriptions"})
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.LocalProtocolError, match="acknowledged no"):
            await client.subscribe(URI)


async def test_an_error_of_listen_is_raised_by_subscribe():
    server = SubscriptionServer(STATELESS)
    server.methods["subscriptions/listen"] = lambda *_: mcpwire.RPCError(
        "Method not found", code=-32601
    )
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.MethodNotFound):
            await client.subscribe(URI)
        stream = client.events()
        server.notify("notifications/x")
        assert (await anext(stream)).method == "notifications/x"


@on_a_virtual_clock
async def test_an_unacknowledged_subscription_is_cancelled():
    server = SubscriptionServer(STATELESS)
    server.methods["subscriptions/listen"] = lambda *_: SILENCE
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.RequestTimeout, match="not acknowledged"):
            await client.subscribe(URI, timeout=0.05)
        await client.discover()
    assert len(server.requests("notifications/cancelled")) == 1


@pytest.mark.parametrize("is_sent", [True, False])
async def test_closing_ends_an_unacknowledged_subscription(is_sent):
    server = SubscriptionServer(STATELESS)
    server.methods["subscriptions/listen"] = lambda *_: SILENCE
    async with mcpwire.Client(server) as client:
        subscribing = asyncio.create_task(client.subscribe(URI, timeout=None))
        if is_sent:
            await until(lambda: server.requests("subscriptions/listen"))
        else:
            await asyncio.sleep(0)  # begun, but not sent
        await client.aclose()
        with pytest.raises(mcpwire.ConnectionClosed):
            await subscribing


@pytest.mark.system("L-U12")
@ERA
@pytest.mark.rule("SUB-08")
async def test_listen_reports_and_yields_acknowledged_changes_only(version):
    server = SubscriptionServer(version, refused={"resourcesListChanged"})
    requested = mcpwire.Filter(tools=True, prompts=True, resources=True, uris={URI})
    async with mcpwire.Client(server) as client:
        listening = client.listen([URI], tools=True, prompts=True, resources=True)
        async with listening as changes:
            acknowledged = mcpwire.Filter(tools=True, resources=True, uris={URI})
            if version == STATELESS:
                acknowledged = mcpwire.Filter(tools=True, uris={URI})
            assert changes.acknowledged == acknowledged
            assert changes.refused == requested.minus(acknowledged)
            server.emit("notifications/message", level="info", data="no change")
            server.emit("notifications/tools/list_changed")
            server.emit(UPDATED, uri="file:///other")
            server.emit(UPDATED, uri=URI)
            assert (await anext(changes)).method == "notifications/tools/list_changed"
            assert (await anext(changes)).params.uri == URI
        if version == STATELESS:
            await client.discover()
            assert server.filters() == []


@pytest.mark.system("L-R9", "L-U2")
@ERA
async def test_events_yield_all_notifications_until_close(version):
    server = SubscriptionServer(version)
    async with mcpwire.Client(server) as client:
        stream = client.events()
        server.notify("notifications/message", level="info", data=1)
        assert (await anext(stream)).params.data == 1
        server.emit("notifications/tools/list_changed")
        assert (await anext(stream)).method == "notifications/tools/list_changed"
        last = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)  # one loop iteration
    with pytest.raises(StopAsyncIteration):
        await last


@pytest.mark.system("L-A10")
@pytest.mark.rule("PROG-06", "LOG-07")
async def test_a_slow_consumer_loses_messages_but_not_changes():
    server = SubscriptionServer("2025-11-25")
    limits = mcpwire.Limits(notifications=5)
    async with mcpwire.Client(server, limits=limits) as client:
        await client.subscribe(URI)
        stream = client.events()
        server.notify(UPDATED, uri=URI)
        for n in range(100):
            server.notify("notifications/message", level="info", data=n)
            server.notify("notifications/tools/list_changed")
            server.notify(UPDATED, uri=URI)
        await client.ping()
        seen = [await anext(stream) for _ in range(7)]
        assert stream.dropped == 95
        await stream.aclose()
    methods = [n.method for n in seen]
    assert methods[:2] == [UPDATED, "notifications/tools/list_changed"]
    assert [n.params.data for n in seen[2:]] == [95, 96, 97, 98, 99]


@pytest.mark.system("A44")
@pytest.mark.fault("F16")
async def test_a_slow_callback_loses_messages_but_not_changes():
    server = SubscriptionServer("2025-11-25")
    go = asyncio.Event()
    seen = []

    async def slowly(notification):
        await go.wait()
        seen.append(notification.method)

    limits = mcpwire.Limits(notifications=3)
    async with mcpwire.Client(server, limits=limits, on_notification=slowly) as client:
        server.notify("notifications/x")
        for _ in range(50):
            server.notify("notifications/tools/list_changed")
            server.notify("notifications/message", level="info", data=1)
        await client.ping()
        assert client.stats.dropped_notifications == 47
        go.set()
        await until(lambda: len(seen) == 5)
    expected = ["notifications/x", "notifications/tools/list_changed"]
    assert seen == [*expected, *["notifications/message"] * 3]


async def test_a_malformed_notification_is_skipped_and_counted(caplog):
    server = SubscriptionServer("2025-11-25")
    async with mcpwire.Client(server) as client:
        stream = client.events()
        task = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)  # one loop iteration
        server.send({"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": 1}})
        server.notify("notifications/tools/list_changed")
        assert (await task).method == "notifications/tools/list_changed"
        assert client.stats.invalid_messages == 1
        await stream.aclose()
    assert "dropped a notification" in caplog.text


@ERA
async def test_watch_yields_contents_now_and_after_each_update(version):
    reads = iter(range(100))
    server = SubscriptionServer(version)
    server.methods["resources/read"] = lambda *_: {
        "contents": [{"uri": URI, "text": str(next(reads))}]
    }
    async with mcpwire.Client(server) as client:
        async with client.watch(URI) as contents:
            assert (await anext(contents)).text == "0"
            server.emit(UPDATED, uri=URI)
            assert (await anext(contents)).text == "1"
            server.emit(UPDATED, uri=URI + "/part")
            server.emit(UPDATED, uri="file:///other")
            assert (await anext(contents)).text == "2"
        if version == STATELESS:
            await client.discover()
            assert server.filters() == []
        else:
            assert server.requests("resources/unsubscribe") == [{"uri": URI}]


@ERA
@on_a_virtual_clock
async def test_a_watch_repeats_a_read_without_an_answer(version):
    reads = []

    def read(params, _):
        reads.append(params)
        content = {"uri": URI, "text": str(len(reads))}
        contents = 5 if len(reads) == 4 else [content]
        return SILENCE if len(reads) in {2, 3} else {"contents": contents}

    server = SubscriptionServer(version, **{"resources/read": read})
    client = mcpwire.Client(server)
    async with client, client.watch(URI, timeout=60) as contents:
        assert (await anext(contents)).text == "1"
        server.emit(UPDATED, uri=URI)
        waiting = asyncio.ensure_future(anext(contents))
        await until(lambda: len(reads) == 2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(mcpwire.RequestTimeout):
            await anext(contents)
        with pytest.raises(mcpwire.InvalidMessage):
            await anext(contents)
        assert (await anext(contents)).text == "5"


@ERA
async def test_tasks_that_share_a_stream_subscribe_once(version):
    server = SubscriptionServer(version)
    async with mcpwire.Client(server) as client:
        stream = client.listen([URI])
        waiting = [asyncio.create_task(stream.next()) for _ in range(2)]
        await until(lambda: client.subscribed and stream.acknowledged)
        server.emit(UPDATED, uri=URI)
        server.emit(UPDATED, uri=URI + "/part")
        await asyncio.gather(*waiting)
        await stream.aclose()
        assert client.subscribed == frozenset()


async def test_a_garbage_collected_stream_ends_its_subscription():
    server = SubscriptionServer(STATELESS)
    async with mcpwire.Client(server) as client:
        changes = client.listen([URI])
        await changes.__aenter__()
        assert server.filters() == [{"resourceSubscriptions": [URI]}]
        del changes
        gc.collect()
        await client.subscribe("file:///b")
        await client.discover()
        assert server.filters() == [{"resourceSubscriptions": ["file:///b"]}]


@pytest.mark.rule("SUB-09")
async def test_a_changed_subscription_overlaps_the_old_one():
    server = SubscriptionServer(STATELESS)
    async with mcpwire.Client(server) as client:
        counts = []
        listen = server.methods["subscriptions/listen"]

        def counting(params, fake):
            counts.append(len(server.open))
            return listen(params, fake)

        server.methods["subscriptions/listen"] = counting
        await client.subscribe("file:///a")
        await client.subscribe("file:///b")
        await client.discover()
        assert counts == [0, 1]  # the old one ends after the new one is open
        assert server.filters() == [
            {"resourceSubscriptions": ["file:///a", "file:///b"]}
        ]


@pytest.mark.rule("SUB-13")
async def test_a_subscription_ended_by_the_server_ends_its_stream():
    server = SubscriptionServer(STATELESS)
    async with mcpwire.Client(server) as client:
        async with client.listen(tools=True) as changes:
            id = next(iter(server.open))
            server.send(success(id, {"resultType": "complete", "_meta": {ID: id}}))
            with pytest.raises(StopAsyncIteration):
                await anext(changes)
        async with client.listen(tools=True) as changes:
            server.emit("notifications/tools/list_changed")
            await anext(changes)


@pytest.mark.system("L-A8", "L-U2")
@pytest.mark.rule("LOG-05")
async def test_set_log_level_sends_a_request_in_a_session():
    server = SubscriptionServer("2025-11-25")
    async with mcpwire.Client(server) as client:
        await client.set_log_level("warning")
        with pytest.raises(mcpwire.LocalProtocolError, match="one of debug, info"):
            await client.set_log_level("loud")
    assert server.requests("logging/setLevel") == [{"level": "warning"}]


@pytest.mark.system("L-A8")
async def test_the_log_level_is_in_each_stateless_request():
    server = SubscriptionServer(STATELESS)
    server.methods["tools/call"] = lambda *_: {"resultType": "complete", **text("x")}
    async with mcpwire.Client(server) as client:
        await client.call_tool("x")
        await client.set_log_level("warning")
        await client.call_tool("x")
        await client.call_tool("x", meta={"k": "v"})
    key = "io.modelcontextprotocol/logLevel"
    levels = [call["_meta"].get(key) for call in server.requests("tools/call")]
    assert levels == [None, "warning", "warning"]


@ERA
async def test_set_log_level_is_refused_without_the_capability(version):
    server = SubscriptionServer(version, capabilities={"tools": {}})
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.LocalProtocolError, match="logging"):
            await client.set_log_level("info")


async def test_subscribe_listen_and_events_need_a_connection():
    client = mcpwire.Client(SubscriptionServer("2025-11-25"))
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await client.subscribe(URI)
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await client.listen(tools=True).__aenter__()
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await anext(client.events())


async def test_next_waits_for_a_notification_up_to_its_timeout():
    server = SubscriptionServer("2025-11-25")
    async with mcpwire.Client(server) as client:
        stream = client.events()
        assert await stream.next(timeout=0.01) is None
        assert not stream.is_closed
        server.notify("notifications/x")
        assert (await stream.next()).method == "notifications/x"
        with pytest.raises(ValueError, match="timeout"):
            await stream.next(timeout=0)
        await stream.aclose()
        assert stream.is_closed
        assert await stream.next() is None


async def test_a_cache_subscribes_to_list_changes():
    server = SubscriptionServer(STATELESS)
    async with mcpwire.Client(server, cache=True) as client:
        await client.ping()
        assert server.filters() == [
            {"toolsListChanged": True, "resourcesListChanged": True}
        ]
