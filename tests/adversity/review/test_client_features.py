"""Regression tests of a review of the asyncio client's features."""

import asyncio

import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE, ReopenableServer, text
from loop_polling import until

import mcpwire
from mcpwire.errors import RPCError
from mcpwire.limits import Limits
from mcpwire.transports.handlers import InboundTasks
from mcpwire.wire.jsonrpc import failure, success

BOUND_S = 30.0
SOON_S = 30.0
"""Within which an operation that need not wait ends, on a loaded machine."""
SESSION = "2025-11-25"
STATELESS = "2026-07-28"
URI = "file:///a"
LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
}

AT_ONCE = mcpwire.Recovery(backoff_initial=0.001, backoff_max=0.01)
QUICK = {"recovery": AT_ONCE, "timeout": BOUND_S}


class CrashingServer(ReopenableServer):
    def __init__(self, version=SESSION, **methods):
        super().__init__(
            {
                "resources/subscribe": lambda *_: {},
                "resources/unsubscribe": lambda *_: {},
                "logging/setLevel": lambda *_: {},
                LISTEN: self.listen,
                "tools/call": lambda *_: self.done(**text("done")),
                "resources/read": lambda params, _: self.done(
                    contents=[{"uri": params["uri"], "text": "x"}],
                    ttlMs=0,
                    cacheScope="private",
                ),
            }
            | {name.replace("_", "/"): method for name, method in methods.items()},
            version=version,
            capabilities=CAPABILITIES,
        )

    def done(self, **members):
        return members | (
            {"resultType": "complete"} if self.version == STATELESS else {}
        )

    def listen(self, params, _):
        self.acknowledge(self.current["id"], params["notifications"])
        return SILENCE

    def acknowledge(self, id, uris):
        self.notify(ACKNOWLEDGED, notifications=uris, _meta={SUBSCRIPTION: id})

    def updated(self, id, uri=URI):
        self.notify(UPDATED, uri=uri, _meta={SUBSCRIPTION: id})

    def ids(self, method):
        return [m["id"] for m in self.received if m.get("method") == method]

    def cancelled(self):
        return [p["requestId"] for p in self.requests("notifications/cancelled")]


async def test_cancelling_an_old_call_keeps_calls_of_the_new_connection():
    """Its id may be that of another call by then."""
    asking, answer = asyncio.Event(), asyncio.Event()

    async def confirm(_):
        asking.set()
        await answer.wait()
        return {}

    def call(params, server):
        if params["name"] == "ask":
            return {
                "resultType": "input_required",
                "requestState": "s",
                "inputRequests": {
                    "a": {
                        "method": "elicitation/create",
                        "params": {
                            "message": "?",
                            "requestedSchema": {"type": "object", "properties": {}},
                        },
                    }
                },
            }
        return SILENCE

    server = CrashingServer(STATELESS, tools_call=call)
    async with mcpwire.Client(server, elicitation=confirm, **QUICK) as client:
        started = await client.start_call("ask")
        await asking.wait()
        await server.lose(client)
        other = asyncio.ensure_future(client.call_tool("other"))
        await until(lambda: len(server.lives) == 2 and server.ids("tools/call"))
        assert server.ids("tools/call") == [started.request_id]
        started.cancel()
        with pytest.raises(mcpwire.CallCancelled):
            await started
        assert not other.done()
        server.send(success(started.request_id, server.done(**text("x"))))
        assert (await other).text == "x"


