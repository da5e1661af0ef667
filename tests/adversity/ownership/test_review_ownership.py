"""Connecting and closing concurrently, at the worst moments."""

import asyncio
import sys

import pytest
from fakes import FakeServer
from scripted import ECHO_LOOP, scripted

import mcpwire
from mcpwire.testing.leaks import children

SHORT = mcpwire.Limits(close_grace=0.2, terminate_grace=0.2)
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
SILENT = STUBBORN + "print('up', file=sys.stderr, flush=True)\ntime.sleep(60)"
MUTE = STUBBORN + "handshake()\nos.close(1)\ntime.sleep(60)"


@pytest.fixture
def assert_no_child_left():
    """Return a function that fails if a child of the test runs, or is a zombie."""
    before = children()  # servers that several tests share

    def check():
        assert children() <= before

    return check


async def starting(**options):
    """Return a client and its connect task, once its silent server runs."""
    up = asyncio.Event()
    target = scripted(SILENT, stderr=lambda _: up.set())
    while True:
        client = mcpwire.Client(target, limits=SHORT, **options)
        task = asyncio.create_task(client.connect())
        task.add_done_callback(lambda _: up.set())
        await up.wait()
        if not task.done():
            return client, task
        # A loaded machine may not start it before connecting times out.
        with pytest.raises(mcpwire.RequestTimeout):
            await task
        up.clear()


@pytest.mark.fault("F42")
async def test_cancelling_one_connect_keeps_the_connection_of_another():
    client = mcpwire.Client(FakeServer(version="2026-07-28"))
    late = asyncio.create_task(client.connect())
    while not client.is_connected:  # noqa: ASYNC110 - it counts loop iterations
        await asyncio.sleep(0)  # one iteration of the loop
    await client.connect()  # at once: it is open, although `late` has not returned
    assert not late.done()
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    assert client.is_connected
    await client.aclose()


@pytest.mark.fault("F42")
async def test_close_after_a_cancelled_connect_waits_for_the_child(
    assert_no_child_left,
):
    client, task = await starting()
    task.cancel()
    await asyncio.sleep(0)  # the cancellation reaches the task
    await client.aclose()
    assert_no_child_left()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.fault("F42")
async def test_close_after_a_cancelled_reconnect_waits_for_the_child(
    assert_no_child_left,
):
    client = mcpwire.Client(scripted(MUTE), limits=SHORT)
    await client.connect()
    with pytest.raises(mcpwire.ConnectionClosed):
        await client.call_tool("x")
    task = asyncio.create_task(client.connect())
    for _ in range(3):
        await asyncio.sleep(0)  # three iterations, so that it has begun
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await client.aclose()
    assert_no_child_left()
    assert client.stats.connections == 1


@pytest.mark.fault("F42")
async def test_connect_during_cleanup_of_a_cancelled_one_works(tmp_path):
    up = asyncio.Event()
    target = scripted(
        STUBBORN + "first = not os.path.exists(sys.argv[1])\n"
        "open(sys.argv[1], 'w').close()\n"
        "print('up', file=sys.stderr, flush=True)\n"
        "if first: time.sleep(60)\n"  # only the second one speaks
        "handshake()\n" + ECHO_LOOP,
        str(tmp_path / "once"),
        stderr=lambda _: up.set(),
    )
    client = mcpwire.Client(target, limits=SHORT)
    task = asyncio.create_task(client.connect())
    await up.wait()
    task.cancel()
    await asyncio.sleep(0)  # the cancellation reaches the task
    await client.connect()
    assert client.is_connected
    with pytest.raises(asyncio.CancelledError):
        await task
    await client.aclose()


@pytest.mark.fault("F42")
@pytest.mark.parametrize("turns", range(5))
def test_loop_that_ends_during_close_leaves_no_descriptor(turns):
    # The leak check around the test decides; the client itself is dropped with a
    # warning only if its closing had not begun.
    async def main():
        client = mcpwire.Client(scripted("handshake()\n" + ECHO_LOOP), limits=SHORT)
        await client.connect()
        closing = asyncio.create_task(client.aclose())
        for _ in range(turns + 1):
            await asyncio.sleep(0)  # several iterations, so that closing is midway
        return client, closing

    asyncio.run(main())


class OnlyOnce(FakeServer):
    """Refuses every connection after the first."""

    def open_in_memory(self, client, limits):
        if self.channel is not None:
            raise mcpwire.ConnectError("no more")
        return super().open_in_memory(client, limits)


async def test_close_ends_a_callback_after_a_failed_reconnect():
    running, ended = asyncio.Event(), asyncio.Event()

    async def callback(_):
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    server = OnlyOnce()
    client = mcpwire.Client(server, on_notification=callback)
    await client.connect()
    server.notify("x/y")
    await running.wait()
    await server.channel.aclose()
    await asyncio.sleep(0)  # the client sees that its channel has ended
    with pytest.raises(mcpwire.ConnectError):
        await client.connect()
    await client.aclose()
    assert ended.is_set()


async def test_non_string_variable_is_refused_without_its_value():
    with pytest.raises(ValueError, match="int for 'PORT'") as caught:
        mcpwire.Stdio(sys.executable, env={"PORT": 8080})
    assert "8080" not in str(caught.value)
