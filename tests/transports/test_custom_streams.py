"""The `Stream` transport: how byte streams of users open, fail and end."""

import asyncio
import json
from unittest.mock import Mock

import pytest

import mcpwire
from mcpwire.limits import Limits, Recovery
from mcpwire.transports import Stream

pytestmark = pytest.mark.usefixtures("bounded")


@pytest.fixture
async def listening(server):
    """Serve on a socket; yield its path."""
    serving = []

    async def serve(reader, writer):
        serving.append(asyncio.current_task())
        await server.serve_stream(reader, writer)

    listener = await asyncio.start_unix_server(serve, "s")
    try:
        yield "s"
        await asyncio.gather(*serving)
    finally:
        listener.close()


@pytest.mark.rule("TR-CUST-02")
async def test_streams_use_the_framing_of_stdio(listening):
    reader, writer = await asyncio.open_unix_connection(listening)
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    meta["io.modelcontextprotocol/clientCapabilities"] = {}
    meta["io.modelcontextprotocol/clientInfo"] = {"name": "by hand", "version": "1"}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": "brief", "arguments": {}, "_meta": meta}
    # The end of the stream ends its last line, and the request is answered.
    writer.write(json.dumps({**request, "params": params}).encode())
    writer.write_eof()
    output = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert output.endswith(b"\n")
    [line] = output.splitlines()
    assert json.loads(line)["result"]["content"][0]["text"] == "answered"


async def test_a_given_pair_is_one_connection_only(listening):
    pair = await asyncio.open_unix_connection(listening)
    target = Stream(pair, name="given")
    assert str(target) == "given"
    assert repr(target) == "<Stream 'given'>"
    async with mcpwire.Client(target) as client:
        assert (await client.call_tool("echo", {"message": "x"})).text == "x"
        assert client.stats.bytes_sent > 0
    with pytest.raises(mcpwire.ConnectError, match="has been used"):
        await client.connect()


@pytest.mark.parametrize("given", [None, "unix:x", (1, 2, 3)])
async def test_an_invalid_open_argument_is_refused(given):
    with pytest.raises(ValueError, match="open must be an async function"):
        Stream(given)


def causes(error):
    """Return an error and its causes, which must not form a cycle."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        assert cause not in chain
        chain.append(cause)
    return chain


async def test_a_failed_opening_raises_connect_error_with_reason():
    with pytest.raises(mcpwire.ConnectError, match="unix:nobody: opening failed") as no:
        await mcpwire.Client(Stream.unix("nobody")).connect()
    assert no.value.errno is not None

    async def fails():
        raise mcpwire.ConnectError("the tunnel is down", target="tunnel")

    with pytest.raises(mcpwire.ConnectError, match=r"^the tunnel is down$"):
        await mcpwire.Client(Stream(fails)).connect()

    async def has_a_cause():
        raise mcpwire.ConnectError("no tunnel", target="tunnel") from OSError("no road")

    with pytest.raises(mcpwire.ConnectError, match=r"^no tunnel$") as no:
        await mcpwire.Client(Stream(has_a_cause)).connect()
    assert str(causes(no.value)[-1]) == "no road"

    gone = mcpwire.TransportError("the tunnel is gone", target="tunnel")

    async def is_gone():
        await asyncio.sleep(0)
        raise gone

    with pytest.raises(mcpwire.ConnectError, match="the tunnel is gone") as no:
        await mcpwire.Client(Stream(is_gone)).connect()
    assert causes(no.value)[-1] is gone

    async def gives_up():
        raise asyncio.CancelledError

    with pytest.raises(mcpwire.ConnectError, match="was cancelled"):
        await mcpwire.Client(Stream(gives_up)).connect()

    async def wrong():
        raise ValueError

    with pytest.raises(mcpwire.ConnectError, match=r"opening failed: ValueError$"):
        await mcpwire.Client(Stream(wrong)).connect()


async def test_a_hanging_opening_times_out():
    given_up = asyncio.Event()

    async def never():
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    client = mcpwire.Client(Stream(never), connect_timeout=0.05)
    with pytest.raises(mcpwire.RequestTimeout):
        await client.connect()
    assert given_up.is_set()


async def test_the_name_of_a_tcp_target_is_its_address():
    assert str(Stream.tcp("127.0.0.1", 9)) == "tcp://127.0.0.1:9"
    assert str(Stream.tcp("::1", 9, ssl=True)) == "tls://[::1]:9"


async def test_a_trace_gets_the_events_of_a_stream(listening):
    events = []
    async with mcpwire.Client(
        Stream.unix(listening), trace=lambda event, _: events.append(event)
    ) as client:
        await client.call_tool("echo", {"message": "x"})
    assert {"open", "send", "written", "read", "receive", "close"} <= set(events)


async def test_a_peer_that_does_not_read_raises_and_closing_ends():
    accepted = asyncio.Event()

    async def deaf(reader, writer):
        accepted.set()
        await gone.wait()
        writer.transport.abort()

    gone = asyncio.Event()
    limits = Limits(unwritten=200_000, close_grace=0.05)
    async with await asyncio.start_unix_server(deaf, "deaf"):
        channel = Stream.unix("deaf").open_channel(Mock(), limits)
        await accepted.wait()

        async def talk():
            for _ in range(50):
                await channel.notify("x", {"text": "x" * 100_000})

        with pytest.raises(mcpwire.TransportError, match="does not read"):
            await talk()
        await channel.aclose()
        gone.set()
        await asyncio.sleep(0)  # one loop iteration
    with pytest.raises(mcpwire.ConnectionClosed, match="closed by this side"):
        await channel.notify("x")


async def test_an_abandoned_channel_closes_its_stream(listening):
    channel = Stream.unix(listening).open_channel(Mock(), Limits())
    with pytest.raises(mcpwire.RPCError):
        await channel.call("nothing", None, deadline=None)
    channel.abandon()
    with pytest.raises(mcpwire.ConnectionClosed):
        await channel.call("nothing", None, deadline=None)


async def test_cancelled_serving_ends_handlers_and_stream(server):
    tasks = []

    async def serve(reader, writer):
        tasks.append(asyncio.current_task())
        await server.serve_stream(reader, writer)

    listener = await asyncio.start_unix_server(serve, "c")
    recovery = Recovery(restart=False)
    async with mcpwire.Client(Stream.unix("c"), recovery=recovery) as client:
        call = asyncio.create_task(client.call_tool("hang"))
        await client.call_tool("echo", {"message": "x"})
        tasks[0].cancel()
        with pytest.raises(mcpwire.ConnectionClosed, match="the peer closed it"):
            await call
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    listener.close()
