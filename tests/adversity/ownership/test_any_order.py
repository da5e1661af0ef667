"""Opening, using and closing from any task, in any order, at any moment."""

import asyncio
import gc
import itertools
import sys

import pytest
from fakes import FakeServer
from schedule import Remains
from scripted import ECHO_LOOP, scripted
from shell_server import quick

import mcpwire
from mcpwire.testing.leaks import children

BOUND_S = 30.0
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


@pytest.fixture
async def complaints():
    """Collect unhandled errors reported to the loop; there must be none."""
    loop, contexts = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: contexts.append(context))
    yield contexts
    gc.collect()  # "never retrieved" is reported by finalisers
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    assert contexts == []


async def in_own_task(awaitable):
    async def do():
        return await awaitable

    return await asyncio.create_task(do())


@pytest.mark.pain("P01")
@pytest.mark.usefixtures("complaints")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_three_clients_close_in_any_order_in_separate_tasks(order):
    remains = Remains()
    clients = [mcpwire.Client(quick()) for _ in range(3)]
    for client in clients:
        await in_own_task(client.connect())
    for position, number in enumerate(order):
        await in_own_task(clients[number].aclose())
        await in_own_task(clients[number].aclose())
        for other in order[position + 1 :]:
            assert (await in_own_task(clients[other].call_tool("x"))).text
    remains.assert_none()


@pytest.mark.pain("P01")
@pytest.mark.fault("F41")
@pytest.mark.pain("P11")
def test_closing_after_the_loop_was_closed_releases_everything():
    client = mcpwire.Client(quick())
    asyncio.run(client.connect())
    asyncio.run(client.aclose())
    assert not client.is_connected
    asyncio.run(client.aclose())


@pytest.mark.pain("P01")
@pytest.mark.pain("P11")
@pytest.mark.parametrize("target", [quick, FakeServer])
def test_one_client_is_usable_in_successive_loops(target):
    client = mcpwire.Client(target())

    async def use():
        async with asyncio.timeout(BOUND_S), client:
            await client.ping()

    for _ in range(5):
        asyncio.run(use())
    assert client.stats.connections == 5


@pytest.mark.pain("P01")
@pytest.mark.fault("F44")
async def test_40_concurrent_clients_each_get_their_results():
    remains = Remains()
    clients = [mcpwire.Client(quick()) for _ in range(40)]
    await asyncio.gather(*(client.connect() for client in clients))
    for _ in range(5):
        results = await asyncio.gather(*(c.call_tool("x") for c in clients))
        assert len({result.text for result in results}) == 1
    await asyncio.gather(*(client.aclose() for client in clients))
    remains.assert_none()
