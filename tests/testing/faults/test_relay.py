"""A client meets each fault on real pipes, and the relay leaves no resources."""

import asyncio

import pytest

import mcpwire
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
    run,
    scripted_command,
)

BOUND_S = 30.0

ECHO = scripted_command(
    """
    handshake()
    serve({"tools/call": lambda m: text(m["params"]["arguments"]["text"])})
    """
)
SHORT_GRACE = mcpwire.Limits(close_grace=0.2, terminate_grace=0.2)


def client(*faults, target=ECHO, seed=0, **options):
    options.setdefault("timeout", BOUND_S)
    options.setdefault("recovery", Recovery(restart=False))
    options.setdefault("mode", "session")
    target = FaultyStdio(target, faults, seed=seed)
    return mcpwire.Client(target, limits=SHORT_GRACE, **options)


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
