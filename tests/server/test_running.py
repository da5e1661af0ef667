"""Running handlers: concurrency, cancellation, closed streams, one response each."""

import asyncio
import sys

import pytest
from raw_client import (
    STAMP,
    TIMEOUT_S,
    Hand,
    failure,
    modern,
    notice,
    request,
    server,
    session,
    success,
)

from mcpwire import Client, Limits, LocalProtocolError, TransportError

TOOLS = {"tools": {}}


class Gate:
    """A tool that waits until the test opens it, and records how each call ended."""

    def __init__(self):
        self.open = asyncio.Event()
        self.running = []
        self.max_running = 0
        self.ended = []
        self.requests = {}
        self._changed = asyncio.Event()

    async def __call__(self, params, request):
        name = params["name"]
        self.running.append(name)
        self.max_running = max(self.max_running, len(self.running))
        self.requests[name] = request
        self._changed.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.ended.append((name, "cancelled", request.is_cancelled))
            raise
        else:
            self.ended.append((name, "finished", request.is_cancelled))
        finally:
            self.running.remove(name)
            self._changed.set()
        return {"content": [{"type": "text", "text": name}]}

    async def wait_running(self, count):
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.running) != count:
                self._changed.clear()
                await self._changed.wait()


def call(id, name=None, **meta):
    return request(id, "tools/call", {"name": name or str(id)}, meta or None)


def call_alone(id):
    return modern(id, "tools/call", {"name": str(id)})


def text(id, text, **more):
    return success(id, {"content": [{"type": "text", "text": text}], **more})


def gated(version="2025-11-25", **options):
    gate = Gate()
    return gate, Hand(server({"tools/call": gate}, TOOLS, **options), version)


@pytest.mark.rule("CAN-05", "TR-STDIO-11")
@pytest.mark.parametrize("ask", [call, call_alone])
async def test_cancelled_request_stops_and_gets_no_response(ask):
    gate, wire = gated()
    wire.send(ask(1))
    await gate.wait_running(1)
    wire.send(notice("notifications/cancelled", requestId=1, reason="enough"))
    assert await wire.settled() == []
    assert gate.ended == [("1", "cancelled", True)]


@pytest.mark.rule("CAN-06", "CAN-08")
async def test_cancelling_an_unknown_or_answered_request_is_ignored():
    gate, wire = gated()
    wire.send(call(1), call("1"))
    await gate.wait_running(2)
    wire.send(notice("notifications/cancelled", requestId="2"))
    wire.send(notice("notifications/cancelled", requestId=[1]))
    gate.open.set()
    assert [await wire.next(), await wire.next()] == [text(1, "1"), text("1", "1")]
    wire.send(notice("notifications/cancelled", requestId=1))
    assert await wire.ask(call(3)) == [text(3, "3")]


async def test_cancelled_waiting_request_never_runs():
    gate, wire = gated(limits=Limits(inbound=1))
    wire.send(call(1), call(2), call(3))
    await gate.wait_running(1)
    wire.send(notice("notifications/cancelled", requestId=2))
    gate.open.set()
    assert await wire.settled() == [text(1, "1"), text(3, "3")]
    assert [name for name, *_ in gate.ended] == ["1", "3"]


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="a handler starts eagerly there"
)
async def test_request_cancelled_in_the_same_read_never_runs():
    gate, wire = gated()
    wire.send(call(1), notice("notifications/cancelled", requestId=1))
    assert await wire.settled() == []
    assert gate.ended == []


@pytest.mark.pain("P18")
async def test_handler_surviving_cancellation_sends_no_response():
    released = asyncio.Event()
    cancelled = []

    async def stubborn(params, request):
        if params["name"] == "stubborn":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append("cancelled")
                await released.wait()
            request.progress(1)
        await released.wait()
        return {"content": [{"type": "text", "text": params["name"]}]}

    wire = Hand(server({"tools/call": stubborn}, TOOLS), "2025-11-25")
    wire.send(call(1, "stubborn", progressToken="t"))
    await asyncio.sleep(0)
    wire.send(notice("notifications/cancelled", requestId=1))
    wire.send(call(1, "second"))  # the id can be used again
    released.set()
    assert await wire.settled() == [text(1, "second")]
    assert cancelled == ["cancelled"]


