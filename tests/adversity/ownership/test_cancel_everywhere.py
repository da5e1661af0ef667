"""Cancelling any operation at each step leaks nothing.

Each test runs its operation once for each possible step (see `schedule`), over a real
child and in memory.
"""

import asyncio

import pytest
from fakes import FakeServer, text
from schedule import Remains, cancel_everywhere
from shell_server import quick

import mcpwire

pytestmark = pytest.mark.fault("F42")

MODES = pytest.mark.parametrize("mode", ["auto", "session"])


def pages(params, _):
    number = int(params.get("cursor", "0")) + 1
    return {"tools": [], **({"nextCursor": str(number)} if number < 3 else {})}


METHODS = {"tools/call": lambda *_: text("ok"), "tools/list": pages}


def in_memory(version="2025-11-25"):
    return FakeServer(METHODS, version=version)


class SlowServer(FakeServer):
    """A server that answers some loop iterations later: requests are pending."""

    def answer(self, request):
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, super().answer, request)


TARGETS = pytest.mark.parametrize(
    "target",
    [quick, in_memory, lambda: in_memory("2026-07-28")],
    ids=["child", "memory", "memory, stateless"],
)


async def connect_and_undo(schedule, client, remains):
    """Connect under the schedule; with any outcome, nothing is left afterwards."""
    task = await schedule.run(client.connect)
    if task.cancelled():
        remains.assert_none()  # the cancelled connect waited for its cleanup
        assert not client.is_connected
    else:
        task.result()
        assert client.is_connected
    await client.aclose()
    remains.assert_none()


@pytest.mark.pain("P10")
@MODES
@TARGETS
async def test_cancelling_connect_at_each_step_leaks_nothing(target, mode, monkeypatch):
    async def once(schedule):
        mode_there = "auto" if mode == "auto" else client_mode(target)
        client = mcpwire.Client(target(), mode=mode_there)
        await connect_and_undo(schedule, client, remains)

    remains = Remains()
    assert await cancel_everywhere(once, monkeypatch) >= 10


def client_mode(target):
    server = target()
    return "stateless" if getattr(server, "version", "") == "2026-07-28" else "session"


@TARGETS
async def test_cancelling_a_whole_use_at_each_step_leaks_nothing(target, monkeypatch):
    async def once(schedule):
        client = mcpwire.Client(target())

        async def use():
            async with client:
                await client.call_tool("x")

        await schedule.run(use)
        await client.aclose()
        remains.assert_none()

    remains = Remains()
    assert await cancel_everywhere(once, monkeypatch) >= 12


OPERATIONS = pytest.mark.parametrize(
    "operate",
    [
        lambda client: client.call_tool("x"),
        lambda client: client.call_tool("x", on_progress=lambda *_: None),
        lambda client: client.list_tools(),
        lambda client: client.ping(),
    ],
    ids=["call", "call with progress", "list", "ping"],
)


@TARGETS
@OPERATIONS
async def test_cancelling_a_request_at_each_step_keeps_the_connection(
    operate, target, monkeypatch
):
    async def once(schedule):
        await schedule.run(lambda: operate(client))
        assert not client._connection.channel._peer.outstanding
        remains.assert_none()

    async with mcpwire.Client(target()) as client:
        remains = Remains()
        assert await cancel_everywhere(once, monkeypatch) >= 2
        assert (await client.call_tool("x")).text
        assert client.stats.connections == 1


@pytest.mark.pain("P09")
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@OPERATIONS
async def test_cancelling_a_sent_request_sends_one_cancellation(
    operate, version, monkeypatch
):
    server = SlowServer(METHODS, version=version)

    async def once(schedule):
        before = len(server.received)
        task = await schedule.run(lambda: operate(client))
        await client.call_tool("behind it")  # everything sent before it has arrived
        *seen, behind = server.received[before:]
        assert behind["method"] == "tools/call"
        request_ids = [m["id"] for m in seen if "id" in m]
        cancelled_ids = [
            m["params"]["requestId"]
            for m in seen
            if m["method"] == "notifications/cancelled"
        ]
        assert cancelled_ids in ([], request_ids[-1:])
        if task.cancelled():
            cancelled_in_flight[0] += cancelled_ids == request_ids[-1:] != []
        else:
            assert cancelled_ids == []

    cancelled_in_flight = [0]
    async with mcpwire.Client(server) as client:
        await cancel_everywhere(once, monkeypatch)
    assert cancelled_in_flight[0] >= 2


