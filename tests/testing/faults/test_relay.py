"""A client meets each fault on real pipes; the relay may be a process of its own."""

import asyncio
import subprocess
import sys
from math import inf

import pytest

import mcpwire
from mcpwire import Stdio, sync
from mcpwire.limits import Recovery
from mcpwire.testing import (
    ByteOrderMark,
    Corrupt,
    Delay,
    Drop,
    Duplicate,
    FaultyStdio,
    HangUp,
    Lose,
    Noise,
    Split,
    Stall,
    Swap,
    leak_check,
    run,
    scripted_command,
)
from mcpwire.testing.faults import COMMAND_NOT_FOUND, decode_faults, encode_faults

BOUND_S = 30.0

ECHO = scripted_command(
    """
    handshake()
    serve({"tools/call": lambda m: text(m["params"]["arguments"]["text"])})
    """
)
OPTIONS = {
    "timeout": BOUND_S,
    "mode": "session",
    "limits": mcpwire.Limits(close_grace=0.2, terminate_grace=0.2),
    "recovery": Recovery(restart=False),
}


def client(*faults, target=ECHO, seed=0, **options):
    target = FaultyStdio(target, faults, seed=seed)
    return mcpwire.Client(target, **{**OPTIONS, **options})


async def echo(c, value="hi", **options):
    return (await c.call_tool("echo", {"text": value}, **options)).text


@pytest.mark.parametrize(
    "faults",
    [
        [],
        [Split()],
        [Split(toward="server"), Split(size=7)],
        [Split(longest=5), Split(longest=5, toward="server")],
        [ByteOrderMark(), Split()],
        [Noise()],
        [Noise(data=b"\n"), Noise(data=b"\xff\xfe\n", message=2)],
        [Duplicate(), Duplicate(toward="server", message=2)],
        [Delay(seconds=0.02), Delay(seconds=0.02, toward="server")],
        [Stall(after_bytes=10, seconds=0.05)],
    ],
    ids=repr,
)
async def test_calls_succeed_despite_tolerable_faults(faults):
    async with client(*faults) as c:
        assert [await echo(c, value) for value in ("a", "ü", "c")] == ["a", "ü", "c"]


async def test_large_messages_pass_complete():
    value = "x" * 3_000_000
    async with client(Split(size=50_000)) as c:
        assert await echo(c, value) == value


async def test_concurrent_calls_pass_a_splitting_and_swapping_relay():
    faults = [Swap(message=3), Split(longest=40)]
    async with client(*faults) as c:
        values = [str(number) for number in range(30)]
        assert await asyncio.gather(*(echo(c, each) for each in values)) == values


@pytest.mark.parametrize("fault", [Drop(message=2), Drop(message=3, toward="server")])
async def test_dropped_message_fails_only_its_call(fault):
    async with client(fault) as c:
        with pytest.raises(mcpwire.RequestTimeout):
            await echo(c, timeout=0.1)
        assert await echo(c) == "hi"


@pytest.mark.parametrize("fault", [Corrupt(at=0), Lose(at=0, count=5)])
async def test_corrupted_handshake_does_not_hang(fault):
    c = client(fault, connect_timeout=0.3)
    with pytest.raises(mcpwire.MCPError):
        await c.connect()
    await c.aclose()


@pytest.mark.parametrize(
    "fault",
    [
        HangUp(after_message=1),
        HangUp(after_message=1, toward="server"),
        HangUp(after_bytes=150),
    ],
    ids=repr,
)
async def test_hang_up_during_calls_is_a_transport_error(fault):
    with pytest.raises(mcpwire.TransportError):
        await call_three_times(client(fault))


async def call_three_times(c):
    async with c:
        for _ in range(3):
            await echo(c)


async def test_immediate_hang_up_is_a_connect_error():
    for toward in ("client", "server"):
        with pytest.raises(mcpwire.ConnectError):
            await client(HangUp(toward=toward)).connect()


@pytest.mark.fault("F07")
@pytest.mark.parametrize("after", [{"after_message": 2}, {"after_bytes": 300}])
async def test_full_pipe_does_not_block_the_close(after):
    async with client(Stall(toward="server", **after)) as c:
        calls = [
            asyncio.create_task(echo(c, "x" * 200_000, timeout=0.2)) for _ in range(5)
        ]
        await asyncio.wait(calls)
        assert all(
            isinstance(call.exception(), mcpwire.RequestTimeout) for call in calls
        )


async def test_stalled_responses_time_out_and_do_not_block_the_close():
    async with client(Stall(after_message=1)) as c:
        with pytest.raises(mcpwire.RequestTimeout):
            await echo(c, timeout=0.1)