@pytest.mark.rule("CAN-05")
async def test_cancelled_client_call_stops_the_handler():
    gate = Gate()
    async with Client(server({"tools/call": gate}, TOOLS)) as client:
        task = asyncio.create_task(client.call_tool("one"))
        await gate.wait_running(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.open.set()
        assert (await client.call_tool("two")).text == "two"
    assert gate.ended == [("one", "cancelled", True), ("two", "finished", False)]


async def test_closing_the_client_cancels_running_handlers():
    gate = Gate()
    client = Client(server({"tools/call": gate}, TOOLS))
    await client.connect()
    calls = [asyncio.create_task(client.call_tool(str(n))) for n in range(3)]
    await gate.wait_running(3)
    await client.aclose()
    for task in calls:
        with pytest.raises(TransportError):
            await task
    await gate.wait_running(0)
    assert sorted(gate.ended) == [(str(n), "cancelled", True) for n in range(3)]


async def test_handler_running_after_the_close_sends_nothing():
    gate, wire = gated()
    wire.send(call(1, progressToken="t"))
    await gate.wait_running(1)
    await wire.connection.aclose()
    request = gate.requests["1"]
    assert (request.is_cancelled, request.is_open) == (True, False)
    request.progress(1)
    assert wire.rest() == []
    await wire.connection.aclose()


@pytest.mark.attack("S13")
async def test_running_and_waiting_requests_are_limited():
    gate, wire = gated(limits=Limits(inbound=3, notifications=2))
    wire.send(*(call(n) for n in range(7)))
    await gate.wait_running(3)
    full = "too many requests are waiting already"
    assert wire.rest() == [failure(5, -32603, full), failure(6, -32603, full)]
    gate.open.set()
    answers = await wire.settled()
    assert {answer["id"] for answer in answers} == set(range(5))
    assert gate.max_running == 3


@pytest.mark.rule("PING-01")
@pytest.mark.case("F04")
async def test_ping_is_answered_before_slow_handlers():
    gate, wire = gated(limits=Limits(inbound=1))
    wire.send(call(1), call(2), request(3, "ping"))
    assert await wire.next() == success(3, {})
    gate.open.set()
    assert await wire.settled() == [text(1, "1"), text(2, "2")]


@pytest.mark.attack("S31")
async def test_duplicate_id_in_flight_gets_no_second_response():
    gate, wire = gated()
    wire.send(call(1, "first"), call(1, "second"), call("1", "third"))
    await gate.wait_running(2)
    gate.open.set()
    assert await wire.settled() == [text(1, "first"), text("1", "third")]
    assert await wire.ask(call(1, "again")) == [text(1, "again")]


@pytest.mark.attack("S10")
async def test_equal_ids_on_two_connections_are_independent():
    gate = Gate()
    both = server({"tools/call": gate}, TOOLS)
    one, two = Hand(both, "2025-11-25"), Hand(both)
    one.send(call(1, "one"))
    two.send(modern(1, "tools/call", {"name": "two"}))
    await gate.wait_running(2)
    two.send(notice("notifications/cancelled", requestId=1))
    gate.open.set()
    assert await one.settled() == [text(1, "one")]
    assert await two.settled() == []


@pytest.mark.rule("RPC-13")
async def test_batch_at_2025_03_26_gets_one_batch_response():
    gate, wire = gated("2025-03-26")
    wire.send(
        [call(1), request(2, "ping"), notice("notifications/x"), request(3, "no/such")]
    )
    wire.send(request(4, "ping"))
    await gate.wait_running(1)
    assert wire.rest() == [success(4, {})]
    gate.open.set()
    [batch] = await wire.settled()
    assert batch == [
        success(2, {}),
        failure(3, -32601, "'no/such' is not a method of this server at 2025-03-26"),
        text(1, "1"),
    ]


@pytest.mark.rule("RPC-14")
async def test_initialize_in_a_batch_is_refused():
    _, wire = gated("2025-03-26")
    again = request(2, "initialize", session("2025-03-26"))
    assert await wire.ask([again]) == [
        [failure(2, -32600, "initialize must not be part of a batch")]
    ]


@pytest.mark.rule("RPC-15", "RPC-08")
@pytest.mark.parametrize("version", [None, "2025-11-25", "2025-06-18", "2024-11-05"])
async def test_batch_at_another_revision_runs_no_handler(version):
    gate, wire = gated(version)
    wire.send([call(1), call(2)])
    refusal = {
        "jsonrpc": "2.0",
        "error": {
            "code": -32600,
            "message": "batches belong to revision 2025-03-26 only",
        },
    }
    # Only revisions with errors without an id can report it.
    expected = [] if version in {"2025-06-18", "2024-11-05"} else [refusal]
    assert await wire.settled() == expected
    assert gate.ended == []


@pytest.mark.attack("S12")
@pytest.mark.fault("F12", "F13")
@pytest.mark.rule("RPC-04", "RPC-08")
async def test_malformed_lines_keep_the_connection_open():
    _, wire = gated()
    for line in (
        b"hello\n",
        b"\xff\xfe\n",
        b"\n",
        b"null\n",
        b'{"jsonrpc":"2.0"}\n',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n',
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[1]}\n',
        b'{"jsonrpc":"2.0","id":8,"method":7}\n',
        b'{"jsonrpc":"1.0","id":9,"method":"ping"}\n',
        b'{"jsonrpc":"2.0","id":1,"result":{}}\n',
        b"[" * 2_000 + b"\n",
    ):
        wire.receive(line)
    answers = wire.rest()
    assert {answer["error"]["code"] for answer in answers} <= {-32700, -32600}
    assert [a["id"] for a in answers if "id" in a] == [7, 8, 9]
    assert await wire.ask(request(1, "ping")) == [success(1, {})]


@pytest.mark.rule("RPC-20", "TR-STDIO-07")
@pytest.mark.parametrize("opened", [False, True], ids=["before", "alone"])
async def test_server_request_outside_a_session_is_refused(opened):
    _, wire = gated(None)
    if opened:
        await wire.ask(modern(1, "server/discover"))
    with pytest.raises(LocalProtocolError, match="only inside a session"):
        await wire.call("roots/list", None, deadline=None)
    assert wire.rest() == []


@pytest.mark.rule("TR-STDIO-07")
async def test_stateless_request_gets_only_its_response():
    gate, wire = gated(None)
    gate.open.set()
    [answer] = await wire.ask(modern(1, "tools/call", {"name": "1"}))
    assert answer == text(1, "1", **STAMP)
