"""A scripted server sends exactly the messages and bytes of its script."""

import asyncio
import itertools
import json

import pytest
from clocks import on_a_virtual_clock

import mcpwire
from mcpwire.testing import (
    SILENCE,
    MemoryPeer,
    ScriptedServer,
    VirtualClockLoop,
    at_random,
    in_turn,
    later,
    repeated,
    text,
)
from mcpwire.types import CallToolResult, TextContent

BOUND_S = 30.0
ERAS = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])


async def waiting(call):
    """Return a task for a call whose request was sent."""
    task = asyncio.create_task(call)
    await asyncio.sleep(0)  # one loop iteration
    return task


@pytest.mark.parametrize("version", [r.name for r in mcpwire.REVISIONS])
async def test_server_negotiates_the_given_revision(version):
    server = ScriptedServer({"tools/call": text("hi")}, versions=version)
    async with mcpwire.Client(server) as client:
        assert client.protocol_version == version
        assert client.server_info.name == "scripted"
        assert (await client.call_tool("x")).text == "hi"


async def test_server_supports_both_eras_by_default():
    server = ScriptedServer(members={"instructions": "be kind"})
    for mode, version in [("stateless", "2026-07-28"), ("session", "2025-11-25")]:
        async with mcpwire.Client(server, mode=mode) as client:
            assert client.protocol_version == version
            assert client.instructions == "be kind"
            await client.ping()
    assert server.connections == 2


