"""The relay as a separate process: a command that applies faults."""

import asyncio
import math

import pytest

import mcpwire
from mcpwire import sync
from mcpwire.limits import Recovery
from mcpwire.testing import (
    ByteOrderMark,
    Delay,
    Drop,
    FaultyStdio,
    HangUp,
    Noise,
    Split,
    Stall,
    leak_check,
    scripted_command,
)
from mcpwire.testing import relay as process
from mcpwire.testing.relay import decode_faults, encode_faults

ECHO = scripted_command(
    """
    handshake()
    serve({"tools/call": lambda m: text(m["params"]["arguments"]["text"])})
    """
)
OPTIONS = {
    "timeout": 30,
    "mode": "session",
    "limits": mcpwire.Limits(close_grace=0.3, terminate_grace=0.3),
    "recovery": Recovery(restart=False),
}


def echo(client, value="hi", **options):
    return client.call_tool("echo", {"text": value}, **options).text


def test_faults_survive_command_line_encoding():
    faults = [
        Drop(message=range(2, 9), chance=0.5, toward="server"),
        Noise(data=b"\xff'\"\n"),
        ByteOrderMark(),
        Stall(seconds=math.inf),
        Stall(after_message=3, seconds=2),
        Split(at=(1, -1), gap=0.5),
    ]
    assert decode_faults(encode_faults(faults)) == faults


def test_relay_applies_faults_to_a_blocking_client():
    target = FaultyStdio(ECHO, [Noise(), Split(longest=4)], seed=1).command()
    with leak_check(grace=30), sync.Client(target, **OPTIONS) as client:
        assert [echo(client, value) for value in ("a", "ü", "c" * 500)] == [
            "a",
            "ü",
            "c" * 500,
        ]
        assert client.stats.noise_lines == 4


def test_a_stalled_relay_does_not_outlive_its_client():
    target = FaultyStdio(ECHO, [Stall(after_message=2, toward="server")]).command()
    with (
        leak_check(grace=30),
        sync.Client(target, **OPTIONS) as client,
        pytest.raises(mcpwire.RequestTimeout),
    ):
        echo(client, "x" * 300_000, timeout=0.1)


@pytest.mark.parametrize("end", ["sys.exit(3)", "os.kill(os.getpid(), 9)"])
async def test_relay_exits_like_its_server(end):
    server = scripted_command(f"handshake(); recv(); os.write(2, b'ouch'); {end}")
    target = FaultyStdio(server, [Delay(seconds=0.01)]).command()
    async with asyncio.timeout(40), mcpwire.Client(target, **OPTIONS) as client:
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("x")
    assert caught.value.exit_code == (3 if "exit" in end else -9)
    assert caught.value.stderr_tail == "ouch"


async def test_hang_up_passes_while_the_server_still_runs():
    target = FaultyStdio(ECHO, [HangUp(after_message=1)]).command()
    async with asyncio.timeout(40), mcpwire.Client(target, **OPTIONS) as client:
        with pytest.raises(mcpwire.ConnectionClosed):
            await client.call_tool("x")


async def test_server_that_cannot_start_is_named_in_the_error():
    target = FaultyStdio("no-such-command-at-all", []).command()
    async with asyncio.timeout(40):
        with pytest.raises(mcpwire.ConnectError, match="no-such-command") as caught:
            await mcpwire.Client(target, **OPTIONS).connect()
    assert caught.value.exit_code == process.COMMAND_NOT_FOUND
