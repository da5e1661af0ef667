"""The trace hook gets every message and event, and cannot break them."""

import asyncio
import contextlib
import json

import pytest
from fakes import FakeServer, text
from scripted import scripted

import mcpwire

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