@pytest.mark.system("R13")
@pytest.mark.parametrize(
    "outcome",
    [
        text("hi"),
        CallToolResult([TextContent("hi")]),
        lambda _: text("hi"),
        lambda _: lambda _: text("hi"),
        in_turn(text("hi")),
        later(text("hi")),
        later(text("hi"), turns=3),
        later(lambda _: text("hi"), seconds=0.001),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
async def test_every_form_of_outcome_gives_a_result(outcome):
    server = ScriptedServer({"tools/call": outcome})
    async with mcpwire.Client(server) as client:
        assert (await client.call_tool("x")).text == "hi"


async def test_outcome_function_gets_the_request_and_may_be_replaced():
    server = ScriptedServer()
    server.answers["tools/call"] = lambda request: text(
        f"{request.method} {request.params['name']} {request.arguments}"
    )
    async with mcpwire.Client(server) as client:
        result = await client.call_tool("add", {"a": 1})
        assert result.text == "tools/call add {'a': 1}"
        server.answers["tools/call"] = text("changed", is_error=True)
        result = await client.call_tool("add")
    assert (result.text, result.is_error) == ("changed", True)
    assert [params.get("arguments") for params in server.requests("tools/call")] == [
        {"a": 1},
        None,
    ]


async def test_errors_and_defects_of_outcomes_become_rpc_errors():
    def refuse(_):
        raise mcpwire.RPCError("no", code=7, data={"a": 1})

    async def asynchronous(_):
        return text("never")

    outcomes = [
        mcpwire.RPCError("no", code=7, data={"a": 1}),
        refuse,
        lambda _: 1 / 0,
        asynchronous,
        {"content": [TextContent("one of our types in a dict")]},
        mcpwire.RPCError("no", code=7, data={1, 2}),
    ]
    server = ScriptedServer({"tools/call": in_turn(*outcomes)})
    caught = []
    async with mcpwire.Client(server) as client:
        for _ in outcomes:
            with pytest.raises(mcpwire.RPCError) as error:
                await client.call_tool("x")
            caught.append(error.value)
        with pytest.raises(mcpwire.MethodNotFound):
            await client.request("mine/own")
    assert [(e.code, e.data) for e in caught[:2]] == [(7, {"a": 1})] * 2
    assert "ZeroDivisionError" in caught[2].message
    assert "plain functions" in caught[3].message
    assert "TextContent is not JSON" in caught[4].message
    assert "outcome cannot be sent" in caught[5].message


async def test_in_turn_repeats_the_last_outcome():
    server = ScriptedServer({"tools/call": in_turn(text("one"), text("two"))})
    async with mcpwire.Client(server) as client:
        texts = [(await client.call_tool("x")).text for _ in range(3)]
    assert texts == ["one", "two", "two"]
    with pytest.raises(ValueError, match="at least one"):
        in_turn()


async def test_duplicate_responses_are_counted_and_dropped():
    server = ScriptedServer({"tools/call": repeated(text("hi"), 3)})
    async with mcpwire.Client(server) as client:
        assert (await client.call_tool("x")).text == "hi"
        await client.ping()
        assert client.stats.unknown_answers == 2


async def test_bytes_outcome_is_sent_verbatim():
    line = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}\n'
    server = ScriptedServer(
        {"tools/call": lambda r: b"noise\n" + line % r.id}, versions="2025-11-25"
    )
    async with mcpwire.Client(server) as client:
        assert (await client.call_tool("x")).content == []
        assert client.stats.noise == ("noise",)


async def test_silent_request_can_be_answered_by_the_test():
    steps = []
    server = ScriptedServer({"tools/call": SILENCE})
    async with mcpwire.Client(server) as client:
        call = await waiting(
            client.call_tool("x", on_progress=lambda *args: steps.append(args))
        )
        request = await server.receive("tools/call")
        request.progress(1)
        request.progress(2, 3, "two")
        request.answer(text("by hand"))
        assert (await call).text == "by hand"
        assert steps == [(1, None, None), (2, 3, "two")]
        call = await waiting(client.call_tool("x"))
        request = await server.receive("tools/call")
        request.progress(1)  # was not requested
        request.fail(-32000, "not today", [1])
        with pytest.raises(mcpwire.RPCError, match="not today") as caught:
            await call
    assert (caught.value.code, caught.value.data) == (-32000, [1])
    assert len(steps) == 2


async def test_server_request_gets_the_client_response():
    server = ScriptedServer(versions="2025-11-25")
    async with mcpwire.Client(server):
        answer = await server.request("ping")
        assert (answer.result, answer.error, answer.is_answer) == ({}, None, True)
        answer = await server.request("mine/own", {"a": 1}, id="a string")
        assert (answer.id, answer.error["code"]) == ("a string", -32601)


async def test_client_notifications_are_queued_until_received():
    server = ScriptedServer(versions="2025-11-25")
    async with mcpwire.Client(server) as client:
        await client.notify("notifications/mine", {"n": 1})
        message = await server.receive("notifications/mine")
        assert (message.params, message.is_request) == ({"n": 1}, False)
        first = await server.receive()
        assert first.method == "notifications/initialized"


async def test_receive_timeout_lists_the_received_messages():
    server = ScriptedServer(versions="2025-11-25")
    with pytest.raises(AssertionError, match="nothing was received"):
        await server.receive("tools/call", timeout=0.01)
    with pytest.raises(AssertionError, match="no connection came"):
        await server.connected(timeout=0.01)
    async with mcpwire.Client(server):
        with pytest.raises(AssertionError, match="no 'tools/call' came within"):
            await server.receive("tools/call", timeout=0.01)
        with pytest.raises(AssertionError, match="initialize, notifications/init"):
            await server.request("ping", id=SILENT_ID, timeout=0.01)
        with pytest.raises(AssertionError, match="no end of the connection"):
            await server.closed(timeout=0.01)
    await server.closed(timeout=BOUND_S)


SILENT_ID = 1e400  # not JSON, so the client cannot answer it


async def test_memory_peer_completes_a_handshake_step_by_step():
    for version in ("2024-11-05", "2025-11-25", "2026-07-28"):
        peer = MemoryPeer()
        client = mcpwire.Client(peer)
        connecting = asyncio.create_task(client.connect())
        await peer.handshake(version, capabilities={})
        await connecting
        assert client.protocol_version == version
        call = asyncio.create_task(client.request("mine/own", {"a": 1}))
        request = await peer.receive("mine/own")
        request.answer({"b": 2})
        assert (await call)["b"] == 2
        await client.aclose()


@ERAS
@pytest.mark.parametrize("split", [1, 3, [1, -1], at_random(1), at_random(2, 3)])
async def test_split_does_not_change_the_received_messages(version, split):
    server = ScriptedServer(
        {"tools/call": text("päck")}, versions=version, split=split, turns=2
    )
    async with mcpwire.Client(server) as client:
        calls = [client.call_tool("x") for _ in range(3)]
        assert [r.text for r in await asyncio.gather(*calls)] == ["päck"] * 3


async def test_parts_arrive_in_order_in_separate_iterations():
    server = ScriptedServer(versions="2025-11-25")
    async with mcpwire.Client(server) as client:
        channel = client._connection.channel
        parts, receive, turns = [], channel.receive, []
        channel.receive = lambda data: (parts.append(data), receive(data))
        server.send_bytes(b"abcde\n", split=[2, 4], turns=3)
        server.send_bytes(b"f\n")
        for turn in range(20):
            if len(turns) < len(parts):
                turns.append(turn)
            await asyncio.sleep(0)  # one loop iteration
        channel.receive = receive
    assert parts == [b"ab", b"cd", b"e\n", b"f\n"]
    assert [b - a for a, b in itertools.pairwise(turns)] == [3, 3, 1]


async def test_any_json_value_can_be_sent_as_a_line():
    server = ScriptedServer(versions="2025-11-25")
    async with mcpwire.Client(server) as client:
        for value in (None, [], "text", 1.5, {"jsonrpc": "1.0"}):
            server.send(value)
        await client.ping()
        stats = client.stats
        assert stats.noise_lines + stats.invalid_messages == 5


async def test_server_records_received_bytes_and_messages():
    server = ScriptedServer(versions="2025-11-25")
    async with mcpwire.Client(server) as client:
        await client.ping()
    methods = [message.method for message in server.received]
    assert methods == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "ping",
    ]
    lines = bytes(server.received_bytes).splitlines()
    assert len(lines) == 4
    assert [json.loads(line) for line in lines] == [m.raw for m in server.received]
    assert "4 received" in repr(server)


