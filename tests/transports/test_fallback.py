"""The stdio channel for event loops that cannot watch descriptors, as on Windows."""

import asyncio
import errno
import sys
from unittest.mock import Mock

import pytest
from scripted import ECHO_LOOP, scripted

import mcpwire
from mcpwire.transports.stdio import FallbackChannel


class BlindLoop(asyncio.SelectorEventLoop):
    """An event loop without `add_reader` and `add_writer` for its users."""

    add_reader = asyncio.AbstractEventLoop.add_reader
    add_writer = asyncio.AbstractEventLoop.add_writer


backend = ("asyncio", {"loop_factory": BlindLoop})
pytestmark = [
    pytest.mark.usefixtures("bounded"),
    pytest.mark.parametrize("anyio_backend", [backend], ids=["blind"]),
]


def echo(**options):
    return scripted("handshake()\n" + ECHO_LOOP, **options)


async def test_small_and_large_calls_work():
    output = []

    target = scripted(
        "print('hello', file=sys.stderr, flush=True)\nhandshake()\n" + ECHO_LOOP,
        stderr=output.append,
    )
    async with mcpwire.Client(target) as client:
        assert type(client._connection.channel) is FallbackChannel
        texts = ["a", "b" * 2**20, "c"]
        results = await asyncio.gather(
            *(client.call_tool("x", {"text": text}) for text in texts)
        )
        assert [result.text for result in results] == texts
    await client.connect()
    assert (await client.call_tool("x", {"text": "again"})).text == "again"
    await client.aclose()
    await client.aclose()
    assert b"".join(output).splitlines() == [b"hello", b"hello"]


@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(3)", 3), ("os.close(1); time.sleep(60)", None)]
)
async def test_the_end_of_the_child_fails_the_call(end, code):
    target = scripted(f"handshake()\nrecv()\nos.write(2, b'bye')\n{end}")
    limits = mcpwire.Limits(close_grace=0.1)
    async with mcpwire.Client(target, limits=limits) as client:
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("x")
    assert caught.value.exit_code == code
    assert caught.value.stderr_tail == "bye"


async def test_a_command_that_cannot_start_raises_connect_error():
    with pytest.raises(mcpwire.ConnectError, match="not found") as caught:
        await mcpwire.Client("no-such-command-at-all").connect()
    assert caught.value.errno == errno.ENOENT
    missing = mcpwire.Stdio("true", inherit_env=["NO_SUCH_VARIABLE"])
    with pytest.raises(mcpwire.ConnectError, match="NO_SUCH_VARIABLE"):
        await mcpwire.Client(missing).connect()


async def test_a_child_that_ignores_everything_is_killed():
    target = scripted(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nhandshake()\n"
        "while True: time.sleep(60)",
        stderr="inherit",
    )
    limits = mcpwire.Limits(close_grace=0.1, terminate_grace=0.1)
    client = mcpwire.Client(target, limits=limits)
    await client.connect()
    channel = client._connection.channel
    await client.aclose()
    assert channel.exit_code == -9


async def test_a_garbage_collected_client_kills_its_child():
    client = mcpwire.Client(mcpwire.Stdio(sys.executable, echo().args))
    await client.connect()
    process = client._connection.channel._process
    with pytest.warns(ResourceWarning, match="unclosed"):
        client.__del__()
    await process._wait()
    assert process.get_returncode() == -9


async def test_unwritten_data_for_a_deaf_child_is_limited():
    target = scripted("handshake()\ntime.sleep(60)")
    limits = mcpwire.Limits(unwritten=2**20, close_grace=0.1, terminate_grace=0.1)
    async with mcpwire.Client(target, limits=limits) as client:
        unread = asyncio.create_task(
            client.call_tool("x", {"data": "a" * 2**20}, timeout=None)
        )
        await asyncio.sleep(0)  # one loop iteration
        with pytest.raises(mcpwire.TransportError, match="does not read"):
            await client.call_tool("x", {"data": "a" * 2**19}, timeout=None)
    with pytest.raises(mcpwire.ConnectionClosed) as caught:
        await unread
    assert caught.value.sent is False


async def test_output_before_the_process_is_started_loses_no_request():
    """On Windows asyncio may pass output on before `subprocess_exec` has returned."""
    channel = FallbackChannel(Mock(), echo(), mcpwire.Limits())
    info = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    call = asyncio.create_task(channel.call("initialize", params, deadline=None))
    await asyncio.sleep(0)  # one loop iteration: the request waits for the process
    channel.pipe_data_received(1, b"starting\n")
    assert (await call)["serverInfo"]["name"] == "scripted"
    await channel.aclose()


async def test_a_child_abandoned_while_starting_is_killed():
    target = echo()
    channel = FallbackChannel(Mock(), target, mcpwire.Limits())
    channel.abandon()
    for _ in range(1_000):
        if channel.exit_code is not None:
            break
        await asyncio.sleep(0.01)  # a thread reaps it: there is no event
    assert channel.exit_code < 0
