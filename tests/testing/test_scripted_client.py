"""A scripted client sends its messages to any server, in memory or a process."""

import sys

import pytest
from scripted import ECHO_LOOP, scripted

import mcpwire
from mcpwire.server.demo import demo_dispatcher
from mcpwire.testing import SILENCE, ScriptedClient, ScriptedServer, later, text

DEMO = mcpwire.Stdio(sys.executable, ["-m", "mcpwire", "demo-server"])


@pytest.fixture(params=["memory", "stdio"])
def demo(request):
    return demo_dispatcher() if request.param == "memory" else DEMO


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_handshake_and_request_at_each_revision(demo, version):
    async with ScriptedClient(demo) as client:
        answer = await client.handshake(version)
        assert answer.result["capabilities"]["tools"] is not None
        answer = await client.request(
            "tools/call", {"name": "echo", "arguments": {"message": "hi"}}
        )
        assert answer.result["content"] == [{"type": "text", "text": "hi"}]


async def test_client_can_violate_the_protocol(demo):
    async with ScriptedClient(demo) as client:
        answer = await client.request("tools/list")
        assert answer.error["code"] == -32602
        client.send_bytes(b"no JSON\n", split=1)
        answer = await client.receive()
        assert answer.error["code"] == -32700
        await client.handshake()
        line = b'{"jsonrpc":"2.0","id":"x","method":"ping"}\n'
        client.send_bytes(line, split=1)
        assert (await client.receive()).id == "x"
        client.send_bytes(line + line)
        assert [(await client.receive()).id for _ in range(2)] == ["x", "x"]


async def test_params_with_their_own_meta_keep_it():
    server = ScriptedServer({"mine/own": {}})
    async with ScriptedClient(server) as client:
        await client.handshake("2026-07-28", capabilities={"roots": {}})
        await client.request("mine/own", {"_meta": {"a": 1}})
        await client.request("mine/own", {"b": 2})
        await client.request("mine/own")
    first, second, third = server.requests("mine/own")
    assert first == {"_meta": {"a": 1}}
    assert second == {"_meta": client.meta, "b": 2}
    assert third == {"_meta": client.meta}
    capabilities = client.meta["io.modelcontextprotocol/clientCapabilities"]
    assert capabilities == {"roots": {}}


async def test_refused_handshake_sends_no_initialized():
    server = ScriptedServer(versions="2026-07-28")
    async with ScriptedClient(server) as client:
        answer = await client.handshake("2025-11-25")
        assert answer.error["code"] == -32601
        await client.request("x/y")
    assert [m.method for m in server.received] == ["initialize", "x/y"]


async def test_server_requests_are_answered_from_the_table():
    server = ScriptedServer(versions="2025-11-25")
    answers = {"roots/list": {"roots": []}, "ping": later({}, turns=2)}
    async with ScriptedClient(server, answers, split=2) as client:
        await client.handshake()
        assert (await server.request("roots/list")).result == {"roots": []}
        assert (await server.request("ping")).result == {}
        server.ask("sampling/createMessage", {"messages": []})
        request = await client.receive("sampling/createMessage")
        request.fail(-1, "declined")
        answer = await server.receive()
        while not answer.is_answer:
            answer = await server.receive()
        assert answer.error == {"code": -1, "message": "declined"}


async def test_process_ends_with_the_client():
    client = ScriptedClient(scripted("handshake()\n" + ECHO_LOOP))
    async with client:
        await client.handshake()
        assert client.exit_code is None
    assert client.exit_code == 0
    assert not client.is_open
    await client.aclose()
    async with client:  # again
        await client.handshake()


async def test_hanging_up_leaves_the_receiving_side_open():
    body = (
        "handshake(); m = recv()\n"
        "rest = sys.stdin.read(); text(m, 'after the end')\n"
        "os.write(2, b'gone'); sys.exit(3)"
    )
    async with ScriptedClient(scripted(body)) as client:
        await client.handshake()
        client.ask("tools/call", {"name": "x"}, id=7)
        client.hang_up()
        answer = await client.receive()
        assert (answer.id, answer.result) == (7, text("after the end"))
        await client.closed()
    assert (client.exit_code, client.stderr_tail) == (3, "gone")


async def test_line_too_deep_to_be_decoded_is_received_as_bytes():
    line = b"[" * 100_000 + b"]" * 100_000
    server = ScriptedServer({"x/y": line + b"\n7\n"})
    async with ScriptedClient(server) as client:
        client.ask("x/y")
        assert [(await client.receive()).raw for _ in range(2)] == [line, 7]


async def test_closed_server_raises_an_assertion_error():
    async with ScriptedClient(scripted("recv(); raw(b'ouch\\n')")) as client:
        with pytest.raises(AssertionError, match="before the end: received noise"):
            await client.handshake()
    assert client.received[0].raw == b"ouch"
    assert client.received[0].method is None
    server = ScriptedServer({"x/y": lambda _: server.hang_up() or SILENCE})
    async with ScriptedClient(server) as client:
        with pytest.raises(AssertionError, match="before the end"):
            await client.request("x/y")
        assert client.exit_code is None
        assert client.stderr_tail == ""


async def test_in_memory_server_sees_the_client_hang_up():
    server = ScriptedServer()
    async with ScriptedClient(server) as client:
        await client.handshake()
        client.hang_up()
        await server.closed()
        await client.closed()


async def test_command_that_cannot_start_is_named_in_the_error():
    client = ScriptedClient("no-such-command-at-all")
    with pytest.raises(mcpwire.ConnectError, match="no-such-command"):
        await client.connect()
    await client.aclose()


async def test_batches_are_received_message_by_message():
    server = ScriptedServer()
    async with ScriptedClient(server) as client:
        client.send(
            [{"jsonrpc": "2.0", "id": i, "method": "ping"} for i in range(2)]
            + [{"jsonrpc": "2.0", "method": "notifications/mine"}]
        )
        assert (await server.receive()).method == "notifications/mine"
        assert [(await client.receive()).id for _ in range(2)] == [0, 1]