async def test_request_during_an_abandoned_reconnect_succeeds():
    server = CrashingServer(STATELESS)
    async with mcpwire.Client(server, **QUICK) as client:
        await server.lose(client)
        call = asyncio.ensure_future(client.call_tool("x"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.sleep(0)  # the reconnect is being cancelled and has not ended yet
        await client.subscribe(URI)
        await asyncio.wait([call])
        assert call.cancelled()


async def test_subscribe_waiting_for_another_keeps_its_own_timeout():
    server = CrashingServer(STATELESS)
    server.methods[LISTEN] = lambda *_: SILENCE
    async with mcpwire.Client(server, **QUICK) as client:
        slow = asyncio.ensure_future(client.subscribe("file:///slow", timeout=None))
        await until(lambda: server.ids(LISTEN))
        with pytest.raises(mcpwire.RequestTimeout):
            await asyncio.wait_for(client.subscribe(URI, timeout=0.05), SOON_S)
        slow.cancel()
        await asyncio.wait([slow])


async def test_timed_out_subscribe_leaves_no_subscription():
    server = CrashingServer(STATELESS)
    server.methods[LISTEN] = lambda *_: SILENCE
    async with mcpwire.Client(server, **QUICK) as client:
        for _ in range(3):
            with pytest.raises(mcpwire.RequestTimeout):
                await client.subscribe(URI, timeout=1e-9)
        server.methods[LISTEN] = server.listen
        await client.subscribe(URI)
        await until(lambda: len(server.ids(LISTEN)) - len(server.cancelled()) == 1)


async def test_timed_out_subscribe_keeps_subscriptions_of_others():
    """After a restart the server is slow to acknowledge the shared subscription."""
    server = CrashingServer(STATELESS)
    async with (
        mcpwire.Client(server, **QUICK) as client,
        client.listen([URI]) as changes,
    ):
        server.methods[LISTEN] = lambda *_: SILENCE
        server.die()
        await until(lambda: len(server.lives) == 2 and server.ids(LISTEN))
        with pytest.raises(mcpwire.RequestTimeout):
            await client.subscribe(URI, timeout=0.05)
        (id,) = server.ids(LISTEN)
        assert server.cancelled() == []
        server.acknowledge(id, {"resourceSubscriptions": [URI]})
        server.updated(id)
        assert await changes.next(BOUND_S) is not None


async def test_listen_ended_by_a_server_error_raises_it():
    server = CrashingServer(STATELESS)
    async with (
        mcpwire.Client(server, **QUICK) as client,
        client.listen([URI]) as changes,
    ):
        (id,) = server.ids(LISTEN)
        server.send(failure(id, RPCError("out of order", code=-32603)))
        with pytest.raises(RPCError, match="out of order"):
            await asyncio.wait_for(anext(changes), SOON_S)


async def test_refused_resource_fails_only_its_own_subscribe():
    release = asyncio.Event()

    def subscribe(params, server):
        id = server.current["id"]
        uri = params["uri"]

        async def later():
            await release.wait()
            answer = {"jsonrpc": "2.0", "id": id}
            if uri.endswith("bad"):
                answer["error"] = {"code": -32602, "message": "no such resource"}
            else:
                answer["result"] = {}
            server.send(answer)

        tasks.append(asyncio.ensure_future(later()))
        return SILENCE

    tasks = []
    server = CrashingServer(resources_subscribe=subscribe)
    async with mcpwire.Client(server, **QUICK) as client:
        calls = [
            asyncio.ensure_future(client.subscribe(f"file:///{name}"))
            for name in ("first", "good", "bad")
        ]
        await until(lambda: tasks)
        release.set()
        first, good, bad = await asyncio.gather(*calls, return_exceptions=True)
        assert first is None
        assert isinstance(bad, RPCError)
        assert good is None


async def test_resource_refused_after_restart_fails_no_other_subscribe():
    gone = []

    def subscribe(params, _):
        if params["uri"] in gone:
            return RPCError("no such resource", code=-32602)
        return {}

    server = CrashingServer(resources_subscribe=subscribe)
    async with mcpwire.Client(server, **QUICK) as client:
        await client.subscribe("file:///a")
        gone.append("file:///a")
        server.die()
        await until(lambda: len(server.lives) == 2 and client.is_connected)
        await client.subscribe("file:///b")
        await client.unsubscribe("file:///b")


async def test_closing_an_old_stream_keeps_the_new_subscription():
    server = CrashingServer(STATELESS)
    async with mcpwire.Client(server, **QUICK) as client:
        old = await client.listen([URI]).__aenter__()
        await client.aclose()
        await client.connect()
        async with client.listen([URI]) as new:
            (id,) = server.ids(LISTEN)
            await old.aclose()
            assert server.cancelled() == []
            server.updated(id)
            assert await new.next(BOUND_S) is not None


async def test_event_stream_created_before_connect_receives_events():
    """A server that closes at the probe does not end the stream."""
    server = CrashingServer()
    answer = server.answer

    def ends_at_a_probe(request):
        if request["method"] == "server/discover":
            server.die()
        else:
            answer(request)

    server.answer = ends_at_a_probe
    client = mcpwire.Client(server, **QUICK)
    events = client.events()
    async with client:
        assert len(server.lives) == 2
        server.notify("notifications/tools/list_changed")
        assert await events.next(BOUND_S) is not None
        await events.aclose()


async def test_close_after_failed_reconnects_drops_subscriptions():
    server = CrashingServer()
    open_in_memory = server.open_in_memory

    def refused(*_):
        raise mcpwire.ConnectError("no")

    async with mcpwire.Client(server, **QUICK) as client:
        await client.subscribe(URI)
        await client.set_log_level("debug")
        server.open_in_memory = refused
        await server.lose(client)
        with pytest.raises(mcpwire.ConnectError):
            await client.call_tool("x")
        await client.aclose()
        server.open_in_memory = open_in_memory
        await client.connect()
        assert server.requests("resources/subscribe") == []
        assert server.requests("logging/setLevel") == []


async def test_queued_handlers_release_their_space_on_connection_loss():
    tasks = InboundTasks(limit=1, backlog=10, room=100)

    async def handler():
        await asyncio.Event().wait()

    for life in range(3):
        refused = []
        tasks.start(1, handler, refused.append, 10)
        tasks.start(2, handler, refused.append, 60)
        assert refused == [], life
        await asyncio.wait(tasks.close())
        await until(lambda: not len(tasks))


@on_a_virtual_clock
async def test_repeated_call_keeps_its_timeout_with_a_busy_handler():
    busy = asyncio.Event()

    async def roots():
        busy.set()
        await asyncio.Event().wait()

    def tools(_, server):
        if len(server.lives) == 1:
            server.send({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
        return SILENCE

    server = CrashingServer(tools_list=tools)
    client = mcpwire.Client(server, roots=roots, recovery=AT_ONCE)
    async with asyncio.timeout(BOUND_S), client:
        call = asyncio.ensure_future(client.list_tools(timeout=0.2))
        await busy.wait()
        server.die()
        with pytest.raises(mcpwire.RequestTimeout):
            await asyncio.wait_for(call, SOON_S)
        assert len(server.lives) == 2


async def test_keepalive_detects_a_server_that_stopped_reading():
    server = CrashingServer()
    limits = Limits(unwritten=1_000)
    async with mcpwire.Client(
        server, keepalive=0.05, limits=limits, recovery=AT_ONCE
    ) as client:
        channel = client._connection.channel
        channel._write = lambda _: None  # the peer stopped reading
        for _ in range(50):
            try:
                await client.notify("notifications/x", {"fill": "x" * 300})
            except mcpwire.TransportError:
                break
        channel._queued = channel._written + 995
        await until(lambda: channel.lost is not None, 0.01)


async def test_traceback_of_a_shared_error_does_not_grow():
    server = CrashingServer()

    def refused(*_):
        raise mcpwire.ConnectError("no")

    def length(error):
        traceback, count = error.__traceback__, 0
        while traceback is not None:
            traceback, count = traceback.tb_next, count + 1
        return count

    recovery = mcpwire.Recovery(backoff_initial=0.001, attempts=1)
    async with mcpwire.Client(server, recovery=recovery) as client:
        await client.call_tool("x")
        server.open_in_memory = refused
        await server.lose(client)
        lengths = []
        for _ in range(50):
            with pytest.raises(mcpwire.ConnectError) as caught:
                await client.call_tool("x")
            lengths.append(length(caught.value))
        assert lengths[-1] == lengths[5]


async def test_discover_waits_for_a_reconnect():
    server = CrashingServer(STATELESS)
    async with mcpwire.Client(server, **QUICK) as client:
        await server.lose(client)
        call = asyncio.ensure_future(client.call_tool("x"))
        await until(lambda: "connecting" in repr(client))
        await client.discover()
        await call


async def test_next_times_out_with_none_during_a_reconnect():
    server = CrashingServer()
    async with mcpwire.Client(server, **QUICK) as client, client.events() as events:
        server.methods["initialize"] = lambda *_: SILENCE
        await server.lose(client)
        assert await events.next(0.05) is None


async def test_watch_without_server_support_is_refused():
    server = CrashingServer(SESSION)
    server.members["capabilities"] = {"resources": {}}
    async with mcpwire.Client(server, **QUICK) as client:
        with pytest.raises(mcpwire.LocalProtocolError, match="sends no notifications"):
            await anext(client.watch(URI))


@pytest.mark.parametrize("ends", ["client", "watch"])
async def test_a_watch_ends_with_its_client_or_unread_by_its_own_close(ends):
    server = CrashingServer(STATELESS)
    async with mcpwire.Client(server, **QUICK) as client:
        watch = client.watch(URI)
        if ends == "client":
            await anext(watch)
        await (client if ends == "client" else watch).aclose()
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(watch)
        assert len(server.ids(LISTEN)) == (ends == "client")


@pytest.mark.parametrize("uris", [None, [URI]])
async def test_stream_closed_while_opening_leaves_no_subscription(uris):
    server = CrashingServer(STATELESS)
    server.methods[LISTEN] = lambda *_: SILENCE
    async with mcpwire.Client(server, **QUICK) as client:
        stream = client.events() if uris is None else client.listen(uris)
        step = asyncio.ensure_future(stream.next())
        await until(lambda: server.ids(LISTEN))
        await stream.aclose()
        (id,) = server.ids(LISTEN)
        server.acknowledge(id, server.requests(LISTEN)[0]["notifications"])
        assert await step is None
        assert client.subscribed == frozenset()
        await until(lambda: server.cancelled() == [id])


async def test_closed_client_does_not_answer_from_its_cache():
    server = CrashingServer(STATELESS)
    server.methods["tools/list"] = lambda *_: server.done(
        tools=[], ttlMs=60_000, cacheScope="private"
    )
    async with mcpwire.Client(server, cache=True, **QUICK) as client:
        await client.list_tools()
        await client.aclose()
        with pytest.raises(mcpwire.LocalProtocolError):
            await client.list_tools()


@pytest.mark.parametrize("dies", [False, True])
async def test_era_change_is_found_when_the_old_handshake_fails(dies):
    """The remembered era is dropped however the handshake fails."""
    server = CrashingServer(SESSION)

    def initialize(*_):
        if dies:
            server.die()
        return SILENCE

    async with mcpwire.Client(server, connect_timeout=0.2, **QUICK) as client:
        await client.call_tool("x")
        server.version = STATELESS
        server.methods["initialize"] = initialize
        await server.lose(client)
        assert (await client.call_tool("x")).text == "done"
        assert client.protocol_version == STATELESS


async def test_server_request_before_the_new_handshake_is_refused():
    server = CrashingServer(SESSION)
    async with mcpwire.Client(server, roots=[], **QUICK) as client:
        await client.call_tool("x")
        outcome = server.outcome

        def request_early(method, params):
            if method == "initialize":
                server.send({"jsonrpc": "2.0", "id": 77, "method": "roots/list"})
            return outcome(method, params)

        server.outcome = request_early
        await server.lose(client)
        await client.call_tool("x")
        (answer,) = [m for m in server.received if m.get("id") == 77]
        assert answer["error"]["code"] == -32601


async def test_notify_during_a_reconnect_raises_connection_closed():
    server = CrashingServer(SESSION)
    async with mcpwire.Client(server, roots=[], **QUICK) as client:
        await server.lose(client)
        call = asyncio.ensure_future(client.call_tool("x"))
        await until(lambda: client._connection.channel is None)
        with pytest.raises(mcpwire.ConnectionClosed, match="lost") as caught:
            await client.notify_roots_changed()
        assert caught.value.sent is False
        await call


def test_client_starts_afresh_in_a_second_loop():
    server = CrashingServer(STATELESS)
    client = mcpwire.Client(server, **QUICK)
    streams = []

    async def first():
        await client.connect()
        await client.subscribe(URI)
        streams.append(await client.events().__aenter__())

    async def second():
        async with asyncio.timeout(BOUND_S), client:
            assert server.requests(LISTEN) == []
            async with client.listen([URI]) as changes:
                (id,) = server.ids(LISTEN)
                await streams[0].aclose()
                server.updated(id)
                assert await changes.next(BOUND_S) is not None

    asyncio.run(first())
    asyncio.run(second())
    asyncio.run(second())
