"""A client meets each fault on real pipes, and nothing is left of the relay."""

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
QUICKLY = mcpwire.Limits(close_grace=0.2, terminate_grace=0.2)


def client(*faults, target=ECHO, seed=0, **options):
    options.setdefault("timeout", BOUND_S)
    options.setdefault("recovery", Recovery(restart=False))
    options.setdefault("mode", "session")
    target = FaultyStdio(target, faults, seed=seed)
    return mcpwire.Client(target, limits=QUICKLY, **options)


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
async def test_what_can_be_borne_is_borne(faults):
    async with client(*faults) as c:
        assert [await echo(c, value) for value in ("a", "ü", "c")] == ["a", "ü", "c"]


async def test_large_messages_pass_whole():
    value = "x" * 3_000_000
    async with client(Split(size=50_000)) as c:
        assert await echo(c, value) == value


async def test_many_calls_at_once_pass_a_relay_that_splits_and_swaps():
    faults = [Swap(message=3), Split(longest=40)]
    async with client(*faults) as c:
        values = [str(number) for number in range(30)]
        assert await asyncio.gather(*(echo(c, each) for each in values)) == values


@pytest.mark.parametrize("fault", [Drop(message=2), Drop(message=3, toward="server")])
async def test_a_message_that_is_lost_costs_its_call_and_no_other(fault):
    async with client(fault) as c:
        with pytest.raises(mcpwire.RequestTimeout):
            await echo(c, timeout=0.1)
        assert await echo(c) == "hi"


@pytest.mark.parametrize("fault", [Corrupt(at=0), Lose(at=0, count=5)])
async def test_a_handshake_that_is_spoiled_does_not_hang(fault):
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
async def test_an_end_in_the_middle_fails_the_call_at_once(fault):
    with pytest.raises(mcpwire.TransportError):
        await use(client(fault))


async def use(c):
    async with c:
        for _ in range(3):
            await echo(c)


async def test_a_relay_that_is_closed_from_the_start_is_no_connection():
    for toward in ("client", "server"):
        with pytest.raises(mcpwire.ConnectError):
            await client(HangUp(toward=toward)).connect()


@pytest.mark.fault("F07")
@pytest.mark.parametrize("after", [{"after_message": 2}, {"after_bytes": 300}])
async def test_a_pipe_that_nobody_reads_fills_and_hinders_no_close(after):
    async with client(Stall(toward="server", **after)) as c:
        calls = [
            asyncio.create_task(echo(c, "x" * 200_000, timeout=0.2)) for _ in range(5)
        ]
        await asyncio.wait(calls)
        assert all(
            isinstance(call.exception(), mcpwire.RequestTimeout) for call in calls
        )


async def test_a_stall_of_the_answers_is_a_timeout_and_hinders_no_close():
    async with client(Stall(after_message=1)) as c:
        with pytest.raises(mcpwire.RequestTimeout):
            await echo(c, timeout=0.1)


def test_delays_go_by_the_loop_s_clock():
    async def main():
        loop = asyncio.get_running_loop()
        async with client(Delay(seconds=50, message=2), timeout=None) as c:
            started = loop.time()
            call = asyncio.create_task(echo(c))
            while not call.done():
                await loop.advance(0.5)
                await asyncio.sleep(0.001)  # the child's own time is a real one
            assert await call == "hi"
            assert loop.time() - started >= 50

    run(main(), patience=BOUND_S)


async def test_by_chance_and_seed_the_same_calls_are_lost():
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


async def test_a_command_that_does_not_start_says_so():
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


def test_a_forgotten_client_leaves_nothing_of_the_relay():
    async def main():
        c = client(Stall(after_message=1))
        await c.connect()
        with pytest.warns(ResourceWarning, match="unclosed"):
            c.__del__()

    asyncio.run(main())


def test_it_is_shown_on_one_line():
    shown = repr(FaultyStdio("my-server --x", [Drop(message=2)]))
    assert "my-server --x" in shown
    assert "Drop" in shown
    assert "\n" not in shown


async def test_a_server_that_reads_slowly_gets_everything():
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
        said = await asyncio.gather(*(echo(c, "x" * size) for size in sizes))
    assert said == [str(size) for size in sizes]


@pytest.mark.fault("F06")
async def test_a_server_that_closes_its_input_breaks_the_client_s_pipe():
    deaf = scripted_command(
        "handshake(); os.close(0); notify('notifications/deaf'); time.sleep(60)"
    )
    is_deaf = asyncio.Event()
    c = client(target=deaf, on_notification=lambda _: is_deaf.set())
    async with c:
        await is_deaf.wait()
        with pytest.raises(mcpwire.ConnectionClosed):
            await asyncio.gather(echo(c), echo(c), echo(c))
