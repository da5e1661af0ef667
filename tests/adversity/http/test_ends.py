"""How connections end: closed at any time, never closed, cancelled at each step."""

import asyncio
import contextlib
import gc
import threading
import warnings

import pytest
from faulty import (
    ANSWER,
    BOUND_S,
    QUICK,
    answering,
    client_of,
    never,
    outcome,
    stream,
    until,
)
from living import living
from mcp_server import scripted_mcp
from raw_server import chunk, reply, sse_event, sse_head
from schedule import cancel_everywhere

import mcpwire
from mcpwire import ConnectionClosed, MCPError
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.http_reply import Reply
from mcpwire.transports.http.streamable import HttpChannel


async def no_tasks_except(before):
    await until(lambda: asyncio.all_tasks() <= before)


async def count_deletes_with_stuck_notifications():
    """Return how many DELETE requests arrive while two notifications are stuck."""
    async with client_of(on={"notifications/x": never}) as (server, client):
        notifying = asyncio.ensure_future(outcome(client.notify("notifications/x")))
        await until(lambda: "notifications/x" in server.verbs())
        server.on["notifications/cancelled"] = never
        while not server.executed:  # a loaded machine may not send it in that time
            error = await outcome(client.call_tool("slow", timeout=0.1))
            assert isinstance(error, mcpwire.RequestTimeout)
        await until(lambda: "notifications/cancelled" in server.verbs())
        await client.aclose()
        await notifying
        server.release()
    return server.verbs().count("DELETE")


@pytest.mark.pain("P25")
async def test_stuck_notification_does_not_prevent_the_delete_request():
    """The DELETE has one second, which a loaded machine may miss: several attempts."""
    for _ in range(8):
        if deletes := await count_deletes_with_stuck_notifications():
            break
    assert deletes == 1


COME_BACK = reply(503, retry_after="90")
RESUME = stream(sse_event("", id="place-1", retry=60_000))


@pytest.mark.pain("P25")
@pytest.mark.parametrize(
    ("era", "reply_data"),
    [("session", COME_BACK), ("stateless", COME_BACK), ("session", RESUME)],
)
@pytest.mark.usefixtures("patient_close")
async def test_closing_ends_a_call_that_waits_for_its_retry(era, reply_data):
    """The server names the retry time, for the call or for its event stream."""
    on = {"tools/call": answering(reply_data)}
    async with client_of(era, on=on, server_stream="never") as (server, client):
        call = asyncio.ensure_future(outcome(client.call_tool("echo", timeout=None)))
        await until(lambda: "tools/call" in server.verbs())
        await asyncio.sleep(0.02)  # it is in its pause by then, or soon after
        await client.aclose()
        error = await call
        assert isinstance(error, ConnectionClosed if reply_data is RESUME else MCPError)
    assert server.verbs().count("tools/call") == 1
    assert "GET" not in server.verbs()


@pytest.mark.parametrize("where", ["handler", "notification", "progress", "trace"])
async def test_callbacks_may_close_the_client(where):
    closing = []

    def close():
        if not closing:
            closing.append(asyncio.ensure_future(client.aclose()))

    async def sampling(request):
        if where == "handler":
            await client.aclose()
        return ANSWER

    def on_notification(notification):
        if where == "notification":
            close()

    def trace(event, data):
        if where == "trace" and event == "request" and "tools/call" in str(ready):
            close()

    ready = []
    with scripted_mcp() as server:
        before = asyncio.all_tasks()
        client = mcpwire.Client(
            server.url, sampling=sampling, on_notification=on_notification, trace=trace
        )
        await client.connect()
        ready.append("tools/call")
        progress = {}
        if where == "progress":
            progress = {"on_progress": lambda *_: close()}
        tool = "ask" if where == "handler" else "notify"
        error = await outcome(client.call_tool(tool, {"steps": 3}, **progress))
        del error
        await client.aclose()
        await no_tasks_except(before)
        ready.clear()
        await client.connect()
        await client.aclose()
        server.release()