async def test_hang_up_happens_after_sent_messages():
    def answer_and_hang_up(request):
        request.answer(text("bye"))
        server.hang_up()
        return SILENCE

    server = ScriptedServer({"tools/call": answer_and_hang_up}, split=5)
    async with mcpwire.Client(server) as client:
        assert (await client.call_tool("x")).text == "bye"
        await server.closed()
    assert not server.is_open
    with pytest.raises(ConnectionError, match="not connected"):
        server.send({})


async def test_clients_sharing_a_server_get_their_own_responses():
    server = ScriptedServer(
        {"tools/call": lambda r: later(text(r.params["name"]), turns=5)}, split=3
    )
    async with (
        mcpwire.Client(server, mode="session") as first,
        mcpwire.Client(server, mode="stateless") as second,
    ):
        calls = [c.call_tool(name) for c, name in [(first, "a"), (second, "b")] * 3]
        assert [r.text for r in await asyncio.gather(*calls)] == ["a", "b"] * 3
        server.answers["tools/call"] = SILENCE
        call = await waiting(first.call_tool("x"))
        request = await server.receive("tools/call")
        request.answer(text("to the first"))
        assert (await call).text == "to the first"
    assert server.connections == 2


async def test_client_can_reconnect_after_a_hang_up():
    server = ScriptedServer({"tools/call": text("hi")})
    client = mcpwire.Client(server)
    for number in (1, 2):
        await client.connect()
        assert server.connections == number
        assert (await client.call_tool("x")).text == "hi"
        server.hang_up()
        await server.closed()
    await client.aclose()


@on_a_virtual_clock
async def test_responses_for_a_closed_connection_are_dropped():
    server = ScriptedServer({"tools/call": later(text("late"), seconds=0.001)})
    client = mcpwire.Client(server)
    async with asyncio.timeout(BOUND_S):
        await client.connect()
        call = await waiting(client.call_tool("x"))
        await client.aclose()
        with pytest.raises(mcpwire.ConnectionClosed):
            await call
        async with client:
            await asyncio.sleep(0.01)
            assert client.stats.unknown_answers == 0


def test_delayed_responses_end_with_their_connection():
    server = ScriptedServer({"tools/call": later(text("late"), seconds=60)})

    async def main():
        async with mcpwire.Client(server) as client:
            (await waiting(client.call_tool("x"))).cancel()
            await server.receive("notifications/cancelled")
        main.ended = asyncio.get_running_loop().time()
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        with pytest.raises(RuntimeError, match="no timer is set"):
            runner.run(main())
        assert runner.get_loop().time() == main.ended


async def test_request_fails_when_the_connection_closes():
    server = ScriptedServer(versions="2025-11-25")
    client = mcpwire.Client(server)
    await client.connect()
    request = asyncio.create_task(server.request("ping", id=[]))
    await asyncio.sleep(0)  # one loop iteration
    await client.aclose()
    with pytest.raises(AssertionError, match="no answer to 'ping' came before"):
        await request


async def test_refusal_is_raised_when_connecting():
    server = ScriptedServer()
    server.refusal = mcpwire.ConnectError("not today")
    client = mcpwire.Client(server)
    with pytest.raises(mcpwire.ConnectError, match="not today"):
        await client.connect()
    server.refusal = None
    async with client:
        assert server.connections == 1


@on_a_virtual_clock
async def test_silent_server_receives_but_sends_nothing():
    server = ScriptedServer({"tools/call": text("hi")})
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server) as client:
        server.go_silent()
        with pytest.raises(mcpwire.RequestTimeout):
            await client.call_tool("x", timeout=0.02)
        await server.receive("notifications/cancelled")
        assert len(server.requests("tools/call")) == 1


async def test_server_sees_a_failed_client_disconnect():
    server = ScriptedServer({"tools/call": text("x" * 5000)})
    limits = mcpwire.Limits(message=1000)
    async with mcpwire.Client(server, limits=limits) as c:
        with pytest.raises(mcpwire.MCPError, match="longer than 1000"):
            await c.call_tool("x")
        await server.closed()


async def test_server_sees_an_unclosed_client_disconnect():
    server = ScriptedServer()
    client = mcpwire.Client(server)
    await client.connect()
    with pytest.warns(ResourceWarning, match="unclosed"):
        client.__del__()
    await server.closed()


async def test_pending_output_is_dropped_when_the_connection_closes():
    server = ScriptedServer({"tools/call": later(text("never"), turns=50)})
    client = mcpwire.Client(server)
    await client.connect()
    server.send_bytes(b"abc", split=1, turns=10)
    call = await waiting(client.call_tool("x"))
    for turn in range(60):
        if turn == 5:
            await client.aclose()
        await asyncio.sleep(0)  # one loop iteration
    with pytest.raises(mcpwire.ConnectionClosed):
        await call
    assert len(server.requests("tools/call")) == 1
    assert not server.is_open