# Subscriptions, events and reconnecting...

URI = "file:///a"
STATELESS = "2026-07-28"
AT_ONCE = mcpwire.Recovery(backoff_initial=0.001, backoff_max=0.002)
VERSIONS = pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True},
    "logging": {},
}


class SubscribableServer(FakeServer):
    """A server with subscriptions, which counts the open ones."""

    def __init__(self, version):
        super().__init__(
            {
                "tools/call": lambda *_: self.done(text("ok")),
                "resources/read": lambda *_: self.done(
                    {"contents": [{"uri": URI, "text": "now"}]}
                ),
                "resources/subscribe": lambda *_: self.subscribed(1),
                "resources/unsubscribe": lambda *_: self.subscribed(-1),
                "logging/setLevel": lambda *_: {},
                "subscriptions/listen": self.listen,
            },
            version=version,
            capabilities=CAPABILITIES,
        )
        self.subscriptions = 0

    def done(self, result):
        if self.version != STATELESS:
            return result
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}

    def subscribed(self, change):
        self.subscriptions += change
        return {}


async def listen(client):
    async with client.listen([URI], tools=True) as changes:
        assert changes.acknowledged is not None


async def watch(client):
    async with client.watch(URI) as contents:
        content = await anext(contents)
        assert content.text == "now"


async def next_event(client):
    events = client.events()
    try:
        await anext(events)
    finally:
        await events.aclose()


async def subscribe(client):
    await client.subscribe(URI)
    await client.unsubscribe(URI)


async def start(client):
    call = await client.start_call("x")
    assert (await call).text == "ok"


async def level(client):
    await client.set_log_level("error")


USES = pytest.mark.parametrize("use", [listen, watch, subscribe, start, level])


@VERSIONS
@USES
async def test_cancelling_a_use_at_each_step_keeps_the_connection(
    use, version, monkeypatch
):
    server = SubscribableServer(version)

    async def once(schedule):
        await schedule.run(lambda: use(client))
        # Cleanup requests to the server may end by themselves, but soon.
        for _ in range(100):
            await asyncio.sleep(0)
        remains.assert_none()
        assert (await client.call_tool("x")).text == "ok"

    async with mcpwire.Client(server) as client:
        remains = Remains()
        moments = await cancel_everywhere(once, monkeypatch)
        assert moments >= (1 if use is level else 2)
        assert client.stats.connections == 1
        for _ in range(3):
            await use(client)


@VERSIONS
async def test_cancelling_an_event_iteration_leaks_nothing(version, monkeypatch):
    server = SubscribableServer(version)

    async def once(schedule):
        listening = asyncio.create_task(schedule.run(lambda: next_event(client)))
        for _ in range(20):
            await asyncio.sleep(0)
        if not schedule.fired:
            server.send({"jsonrpc": "2.0", "method": "notifications/x"})
        await listening
        for _ in range(100):
            await asyncio.sleep(0)
        remains.assert_none()

    async with mcpwire.Client(server) as client:
        remains = Remains()
        await cancel_everywhere(once, monkeypatch)
        assert (await client.call_tool("x")).text == "ok"


@VERSIONS
@pytest.mark.parametrize("beside", [0, 3])
async def test_call_waiting_for_a_reconnect_may_be_cancelled(
    version, beside, monkeypatch
):
    """The call opens the connection itself, or others wait for the same one."""
    server = SubscribableServer(version)
    client = mcpwire.Client(server, recovery=AT_ONCE)

    async def once(schedule):
        await client.connect()
        await server.channel.aclose()
        await asyncio.sleep(0)
        others = [asyncio.create_task(client.call_tool("x")) for _ in range(beside)]
        await schedule.run(lambda: client.call_tool("x"))
        # Each later caller gets a connection, whatever the cancelled one did.
        results = [*await asyncio.gather(*others), await client.call_tool("x")]
        assert {result.text for result in results} == {"ok"}
        await client.aclose()
        remains.assert_none()

    remains = Remains()
    assert await cancel_everywhere(once, monkeypatch) >= (1 if beside else 8)