@pytest.mark.pain("P25")
@pytest.mark.usefixtures("patient_close")
async def test_closing_during_session_renewal_ends_the_call():
    async with client_of() as (server, client):
        server.forget_sessions()
        server.on["initialize"] = never
        call = asyncio.ensure_future(outcome(client.call_tool("echo")))
        await until(lambda: server.verbs().count("initialize") == 2)
        await client.aclose()
        assert isinstance(await call, MCPError)


class Engine:
    """An engine that sends nothing, and records that it was closed."""

    target, bytes_sent, is_closed = "http://127.0.0.1:9/", 0, False

    async def aclose(self):
        self.is_closed = True


async def test_engine_is_closed_although_closing_is_cancelled_twice():
    may_end = asyncio.Event()

    async def stay():
        while not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_end.wait()

    engine = Engine()
    channel = HttpChannel(
        mcpwire.Http(engine.target), engine, None, limits=DEFAULT_LIMITS, recovery=QUICK
    )
    left = channel.spawn(stay)
    closing = asyncio.create_task(channel.aclose())
    for _ in range(2):
        await asyncio.sleep(0)  # one loop iteration
        await asyncio.sleep(0)  # one loop iteration
        assert not engine.is_closed
        closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert engine.is_closed
    may_end.set()
    await left


TARGETS = pytest.mark.parametrize(
    ("era", "replies"), [("session", "json"), ("session", "sse"), ("stateless", "json")]
)

OPERATIONS = {
    "call": lambda client: client.call_tool("echo"),
    "progress": lambda client: client.call_tool("notify", on_progress=lambda *_: None),
    "list": lambda client: client.list_tools(),
    "ping": lambda client: client.ping(),
    "notify": lambda client: client.notify("notifications/x"),
}


LATER = (1, 2)
"""Never the last step of an inner task: its result would be lost."""


@pytest.mark.fault("F42")
@TARGETS
@pytest.mark.parametrize("name", OPERATIONS)
async def test_cancelling_a_request_at_each_step_leaks_nothing(
    era, replies, name, monkeypatch
):
    async def once(schedule):
        await schedule.run(lambda: OPERATIONS[name](client))
        assert client.is_connected
        await no_tasks_except(before)

    async with client_of(era, replies=replies) as (server, client):
        await client.call_tool("echo")
        before = asyncio.all_tasks()
        assert await cancel_everywhere(once, monkeypatch, LATER) >= 2
        assert len(living(Reply)) <= (era == "session")  # that of the GET stream
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    if era == "session":

        def all_were_requested():
            found = list(server.requests)
            ids = {r.json["id"] for r in found if r.method and "id" in r.json}
            return ids >= {
                r.json["params"]["requestId"]
                for r in found
                if r.method == "notifications/cancelled"
            }

        # A request may reach its thread of the server after its cancellation.
        await until(all_were_requested)


@pytest.mark.fault("F42")
@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_cancelling_connect_at_each_step_leaks_nothing(era, monkeypatch):
    async def once(schedule):
        client = mcpwire.Client(server.url)
        task = await schedule.run(client.connect)
        if task.cancelled():
            assert not client.is_connected
            await no_tasks_except(before)
        await client.aclose()
        await no_tasks_except(before)

    with scripted_mcp(era) as server:
        async with asyncio.timeout(60):
            before = asyncio.all_tasks()
            assert await cancel_everywhere(once, monkeypatch, LATER) >= 6
            await until(lambda: not server.raw.open)


@pytest.mark.fault("F42")
@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_cancelling_close_at_each_step_leaks_nothing(era, monkeypatch):
    async def once(schedule):
        client = mcpwire.Client(
            mcpwire.Http(server.url, server_stream="always"),
            on_notification=lambda _: None,
        )
        await client.connect()
        slow = asyncio.ensure_future(outcome(client.call_tool("slow")))
        await until(lambda: server.executed)
        server.executed.clear()
        await schedule.run(client.aclose)
        await client.aclose()
        await slow
        await no_tasks_except(before)

    with scripted_mcp(era) as server:
        async with asyncio.timeout(60):
            before = asyncio.all_tasks()
            assert await cancel_everywhere(once, monkeypatch, (1,)) >= 3
            server.release()
            await until(lambda: not server.raw.open)