def test_delays_use_the_clock_of_the_loop():
    async def main():
        loop = asyncio.get_running_loop()
        async with client(Delay(seconds=50, message=2), timeout=None) as c:
            started = loop.time()
            call = asyncio.create_task(echo(c))
            while not call.done():
                await loop.advance(0.5)
                await asyncio.sleep(0.001)  # the child runs in real time
            assert await call == "hi"
            assert loop.time() - started >= 50

    run(main(), patience=BOUND_S)


async def test_same_seed_drops_the_same_calls():
    fault = Drop(message=range(2, 10), chance=0.4)

    async def lost(seed):
        async with client(fault, seed=seed) as c:
            calls = [asyncio.create_task(echo(c, value)) for value in "abcdefgh"]
            await asyncio.sleep(0)
            await echo(c, "the last, after whose answer no other comes")
            done = [call.done() for call in calls]
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
        return done

    first = await lost(3)
    assert first == await lost(3)
    assert set(first) == {True, False}


async def test_exit_code_and_stderr_pass_the_relay():
    target = scripted_command("handshake(); recv(); os.write(2, b'ouch'); sys.exit(3)")
    async with client(target=target) as c:
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await echo(c)
    assert (caught.value.exit_code, caught.value.stderr_tail) == (3, "ouch")


async def test_command_that_cannot_start_is_named_in_the_error():
    c = client(target="no-such-command-at-all")
    with pytest.raises(mcpwire.ConnectError, match="no-such-command"):
        await c.connect()


async def test_the_same_target_opens_a_new_relay_each_time():
    c = client(HangUp(after_message=2))
    for _ in range(2):
        async with c:
            assert await echo(c) == "hi"
            with pytest.raises(mcpwire.ConnectionClosed):
                await echo(c)


def test_unclosed_client_leaves_no_relay_running():
    async def main():
        c = client(Stall(after_message=1))
        await c.connect()
        with pytest.warns(ResourceWarning, match="unclosed"):
            c.__del__()

    asyncio.run(main())


def test_repr_is_one_line_with_target_and_faults():
    shown = repr(FaultyStdio("my-server --x", [Drop(message=2)]))
    assert "my-server --x" in shown
    assert "Drop" in shown
    assert "\n" not in shown


async def test_slowly_reading_server_receives_everything():
    slow = scripted_command(
        """
        handshake()
        time.sleep(0.05)  # and the pipes fill
        size = lambda m: str(len(m["params"]["arguments"]["text"]))
        serve({"tools/call": lambda m: text(size(m))})
        """
    )
    async with client(target=slow) as c:
        sizes = [500_000, 1, 300_000]
        sizes_received = await asyncio.gather(*(echo(c, "x" * size) for size in sizes))
    assert sizes_received == [str(size) for size in sizes]


@pytest.mark.fault("F06")
async def test_server_closing_its_input_closes_the_connection():
    closing_stdin = scripted_command(
        "handshake(); os.close(0); notify('notifications/deaf'); time.sleep(60)"
    )
    stdin_closed = asyncio.Event()
    c = client(target=closing_stdin, on_notification=lambda _: stdin_closed.set())
    async with c:
        await stdin_closed.wait()
        with pytest.raises(mcpwire.ConnectionClosed):
            await asyncio.gather(echo(c), echo(c), echo(c))


# In a process of its own...


def test_faults_survive_command_line_encoding():
    faults = [
        Drop(message=range(2, 9), chance=0.5, toward="server"),
        Noise(data=b"\xff'\"\n"),
        ByteOrderMark(),
        Stall(seconds=inf),
        Stall(after_message=3, seconds=2),
        Split(at=(1, -1), gap=0.5),
    ]
    assert decode_faults(encode_faults(faults)) == faults


def test_relay_applies_faults_to_a_blocking_client():
    target = FaultyStdio(ECHO, [Noise(), Split(longest=4)], seed=1).command()
    with leak_check(grace=30), sync.Client(target, **OPTIONS) as client:
        for value in ("a", "ü", "c" * 500):
            assert client.call_tool("echo", {"text": value}).text == value
        assert client.stats.noise_lines == 4


def test_a_stalled_relay_does_not_outlive_its_client():
    target = FaultyStdio(ECHO, [Stall(after_message=2, toward="server")]).command()
    with (
        leak_check(grace=30),
        sync.Client(target, **OPTIONS) as client,
        pytest.raises(mcpwire.RequestTimeout),
    ):
        client.call_tool("echo", {"text": "x" * 300_000}, timeout=0.1)


@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", -9)]
)
def test_relay_exits_like_its_server(end, code):
    program = f"import os, sys; os.read(0, 1); os.write(2, b'ouch'); {end}"
    server = Stdio(sys.executable, ["-c", program])
    command = FaultyStdio(server, [Delay(seconds=0.01)]).command()
    relay = subprocess.run(
        [command.command, *command.args], input=b"x", capture_output=True, check=False
    )
    assert (relay.returncode, relay.stderr) == (code, b"ouch")


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
    assert caught.value.exit_code == COMMAND_NOT_FOUND