@pytest.mark.fault("F42")
@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_cancelling_subscribe_at_each_step_leaves_no_subscription(
    era, monkeypatch
):
    async def once(schedule):
        task = await schedule.run(lambda: client.subscribe("memo://one"))
        if not task.cancelled():
            await client.unsubscribe("memo://one")
        assert client.subscribed == frozenset()

    async with client_of(era) as (server, client):
        before = asyncio.all_tasks()
        assert await cancel_everywhere(once, monkeypatch, LATER) >= 3
        await client.call_tool("echo")
        if era == "stateless":
            await no_tasks_except(before)
            await until(lambda: not server.streams)
            assert living(Reply) == []


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_unclosed_client_leaves_only_a_resource_warning(era):
    with scripted_mcp(era) as server:
        before = asyncio.all_tasks()
        target = mcpwire.Http(server.url, server_stream="always")
        client = mcpwire.Client(target, on_notification=lambda _: None, roots=[])
        await client.connect()
        await client.call_tool("echo")
        await until(lambda: server.streams)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del client
            gc.collect()
        texts = [str(w.message) for w in caught if w.category is ResourceWarning]
        assert any("unclosed" in text for text in texts), texts
        assert not any("killed" in text for text in texts), texts
        await no_tasks_except(before)
        await until(lambda: not server.raw.open)


async def test_unclosed_client_with_a_pausing_stream_leaves_no_task():
    with scripted_mcp(retry=60_000, resumable=True) as server:
        before = asyncio.all_tasks()
        target = mcpwire.Http(server.url, server_stream="always")
        client = mcpwire.Client(target)
        await client.connect()
        await until(lambda: server.streams)
        received = client.stats.bytes_received
        server.close_streams()
        while client.stats.bytes_received == received:  # noqa: ASYNC110 - as `until`
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # the stream pauses
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            del client
            gc.collect()
        await no_tasks_except(before)


@pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning")
def test_client_is_usable_after_its_event_loop_ended():
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, server_stream="always")
        client = mcpwire.Client(target, on_notification=lambda _: None)

        async def use(*, closes):
            async with asyncio.timeout(BOUND_S):
                await client.connect()
                await client.call_tool("echo")
                await until(lambda: server.streams)
                if closes:
                    await client.aclose()

        threads = threading.active_count()
        with asyncio.Runner() as runner:
            runner.run(use(closes=False))
        with asyncio.Runner() as runner:
            runner.run(use(closes=True))
        asyncio.run(until(lambda: threading.active_count() <= threads + 4))
        gc.collect()  # here, where its warning is expected


async def test_unsent_resumption_does_not_repeat_the_call(monkeypatch):
    """An unsent GET does not mean that the POST before it was unsent."""
    from mcpwire.transports.http.direct import DirectEngine

    exchange = DirectEngine.exchange

    async def lossy(self, request, reply):
        if request.verb == "GET":
            raise ConnectionClosed("nothing of it was sent", sent=False)
        await exchange(self, request, reply)

    def breaks(request, conn):
        server.executed.append(("echo", {}, request.json["id"]))
        conn.send(sse_head() + chunk(sse_event("", id="place-1", retry=1)))
        conn.close()
        return True

    async with client_of(on={"tools/call": breaks}, recovery=QUICK) as (server, client):
        monkeypatch.setattr(DirectEngine, "exchange", lossy)
        error = await outcome(client.call_tool("echo"))
        assert isinstance(error, ConnectionClosed), error
        assert error.sent
        monkeypatch.undo()
    assert len(server.executed) == 1
